//! Machine code of one entry -> runs: which code serves a run or a batch, and what is done when it asks to be redone.
//!
//! Invariant: the unit, the outputs and what is emitted are as if every vertex had run alone, one after the other, on exact code.
//! It must not know how code is made.

mod components;

use super::code::Code;
use super::generator::NoCode;
use super::lanes::WIDTH;
use super::math::Care;
use super::place::Place;
use super::target::Groups;
use super::{Jit, Timings, Variant};
use crate::background::Queue;
use crate::ir::Func;
use crate::ir::batch::Side;
use crate::kernel::{Config, Kernel, KernelStats, Unsupported, batch_copied, copied, in_turn, on_copy};
use crate::layout::{Host, HostEmitter, Image, Layout};
use crate::program::{Entry, Program};
use crate::state::{Batch, Emitter, Exit, Order, Uniforms, Unit, Vec4};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// From so many groups given up on it is asked whether that is too many.
pub(super) const OFTEN: u32 = 64;

/// Vertices of a batch from which on two groups at once pay, if they do.
const LEAST_TWO: usize = 2 * WIDTH;
/// Except for these: a third group would run with itself, and that costs more than the first two save.
const NOT_TWO: Range<usize> = LEAST_TWO + 1..2 * LEAST_TWO;

/// After this many redone runs a kernel stops speculating, for good: what it is given really holds infinities or NaN,
/// or, in float24, numbers that are none.
pub(super) const MAX_REDOS: u32 = 4096;

/// One entry as native code.
pub struct NativeKernel {
    /// The code that runs first.
    pub(super) code: Code,
    /// Whether `code` speculates and may ask to be redone.
    pub(super) speculates: bool,
    /// The code for what runs may want besides.
    later: Arc<Later>,
    redos: AtomicU32,
    /// Vertices in batches so far, up to where it no longer matters.
    batched: AtomicU32,
    /// Groups that ran side by side.
    groups: AtomicU32,
    /// Groups that had to be given up.
    given_up: AtomicU32,
    /// The `v` registers that the code reads; bit n is `vn`.
    reads: u16,
    /// Vertices of a batch from which on it pays to run them side by side.
    least: usize,
    /// And from which on two groups at once.
    least_two: usize,
    timings: Timings,
    blocks: usize,
}

/// Code that is compiled when a run first wants it.
struct Later {
    /// What to compile it from.
    source: Source,
    /// The exact code; the interpreter serves if there is none.
    exact: Wanted<Result<Code, Unsupported>>,
    /// The code for batches, or why there is none, for one group at a time and for two; of each [`Order`].
    side_by_side: [[Wanted<Result<SideBySide, NoCode>>; 2]; 2],
}

/// Which code for batches.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) order: Order,
    /// Whether two groups are run at once.
    pub(super) two: bool,
}

/// Something that is made once, when it is first wanted.
struct Wanted<T> {
    made: OnceLock<T>,
    /// Whether a job has been left to make it.
    asked: AtomicBool,
}

impl<T> Default for Wanted<T> {
    fn default() -> Wanted<T> {
        Wanted { made: OnceLock::new(), asked: AtomicBool::new(false) }
    }
}

impl Later {
    fn make_exact(&self) -> &Result<Code, Unsupported> {
        let Source { jit, .. } = &self.source;
        self.exact.made.get_or_init(|| jit.native(&self.source, Care::Exact, &mut Timings::default()))
    }

    fn side_by_side(&self, way: Way) -> &Wanted<Result<SideBySide, NoCode>> {
        &self.side_by_side[way.order as usize][usize::from(way.two)]
    }

    fn make_side_by_side(&self, way: Way) -> &Result<SideBySide, NoCode> {
        self.side_by_side(way).made.get_or_init(|| self.source.jit.side_by_side(&self.source, way))
    }

    /// What there is of code for batches.
    fn made_side_by_side(&self) -> impl Iterator<Item = &Result<SideBySide, NoCode>> {
        self.side_by_side.iter().flatten().filter_map(|wanted| wanted.made.get())
    }

