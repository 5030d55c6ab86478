//! The memory that both engines see: a unit's registers, the uniforms, a batch of vertices, and who receives triangles.
//!
//! Plain data with a fixed layout (`#[repr(C)]`): the interpreter reads the fields, compiled code has their offsets in
//! it, or those of a host's own structures ([`layout`](crate::layout)). Nothing here is reset between runs; registers
//! carry over from vertex to vertex as on hardware, and clearing them is the host's decision.

mod batch;
mod uniforms;
mod unit;

pub use crate::isa::flow::Exit;
pub use batch::{Batch, Strided, VertexLayout, Vertices, VerticesMut, copy_registers};
pub use uniforms::Uniforms;
pub use unit::{EmitState, Emitter, NoEmitter, Registers, Unit, Vec4};
