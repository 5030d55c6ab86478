//! Outputs that are made [by rows](crate::jit::batch::aos_cost): a register of each vertex as one vector, as memory has it.
//!
//! Invariant: the operations are those of the other forms, lane by lane, so the bits are the same. It must not know which outputs
//! are made so.

use super::aos_cost::moves;
use super::matrix_product::{Column, Factor, MatrixEntry, matrix_product};
use super::{BatchLowering, Hoisted, inputs};
use crate::ir::analysis::{Components, XYZW, operand_components, source_components};
use crate::ir::{Func, Node, Use, Value};
use crate::isa::{PointwiseOp, Swizzle, VectorOp};
use crate::jit::abi::GROUP;
use crate::jit::abi::VEC4;
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::memory::{aligned, constant_memory};
use crate::jit::emit::op::{self, Shape};
use crate::jit::emit::vector::VecValue;
use cranelift_codegen::ir::{self as clif, InstBuilder, SourceLoc, types};
use std::collections::BTreeSet;

/// A register of each vertex of a group.
#[derive(Clone, Copy)]
pub(crate) enum AosVector {
    /// All have the same.
    Uniform(clif::Value),
    /// Each its own.
    Divergent([clif::Value; GROUP]),
}

/// What a column and its factor come to.
enum ColumnProduct {
    /// The same for all vertices.
    Uniform(clif::Value),
    /// A column that each vertex multiplies by what it has at this offset.
    Divergent(i32, clif::Value),
}

impl AosVector {
    /// Of each vertex.
    pub(crate) fn each(self) -> [clif::Value; GROUP] {
        match self {
            AosVector::Uniform(v) => [v; GROUP],
            AosVector::Divergent(all) => all,
        }
    }

    /// Without repetition.
    pub(crate) fn distinct(self) -> Vec<clif::Value> {
        match self {
            AosVector::Uniform(v) => vec![v],
            AosVector::Divergent(all) => all.to_vec(),
        }
    }

    pub(crate) fn map(self, mut f: impl FnMut(clif::Value) -> clif::Value) -> AosVector {
        match self {
            AosVector::Uniform(v) => AosVector::Uniform(f(v)),
            AosVector::Divergent(all) => AosVector::Divergent(all.map(f)),
        }
    }

    fn with(self, other: AosVector, mut f: impl FnMut(clif::Value, clif::Value) -> clif::Value) -> AosVector {
        match (self, other) {
            (AosVector::Uniform(a), AosVector::Uniform(b)) => AosVector::Uniform(f(a, b)),
            _ => {
                let (a, b) = (self.each(), other.each());
                AosVector::Divergent([0, 1, 2, 3].map(|j| f(a[j], b[j])))
            }
        }
    }
}

/// What these lanes of a source that is a uniform are, if not the uniform as it stands.
fn hoisted_operand(n: u8, u: &Use, lanes: Components) -> Option<Hoisted> {
    let read = source_components(u, lanes);
    if read.is_power_of_two() {
        let c = read.trailing_zeros() as u8;
        return Some(if u.negate { Hoisted::Negative(n, c) } else { Hoisted::Uniform(n, c) });
    }
    (u.negate || moves(u, lanes)).then_some(Hoisted::AosVector { n, swizzle: u.swizzle, negate: u.negate })
}

/// What is hoisted_operand for these lanes of an output.
pub(crate) fn collect_hoisted(func: &Func, value: Value, lanes: Components, found: &mut BTreeSet<Hoisted>) {
    if let Some(terms) = matrix_product(func, value, lanes) {
        for (factor, column) in terms {
            found.insert(Hoisted::Column(column));
            if let Factor::Uniform(n, c) = factor {
                found.insert(Hoisted::Uniform(n, c));
            }
        }
        return;
    }
    match *func.node(value) {
        Node::Merge { mask, old, new } => {
            for (value, lanes) in [(old, lanes & !mask.lane_bits()), (new, lanes & mask.lane_bits())] {
                if lanes != 0 {
                    collect_hoisted(func, value, lanes, found);
                }
            }
        }
        Node::Alu { op, ref src } => {
            for (n, u) in src[..op.sources()].iter().enumerate() {
                let u = operand(op, n, u);
                let read = operand_components(op, n, lanes);
                match *func.node(u.value) {
                    Node::Uniform(n) => found.extend(hoisted_operand(n, &u, read)),
                    _ => collect_hoisted(func, u.value, source_components(&u, read), found),
                }
            }
        }
        _ => {}
    }
}

/// A source without the sign that the operation itself sees to.
fn operand(op: VectorOp, n: usize, u: &Use) -> Use {
    Use { negate: u.negate && !op.subtracts(n), ..*u }
}

impl BatchLowering<'_, '_> {
    /// These lanes of a vector.
    pub(crate) fn row(&mut self, value: Value, lanes: Components) -> AosVector {
        if let Some(terms) = matrix_product(self.func, value, lanes) {
            return self.row_matrix(value, &terms);
        }
        match *self.func.node(value) {
            Node::Input(n) => AosVector::Divergent(self.rows(n)),
            Node::Uniform(n) => {
                let at = self.layout.c(n, 0);
                AosVector::Uniform(self.b.ins().load(types::F32X4, constant_memory(), self.uniforms, at))
            }
            Node::Const(bits) => AosVector::Uniform(self.clif().vector(types::F32X4, bits)),
            Node::Merge { mask, old, new } => {
                let (kept, taken) = (lanes & !mask.lane_bits(), lanes & mask.lane_bits());
                if kept == 0 || taken == 0 {
                    return self.row(if kept == 0 { new } else { old }, lanes);
                }
                let (old, new) = (self.row(old, kept), self.row(new, taken));
                self.at(value);
                old.with(new, |old, new| self.clif().blend(mask.lane_bits(), old, new))
            }
            Node::Alu { op: VectorOp::Pointwise(op), src } => self.row_alu(value, op, &src, lanes),
            ref node => unreachable!("{node:?} is not made by rows"),
        }
    }

