//! The sources of a pointwise operation in the vec4 shape.

use super::VertexLowering;
use crate::ir::Use;
use crate::ir::analysis::Components;
use crate::jit::emit::ClifBuilder;
use crate::jit::emit::op::Shape;
use cranelift_codegen::ir as clif;

/// The vec4 shape: operands are whole registers, of which some components are live.
pub(super) struct Operands<'l, 'a, 'f> {
    pub(super) l: &'l mut VertexLowering<'a, 'f>,
    pub(super) src: &'l [Use; 3],
    pub(super) live: Components,
}

impl<'f> Shape<'f> for Operands<'_, '_, 'f> {
    type Value = clif::Value;

    fn source(&mut self, n: usize) -> clif::Value {
        let v = self.l.source(&self.src[n], self.live);
        self.l.clif().wide(v)
    }

    fn unsigned(&mut self, n: usize) -> clif::Value {
        let v = self.l.unsigned(&self.src[n], self.live);
        self.l.clif().wide(v)
    }

    fn is_negated(&self, n: usize) -> bool {
        self.src[n].negate
    }

    fn map(
        &mut self,
        a: clif::Value,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value) -> clif::Value,
    ) -> clif::Value {
        f(&mut self.l.clif(), a)
    }

    fn zip(
        &mut self,
        a: clif::Value,
        b: clif::Value,
        mut f: impl FnMut(&mut ClifBuilder<'_, 'f>, clif::Value, clif::Value) -> clif::Value,
    ) -> clif::Value {
        f(&mut self.l.clif(), a, b)
    }
}
