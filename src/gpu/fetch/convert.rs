//! Bytes of one attribute of many vertices -> one input register of each.
//!
//! One loop per format, without branches. It takes four components; a mask sets those that the
//! attribute lacks. This file must not know arrays.

use super::Selection;
use crate::gpu::lanes::Lanes;
use crate::state::Vec4;

/// The type of an attribute's components in memory, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentType {
    /// A signed byte.
    S8,
    /// A byte.
    U8,
    /// Two bytes, signed.
    S16,
    /// Single precision.
    F32,
}

/// An attribute in memory: one to four components of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) component: ComponentType,
    /// Of four consecutive components in memory, those that the attribute has stay, and the others become
    /// (0, 0, 0, 1).
    pub(super) components: u8,
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
        let component =
            [ComponentType::S8, ComponentType::U8, ComponentType::S16, ComponentType::F32][usize::from(bits & 3)];
        let components = (bits >> 2 & 3) + 1;
        Element { component, components }
    }

    /// Bytes of a component, which also align the attribute.
    pub(super) fn alignment(self) -> u32 {
        match self.component {
            ComponentType::S8 | ComponentType::U8 => 1,
            ComponentType::S16 => 2,
            ComponentType::F32 => 4,
        }
    }

    #[inline(always)]
    fn lanes(self) -> &'static Lanes {
        Lanes::first(self.components)
    }

    pub(super) fn bytes(self) -> u32 {
        self.alignment() * u32::from(self.components)
    }

    /// Converts the attribute at the start of `bytes`.
    #[inline(always)]
    pub(super) fn convert_one(&self, bytes: &[u8], to: &mut Vec4) {
        match self.component {
            ComponentType::S8 => convert::<i8, 4>(self.lanes(), bytes, to),
            ComponentType::U8 => convert::<u8, 4>(self.lanes(), bytes, to),
            ComponentType::S16 => convert::<i16, 8>(self.lanes(), bytes, to),
            ComponentType::F32 => convert::<f32, 16>(self.lanes(), bytes, to),
        }
    }

    /// Converts the attribute of the selected vertices, whose first is at the start of `bytes` and
    /// which are `stride` bytes apart.
    pub(super) fn convert(&self, bytes: &[u8], stride: u32, selection: Selection<'_>, to: Column<'_>) {
        match self.component {
            ComponentType::S8 => select::<i8, 4>(self, bytes, stride, selection, to),
            ComponentType::U8 => select::<u8, 4>(self, bytes, stride, selection, to),
            ComponentType::S16 => select::<i16, 8>(self, bytes, stride, selection, to),
            ComponentType::F32 => select::<f32, 16>(self, bytes, stride, selection, to),
        }
    }
}

/// A component in memory, of which four have this many bytes.
trait Component<const BYTES: usize> {
    fn read(bytes: &[u8; BYTES]) -> Vec4;

    /// As [`Component::read`] of these bytes and zeros.
    fn read_cut_off(bytes: &[u8]) -> Vec4;
}

macro_rules! component {
    ($type:ty, $bytes:literal) => {
        impl Component<{ 4 * $bytes }> for $type {
            #[inline(always)]
            fn read(bytes: &[u8; 4 * $bytes]) -> Vec4 {
                let components: &[[u8; $bytes]] = bytes.as_chunks().0;
                let component = |n: usize| <$type>::from_le_bytes(components[n]).into();
                [component(0), component(1), component(2), component(3)]
            }

            fn read_cut_off(bytes: &[u8]) -> Vec4 {
                let component = |n: usize| {
                    let bytes = bytes.get($bytes * n..).unwrap_or_default();
                    let whole = bytes.first_chunk().copied().unwrap_or_else(|| {
                        let mut whole = [0; $bytes];
                        whole.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                        whole
                    });
                    <$type>::from_le_bytes(whole).into()
                };
                [component(0), component(1), component(2), component(3)]
            }
        }
    };
}

component!(i8, 1);
component!(u8, 1);
component!(i16, 2);
component!(f32, 4);

#[inline(always)]
fn vector<T: Component<BYTES>, const BYTES: usize>(bytes: &[u8; BYTES], lanes: &Lanes) -> Vec4 {
    filled(T::read(bytes), lanes)
}

#[inline(always)]
fn filled([x, y, z, w]: Vec4, lanes: &Lanes) -> Vec4 {
    let [x, y, z, w] = lanes.fill([x.to_bits(), y.to_bits(), z.to_bits(), w.to_bits()]);
    [f32::from_bits(x), f32::from_bits(y), f32::from_bits(z), f32::from_bits(w)]
}

/// Rows from which a loop without checks pays. The fewer of a small batch take the shorter loop, which touches half as
/// much code.
const MANY: usize = 65;

fn select<T: Component<BYTES>, const BYTES: usize>(
    element: &Element,
    bytes: &[u8],
    stride: u32,
    selection: Selection<'_>,
    Column { rows, stride: row_stride, register }: Column<'_>,
) {
    // A copy, which stays in registers.
    let lanes = *element.lanes();
    let address = |n: u64| usize::try_from(n * u64::from(stride)).unwrap_or(usize::MAX);
    match selection {
        Selection::From(first) => {
            let stride = stride as usize;
            let (mut to, mut rest) = (register, bytes.get(address(first)..).unwrap_or_default());
            if rows.len() >= MANY * row_stride && stride >= BYTES && register < row_stride {
                // The strides are the lengths of chunks, so that the loop has no checks.
                let mut count = 0;
                for (chunk, row) in rest.chunks_exact(stride).zip(rows.chunks_exact_mut(row_stride)) {
                    row[register] = vector::<T, BYTES>(chunk.first_chunk().expect("no shorter"), &lanes);
                    count += 1;
                }
                rest = &rest[count * stride..];
                to += count * row_stride;
            }
            while let Some(row) = rows.get_mut(to) {
                convert::<T, BYTES>(&lanes, rest, row);
                rest = rest.get(stride..).unwrap_or_default();
                to += row_stride;
            }
        }
        Selection::Listed(vertices) => {
            for (row, &n) in rows.chunks_exact_mut(row_stride).zip(vertices) {
                let bytes = bytes.get(address(n.into())..).unwrap_or_default();
                convert::<T, BYTES>(&lanes, bytes, &mut row[register]);
            }
        }
    }
}

/// Converts the attribute at the start of `bytes`.
#[inline(always)]
fn convert<T: Component<BYTES>, const BYTES: usize>(lanes: &Lanes, bytes: &[u8], to: &mut Vec4) {
    // Each path stores by itself: a merged value would pass through memory, component by component.
    match bytes.first_chunk() {
        Some(bytes) => *to = vector::<T, BYTES>(bytes, lanes),
        None => cut_off::<T, BYTES>(lanes, bytes, to),
    }
}

/// [`convert`] where fewer than four components follow, as at the end of an array. Bytes that memory
/// lacks are 0.
#[inline(never)]
fn cut_off<T: Component<BYTES>, const BYTES: usize>(lanes: &Lanes, bytes: &[u8], to: &mut Vec4) {
    *to = filled(T::read_cut_off(bytes), lanes);
}
