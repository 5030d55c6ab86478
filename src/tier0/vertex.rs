//! One vertex, or one geometry invocation: the registers that the entry names are copied to slots,
//! the operations run on these, and the registers that it writes go back.

use super::arith::{Format, litp_y, pointwise, positive, signed};
use super::code::{Block, Code, Edge, Flow, Op, Operand, Slot, Terminator, Transfers, components};
use super::group::relative;
use crate::ir::register_set::RegisterSet;
use crate::isa::flow::{Action, Exit, Next, Ring, Scopes, is_backward};
use crate::isa::numeric::Precision;
use crate::isa::{Index, Inst, Pc, PointwiseOp, Swizzle, Test, VectorOp};
use crate::layout::{File, HostEmitter, HostMemory};
use crate::state::{EmitState, Vec4};
use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, f32x4, mask32x4};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Memory for slots, reused from run to run.
    static SLOTS: Cell<Vec<Vec4>> = const { Cell::new(Vec::new()) };
}

/// The counters of an open loop.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Iterations after this one.
    left: u8,
    /// Increment of aL per iteration.
    inc: u8,
    /// aL before the loop.
    saved: i32,
}

/// Where a run is.
enum Position<'a> {
    /// At a block of the control-flow graph.
    Block { blocks: &'a [Block], pieces: &'a [Range<u32>], at: usize },
    /// At a word.
    Word(Box<WordPosition<'a>>),
}

/// A word, with the scope rings at run time.
struct WordPosition<'a> {
    words: &'a [(Inst, Range<u32>)],
    pc: Pc,
    scopes: Scopes,
    counters: Ring<Counter, 4>,
}

/// A run.
struct Run<'a, 'm, S, F> {
    simd: S,
    format: F,
    code: &'a Code,
    memory: &'a HostMemory<'m>,
    emitter: &'a mut dyn HostEmitter,
    slots: Vec<Vec4>,
    addresses: [i32; 3],
    flags: [u8; 2],
    /// Words that the run may execute still; below 0 it ends at its next backward transfer.
    fuel: i32,
    /// The ring of open loops, on the control-flow graph.
    counters: [Counter; 4],
}

