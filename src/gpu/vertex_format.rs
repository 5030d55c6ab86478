//! The host's layout of a vertex: where in its structure each semantic component is.
//!
//! This file must not know how the components are computed.

use crate::semantics::{SEMANTICS, Semantics};

/// The layout of the vertices that a [`Sink`](super::Sink) receives: for each semantic component
/// its position among the numbers of a vertex. A host that uploads vertices to a graphics API gives
/// the layout of its vertex buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VertexFormat {
    /// [`ABSENT`], or below the stride.
    offsets: [u8; SEMANTICS],
    stride: u8,
}

/// The offset of a component that the format leaves out.
const ABSENT: u8 = u8::MAX;

impl Default for VertexFormat {
    /// [`Semantics`], in order.
    fn default() -> VertexFormat {
        VertexFormat::SEMANTICS
    }
}

impl VertexFormat {
    /// A constant, since a draw compares it.
    const SEMANTICS: VertexFormat = {
        let (mut offsets, mut n) = ([0; SEMANTICS], 0);
        while n < SEMANTICS {
            offsets[n] = n as u8;
            n += 1;
        }
        VertexFormat { offsets, stride: SEMANTICS as u8 }
    };

    /// Whether this is the format of these offsets, 255 for components that it leaves out.
    #[cfg(feature = "capi")]
    pub(crate) fn has_offsets(&self, offsets: &[u8; SEMANTICS], stride: u32) -> bool {
        self.offsets == *offsets && u32::from(self.stride) == stride
    }

    /// `stride` numbers per vertex. Component n of [`Semantics`] is number `offsets[n]`; `None`
    /// leaves it out. Other numbers of a vertex are 0. `None` if the stride is 0, an offset is not
    /// below it, or two components have one offset.
    pub fn new(offsets: [Option<u8>; SEMANTICS], stride: u8) -> Option<VertexFormat> {
        let mut taken = [false; u8::MAX as usize + 1];
        let mut is_free = |offset: u8| !std::mem::replace(&mut taken[usize::from(offset)], true);
        let fits = offsets.iter().flatten().all(|&offset| offset < stride && is_free(offset));
        let offsets = offsets.map(|offset| offset.unwrap_or(ABSENT));
        (stride > 0 && fits).then_some(VertexFormat { offsets, stride })
    }

    /// Numbers per vertex.
    pub fn stride(&self) -> usize {
        self.stride.into()
    }

    /// The position of component `n`.
    pub(super) fn offset(&self, n: usize) -> Option<usize> {
        Some(self.offsets[n]).filter(|&offset| offset != ABSENT).map(usize::from)
    }

    /// Stores a whole vertex, in the first numbers of `to`.
    pub(super) fn store(&self, semantics: &Semantics, to: &mut [f32]) {
        to[..self.stride()].fill(0.0);
        let components = self.offsets.iter().zip(semantics).filter(|(offset, _)| **offset != ABSENT);
        components.for_each(|(offset, x)| to[usize::from(*offset)] = *x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_below_the_stride() {
        let mut offsets = [None; SEMANTICS];
        assert_eq!(VertexFormat::new(offsets, 0), None);
        offsets[3] = Some(4);
        assert_eq!(VertexFormat::new(offsets, 4), None);
        let format = VertexFormat::new(offsets, 5).expect("4 is below 5");
        let mut vertex = [9.0; 6];
        format.store(&std::array::from_fn(|n| n as f32), &mut vertex);
        assert_eq!(vertex, [0.0, 0.0, 0.0, 0.0, 3.0, 9.0]);
    }

    #[test]
    fn no_two_components_have_one_offset() {
        let mut offsets = [None; SEMANTICS];
        (offsets[3], offsets[23]) = (Some(4), Some(4));
        assert_eq!(VertexFormat::new(offsets, 5), None);
        offsets[23] = Some(254);
        assert!(VertexFormat::new(offsets, 255).is_some());
    }
}
