//! Loop-invariant values -> the loop's preheader, which broadcasts them to the stack.
//!
//! Consecutive components in memory, such as those of a matrix, are broadcast in a loop of one
//! register an iteration: straight code for each of them would be a quarter of a small shader's
//! batch code, and of its compile time.
//!
//! Invariant: a value's place on the stack is its index in the list of all, times a vector's size.

use super::bailout::BailoutReason;
use super::matrix_product::Column;
use super::policy::BatchPlan;
use super::{BatchLowering, aos_outputs};
use crate::ir::analysis::{self, XYZW, components};
use crate::ir::{Func, Inst, Mem, Node, Terminator, Value};
use crate::isa::{FLOAT_UNIFORMS, Swizzle};
use crate::jit::abi::VEC4;
use crate::jit::emit::Tails;
use crate::jit::emit::memory::{aligned, bank_address, bank_number};
use crate::state::Exit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, types};
use std::collections::BTreeSet;

/// Registers from which on a loop is smaller than straight code, and no slower.
const MIN_LOOP: usize = 3;

/// A loop-invariant value, broadcast and kept on the stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hoisted {
    Uniform(u8, u8),
    /// A component of a uniform, negated.
    Negative(u8, u8),
    /// A whole uniform, swizzled and perhaps negated: an operand in AoS form.
    AosVector {
        n: u8,
        swizzle: Swizzle,
        negate: bool,
    },
    /// A column of a matrix.
    Column(Column),
    /// A component of a register that no run changes.
    Temp(u8, u8),
    Out(u8, u8),
}

/// The values to hoist, in a fixed order.
pub(super) fn hoisted(func: &Func, plan: &BatchPlan) -> Vec<Hoisted> {
    let mut all = BTreeSet::new();
    let uniform = |v: Value| if let Node::Uniform(n) = *func.node(v) { Some(n) } else { None };
    for (id, node) in func.nodes.iter().enumerate() {
        let live = plan.live[id];
        match *node {
            Node::Uniform(n) => all.extend(components(live).map(|c| Hoisted::Uniform(n, c))),
            Node::Load(Mem::Temp(n)) => all.extend(components(live).map(|c| Hoisted::Temp(n, c))),
            Node::Load(Mem::Out { n, .. }) => all.extend(components(live).map(|c| Hoisted::Out(n, c))),
            Node::Alu { op, ref src } => {
                for (k, u) in src[..op.sources()].iter().enumerate().filter(|(_, u)| u.negate) {
                    let subtracted = op.subtracts(k);
                    if let Some(n) = uniform(u.value).filter(|_| !subtracted) {
                        let read = analysis::source_components(u, analysis::operand_components(op, k, live));
                        all.extend(components(read).map(|c| Hoisted::Negative(n, c)));
                    }
                }
            }
            _ => {}
        }
    }
    let ends = func.blocks.iter().filter(|b| b.term == Terminator::Exit(Exit::End));
    for (_, inst) in ends.flat_map(|b| &b.insts) {
        if let Inst::Store(Mem::Out { n, .. }, value) = *inst
            && plan.is_aos_output(n, value)
        {
            aos_outputs::collect_hoisted(func, value, XYZW, &mut all);
        }
    }
    for (n, &written) in plan.written.iter().enumerate() {
        if written != 0 && !plan.emits {
            all.extend(components(!written & XYZW).map(|c| Hoisted::Out(n as u8, c)));
        }
    }
    complete_registers(&mut all);
    all.into_iter().collect()
}

/// Completes consecutive registers of which one component is missing, so that a loop can broadcast
/// them.
fn complete_registers(all: &mut BTreeSet<Hoisted>) {
    let uniform = |n: u8| (0..4).map(move |c| Hoisted::Uniform(n, c));
    let nearly_complete = |n: &u8| uniform(*n).filter(|value| all.contains(value)).count() >= 3;
    let registers: Vec<u8> = (0..FLOAT_UNIFORMS as u8).filter(nearly_complete).collect();
    for run in registers.chunk_by(|a, b| a + 1 == *b).filter(|run| run.len() >= MIN_LOOP) {
        all.extend(run.iter().flat_map(|&n| uniform(n)));
    }
}

/// How many of these values are consecutive components of uniforms, from the first on.
fn consecutive(values: &[Hoisted]) -> usize {
    let component = |value: &Hoisted| {
        if let Hoisted::Uniform(n, c) = *value { Some(4 * usize::from(n) + usize::from(c)) } else { None }
    };
    let Some(first) = values.first().and_then(component) else { return 0 };
    values.iter().zip(first..).take_while(|(value, at)| component(value) == Some(*at)).count()
}