    /// The products of columns, added up.
    fn row_matrix(&mut self, value: Value, terms: &[(Factor, Column)]) -> AosVector {
        self.at(value);
        self.folding.spread = true;
        let columns: Vec<clif::Value> = terms.iter().map(|(_, column)| self.splat(Hoisted::Column(*column))).collect();
        let terms: Vec<ColumnProduct> = terms
            .iter()
            .zip(columns)
            .map(|((factor, _), column)| {
                let same = match *factor {
                    Factor::Input(n, c) => {
                        return ColumnProduct::Divergent(i32::from(n) * VEC4 + 4 * i32::from(c), column);
                    }
                    Factor::One => return ColumnProduct::Uniform(column),
                    Factor::Uniform(n, c) => self.splat(Hoisted::Uniform(n, c)),
                    Factor::Const(bits) => self.clif().vector(types::F32X4, [bits; 4]),
                };
                ColumnProduct::Uniform(self.clif().mul(same, column, XYZW))
            })
            .collect();
        // One vertex after the other: so many products don't fit into registers.
        AosVector::Divergent([0, 1, 2, 3].map(|j| {
            let products = terms.iter().map(|term| match *term {
                ColumnProduct::Uniform(v) => v,
                ColumnProduct::Divergent(offset, column) => {
                    let x = self.b.ins().load(types::F32, inputs(), self.inputs.vertices[j], offset);
                    let x = self.b.ins().splat(types::F32X4, x);
                    self.clif().mul(x, column, XYZW)
                }
            });
            let products: Vec<clif::Value> = products.collect();
            self.sum(&products)
        }))
    }

    /// The entries, where the uniforms have them.
    pub(crate) fn column(&mut self, column: &Column) -> clif::Value {
        let [x, rest @ ..] = column.map(|MatrixEntry { uniform, component, negate }| {
            let at = self.layout.c(uniform, component);
            let x = self.b.ins().load(types::F32, aligned(), self.uniforms, at);
            if negate { self.b.ins().fneg(x) } else { x }
        });
        let first = self.b.ins().scalar_to_vector(types::F32X4, x);
        (1..).zip(rest).fold(first, |all, (lane, x)| self.b.ins().insertlane(all, x, lane))
    }

    /// What comes now is the instruction's that `value` is made by.
    fn at(&mut self, value: Value) {
        self.b.set_srcloc(SourceLoc::new(u32::from(self.pcs[value.0 as usize])));
    }

    fn row_alu(&mut self, value: Value, op: PointwiseOp, src: &[Use; 3], lanes: Components) -> AosVector {
        let vector = VectorOp::from(op);
        let fetched = (0..vector.sources())
            .map(|n| self.row_source(&operand(vector, n, &src[n]), operand_components(vector, n, lanes)))
            .collect();
        self.at(value);
        op::pointwise(&mut AosOperands { l: self, op: vector, src, fetched }, op, lanes)
    }

    /// A source, as an operation takes it.
    fn row_source(&mut self, u: &Use, lanes: Components) -> AosVector {
        if let Node::Uniform(n) = *self.func.node(u.value)
            && let Some(splat) = hoisted_operand(n, u, lanes)
        {
            return AosVector::Uniform(self.splat(splat));
        }
        let v = self.row(u.value, source_components(u, lanes));
        let v = if moves(u, lanes) { v.map(|v| self.swizzled(v, u.swizzle)) } else { v };
        if u.negate { v.map(|v| self.b.ins().fneg(v)) } else { v }
    }

    /// A vector swizzled.
    pub(crate) fn swizzled(&mut self, v: clif::Value, swizzle: Swizzle) -> clif::Value {
        let v = self.clif().swizzle(VecValue::Wide(v), swizzle, XYZW);
        self.clif().wide(v)
    }
}

/// The AoS shape: operands are a register of each vertex, fetched before the operation.
struct AosOperands<'l, 'a, 'f> {
    l: &'l mut BatchLowering<'a, 'f>,
    op: VectorOp,
    src: &'l [Use; 3],
    /// The sources as [`operand`] leaves them: those that the operation subtracts are without their sign.
    fetched: Vec<AosVector>,
}

impl<'f> Shape<'f> for AosOperands<'_, '_, 'f> {
    type Value = AosVector;

    fn source(&mut self, n: usize) -> AosVector {
        let v = self.fetched[n];
        let sign_is_missing = self.src[n].negate && self.op.subtracts(n);
        if sign_is_missing { v.map(|v| self.l.b.ins().fneg(v)) } else { v }
    }

    fn unsigned(&mut self, n: usize) -> AosVector {
        self.fetched[n]
    }

    fn is_negated(&self, n: usize) -> bool {
        self.src[n].negate
    }

    fn map(
        &mut self,
        a: AosVector,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value) -> clif::Value,
    ) -> AosVector {
        a.map(|a| f(&mut self.l.clif(), a))
    }

    fn zip(
        &mut self,
        a: AosVector,
        b: AosVector,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value, clif::Value) -> clif::Value,
    ) -> AosVector {
        a.with(b, |a, b| f(&mut self.l.clif(), a, b))
    }
}
