//! The memory of a run: a layout of registers and uniforms, the memory itself, and the receiver of
//! emitted vertices.

mod emitter;
mod image;
mod memory;
mod offsets;

pub use emitter::HostEmitter;
#[doc(hidden)]
pub use image::Image;
pub(crate) use memory::{File, SetFlags};
pub use memory::{HostError, HostMemory};
pub use offsets::{Bools, GeometryOffsets, Layout, LayoutError, Offsets};

#[cfg(test)]
mod tests;