    /// What is wanted, if it is there; else it will be, when somebody in the background has called `make`. If nobody is there to
    /// do that, it is made here and now.
    fn get<'a, T: 'static>(
        self: &'a Arc<Later>,
        Wanted { made, asked }: &'a Wanted<T>,
        make: impl Fn(&Later) -> &T + Send + Copy + 'static,
    ) -> Option<&'a T> {
        if let Some(made) = made.get() {
            return Some(made);
        }
        let ask = |queue: &Queue| {
            if asked.swap(true, Ordering::Relaxed) {
                return queue.open();
            }
            let this = Arc::downgrade(self);
            let job = move || {
                if let Some(this) = this.upgrade() {
                    make(&this);
                }
            };
            queue.push(Box::new(job))
        };
        let will_be = self.source.jit.lent.queue.as_ref().is_some_and(ask);
        if will_be { None } else { Some(make(self)) }
    }
}

/// What all code of a kernel is compiled from.
pub(super) struct Source {
    pub(super) jit: Arc<Jit>,
    pub(super) func: Func,
    pub(super) program: Arc<Program>,
    pub(super) entry: Entry,
    pub(super) config: Config,
}

/// Code for batches.
pub(super) struct SideBySide {
    code: Code,
    /// Output registers that it writes; the others are as the unit has them.
    writes: u16,
    /// Whether every run ends as it should.
    always_ends: bool,
}

impl SideBySide {
    pub(super) fn new(code: Code, side: &Side) -> SideBySide {
        let writes = (0..16).filter(|&n| side.written[n] != 0).fold(0, |mask, n| mask | 1 << n);
        SideBySide { code, writes, always_ends: side.always_ends }
    }
}

impl NativeKernel {
    pub(super) fn new(code: Code, speculates: bool, source: Source, timings: Timings, blocks: usize) -> NativeKernel {
        let jit = &source.jit;
        let least = if jit.generator.variant == Variant::Lanes { WIDTH } else { usize::MAX };
        let least_two = match jit.generator.groups {
            Groups::Two => least,
            groups if groups.two_at_once(&source.func) => least.max(LEAST_TWO),
            _ => usize::MAX,
        };
        NativeKernel {
            code,
            least,
            least_two,
            reads: source.func.inputs_read(),
            speculates,
            later: Arc::new(Later { source, exact: Wanted::default(), side_by_side: Default::default() }),
            redos: AtomicU32::new(0),
            batched: AtomicU32::new(0),
            groups: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
            timings,
            blocks,
        }
    }

    /// How long compiling took.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Blocks of the control-flow graph.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many runs were redone by exact code.
    pub fn redos(&self) -> u32 {
        self.redos.load(Ordering::Relaxed)
    }

    /// How many groups of vertices ran side by side, and how many were given up and run one by one.
    pub fn groups(&self) -> (u32, u32) {
        (self.groups.load(Ordering::Relaxed), self.given_up.load(Ordering::Relaxed))
    }

    /// Groups have run side by side.
    fn count_groups(&self, more: u32) {
        match self.given_up.load(Ordering::Relaxed) {
            // Not added at once, which would wait for all that was just stored: another thread's may get lost, as long as the
            // number is good for nothing but to be shown.
            0 => self.groups.store(self.groups.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed),
            _ => _ = self.groups.fetch_add(more, Ordering::Relaxed),
        }
    }

    /// Whether giving up costs more than the groups save that are not given up, so far.
    fn gives_up_often(&self) -> bool {
        let (groups, given_up) = self.groups();
        given_up >= OFTEN && given_up > groups / 4
    }

    /// The code for a batch of so many vertices with these inputs, if there is any and it pays.
    #[inline]
    fn side_by_side(&self, count: usize, input_mask: u16, order: Order) -> Option<&SideBySide> {
        if count < self.least || self.reads & !input_mask != 0 {
            return None;
        }
        let way = Way { order, two: self.two_at_once(count) };
        if let Some(made) = self.later.side_by_side(way).made.get() {
            return made.as_ref().ok().filter(|_| !self.gives_up_often());
        }
        self.first_side_by_side(count, way)
    }

