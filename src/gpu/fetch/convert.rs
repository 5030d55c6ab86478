//! Bytes of one attribute of many vertices -> one input register of each.
//!
//! One loop per format and number of components, without branches that depend on either. This file
//! must not know arrays.

use super::Selection;
use crate::state::Vec4;

/// The format of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    S8,
    U8,
    S16,
    F32,
}

/// An attribute in memory: one to four components of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    format: Format,
    components: u8,
}

/// One register of each row.
pub(super) struct Column<'a> {
    pub(super) rows: &'a mut [Vec4],
    /// Registers per row.
    pub(super) stride: usize,
    pub(super) register: usize,
}

impl Element {
    /// From the four bits of an attribute's type.
    pub(super) fn from_register(bits: u8) -> Element {
        let format = [Format::S8, Format::U8, Format::S16, Format::F32][usize::from(bits & 3)];
        Element { format, components: (bits >> 2 & 3) + 1 }
    }

    /// Bytes of a component, which also align the attribute.
    pub(super) fn alignment(self) -> u32 {
        match self.format {
            Format::S8 | Format::U8 => 1,
            Format::S16 => 2,
            Format::F32 => 4,
        }
    }

    pub(super) fn bytes(self) -> u32 {
        self.alignment() * u32::from(self.components)
    }

    /// Converts the attribute of the selected vertices, whose first is at the start of `bytes` and
    /// which are `stride` bytes apart.
    pub(super) fn convert(self, bytes: &[u8], stride: u32, selection: Selection<'_>, to: Column<'_>) {
        macro_rules! components {
            ($format:ty, $size:literal) => {
                match self.components {
                    1 => select::<$format, 1, $size>(bytes, stride, selection, to),
                    2 => select::<$format, 2, { 2 * $size }>(bytes, stride, selection, to),
                    3 => select::<$format, 3, { 3 * $size }>(bytes, stride, selection, to),
                    _ => select::<$format, 4, { 4 * $size }>(bytes, stride, selection, to),
                }
            };
        }
        match self.format {
            Format::S8 => components!(i8, 1),
            Format::U8 => components!(u8, 1),
            Format::S16 => components!(i16, 2),
            Format::F32 => components!(f32, 4),
        }
    }
}

/// A component in memory.
trait Component {
    const BYTES: usize;

    fn read(bytes: &[u8]) -> f32;
}

macro_rules! component {
    ($type:ty, $bytes:literal) => {
        impl Component for $type {
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn read(bytes: &[u8]) -> f32 {
                bytes.first_chunk().map_or(0.0, |&bytes| <$type>::from_le_bytes(bytes).into())
            }
        }
    };
}

component!(i8, 1);
component!(u8, 1);
component!(i16, 2);
component!(f32, 4);

/// The converted components; those that memory does not supply are (0, 0, 0, 1).
#[inline(always)]
fn vector<T: Component, const COMPONENTS: usize>(bytes: &[u8]) -> Vec4 {
    let mut vector = [0.0, 0.0, 0.0, 1.0];
    for (c, component) in vector.iter_mut().enumerate().take(COMPONENTS) {
        *component = T::read(&bytes[c * T::BYTES..]);
    }
    vector
}

fn select<T: Component, const COMPONENTS: usize, const BYTES: usize>(
    bytes: &[u8],
    stride: u32,
    selection: Selection<'_>,
    to: Column<'_>,
) {
    let address = |n: u64| usize::try_from(n * u64::from(stride)).unwrap_or(usize::MAX);
    match selection {
        Selection::From(first) => {
            let positions = (0..).map(|n| address(first + n));
            column::<T, COMPONENTS, BYTES>(bytes, positions, to);
        }
        Selection::Listed(vertices) => {
            let positions = vertices.iter().map(|&n| address(n.into()));
            column::<T, COMPONENTS, BYTES>(bytes, positions, to);
        }
    }
}

#[inline(always)]
fn column<T: Component, const COMPONENTS: usize, const BYTES: usize>(
    bytes: &[u8],
    positions: impl Iterator<Item = usize>,
    Column { rows, stride, register }: Column<'_>,
) {
    for (row, at) in rows.chunks_exact_mut(stride).zip(positions) {
        // Each path stores by itself: a merged value would pass through memory, component by
        // component.
        match bytes.get(at..).and_then(|bytes| bytes.first_chunk::<BYTES>()) {
            Some(element) => row[register] = vector::<T, COMPONENTS>(element),
            None => cut_off::<T, COMPONENTS, BYTES>(bytes, at, &mut row[register]),
        }
    }
}

/// An element that memory lacks wholly or in part. The missing bytes are 0.
#[cold]
#[inline(never)]
fn cut_off<T: Component, const COMPONENTS: usize, const BYTES: usize>(bytes: &[u8], at: usize, to: &mut Vec4) {
    let mut element = [0; BYTES];
    let rest = bytes.get(at..).unwrap_or_default();
    element[..rest.len().min(BYTES)].copy_from_slice(&rest[..rest.len().min(BYTES)]);
    *to = vector::<T, COMPONENTS>(&element);
}
