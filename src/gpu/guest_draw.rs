//! A draw from guest memory -> its vertices, fetched from arrays in groups.
//!
//! Vertices without indices run in order. With indices, each vertex of a program whose vertices are
//! independent runs once: all from the least index to the greatest if these are dense, else those
//! of a list. Vertices of other programs run one after another, as the vertex cache decides.
//!
//! Invariant: the triangles are those of the draw's vertices running in sequence. This file
//! must not know formats, nor what a map does.

use super::buffers::resize;
use super::diagnostics::Source;
use super::draw::{ActiveDraw, CHUNK, Runs};
use super::fetch::indices::Indices;
use super::fetch::{Fetch, Memory, Selection};
use super::few_vertices::{FEW, FewVertices, SMALL_BATCH};
use super::notes::Notes;
use super::registers::{NUMVERTICES, RegisterFile, VERTEX_OFFSET};
use super::report::Report;
use super::{Draw, Gpu, Sink};
use crate::fp_mode::DefaultMode;
use crate::semantics::SEMANTICS;
use crate::state::{Exit, Vec4};

/// Indices that are assembled together; a multiple of three.
const INDICES: usize = 12 << 10;

/// Up to this many arrays of few vertices are fetched vertex by vertex: the slices of more would take three cache
/// lines in each draw. Most games interleave their attributes in one array.
const FEW_ARRAYS: usize = 4;

/// What a host chooses for a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawOptions {
    /// Most vertices, or indices, that are drawn, if that is less than the [`Limits`] of the GPU.
    ///
    /// [`Limits`]: super::Limits
    pub limit: Option<u32>,
    /// Vertices that the vertex cache holds; the oldest is replaced first. It serves indexed draws of
    /// programs whose vertices depend on each other; no other results can differ.
    pub vertex_cache: u8,
}

impl Default for DrawOptions {
    /// No other limit, and 64 vertices, as in Azahar.
    fn default() -> DrawOptions {
        DrawOptions { limit: None, vertex_cache: 64 }
    }
}

impl Gpu {
    /// Draws as [`DRAWARRAYS`](super::RegisterFile::DRAWARRAYS) or
    /// [`DRAWELEMENTS`](super::RegisterFile::DRAWELEMENTS) requests, from guest memory: the registers
    /// say where the attributes and indices are.
    ///
    /// An incomplete input of the geometry unit from an earlier draw is discarded. An incomplete
    /// primitive continues.
    pub fn draw(&mut self, draw: Draw, memory: &dyn Memory, options: &DrawOptions, sink: &mut dyn Sink) -> Report {
        self.prefetch();
        let _mode = DefaultMode::enter();
        self.state.geometry_input.discard();
        let count = wanted(&self.state.registers, options);
        let mut report = Report::default();
        let is_small = count as usize <= FEW;
        match draw {
            Draw::Arrays if is_small && self.few_arrays(memory, count as usize, sink, &mut report) => {}
            Draw::Elements if is_small && self.few_elements(memory, count as usize, options, sink, &mut report) => {}
            _ if count as usize <= SMALL_BATCH && self.small_batch(draw, memory, count as usize, sink, &mut report) => {
            }
            _ => report = self.draw_many(draw, memory, options, sink),
        }
        report.limited |= count < self.state.registers.get(NUMVERTICES);
        self.note(Source::Memory, &mut report);
        report
    }

    #[inline(never)]
    fn draw_many(&mut self, draw: Draw, memory: &dyn Memory, options: &DrawOptions, sink: &mut dyn Sink) -> Report {
        let mut active = ActiveDraw::new(self, sink);
        let count = active.take_wanted(options);
        match draw {
            _ if count == 0 => active.report,
            Draw::Arrays => active.arrays(memory, count as usize),
            Draw::Elements => draw_indexed(active, memory, count, options),
        }
    }

