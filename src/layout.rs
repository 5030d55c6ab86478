//! A host's own memory as a unit and its uniforms: offsets, the memory itself, and copies of it.

mod host;
mod image;
mod offsets;
mod registers;

pub use host::{Host, HostEmitter, HostError};
pub use image::Image;
pub use offsets::{Bools, GeometryOffsets, Layout, LayoutError, Offsets};
pub(crate) use registers::File;

#[cfg(test)]
mod tests;