    /// The same, as long as there is none.
    #[cold]
    fn first_side_by_side(&self, count: usize, way: Way) -> Option<&SideBySide> {
        let before = self.batched.fetch_add(count as u32, Ordering::Relaxed);
        if before < self.later.source.jit.lanes_after {
            return None;
        }
        let made = self.later.get(self.later.side_by_side(way), move |later| later.make_side_by_side(way));
        // While code for two groups is being made, that for one serves, if smaller batches have wanted it before.
        let one = || self.later.side_by_side(Way { two: false, ..way }).made.get();
        let meanwhile = || one().filter(|_| way.two && !self.gives_up_often());
        made.or_else(meanwhile)?.as_ref().ok()
    }

    /// Whether a batch of so many vertices should run two groups at once. In tests of [`Groups::Two`] all do.
    fn two_at_once(&self, count: usize) -> bool {
        count >= self.least_two && (self.least_two != LEAST_TWO || !NOT_TWO.contains(&count))
    }

    /// One run on memory of the layout that the code is for.
    #[inline]
    fn run_with(&self, place: &mut Place<'_>, inputs: Option<&[Vec4]>, uniforms_seen: &mut bool) -> Exit {
        if self.speculation_pays()
            && let Some(exit) = self.code.run(place, inputs, *uniforms_seen)
        {
            *uniforms_seen = true;
            return exit;
        }
        self.redo(place, inputs)
    }

    /// Whether the code that runs first should still be tried.
    fn speculation_pays(&self) -> bool {
        !self.speculates || self.redos.load(Ordering::Relaxed) < MAX_REDOS
    }

    #[cold]
    fn redo(&self, place: &mut Place<'_>, inputs: Option<&[Vec4]>) -> Exit {
        self.redos.fetch_add(u32::from(self.redos() < MAX_REDOS), Ordering::Relaxed);
        let s = &self.later.source;
        if let Some(Ok(code)) = self.later.get(&self.later.exact, Later::make_exact)
            && let Some(exit) = code.run(place, inputs, false)
        {
            return exit;
        }
        let kernel = s.jit.last_resort.compile(&s.program, s.entry, &s.config);
        place.interpret(&*kernel.expect("the last resort compiles everything"), self.reads, inputs)
    }

    /// A batch on memory of the layout that the code is for.
    #[inline]
    fn run_batch_with(&self, place: &mut Place<'_>, batch: &mut Batch<'_>) -> Exit {
        if batch.order == Order::Components {
            return self.run_components(place, batch);
        }
        let count = batch.len();
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        let Some(lanes) = self.side_by_side(count, taken, Order::Registers) else {
            return match batch.unit_stays {
                false => Run::new(self, place, batch).some(batch, 0..count),
                true => place.keeping_unit(|place| Run::new(self, place, batch).more(batch, 0..count)),
            };
        };
        if batch.unit_stays {
            return self.run_batch_apart(lanes, place, batch);
        }
        let done = lanes.code.run_lanes(place, batch, 0..count / WIDTH * WIDTH, wanted);
        if done < count || wanted & !lanes.writes != 0 {
            return Run::new(self, place, batch).behind_first_groups(lanes, batch, done);
        }
        // Nearly all batches come here, and short ones feel each instruction.
        self.count_groups((count / WIDTH) as u32);
        let last = &batch.inputs[count - 1];
        place.take_inputs(taken, last);
        // It ended, and its outputs are there: this is for the unit.
        self.run_with(place, Some(last), &mut false);
        Exit::End
    }

