//! The memory that all engines share: a unit's registers, the uniforms, a batch of vertices, and
//! the emitter of triangles.
//!
//! Plain data with a fixed layout (`#[repr(C)]`). The interpreter reads the fields. Compiled code
//! contains their offsets, or those of a host's own structures ([`layout`](crate::layout)). Nothing
//! here is reset between runs: as on hardware, registers carry over from vertex to vertex, and the
//! host decides when to clear them.

mod batch;
mod emitted;
mod uniforms;
mod unit;

pub use crate::isa::flow::Exit;
pub use batch::{Batch, BatchExit, Strided, Vertices, VerticesMut, copy_registers};
pub use emitted::EmittedVertex;
pub use uniforms::Uniforms;
pub use unit::{EmitState, Emitter, NoEmitter, Registers, Unit, Vec4};
