//! Outputs that are made [by rows](crate::ir::rows): a register of each vertex as one vector, as memory has it.
//!
//! Invariant: the operations are those of the other forms, lane by lane, so the bits are the same. It must not know which outputs
//! are made so.

use super::super::abi::VEC4;
use super::super::memory::{aligned, constant_memory};
use super::super::shape::Vec4;
use super::{Lower, Splat, WIDTH, inputs};
use crate::ir::facts::{ALL_LANES, Lanes, lanes_read, subtracts, through};
use crate::ir::matrix::{Column, Entry, Factor};
use crate::ir::rows::moves;
use crate::ir::{Func, Node, Use, Value, alu_sources};
use crate::isa::{Opcode, Swizzle};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as clif, InstBuilder, SourceLoc, types};
use std::collections::BTreeSet;

/// A register of each vertex of a group.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// All have the same.
    Same(clif::Value),
    /// Each its own.
    Each([clif::Value; WIDTH]),
}

/// What a column and its factor come to.
enum Term {
    /// The same for all vertices.
    Same(clif::Value),
    /// A column that each vertex multiplies by what it has at this offset.
    Each(i32, clif::Value),
}

impl Row {
    /// Of each vertex.
    pub(super) fn each(self) -> [clif::Value; WIDTH] {
        match self {
            Row::Same(v) => [v; WIDTH],
            Row::Each(all) => all,
        }
    }

    /// Without repetition.
    pub(super) fn distinct(self) -> Vec<clif::Value> {
        match self {
            Row::Same(v) => vec![v],
            Row::Each(all) => all.to_vec(),
        }
    }

    pub(super) fn map(self, mut f: impl FnMut(clif::Value) -> clif::Value) -> Row {
        match self {
            Row::Same(v) => Row::Same(f(v)),
            Row::Each(all) => Row::Each(all.map(f)),
        }
    }

    fn with(self, other: Row, mut f: impl FnMut(clif::Value, clif::Value) -> clif::Value) -> Row {
        match (self, other) {
            (Row::Same(a), Row::Same(b)) => Row::Same(f(a, b)),
            _ => {
                let (a, b) = (self.each(), other.each());
                Row::Each([0, 1, 2, 3].map(|j| f(a[j], b[j])))
            }
        }
    }
}

/// What these lanes of a source that is a uniform are, if not the uniform as it stands.
fn prepared(n: u8, u: &Use, lanes: Lanes) -> Option<Splat> {
    let read = through(u, lanes);
    if read.is_power_of_two() {
        let c = read.trailing_zeros() as u8;
        return Some(if u.negate { Splat::Negative(n, c) } else { Splat::Uniform(n, c) });
    }
    (u.negate || moves(u, lanes)).then_some(Splat::Row { n, swizzle: u.swizzle, negate: u.negate })
}

/// What is prepared for these lanes of an output.
pub(super) fn find_prepared(func: &Func, value: Value, lanes: Lanes, found: &mut BTreeSet<Splat>) {
    if let Some(terms) = func.matrix_product(value, lanes) {
        for (factor, column) in terms {
            found.insert(Splat::Column(column));
            if let Factor::Uniform(n, c) = factor {
                found.insert(Splat::Uniform(n, c));
            }
        }
        return;
    }
    match *func.node(value) {
        Node::Merge { mask, old, new } => {
            for (value, lanes) in [(old, lanes & !mask.lane_bits()), (new, lanes & mask.lane_bits())] {
                if lanes != 0 {
                    find_prepared(func, value, lanes, found);
                }
            }
        }
        Node::Alu { op, ref src } => {
            for (n, u) in src[..alu_sources(op)].iter().enumerate() {
                let u = operand(op, n, u);
                let read = lanes_read(op, n, lanes);
                match *func.node(u.value) {
                    Node::Uniform(n) => found.extend(prepared(n, &u, read)),
                    _ => find_prepared(func, u.value, through(&u, read), found),
                }
            }
        }
        _ => {}
    }
}

/// A source without the sign that the operation itself sees to.
fn operand(op: Opcode, n: usize, u: &Use) -> Use {
    Use { negate: u.negate && !subtracts(op, n), ..*u }
}

impl Lower<'_, '_> {
    /// These lanes of a vector.
    pub(super) fn row(&mut self, value: Value, lanes: Lanes) -> Row {
        if let Some(terms) = self.func.matrix_product(value, lanes) {
            return self.row_matrix(value, &terms);
        }
        match *self.func.node(value) {
            Node::Input(n) => Row::Each(self.rows(n)),
            Node::Uniform(n) => {
                let at = self.layout.c(n, 0);
                Row::Same(self.b.ins().load(types::F32X4, constant_memory(), self.uniforms, at))
            }
            Node::Const(bits) => Row::Same(self.math().vector(types::F32X4, bits)),
            Node::Merge { mask, old, new } => {
                let (kept, taken) = (lanes & !mask.lane_bits(), lanes & mask.lane_bits());
                if kept == 0 || taken == 0 {
                    return self.row(if kept == 0 { new } else { old }, lanes);
                }
                let (old, new) = (self.row(old, kept), self.row(new, taken));
                self.at(value);
                old.with(new, |old, new| self.math().blend(mask.lane_bits(), old, new))
            }
            Node::Alu { op, src } => self.row_alu(value, op, &src, lanes),
            ref node => unreachable!("{node:?} is not made by rows"),
        }
    }