    /// The same of a batch that leaves the unit as it is, which code for batches does.
    fn run_batch_apart(&self, lanes: &SideBySide, place: &mut Place<'_>, batch: &mut Batch<'_>) -> Exit {
        let (count, wanted) = (batch.len(), batch.outputs_wanted());
        let whole = if lanes.code.takes_any_count() { count } else { count / WIDTH * WIDTH };
        let done = lanes.code.run_lanes(place, batch, 0..whole, wanted);
        // What is no group is one with some that have run already: they see no other vertex, so they do the same again.
        let rest = usize::from(whole < count);
        let rest_ran =
            done < whole || rest == 0 || lanes.code.run_lanes(place, batch, count - WIDTH..count, wanted) == WIDTH;
        if done < whole || !rest_ran {
            if done == whole {
                self.given_up.fetch_add(1, Ordering::Relaxed);
            }
            return place.keeping_unit(|place| Run::new(self, place, batch).behind_first_groups(lanes, batch, done));
        }
        self.count_groups(count.div_ceil(WIDTH) as u32);
        let same = wanted & !lanes.writes;
        if same != 0 {
            (0..count).for_each(|n| place.copy_outputs(same, &mut batch.outputs[n]));
        }
        Exit::End
    }

    /// Whether the code is for this memory.
    fn is_for(&self, host: &Host<'_>) -> bool {
        let layout = self.later.source.config.layout.as_ref();
        layout.is_some_and(|own| std::ptr::eq(own, host.layout()) || own == host.layout())
    }
}

impl Kernel for NativeKernel {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        match self.later.source.config.layout {
            None => self.run_with(&mut Place::Own { uniforms, unit, emitter }, None, &mut false),
            Some(layout) => Image::run(layout, uniforms, unit, emitter, |host, emitter| self.run_on(host, emitter)),
        }
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> Exit {
        let stays = batch.unit_stays;
        match self.later.source.config.layout {
            // What is done to run many well would take longer than they do.
            None if batch.len() < WIDTH => in_turn(unit, batch, |unit| {
                self.run_with(&mut Place::Own { uniforms, unit, emitter }, None, &mut false)
            }),
            None => self.run_batch_with(&mut Place::Own { uniforms, unit, emitter }, batch),
            Some(layout) => {
                let mut run = |unit: &mut Unit| {
                    Image::run(layout, uniforms, unit, emitter, |host, e| self.run_batch_on(host, batch, e))
                };
                // A host's memory lacks what is only in a unit.
                if stays { on_copy(unit, run) } else { run(unit) }
            }
        }
    }

    fn run_on(&self, host: &Host<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if self.is_for(host) {
            return self.run_with(&mut Place::Host { host, emitter }, None, &mut false);
        }
        copied(host, emitter, |uniforms, unit, emitter| self.run(uniforms, unit, emitter))
    }

    fn run_batch_on(&self, host: &Host<'_>, batch: &mut Batch<'_>, emitter: &mut dyn HostEmitter) -> Exit {
        if self.is_for(host) {
            return self.run_batch_with(&mut Place::Host { host, emitter }, batch);
        }
        batch_copied(host, batch, emitter, |uniforms, unit, batch, emitter| {
            self.run_batch(uniforms, unit, batch, emitter)
        })
    }

    fn layout(&self) -> Option<&Layout> {
        self.later.source.config.layout.as_ref()
    }

    fn stats(&self) -> KernelStats {
        let (groups, given_up) = self.groups();
        let why = self.later.made_side_by_side().find_map(|made| made.as_ref().err());
        let one_by_one = why.map(|why| why.to_string());
        KernelStats { redone: self.redos(), groups, given_up, one_by_one }
    }

    fn held_bytes(&self) -> usize {
        // Code in whole pages, once more for an exact kernel that may follow, twice more for one that runs batches, and as much again
        // where that is two groups at once, and what these would be compiled from.
        let batches = 2 * usize::from(self.least != usize::MAX) + 2 * usize::from(self.least_two != usize::MAX);
        let times = 1 + usize::from(self.speculates) + batches;
        let code = self.code.len().next_multiple_of(4096) * times;
        let Source { func, program, .. } = &self.later.source;
        let insts: usize = func.blocks.iter().map(|b| size_of_val(&*b.insts) + size_of_val(b)).sum();
        code + insts + size_of_val(&*func.nodes) + program.bytes() + size_of::<Self>()
    }

