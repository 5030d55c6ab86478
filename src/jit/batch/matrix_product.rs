//! A vector -> the product of a matrix and a vector that it is: how most shaders make a position.
//!
//! Each lane is a dot product of its own, and all have one factor in common. What the lanes have of their own is uniform, so it can be
//! sorted by the component of the common factor that it is multiplied by: the columns of the matrix. Then the four lanes are made at
//! once, one product for each column, in the order that a single dot product has.
//!
//! It must not know how anything is computed.

use crate::ir::analysis::{Components, components};
use crate::ir::{Func, Node, Use, Value};
use crate::isa::{DotOp, VectorOp};

/// One component of a uniform, perhaps with the other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatrixEntry {
    pub(super) uniform: u8,
    pub(super) component: u8,
    pub(super) negate: bool,
}

/// For each lane an entry; a lane that nobody asked for has another one's.
pub(super) type Column = [MatrixEntry; 4];

/// What a column is multiplied by, in all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    /// Nothing: it is added as it is.
    One,
    /// Component of an input.
    Input(u8, u8),
    /// Component of a uniform.
    Uniform(u8, u8),
    /// This number.
    Const(u32),
}

/// Three or four products whose sum these lanes of a vector are, the first two added, the others added, and both sums.
/// `None` if they are something else, or the same for all vertices.
pub(super) fn matrix_product(func: &Func, value: Value, lanes: Components) -> Option<Vec<(Factor, Column)>> {
    let mut common: Option<(DotOp, Use)> = None;
    let mut rows: [Option<(u8, Use)>; 4] = [None; 4];
    for lane in components(lanes) {
        let (dot, _) = origin(func, value, lane);
        let Node::Alu { op: VectorOp::Dot(op), src: [a, b, _] } = *func.node(dot) else {
            return None;
        };
        let (factor, row) = match (func.node(a.value), func.node(b.value)) {
            (Node::Uniform(_), Node::Uniform(_)) => return None,
            (_, &Node::Uniform(n)) => (a, (n, b)),
            // Of DPH the second is the whole one.
            (&Node::Uniform(n), _) if op != DotOp::Dph => (b, (n, a)),
            _ => return None,
        };
        if *common.get_or_insert((op, factor)) != (op, factor) {
            return None;
        }
        rows[usize::from(lane)] = Some(row);
    }
    let (op, factor) = common?;
    let any = rows.into_iter().flatten().next()?;
    let terms = (0..op.products()).map(|k| {
        let alone = op == DotOp::Dph && k == 3;
        let column = rows.map(|row| {
            let (uniform, u) = row.unwrap_or(any);
            MatrixEntry { uniform, component: u.swizzle.lane(k) as u8, negate: u.negate ^ (factor.negate && !alone) }
        });
        let common = if alone { Factor::One } else { factor_of(func, factor.value, factor.swizzle.lane(k) as u8)? };
        Some((common, column))
    });
    let terms: Vec<(Factor, Column)> = terms.collect::<Option<_>>()?;
    terms.iter().any(|(factor, _)| matches!(factor, Factor::Input(..))).then_some(terms)
}

fn factor_of(func: &Func, value: Value, component: u8) -> Option<Factor> {
    let (value, c) = origin(func, value, component);
    match *func.node(value) {
        Node::Input(n) => Some(Factor::Input(n, c)),
        Node::Uniform(n) => Some(Factor::Uniform(n, c)),
        Node::Const(bits) => Some(Factor::Const(bits[usize::from(c)])),
        _ => None,
    }
}

/// What a component is another name of.
fn origin(func: &Func, mut value: Value, mut component: u8) -> (Value, u8) {
    loop {
        match *func.node(value) {
            Node::Merge { mask, old, new } => value = if mask.has(component.into()) { new } else { old },
            Node::Alu { op: VectorOp::MOV, src: [u, ..] } if !u.negate => {
                (value, component) = (u.value, u.swizzle.lane(component.into()) as u8);
            }
            _ => return (value, component),
        }
    }
}
