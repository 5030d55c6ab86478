//! Many vertices in [`GeometryMode::Point`] -> invocations of the geometry unit that run together.
//!
//! Invariant: all state is as after [`Geometry::vertex`] for each vertex. This file must not know how
//! invocations run together.
//!
//! [`GeometryMode::Point`]: super::GeometryMode::Point

use super::geometry::{B15, Geometry, GeometryContext, compact};
use crate::state::{Vec4, Vertices};

/// Vertices whose invocations run together, at most: enough to amortise the call.
const VERTICES: usize = 256;

/// Memory for vertices that run together.
#[derive(Default)]
pub(super) struct Invocations {
    /// Vectors of vertices, in order.
    vectors: Vec<Vec4>,
    /// The same in the registers that they are inputs in.
    inputs: Vec<Vec4>,
}

impl Geometry {
    /// Takes vertices: the registers that `mask` selects. Ends like the draw.
    #[inline(never)]
    pub(super) fn take_together<'v>(
        &self,
        mask: u16,
        mut vertices: impl Iterator<Item = &'v [Vec4]>,
        memory: &mut Invocations,
        context: &mut GeometryContext<'_>,
    ) {
        // The first invocation sets b15, which the others read.
        while context.memory.uniforms.b & B15 == 0 && !context.report.geometry_ended() {
            let Some(vertex) = vertices.next() else { return };
            self.vertex(mask, vertex, context);
        }
        while !context.report.geometry_ended() {
            let Invocations { vectors, .. } = memory;
            let pending = usize::from(context.input.count).min(self.attributes - 1);
            vectors.clear();
            vectors.extend(&context.input.vectors[..pending]);
            for vertex in vertices.by_ref().take(VERTICES) {
                vectors.extend(&compact(mask, vertex)[..self.outputs]);
            }
            if vectors.len() == pending {
                return;
            }
            self.run_together(memory, context);
        }
    }

    /// Runs the invocations of all vectors. The incomplete set remains as input.
    fn run_together(&self, Invocations { vectors, inputs }: &mut Invocations, context: &mut GeometryContext<'_>) {
        let permutation = &self.permutation[..self.attributes];
        let mask = permutation.iter().fold(0, |mask, register| mask | 1 << register);
        let (count, stride) = (vectors.len() / self.attributes, Vertices::stride_for(mask));
        inputs.clear();
        inputs.resize(count * stride, [0.0; 4]);
        for (vectors, inputs) in vectors.chunks_exact(self.attributes).zip(inputs.chunks_exact_mut(stride)) {
            permutation.iter().zip(vectors).for_each(|(&register, vector)| inputs[usize::from(register)] = *vector);
        }
        let inputs = Vertices::packed(inputs, stride, count).expect("a stride of at most 16");
        let mut taken = vectors.len();
        if count > 0 {
            let ran = self.run_with(context, |shader, uniforms, unit, emitter| {
                shader.run_geometry_batch(uniforms, unit, inputs, mask, emitter)
            });
            if context.report.geometry_ended() {
                taken = ran * self.attributes;
            }
        }
        context.input.count = (taken % self.attributes) as u8;
        // Those of the last invocation stay where no further vector has replaced them.
        let last = taken.saturating_sub(self.attributes);
        for (n, vector) in vectors[..taken].iter().enumerate().skip(last) {
            context.input.vectors[n % self.attributes] = *vector;
        }
    }
}