    fn native_bytes(&self) -> usize {
        let exact = self.later.exact.made.get().and_then(|e| e.as_ref().ok()).map_or(0, Code::len);
        let batches: usize = self.later.made_side_by_side().flatten().map(|s| s.code.len()).sum();
        self.code.len() + exact + batches
    }
}

/// A batch that is being run.
struct Run<'a, 'p> {
    kernel: &'a NativeKernel,
    place: &'a mut Place<'p>,
    /// Registers that inputs have, and outputs want.
    taken: u16,
    wanted: u16,
    /// Whether inputs have all that the code reads: then it reads them there.
    whole: bool,
    uniforms_seen: bool,
    result: Exit,
    count: usize,
}

impl<'a, 'p> Run<'a, 'p> {
    #[inline]
    fn new(kernel: &'a NativeKernel, place: &'a mut Place<'p>, batch: &Batch<'_>) -> Run<'a, 'p> {
        let (taken, wanted) = (batch.inputs_taken(), batch.outputs_wanted());
        let whole = kernel.reads & !taken == 0;
        Run { kernel, place, taken, wanted, whole, uniforms_seen: false, result: Exit::End, count: batch.len() }
    }

    /// Some vertices, one after the other. The first exit of all so far that is not [`Exit::End`].
    // A batch of a few on a host's memory would notice if a run's fields went through memory.
    #[inline(always)]
    fn some(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> Exit {
        for n in range {
            let exit = self.one(&batch.inputs[n], n + 1 == self.count);
            self.place.copy_outputs(self.wanted, &mut batch.outputs[n]);
            if self.result == Exit::End {
                self.result = exit;
            }
        }
        self.result
    }

    /// One vertex. Only the last one's inputs must be in the unit.
    #[inline]
    fn one(&mut self, input: &[Vec4], last: bool) -> Exit {
        if !self.whole || last {
            self.place.take_inputs(self.taken, input);
        }
        let inputs = self.whole.then_some(input);
        self.kernel.run_with(self.place, inputs, &mut self.uniforms_seen)
    }

    /// What is left when the first `done` vertices have run side by side, in whole groups: as many groups as there are, or as it
    /// pays to run, and what is no group.
    #[inline(never)]
    fn behind_first_groups(&mut self, lanes: &SideBySide, batch: &mut Batch<'_>, mut done: usize) -> Exit {
        let groups_end = self.count / WIDTH * WIDTH;
        // What no run writes is copied from the unit.
        let same = self.wanted & !lanes.writes;
        let mut at = 0;
        // Whether the unit is as the vertex before `at` leaves it.
        let mut known = true;
        loop {
            if same != 0 {
                (at..at + done).for_each(|n| self.place.copy_outputs(same, &mut batch.outputs[n]));
            }
            self.kernel.count_groups((done / WIDTH) as u32);
            known &= done == 0;
            at += done;
            if at == groups_end {
                break;
            }
            self.kernel.given_up.fetch_add(1, Ordering::Relaxed);
            self.know(&mut known, batch, at);
            self.more(batch, at..at + WIDTH);
            at += WIDTH;
            if at == groups_end || self.kernel.gives_up_often() {
                break;
            }
            done = lanes.code.run_lanes(self.place, batch, at..groups_end, self.wanted);
        }
        // The next one finds the unit as the last of these leaves it, or as good as that.
        if at == self.count || !lanes.always_ends {
            self.know(&mut known, batch, at);
        }
        self.more(batch, at..self.count)
    }

    /// Some vertices besides groups: once, not in each place.
    #[inline(never)]
    fn more(&mut self, batch: &mut Batch<'_>, range: Range<usize>) -> Exit {
        self.some(batch, range)
    }

    /// Makes the unit what the vertex before `at` leaves, by running that alone.
    fn know(&mut self, known: &mut bool, batch: &Batch<'_>, at: usize) {
        if !std::mem::replace(known, true) {
            // It ended, and its outputs are there.
            self.one(&batch.inputs[at - 1], at == self.count);
        }
    }
}