    /// Draws consecutive vertices, or those of indices without large gaps, as one batch. False: nothing
    /// happened, since they have gaps, depend on each other, or native code does not serve.
    #[inline(never)]
    fn small_batch(
        &mut self,
        kind: Draw,
        memory: &dyn Memory,
        count: usize,
        sink: &mut dyn Sink,
        report: &mut Report,
    ) -> bool {
        let mut draw = FewVertices::new(self, sink, report);
        if !draw.is_batch(count) {
            return false;
        }
        let mut known = [0u16; SMALL_BATCH];
        let known = &mut known[..count];
        let file = &draw.state.registers;
        // Vertices count from the first.
        let (first, least, greatest) = match kind {
            Draw::Arrays => {
                known.iter_mut().enumerate().for_each(|(n, to)| *to = n as u16);
                (u64::from(file.get(VERTEX_OFFSET)), 0, count as u16 - 1)
            }
            Draw::Elements => {
                let indices = Indices::new(file, memory, count as u32);
                draw.report.notes |= Notes::MEMORY.when(indices.is_short);
                let (mut least, mut greatest) = (u16::MAX, 0);
                for (n, to) in known.iter_mut().enumerate() {
                    *to = indices.get(n) as u16;
                    (least, greatest) = (least.min(*to), greatest.max(*to));
                }
                (u64::from(least), least, greatest)
            }
        };
        let span = usize::from(greatest - least) + 1;
        if span > count {
            return false;
        }
        draw.fetch_batch(memory, first, span);
        let Some(last) = known.last() else { return false };
        if !draw.run_batch(span, usize::from(last - least)) {
            return false;
        }
        draw.finish_batch(known.iter().map(|&index| u32::from(index - least)));
        true
    }

    /// Draws few vertices in order. False: nothing happened, since they are in many arrays.
    #[inline(never)]
    fn few_arrays(&mut self, memory: &dyn Memory, count: usize, sink: &mut dyn Sink, report: &mut Report) -> bool {
        let mut draw = FewVertices::new(self, sink, report);
        if draw.configuration.fetch.array_count() > FEW_ARRAYS {
            return false;
        }
        let count = draw.begin(count);
        if let Some(last) = (count as u64).checked_sub(1) {
            let first = u64::from(draw.state.registers.get(VERTEX_OFFSET));
            let fetch = draw.fetch(memory, [first, first + last]);
            for n in 0..=last {
                fetch.vertex(n, draw.inputs());
                if !draw.run() {
                    break;
                }
            }
        }
        draw.finish_in_order();
        true
    }

    /// Draws the vertices of few indices: each runs once, in the order of its first index. False: nothing
    /// happened, since they may run more often, some are counts, or they are in many arrays.
    #[inline(never)]
    fn few_elements(
        &mut self,
        memory: &dyn Memory,
        count: usize,
        options: &DrawOptions,
        sink: &mut dyn Sink,
        report: &mut Report,
    ) -> bool {
        let mut draw = FewVertices::new(self, sink, report);
        let is_independent = draw.shader.has_independent_vertices();
        // A cache of as many vertices as there are indices keeps all of them.
        if draw.configuration.counts_vertices()
            || !is_independent && usize::from(options.vertex_cache) < FEW
            || draw.configuration.fetch.array_count() > FEW_ARRAYS
        {
            return false;
        }
        let count = draw.begin(count);
        let indices = Indices::new(&draw.state.registers, memory, count as u32);
        draw.report.notes |= Notes::MEMORY.when(indices.is_short);
        let mut known = [0; FEW];
        let known = &mut known[..count];
        let (mut least, mut greatest) = (u16::MAX, 0);
        for (n, to) in known.iter_mut().enumerate() {
            *to = indices.get(n) as u16;
            (least, greatest) = (least.min(*to), greatest.max(*to));
        }
        let known = &*known;
        let Some(&last) = known.last() else {
            draw.finish_in_order();
            return true;
        };
        let fetch = draw.fetch(memory, [least.into(), greatest.into()]);
        let mut ids = [0u8; FEW];
        let (mut sent, mut last_ran) = (0, 0);
        for (n, &index) in known.iter().enumerate() {
            ids[n] = match known[..n].iter().position(|&earlier| earlier == index) {
                Some(first) => ids[first],
                None => {
                    let id = draw.next_id() as u8;
                    fetch.vertex(u64::from(index - least), draw.inputs());
                    last_ran = index;
                    if !draw.run() {
                        sent = n + usize::from(draw.next_id() != u32::from(id));
                        ids[n] = id;
                        break;
                    }
                    id
                }
            };
            sent = n + 1;
        }
        if is_independent && last_ran != last && draw.report.vertex_exit == Exit::End {
            draw.run_again(&fetch, u64::from(last - least));
        }
        draw.finish(ids[..sent].iter().map(|&id| id.into()));
        true
    }
}

