//! Slices of triangles -> the host: at once, or one triangle at a time.

use super::VertexFormat;
use crate::semantics::Semantics;

/// Receives triangles, many at a time.
///
/// ```
/// use picajit::gpu::{Attributes, Gpu, Sink};
///
/// #[derive(Default)]
/// struct Buffers {
///     vertices: Vec<f32>,
///     indices: Vec<u32>,
/// }
///
/// impl Sink for Buffers {
///     fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
///         let first = (self.vertices.len() / self.format().stride()) as u32;
///         self.vertices.extend(vertices);
///         self.indices.extend(triangles.as_flattened().iter().map(|n| first + n));
///     }
/// }
///
/// let mut buffers = Buffers::default();
/// Gpu::default().draw_arrays([Attributes::default(); 6], &mut buffers);
/// assert_eq!(buffers.indices, [0, 1, 2, 3, 4, 5]);
/// ```
pub trait Sink {
    /// The layout of the vertices that [`Sink::triangles`] receives; the same during a draw.
    fn format(&self) -> VertexFormat {
        VertexFormat::default()
    }

    /// Triangles as numbers of `vertices`, each below their count. A vertex is
    /// [`VertexFormat::stride`] numbers of the format. Some vertices may be in no triangle.
    ///
    /// The order of a triangle's vertices determines the front face. Triangles are neither clipped
    /// nor culled, and vertices not divided by w.
    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]);
}

/// Receives triangles one at a time: a [`Sink`] for hosts that rasterise each at once.
pub trait TriangleSink {
    /// One triangle; see [`Sink::triangles`].
    fn triangle(&mut self, vertices: [&Semantics; 3]);
}

impl<T: TriangleSink> Sink for T {
    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let vertices: &[Semantics] = vertices.as_chunks().0;
        triangles.iter().for_each(|numbers| self.triangle(numbers.map(|n| &vertices[n as usize])));
    }
}

impl Sink for Vec<[Semantics; 3]> {
    fn triangles(&mut self, vertices: &[f32], triangles: &[[u32; 3]]) {
        let vertices: &[Semantics] = vertices.as_chunks().0;
        let vertex = |n: u32| vertices[n as usize];
        self.extend(triangles.iter().map(|&[a, b, c]| [vertex(a), vertex(b), vertex(c)]));
    }
}
