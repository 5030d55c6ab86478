//! AoS outputs: an output register of each vertex as one vector, as memory has it, without a
//! transpose.
//!
//! Invariant: an AoS vector has the bits of the SoA form, component by component. It must not know
//! [which outputs](super::aos_cost) are computed so.

use super::aos_cost::moves;
use super::matrix_product::{Column, Factor, MatrixEntry, matrix_product};
use super::{BatchLowering, Hoisted, inputs};
use crate::ir::analysis::ranges::Narrowing;
use crate::ir::analysis::{Components, XYZW, components, operand_components, source_components};
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
    /// One vector, equal for all vertices.
    Uniform(clif::Value),
    /// A vector per vertex.
    Divergent([clif::Value; GROUP]),
}

/// A column times its factor.
enum ColumnProduct {
    /// The product, equal for all vertices.
    Uniform(clif::Value),
    /// The factor, a component of an input, and the column.
    Divergent(u8, u8, clif::Value),
}

impl AosVector {
    /// One vector per vertex.
    pub(crate) fn per_vertex(self) -> [clif::Value; GROUP] {
        match self {
            AosVector::Uniform(v) => [v; GROUP],
            AosVector::Divergent(all) => all,
        }
    }

    /// The vectors, a uniform one once.
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

    fn zip(self, other: AosVector, mut f: impl FnMut(clif::Value, clif::Value) -> clif::Value) -> AosVector {
        match (self, other) {
            (AosVector::Uniform(a), AosVector::Uniform(b)) => AosVector::Uniform(f(a, b)),
            _ => {
                let (a, b) = (self.per_vertex(), other.per_vertex());
                AosVector::Divergent([0, 1, 2, 3].map(|j| f(a[j], b[j])))
            }
        }
    }
}

/// The hoisted form of components `live` of a source that is uniform `n`; `None` if the uniform
/// itself will do.
fn hoisted_operand(n: u8, u: &Use, live: Components) -> Option<Hoisted> {
    let read = source_components(u, live);
    if read.is_power_of_two() {
        let c = read.trailing_zeros() as u8;
        return Some(if u.negate { Hoisted::Negative(n, c) } else { Hoisted::Uniform(n, c) });
    }
    (u.negate || moves(u, live)).then_some(Hoisted::AosVector { n, swizzle: u.swizzle, negate: u.negate })
}

/// Collects the hoisted values that components `live` of an AoS vector need.
pub(crate) fn collect_hoisted(func: &Func, value: Value, live: Components, found: &mut BTreeSet<Hoisted>) {
    if let Some(terms) = matrix_product(func, value, live) {
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
            for (value, live) in [(old, live & !mask.component_bits()), (new, live & mask.component_bits())] {
                if live != 0 {
                    collect_hoisted(func, value, live, found);
                }
            }
        }
        Node::Alu { op, ref src } => {
            for (n, u) in src[..op.sources()].iter().enumerate() {
                let u = operand(op, n, u);
                let read = operand_components(op, n, live);
                match *func.node(u.value) {
                    Node::Uniform(n) => found.extend(hoisted_operand(n, &u, read)),
                    _ => collect_hoisted(func, u.value, source_components(&u, read), found),
                }
            }
        }
        _ => {}
    }
}

/// A source, without its sign if the operation subtracts it.
fn operand(op: VectorOp, n: usize, u: &Use) -> Use {
    Use { negate: u.negate && !op.subtracts(n), ..*u }
}

impl BatchLowering<'_, '_> {
    /// Components `live` of a vector.
    pub(crate) fn aos_vector(&mut self, value: Value, live: Components) -> AosVector {
        if let Some(terms) = matrix_product(self.func, value, live) {
            return self.aos_matrix_product(value, live, &terms);
        }
        match *self.func.node(value) {
            Node::Input(n) => AosVector::Divergent(self.aos_input(n)),
            Node::Uniform(n) => {
                let at = self.layout.c(n, 0);
                AosVector::Uniform(self.b.ins().load(types::F32X4, constant_memory(), self.uniforms, at))
            }
            Node::Const(bits) => AosVector::Uniform(self.clif().vector(types::F32X4, bits)),
            Node::Merge { mask, old, new } => {
                let (kept, taken) = (live & !mask.component_bits(), live & mask.component_bits());
                if kept == 0 || taken == 0 {
                    return self.aos_vector(if kept == 0 { new } else { old }, live);
                }
                let (old, new) = (self.aos_vector(old, kept), self.aos_vector(new, taken));
                self.set_location(value);
                old.zip(new, |old, new| self.clif().blend(mask.component_bits(), old, new))
            }
            Node::Alu { op: VectorOp::Pointwise(op), src } => self.aos_pointwise(value, op, &src, live),
            ref node => unreachable!("{node:?} has no AoS form"),
        }
    }