    /// The products of columns, added up.
    fn row_matrix(&mut self, value: Value, terms: &[(Factor, Column)]) -> Row {
        self.at(value);
        self.seams.spread = true;
        let columns: Vec<clif::Value> = terms.iter().map(|(_, column)| self.splat(Splat::Column(*column))).collect();
        let terms: Vec<Term> = terms
            .iter()
            .zip(columns)
            .map(|((factor, _), column)| {
                let same = match *factor {
                    Factor::Input(n, c) => return Term::Each(i32::from(n) * VEC4 + 4 * i32::from(c), column),
                    Factor::One => return Term::Same(column),
                    Factor::Uniform(n, c) => self.splat(Splat::Uniform(n, c)),
                    Factor::Const(bits) => self.math().vector(types::F32X4, [bits; 4]),
                };
                Term::Same(self.math().mul(same, column, ALL_LANES))
            })
            .collect();
        // One vertex after the other: so many products don't fit into registers.
        Row::Each([0, 1, 2, 3].map(|j| {
            let products = terms.iter().map(|term| match *term {
                Term::Same(v) => v,
                Term::Each(offset, column) => {
                    let x = self.b.ins().load(types::F32, inputs(), self.inputs.vertices[j], offset);
                    let x = self.b.ins().splat(types::F32X4, x);
                    self.math().mul(x, column, ALL_LANES)
                }
            });
            let products: Vec<clif::Value> = products.collect();
            self.sum(&products)
        }))
    }

    /// The entries, where the uniforms have them.
    pub(super) fn column(&mut self, column: &Column) -> clif::Value {
        let [x, rest @ ..] = column.map(|Entry { uniform, component, negate }| {
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

    fn row_alu(&mut self, value: Value, op: Opcode, src: &[Use; 3], lanes: Lanes) -> Row {
        let [a, b, c] = [0, 1, 2].map(|n| {
            (n < alu_sources(op)).then(|| self.row_source(&operand(op, n, &src[n]), lanes_read(op, n, lanes)))
        });
        let a = a.expect("there is a source");
        self.at(value);
        match op {
            Opcode::Mov => return a,
            Opcode::Flr => return a.map(|a| self.math().flr(a, lanes)),
            _ => {}
        }
        let b = b.expect("there are two");
        match op {
            Opcode::Add => {
                let [first, second] = [src[0].negate, src[1].negate];
                // One is subtracted from the other; a sum of two that are negative is made of their opposites.
                let (a, b, minus) = if first && !second { (b, a, true) } else { (a, b, second) };
                let a = if first && second { a.map(|a| self.b.ins().fneg(a)) } else { a };
                a.with(b, |a, b| self.math().add(a, b, minus, lanes))
            }
            Opcode::Mul => a.with(b, |a, b| self.math().mul(a, b, lanes)),
            Opcode::Max => a.with(b, |a, b| self.math().max(a, b)),
            Opcode::Min => a.with(b, |a, b| self.math().min(a, b)),
            Opcode::Sge => a.with(b, |a, b| self.math().set(FloatCC::GreaterThanOrEqual, a, b)),
            Opcode::Slt => a.with(b, |a, b| self.math().set(FloatCC::LessThan, a, b)),
            Opcode::Mad => {
                let product = a.with(b, |a, b| self.math().mul(a, b, lanes));
                let c = c.expect("there are three");
                product.with(c, |product, c| self.math().add(product, c, src[2].negate, lanes))
            }
            _ => unreachable!("{op:?} is not made by rows"),
        }
    }

    /// A source, as an operation takes it.
    fn row_source(&mut self, u: &Use, lanes: Lanes) -> Row {
        if let Node::Uniform(n) = *self.func.node(u.value)
            && let Some(splat) = prepared(n, u, lanes)
        {
            return Row::Same(self.splat(splat));
        }
        let v = self.row(u.value, through(u, lanes));
        let v = if moves(u, lanes) { v.map(|v| self.swizzled(v, u.swizzle)) } else { v };
        if u.negate { v.map(|v| self.b.ins().fneg(v)) } else { v }
    }

    /// A vector swizzled.
    pub(super) fn swizzled(&mut self, v: clif::Value, swizzle: Swizzle) -> clif::Value {
        let v = self.math().swizzle(Vec4::Wide(v), swizzle, ALL_LANES);
        self.math().wide(v)
    }
}