/// Runs the entry once on `memory`. A vector has four lanes, so it needs no more than every CPU of
/// the architecture has.
pub fn run<F: Format>(format: F, code: &Code, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Exit {
    #[cfg(target_arch = "x86_64")]
    {
        let simd = Level::baseline().as_sse2().expect("x86-64 has SSE2");
        run_on(simd, format, code, memory, emitter)
    }
    #[cfg(not(target_arch = "x86_64"))]
    fearless_simd::dispatch!(Level::baseline(), simd => run_on(simd, format, code, memory, emitter))
}

#[inline(always)]
fn run_on<S: Simd, F: Format>(
    simd: S,
    format: F,
    code: &Code,
    memory: &HostMemory<'_>,
    emitter: &mut dyn HostEmitter,
) -> Exit {
    let mut slots = SLOTS.take();
    if slots.len() < code.registers.len() {
        slots.resize(code.registers.len(), [0.0; 4]);
    }
    let (flags, addresses, counters) = ([0; 2], [0; 3], [Counter::default(); 4]);
    let fuel = code.fuel.cast_signed();
    let mut run = Run { simd, format, code, slots, addresses, flags, fuel, counters, memory, emitter };
    load(simd, format, code, run.memory, &mut run.slots);
    if (code.usage.read_first | code.usage.kept).state != 0 {
        (run.addresses, run.flags) = (run.memory.address_registers(), run.memory.flags());
    }
    let exit = run.run();
    store(code, run.memory, &run.slots);
    store_state(code, run.memory, &run.addresses, run.flags);
    SLOTS.set(run.slots);
    exit
}

/// Sets the slots that a run finds set.
#[inline(always)]
fn load<S: Simd, F: Format>(simd: S, format: F, code: &Code, memory: &HostMemory<'_>, slots: &mut [Vec4]) {
    let Transfers { inputs, uniforms, temps, outputs } = &code.loads;
    memory.load_slots(File::Inputs, inputs, slots);
    memory.load_slots(File::Uniforms, uniforms, slots);
    if !temps.is_empty() {
        memory.load_slots(File::Temps, temps, slots);
    }
    if !outputs.is_empty() {
        memory.load_slots(File::Outputs, outputs, slots);
    }
    if code.precision != Precision::F32 {
        for &(slot, _) in inputs.iter().chain(uniforms) {
            let value = &mut slots[usize::from(slot)];
            *value = format.operand(f32x4::load_array(simd, *value)).to_array();
        }
    }
}

/// Stores the slots that a run, or a batch, has written.
pub fn store(code: &Code, memory: &HostMemory<'_>, slots: &[Vec4]) {
    let Transfers { temps, outputs, .. } = &code.stores;
    if !temps.is_empty() {
        memory.store_slots(File::Temps, temps, slots);
    }
    memory.store_slots(File::Outputs, outputs, slots);
}

/// Stores the address registers and flags that a run, or a batch, has written.
pub fn store_state(code: &Code, memory: &HostMemory<'_>, addresses: &[i32; 3], flags: [u8; 2]) {
    let written = code.usage.written.state;
    for (n, bit) in [RegisterSet::A0_X, RegisterSet::A0_Y, RegisterSet::A_L].into_iter().enumerate() {
        if written & bit != 0 {
            memory.set_address_register(n, addresses[n]);
        }
    }
    if written & (RegisterSet::CMP_X | RegisterSet::CMP_Y) != 0 {
        memory.set_flags(flags);
    }
}

impl<S: Simd, F: Format> Run<'_, '_, S, F> {
    /// Runs to an exit.
    #[inline(always)]
    fn run(&mut self) -> Exit {
        let code = self.code;
        let mut position = match &code.flow {
            Flow::Blocks { blocks, pieces } => Position::Block { blocks, pieces, at: 0 },
            Flow::Words(words) => Position::Word(Box::new(WordPosition {
                words,
                pc: code.entry.pc,
                scopes: Scopes::default(),
                counters: Ring::default(),
            })),
        };
        loop {
            let pieces = match &position {
                Position::Block { blocks, pieces, at } => {
                    let Range { start, end } = blocks[*at].pieces;
                    &pieces[start as usize..end as usize]
                }
                Position::Word(word) => match word.words.get(usize::from(word.pc)) {
                    Some((_, ops)) => std::slice::from_ref(ops),
                    None => return Exit::PastEnd,
                },
            };
            for piece in pieces {
                for op in &code.ops[piece.start as usize..piece.end as usize] {
                    self.execute(op);
                }
            }
            let is_backward = match &mut position {
                Position::Block { blocks, at, .. } => {
                    let block = &blocks[*at];
                    self.fuel = self.fuel.wrapping_sub_unsigned(block.words);
                    self.end_block(&block.end).map(|Edge { to, backward }| {
                        *at = usize::from(to);
                        backward
                    })
                }
                Position::Word(word) => {
                    self.fuel = self.fuel.wrapping_sub(1);
                    self.end_word(word)
                }
            };
            match is_backward {
                Ok(false) => {}
                Ok(true) if self.fuel < 0 => return Exit::Fuel,
                Ok(true) if self.code.is_cancelled() => return Exit::Cancelled,
                Ok(true) => {}
                Err(exit) => return exit,
            }
        }
    }

    /// The edge that a run takes at the end of a block.
    #[inline(always)]
    fn end_block(&mut self, end: &Terminator) -> Result<Edge, Exit> {
        Ok(match *end {
            Terminator::Exit(exit) => return Err(exit),
            Terminator::Goto(edge) => edge,
            Terminator::Branch { test, yes, no } => {
                if self.holds(test) {
                    yes
                } else {
                    no
                }
            }
            Terminator::LoopEnd { slot, again, exit, restore } => {
                let mut counter = self.counters[usize::from(slot)];
                let repeats = self.end_iteration(&mut counter);
                self.counters[usize::from(slot)] = counter;
                if repeats {
                    again
                } else {
                    self.leave_loop(&counter, restore);
                    exit
                }
            }
            Terminator::LoopBreak { slot, exit, restore } => {
                let counter = self.counters[usize::from(slot)];
                self.step_address(&counter);
                self.leave_loop(&counter, restore);
                exit
            }
        })
    }

    /// Moves on from a word whose operations ran. Whether the transfer is backward.
    #[inline(never)]
    fn end_word(&mut self, at: &mut WordPosition<'_>) -> Result<bool, Exit> {
        const PAIRED: &str = "counters are pushed and popped together with loop scopes";
        let WordPosition { words, pc, scopes, counters } = at;
        let action = match words[usize::from(*pc)].0 {
            Inst::End => return Err(Exit::End),
            Inst::Break => Action::Break,
            Inst::Breakc { cond } if self.holds(Test::Flags(cond)) => Action::Break,
            Inst::Call { test, target, len } if test.is_none_or(|test| self.holds(test)) => {
                Action::Call { target, len }
            }
            Inst::If { test, target, len } if self.holds(test) => {
                Action::Then { end: target, cont: target + Pc::from(len) }
            }
            Inst::If { target, .. } => Action::Jump(target),
            Inst::Jump { test, target } if self.holds(test) => Action::Jump(target),
            Inst::Loop { int, last } => {
                counters.push(self.begin_loop(int));
                Action::Loop { last }
            }
            _ => Action::Next,
        };
        if action == Action::Break && !scopes.can_break() {
            return Err(Exit::BreakOutsideLoop);
        }
        let next = match scopes.step(*pc, action) {
            Next::Go(next) => next,
            Next::LoopEnd { again, .. } if self.end_iteration(counters.top_mut().expect(PAIRED)) => again,
            Next::LoopEnd { exit, .. } => {
                let counter = counters.pop().expect(PAIRED);
                self.leave_loop(&counter, scopes.leave_loop());
                exit
            }
            Next::LoopBreak { exit } => {
                let counter = counters.pop().expect(PAIRED);
                self.step_address(&counter);
                self.leave_loop(&counter, scopes.leave_loop());
                exit
            }
        };
        Ok(is_backward(std::mem::replace(pc, next), next))
    }

    fn begin_loop(&mut self, int: u8) -> Counter {
        let [left, start, inc, _] = self.memory.int(int);
        let saved = std::mem::replace(&mut self.addresses[2], start.into());
        Counter { left, inc, saved }
    }

    fn step_address(&mut self, counter: &Counter) {
        self.addresses[2] = self.addresses[2].wrapping_add(counter.inc.into());
    }

    /// Whether another iteration follows.
    fn end_iteration(&mut self, counter: &mut Counter) -> bool {
        self.step_address(counter);
        match counter.left.checked_sub(1) {
            Some(left) => {
                counter.left = left;
                true
            }
            None => false,
        }
    }

    fn leave_loop(&mut self, counter: &Counter, restore: bool) {
        if restore {
            self.addresses[2] = counter.saved;
        }
    }

    fn holds(&self, test: Test) -> bool {
        match test {
            Test::Flags(cond) => cond.eval(self.flags.map(|flag| flag != 0)),
            Test::Bool { id, value } => (self.memory.bools() >> (id & 0xF) & 1 != 0) == value,
        }
    }

    #[inline(always)]
    fn operand(&self, src: &Operand) -> f32x4<S> {
        let value = &self.slots[usize::from(src.slot)];
        let s = src.swizzle;
        let value = match s {
            Swizzle::IDENTITY => *value,
            _ => [value[s.component(0)], value[s.component(1)], value[s.component(2)], value[s.component(3)]],
        };
        signed(f32x4::load_array(self.simd, value), src.negate)
    }

    #[inline(always)]
    fn write(&mut self, dst: Slot, mask: u8, value: f32x4<S>) {
        let to = &mut self.slots[usize::from(dst)];
        // Whole registers are stored: a load of one that was written in parts waits for all of
        // them.
        let value = match mask {
            0xF => value,
            _ => {
                let written = mask32x4::from_bitmask(self.simd, mask.into());
                written.select(value, f32x4::load_array(self.simd, *to))
            }
        };
        value.store_array(to);
    }

    #[inline(always)]
    fn execute(&mut self, op: &Op) {
        match *op {
            Op::Vector { op, dst, mask, ref src } => {
                let a = self.operand(&src[0]);
                let value = match op {
                    VectorOp::Pointwise(PointwiseOp::Mov) => a,
                    VectorOp::Pointwise(PointwiseOp::Mad) => {
                        self.format.mad(a, self.operand(&src[1]), self.operand(&src[2]))
                    }
                    VectorOp::Pointwise(op) => pointwise(self.format, op, a, self.operand(&src[1]), a),
                    VectorOp::Dot(op) => f32x4::splat(self.simd, self.format.dot_product(op, a, self.operand(&src[1]))),
                    VectorOp::Dst => {
                        let b = self.operand(&src[1]);
                        let product = self.format.mul(a, b);
                        f32x4::load_array(self.simd, [1.0, product[1], a[2], b[3]])
                    }
                    VectorOp::Litp => {
                        self.flags = [0, 3].map(|c| u8::from(a[c] >= 0.0));
                        let positive = positive(a);
                        f32x4::load_array(self.simd, [positive[0], litp_y(a)[1], 0.0, positive[3]])
                    }
                };
                self.write(dst, mask, value);
            }
            Op::Scalar { op, dst, mask, ref src } => {
                let value = self.code.precision.scalar(op, self.component(src, 0));
                self.write(dst, mask, f32x4::splat(self.simd, value));
            }
            Op::ToAddress { mask, ref src } => {
                components(mask).for_each(|c| self.addresses[c] = self.component(src, c) as i32);
            }
            Op::Compare { ops, ref src } => {
                self.flags = [0, 1].map(|c| {
                    let [a, b] = [&src[0], &src[1]].map(|s| self.component(s, c));
                    u8::from(ops[c].relation().is_none_or(|relation| self.code.precision.compare(relation, a, b)))
                });
            }
            Op::Fetch { dst, base, index } => {
                let index = match index {
                    Index::None => 0,
                    Index::A0x => self.addresses[0],
                    Index::A0y => self.addresses[1],
                    Index::AL => self.addresses[2],
                };
                let value = relative(base, index, |n| self.memory.file(File::Uniforms).get(n));
                self.slots[usize::from(dst)] = narrow(self.code.precision, value);
            }
            Op::Emit => {
                // The emitter sees whole banks in memory.
                let outputs = &self.code.stores.outputs;
                self.memory.store_slots(File::Outputs, outputs, &self.slots);
                self.memory.emit(self.emitter);
                self.memory.load_slots(File::Outputs, outputs, &mut self.slots);
            }
            Op::Setemit(parameters) => self.memory.set_emit_state(EmitState::from(parameters)),
            Op::LoopBegin { int, slot, shift } => {
                if shift {
                    self.counters.copy_within(1.., 0);
                }
                self.counters[usize::from(slot)] = self.begin_loop(int);
            }
        }
    }

    fn component(&self, src: &Operand, c: usize) -> f32 {
        let x = self.slots[usize::from(src.slot)][src.component(c)];
        if src.negate { -x } else { x }
    }
}

/// An input or a uniform as the program reads it.
#[inline(always)]
pub fn narrow(precision: Precision, value: Vec4) -> Vec4 {
    match precision {
        Precision::F32 => value,
        Precision::F24 { .. } => value.map(|x| precision.operand(x)),
    }
}