    /// The sum of the products of columns and factors.
    fn aos_matrix_product(&mut self, value: Value, live: Components, terms: &[(Factor, Column)]) -> AosVector {
        self.set_location(value);
        if let Some(ranges) = &self.plan.ranges {
            let dots = components(live).map(|c| self.func.origin(value, c));
            self.narrowing = dots.fold(Narrowing::default(), |all, (dot, c)| all.or(ranges.narrowing(dot, c)));
        }
        self.folding.broadcasts = !self.plan.is_float24();
        let columns: Vec<clif::Value> =
            terms.iter().map(|(_, column)| self.load_hoisted(Hoisted::Column(*column))).collect();
        let terms: Vec<ColumnProduct> = terms
            .iter()
            .zip(columns)
            .map(|((factor, _), column)| {
                let factor = match *factor {
                    Factor::Input(n, c) => return ColumnProduct::Divergent(n, c, column),
                    Factor::One => return ColumnProduct::Uniform(column),
                    Factor::Uniform(n, c) => self.load_hoisted(Hoisted::Uniform(n, c)),
                    Factor::Const(bits) => self.clif().vector(types::F32X4, [bits; 4]),
                };
                ColumnProduct::Uniform(self.clif().mul(factor, column, XYZW))
            })
            .collect();
        // Vertex by vertex: the products of all four don't fit into registers.
        AosVector::Divergent([0, 1, 2, 3].map(|j| {
            let products = terms.iter().map(|term| match *term {
                ColumnProduct::Uniform(v) => v,
                ColumnProduct::Divergent(n, c, column) => {
                    let x = self.splat_input(n, c, j);
                    self.clif().mul(x, column, XYZW)
                }
            });
            let products: Vec<clif::Value> = products.collect();
            let sum = self.sum(&products);
            if self.plan.is_float24() { self.clif().finished(sum, live) } else { sum }
        }))
    }

    /// Component `c` of input `n` of the group's vertex `j`, in all lanes.
    fn splat_input(&mut self, n: u8, c: u8, j: usize) -> clif::Value {
        if self.plan.is_float24() {
            let row = self.aos_input(n)[j];
            return self.clif().shuffle(row, row, [usize::from(c); 4]);
        }
        let offset = i32::from(n) * VEC4 + 4 * i32::from(c);
        let x = self.b.ins().load(types::F32, inputs(), self.inputs.vertices[j], offset);
        self.b.ins().splat(types::F32X4, x)
    }

    /// Gathers a column from the uniforms.
    pub(crate) fn column(&mut self, column: &Column) -> clif::Value {
        let [x, rest @ ..] = column.map(|MatrixEntry { uniform, component, negate }| {
            let at = self.layout.c(uniform, component);
            let x = self.b.ins().load(types::F32, aligned(), self.uniforms, at);
            if negate { self.b.ins().fneg(x) } else { x }
        });
        let first = self.b.ins().scalar_to_vector(types::F32X4, x);
        (1..).zip(rest).fold(first, |all, (lane, x)| self.b.ins().insertlane(all, x, lane))
    }

    /// Sets the source location to that of the definition of `value`.
    fn set_location(&mut self, value: Value) {
        self.b.set_srcloc(SourceLoc::new(u32::from(self.pcs[value.0 as usize])));
    }

    fn aos_pointwise(&mut self, value: Value, op: PointwiseOp, src: &[Use; 3], live: Components) -> AosVector {
        let vector = VectorOp::from(op);
        let fetched = (0..vector.sources())
            .map(|n| self.aos_source(&operand(vector, n, &src[n]), operand_components(vector, n, live)))
            .collect();
        self.set_location(value);
        self.narrow(value, live);
        let vector = op::pointwise(&mut AosOperands { l: self, op: vector, src, fetched }, op, live);
        let Some(ranges) = &self.plan.ranges else { return vector };
        let [low, high] = ranges.checked(value, live);
        vector.map(|v| {
            self.clif().record(v, low, high);
            self.clif().signed_zero(v)
        })
    }

    /// Components `live` of a source after its swizzle and sign.
    fn aos_source(&mut self, u: &Use, live: Components) -> AosVector {
        if let Node::Uniform(n) = *self.func.node(u.value)
            && let Some(hoisted) = hoisted_operand(n, u, live)
        {
            return AosVector::Uniform(self.load_hoisted(hoisted));
        }
        let v = self.aos_vector(u.value, source_components(u, live));
        let v = if moves(u, live) { v.map(|v| self.swizzled(v, u.swizzle)) } else { v };
        if u.negate { v.map(|v| self.b.ins().fneg(v)) } else { v }
    }

    /// A swizzled vector.
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
    /// The sources as [`operand`] leaves them: those that the operation subtracts are without their
    /// sign.
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
        a.zip(b, |a, b| f(&mut self.l.clif(), a, b))
    }
}
