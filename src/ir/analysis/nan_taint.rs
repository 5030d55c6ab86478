//! NaN taint: values that may be NaN because speculative code computes IEEE products, where the
//! hardware's 0 * infinity is 0.

use crate::ir::{Func, Node};

/// Whether a node multiplies: an IEEE product may be NaN (0 * infinity) where the hardware gives a
/// number.
pub fn multiplies(node: &Node) -> bool {
    matches!(node, Node::Alu { op, .. } if op.multiplies())
}

/// Whether the result of a node may be a number although a source is NaN.
pub fn swallows_nan(node: &Node) -> bool {
    match node {
        Node::Alu { op, .. } => op.swallows_nan(),
        node => matches!(node, Node::Compare { .. } | Node::ToAddress(_)),
    }
}

impl Func {
    /// For each vector whether it may be NaN only because products were computed with 0 * infinity
    /// = NaN. A guard precedes each node that swallows NaN, so the node's result is not tainted.
    pub fn nan_tainted(&self) -> Vec<bool> {
        self.closure(|v| multiplies(self.node(v)), swallows_nan)
    }
}