/// How many vertices or indices the registers want, and the host's limit allows.
fn wanted(registers: &RegisterFile, options: &DrawOptions) -> u32 {
    let wanted = registers.get(NUMVERTICES);
    options.limit.map_or(wanted, |limit| wanted.min(limit))
}

impl<'a> FewVertices<'a> {
    /// Fetches the inputs of a batch.
    #[inline(always)]
    fn fetch_batch(&mut self, memory: &dyn Memory, first: u64, count: usize) {
        let plan = &self.configuration.fetch;
        let fetch: Fetch<'_, '_> = Fetch::new(plan, &self.state.registers, memory, [first, first + count as u64 - 1]);
        self.report.notes |= Notes::MEMORY.when(fetch.is_short);
        resize(&mut self.buffers.inputs, count * plan.stride);
        let inputs = &mut self.buffers.inputs[..count * plan.stride];
        plan.constants(&self.state.fixed.defaults, inputs, plan.stride);
        fetch.rows(Selection::From(0), inputs, plan.stride);
    }

    /// The arrays of vertices of this range. Stores the default attributes in the unit, where they stay,
    /// because no run changes its input registers.
    #[inline(always)]
    fn fetch<'m>(&mut self, memory: &'m dyn Memory, range: [u64; 2]) -> Fetch<'a, 'm, FEW_ARRAYS> {
        let plan = &self.configuration.fetch;
        let fetch = Fetch::new(plan, &self.state.registers, memory, range);
        self.report.notes |= Notes::MEMORY.when(fetch.is_short);
        plan.constants_of_vertex(&self.state.fixed.defaults, &mut self.state.vertex.unit.v);
        fetch
    }

    /// Runs a vertex that ran before others, so that the unit is as the vertex of the last index leaves it.
    #[inline(never)]
    fn run_again(&mut self, fetch: &Fetch<'_, '_, FEW_ARRAYS>, n: u64) {
        fetch.vertex(n, self.inputs());
        self.run_unit();
    }
}

/// Draws the vertices that `count` indices select.
fn draw_indexed(mut draw: ActiveDraw<'_>, memory: &dyn Memory, count: u32, options: &DrawOptions) -> Report {
    let indices = draw.indices(memory, count);
    let counted = draw.configuration.counts_vertices();
    let is_independent = !counted && draw.shader.has_independent_vertices();
    let Some(range @ [least, _]) = (if counted { Some(indices.vertex_range()) } else { indices.range() }) else {
        return draw.report;
    };
    let fetch = draw.fetch(memory, range.map(u64::from));
    if is_independent && draw.each_once(&indices, range, &fetch) {
        return draw.report();
    }
    let (plan, defaults) = (&draw.configuration.fetch, draw.state.fixed.defaults);
    let vertex = |n: u32, to: &mut [Vec4]| {
        plan.constants_of_vertex(&defaults, to);
        fetch.vertex(u64::from(n.wrapping_sub(least)), to);
    };
    draw.elements((0..indices.len()).map(|n| indices.get(n)), vertex, options.vertex_cache)
}

impl<'a> ActiveDraw<'a> {
    /// How many of the vertices or indices that the registers want are within the limits.
    #[inline]
    pub(super) fn take_wanted(&mut self, options: &DrawOptions) -> u32 {
        let within = wanted(&self.state.registers, options);
        // At most as many as wanted, so it fits.
        let count = self.take(within.into()) as u32;
        self.report.limited = count < self.state.registers.get(NUMVERTICES);
        count
    }

