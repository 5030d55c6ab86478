//! A vector -> the matrix-vector product that it is, by columns. Most shaders compute positions so.
//!
//! Each component is a dot product of a uniform row and one vector that all rows share. Regrouped
//! by the components of the shared vector, the rows become columns: the result is a sum of columns
//! times components, in the order in which a dot product sums.
//!
//! It must not know how anything is computed.

use crate::ir::analysis::{Components, components};
use crate::ir::{Func, Node, Use, Value};
use crate::isa::{DotOp, VectorOp};

/// A component of a uniform, perhaps negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatrixEntry {
    pub(super) uniform: u8,
    pub(super) component: u8,
    pub(super) negate: bool,
}

/// One entry per component of the result; those that are not live repeat another one's.
pub(super) type Column = [MatrixEntry; 4];

/// The factor of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// 1: the column is a term of the sum.
    One,
    /// Component of an input.
    Input(u8, u8),
    /// Component of a uniform.
    Uniform(u8, u8),
    /// A constant, as bits.
    Const(u32),
}

/// The three or four products whose sum components `live` of a vector are: `(a + b) + (c + d)` or
/// `(a + b) + c`. `None` if the vector is no matrix-vector product, or the shared vector is
/// uniform.
pub(super) fn matrix_product(func: &Func, value: Value, live: Components) -> Option<Vec<(Factor, Column)>> {
    let mut common: Option<(DotOp, Use)> = None;
    let mut rows: [Option<(u8, Use)>; 4] = [None; 4];
    for c in components(live) {
        let (dot, _) = func.origin(value, c);
        let Node::Alu { op: VectorOp::Dot(op), src: [a, b, _] } = *func.node(dot) else {
            return None;
        };
        let (factor, row) = match (func.node(a.value), func.node(b.value)) {
            (Node::Uniform(_), Node::Uniform(_)) => return None,
            (_, &Node::Uniform(n)) => (a, (n, b)),
            // DPH reads all components of its second source only.
            (&Node::Uniform(n), _) if op != DotOp::Dph => (b, (n, a)),
            _ => return None,
        };
        if *common.get_or_insert((op, factor)) != (op, factor) {
            return None;
        }
        rows[usize::from(c)] = Some(row);
    }
    let (op, factor) = common?;
    let any = rows.into_iter().flatten().next()?;
    let terms = (0..op.products()).map(|k| {
        let alone = op == DotOp::Dph && k == 3;
        let column = rows.map(|row| {
            let (uniform, u) = row.unwrap_or(any);
            MatrixEntry {
                uniform,
                component: u.swizzle.component(k) as u8,
                negate: u.negate ^ (factor.negate && !alone),
            }
        });
        let common =
            if alone { Factor::One } else { factor_of(func, factor.value, factor.swizzle.component(k) as u8)? };
        Some((common, column))
    });
    let terms: Vec<(Factor, Column)> = terms.collect::<Option<_>>()?;
    terms.iter().any(|(factor, _)| matches!(factor, Factor::Input(..))).then_some(terms)
}

fn factor_of(func: &Func, value: Value, component: u8) -> Option<Factor> {
    let (value, c) = func.origin(value, component);
    match *func.node(value) {
        Node::Input(n) => Some(Factor::Input(n, c)),
        Node::Uniform(n) => Some(Factor::Uniform(n, c)),
        Node::Const(bits) => Some(Factor::Const(bits[usize::from(c)])),
        _ => None,
    }
}
