//! Buffers that draws reuse. They carry no state from draw to draw.

use super::fetch::indices::VertexList;
use super::invocations::Invocations;
use super::rows::VertexRows;
use super::vertex_cache::VertexCache;
use crate::state::Vec4;

/// Buffers that draws reuse.
#[derive(Default)]
#[repr(C)] // what most draws use comes first
pub(super) struct Buffers {
    /// Outputs in the sink's format.
    pub(super) rows: VertexRows,
    /// Packed inputs of the vertices that run together.
    pub(super) inputs: Vec<Vec4>,
    /// Packed outputs.
    pub(super) outputs: Vec<Vec4>,
    /// The stream that leaves the vertex units: numbers of vertices.
    pub(super) ids: Vec<u32>,
    /// 0, 1, 2, ...
    pub(super) sequence: Vec<u32>,
    pub(super) cache: VertexCache,
    pub(super) list: VertexList,
    /// Bytes of streams that are not whole in guest memory.
    #[cfg(feature = "gpu-code")]
    pub(super) streams: Vec<u8>,
    /// The triangles of a draw that is handed over.
    #[cfg(feature = "gpu-code")]
    pub(super) triangles: Vec<[u32; 3]>,
    pub(super) invocations: Invocations,
}

/// Makes a buffer at least this long.
#[inline]
pub(super) fn resize(buffer: &mut Vec<Vec4>, len: usize) {
    if buffer.len() < len {
        grow(buffer, len);
    }
}

#[cold]
#[inline(never)]
fn grow(buffer: &mut Vec<Vec4>, len: usize) {
    buffer.resize(len, [0.0; 4]);
}
