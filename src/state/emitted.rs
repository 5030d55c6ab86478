//! The record of an emitted vertex, which native code writes to an emit buffer.

use super::{EmitState, Registers};

/// A vertex that `EMIT` sent: all outputs of its bank, and the parameters of the last `SETEMIT`.
///
/// A record begins with a cache line, which holds its parameters and its first three outputs. Few
/// programs write more, and groups that emit wait for their stores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct EmittedVertex {
    /// [`EmitState::vertex`], 0-3.
    pub vertex: u32,
    /// [`EmitState::primitive`], 0 or 1.
    pub primitive: u32,
    /// [`EmitState::winding`], 0 or 1.
    pub winding: u32,
    /// 0.
    pub reserved: u32,
    /// The output registers, all and not compacted.
    pub outputs: Registers,
}

impl EmittedVertex {
    /// The record of one `EMIT`.
    pub fn new(outputs: &Registers, how: EmitState) -> EmittedVertex {
        EmittedVertex {
            vertex: u32::from(how.vertex & 3),
            primitive: how.primitive.into(),
            winding: how.winding.into(),
            reserved: 0,
            outputs: *outputs,
        }
    }

    /// The parameters of its `EMIT`.
    pub fn how(&self) -> EmitState {
        EmitState { vertex: (self.vertex & 3) as u8, primitive: self.primitive != 0, winding: self.winding != 0 }
    }
}
