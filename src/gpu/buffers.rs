//! Buffers that draws from guest memory reuse. They carry no state from draw to draw.

use super::cache::RoundRobin;
use super::fetch::indices::VertexList;
use crate::state::Vec4;

/// Buffers that draws reuse.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) inputs: Vec<Vec4>,
    pub(super) outputs: Vec<Vec4>,
    pub(super) ids: Vec<u32>,
    /// 0, 1, 2, ...
    pub(super) sequence: Vec<u32>,
    pub(super) list: VertexList,
    /// A vertex cache and its size.
    pub(super) cache: Option<(u8, RoundRobin)>,
}