    /// The arrays of vertices of this range.
    #[inline]
    pub(super) fn fetch<'m>(&mut self, memory: &'m dyn Memory, range: [u64; 2]) -> Fetch<'a, 'm> {
        let fetch = Fetch::new(&self.configuration.fetch, &self.state.registers, memory, range);
        self.report.notes |= Notes::MEMORY.when(fetch.is_short);
        fetch
    }

    /// The first `count` indices.
    #[inline]
    pub(super) fn indices<'m>(&mut self, memory: &'m dyn Memory, count: u32) -> Indices<'m> {
        let indices = Indices::new(&self.state.registers, memory, count);
        self.report.notes |= Notes::MEMORY.when(indices.is_short);
        indices
    }

    /// Draws vertices in order.
    fn arrays(&mut self, memory: &dyn Memory, count: usize) -> Report {
        let first = u64::from(self.state.registers.get(VERTEX_OFFSET));
        let fetch = self.fetch(memory, [first, first + count as u64 - 1]);
        let chunk = count.min(CHUNK);
        self.begin(Runs::InBatches, chunk);
        self.store_defaults(chunk);
        for start in (0..count).step_by(CHUNK) {
            if start > 0 {
                self.free_rows();
            }
            let n = chunk.min(count - start);
            self.fetch_rows(&fetch, Selection::From(start as u64), n);
            let ran = self.run_inputs(n);
            self.send_in_order(ran);
            if self.report.ended() {
                break;
            }
        }
        self.finish()
    }

    /// Draws the vertices of the indices, each of which runs once. Returns whether it has; a run
    /// without END may depend on the order, so nothing has happened then. Nor has it if the engine
    /// was cancelled meanwhile.
    fn each_once(&mut self, indices: &Indices<'_>, [least, greatest]: [u32; 2], fetch: &Fetch<'_, '_>) -> bool {
        let configuration = self.configuration;
        let (plan, output_stride) = (&configuration.plan, configuration.output_stride);
        let span = (greatest - least) as usize + 1;
        // No more vertices run than there are indices.
        let listed = span > indices.len();
        let mut list = std::mem::take(&mut self.buffers.list);
        if listed {
            list.collect(indices, least);
        }
        let count = if listed { list.vertices.len() } else { span };
        let chunk = count.min(CHUNK);
        // The geometry unit takes the outputs by index.
        let [rows, outputs] = if self.has_geometry() { [0, count] } else { [count, chunk] };
        self.prepare_rows(rows, outputs);
        self.prepare_inputs(chunk);
        self.store_defaults(chunk);
        self.preserve_unit();
        let selection = |start: usize, n: usize| match listed {
            true => Selection::Listed(&list.vertices[start..start + n]),
            false => Selection::From(start as u64),
        };
        for start in (0..count).step_by(CHUNK) {
            let n = chunk.min(count - start);
            self.fetch_rows(fetch, selection(start, n), n);
            let at = if self.has_geometry() { start * output_stride } else { 0 };
            if self.run_batch(n, at, true) != Exit::End {
                self.buffers.list = list;
                return false;
            }
            if !self.has_geometry() {
                let (rows, outputs) = (&mut self.buffers.rows, &self.buffers.outputs[..n * output_stride]);
                plan.map_rows(outputs, output_stride, rows.rows(plan.format().stride(), start..start + n));
            }
        }
        self.set_rows(count);
        for start in (0..indices.len()).step_by(INDICES) {
            if self.report.ends_now(self.cancel) {
                break;
            }
            let (range, carried, ids) =
                (start..indices.len().min(start + INDICES), self.carried, &mut self.buffers.ids);
            match listed {
                true => indices.listed(range, &list, carried as u32, ids),
                false => indices.consecutive(range, least, carried as u32, ids),
            }
            self.send();
            if self.report.geometry_ended() {
                break;
            }
        }
        self.set_sent(indices.len());
        // The outputs of an incomplete primitive's vertices are not kept. They give the same again.
        let open = self.open_vertices();
        let mut semantics = [[0.0; SEMANTICS]; 2];
        for (to, id) in semantics.iter_mut().zip(open) {
            if let Some(row) = id.and_then(|id| (id as usize).checked_sub(self.carried)) {
                self.fetch_rows(fetch, selection(row, 1), 1);
                self.run_batch(1, 0, true);
                *to = configuration.semantics().map_semantics(&self.buffers.outputs[..output_stride]);
            }
        }
        self.save_with(|id| semantics[usize::from(open[0] != Some(id))]);
        // The unit is as the vertex of the last index leaves it.
        let last = u64::from(indices.get(indices.len() - 1) - least);
        self.fetch_rows(fetch, Selection::From(last), 1);
        self.defer_first_input();
        self.buffers.list = list;
        true
    }

    /// Stores the default attributes in the first `n` inputs.
    pub(super) fn store_defaults(&mut self, n: usize) {
        let plan = &self.configuration.fetch;
        plan.constants(&self.state.fixed.defaults, &mut self.buffers.inputs[..n * plan.stride], plan.stride);
    }

    /// Fetches the selected vertices as the first `n` inputs.
    pub(super) fn fetch_rows(&mut self, fetch: &Fetch<'_, '_>, selection: Selection<'_>, n: usize) {
        let stride = self.configuration.fetch.stride;
        fetch.rows(selection, &mut self.buffers.inputs[..n * stride], stride);
    }
}