impl BatchLowering<'_, '_> {
    /// Loads and broadcasts these values.
    pub(super) fn hoist(&mut self, hoisted: &[Hoisted]) {
        let mut bank = None;
        let mut next = 0;
        while let Some(value) = hoisted.get(next) {
            let registers = consecutive(&hoisted[next..]) / 4;
            if let (Hoisted::Uniform(n, c), MIN_LOOP..) = (*value, registers) {
                self.hoist_registers(self.layout.c(n, c), next as i32 * VEC4, registers);
                next += 4 * registers;
                continue;
            }
            let at = next as i32 * VEC4;
            next += 1;
            let (base, offset) = match *value {
                Hoisted::Uniform(n, c) | Hoisted::Negative(n, c) => (self.uniforms, self.layout.c(n, c)),
                Hoisted::AosVector { n, swizzle, negate } => {
                    let vector = self.b.ins().load(types::F32X4, aligned(), self.uniforms, self.layout.c(n, 0));
                    let vector = self.swizzled(vector, swizzle);
                    let vector = if negate { self.b.ins().fneg(vector) } else { vector };
                    self.b.ins().store(aligned(), vector, self.stack, at);
                    continue;
                }
                Hoisted::Column(column) => {
                    let column = self.column(&column);
                    self.b.ins().store(aligned(), column, self.stack, at);
                    continue;
                }
                Hoisted::Temp(n, c) => (self.unit, self.layout.r(n, c)),
                Hoisted::Out(n, c) => {
                    let base = *bank.get_or_insert_with(|| {
                        let bank = bank_number(&mut self.b, &self.layout, self.unit);
                        bank_address(&mut self.b, &self.layout, self.unit, bank)
                    });
                    (base, self.layout.o(n, c))
                }
            };
            let x = self.b.ins().load(types::F32, aligned(), base, offset);
            let x = if let Hoisted::Negative(..) = value { self.b.ins().fneg(x) } else { x };
            let all = self.b.ins().splat(types::F32X4, x);
            self.b.ins().store(aligned(), all, self.stack, at);
        }
        let one = self.clif().constant(types::F32X4, 1.0);
        self.b.ins().store(aligned(), one, self.stack, self.ones);
    }

    /// In float24, bails out if a loop-invariant number that code reads is not in the band. Hoisted components that a
    /// run only keeps may be anything. The first vertex is at `first`.
    pub(super) fn check_invariants(&mut self, first: clif::Value) {
        if !self.plan.is_float24() {
            return;
        }
        self.clif().make_constants();
        for (node, &live) in self.func.nodes.iter().zip(&self.plan.live_in_any_form) {
            let (base, offset) = match *node {
                Node::Uniform(n) => (self.uniforms, self.layout.c(n, 0)),
                Node::Load(Mem::Temp(n)) => (self.unit, self.layout.r(n, 0)),
                _ => continue,
            };
            if live != 0 {
                let vector = self.b.ins().load(types::F32X4, aligned(), base, offset);
                self.clif().record_operand(vector, live, Tails::Kept);
            }
        }
        if let Some(violations) = self.clif().take_violations() {
            let found = self.clif().any_set(violations);
            let go_on = self.b.create_block();
            let mut done = vec![first.into()];
            done.extend(self.bailout_arguments(BailoutReason::Uniforms));
            self.b.ins().brif(found, self.exit, &done, go_on, &[]);
            self.b.switch_to_block(go_on);
        }
    }

    /// A loop that broadcasts the components of this many registers, from offset `from` of the
    /// uniforms to offset `to` of the stack.
    fn hoist_registers(&mut self, from: i32, to: i32, registers: usize) {
        let pointer = self.b.func.dfg.value_type(self.uniforms);
        let (body, after) = (self.b.create_block(), self.b.create_block());
        let [source, target] = [(); 2].map(|()| self.b.append_block_param(body, pointer));
        let first = self.b.ins().iadd_imm_s(self.uniforms, i64::from(from));
        let end = self.b.ins().iadd_imm_s(first, registers as i64 * i64::from(VEC4));
        let stack = self.b.ins().iadd_imm_s(self.stack, i64::from(to));
        self.b.ins().jump(body, &[first.into(), stack.into()]);
        self.b.switch_to_block(body);
        for c in 0..4 {
            let x = self.b.ins().load(types::F32, aligned(), source, 4 * c);
            let all = self.b.ins().splat(types::F32X4, x);
            self.b.ins().store(aligned(), all, target, VEC4 * c);
        }
        let source = self.b.ins().iadd_imm_s(source, i64::from(VEC4));
        let target = self.b.ins().iadd_imm_s(target, 4 * i64::from(VEC4));
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, source, end);
        self.b.ins().brif(more, body, &[source.into(), target.into()], after, &[]);
        self.b.switch_to_block(after);
    }
}
