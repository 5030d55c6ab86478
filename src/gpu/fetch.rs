//! Attribute configuration and guest memory -> input registers of vertices, in groups.
//!
//! [`FetchPlan`] is decoded from registers and holds no address of a draw. [`Fetch`] is one draw's:
//! it asks the [`Memory`] for one slice per array, which covers the lowest vertex to the highest.
//!
//! Invariant: for any registers, vertices and slices, only bytes of the slices are read; bytes that
//! a slice lacks are 0. This file must not know how vertices are chosen, nor how they run.

mod convert;
pub(super) mod indices;
#[cfg(feature = "gpu-code")]
pub(super) mod streams;

use super::Attributes;
use super::registers::*;
use crate::isa::Stage;
use crate::state::{Vec4, Vertices};
pub use convert::ComponentType;
use convert::Element;

/// Guest memory.
///
/// ```
/// use picajit::gpu::Memory;
///
/// /// Main memory of the console from 0x2000_0000 on.
/// struct Fcram(Vec<u8>);
///
/// impl Memory for Fcram {
///     fn bytes(&self, address: u32, length: usize) -> &[u8] {
///         let rest = address.checked_sub(0x2000_0000).and_then(|start| self.0.get(start as usize..));
///         rest.map_or(&[], |rest| &rest[..length.min(rest.len())])
///     }
/// }
/// let memory = Fcram(vec![7; 16]);
/// assert_eq!(memory.bytes(0x2000_000C, 100), [7; 4]);
/// assert!(memory.bytes(0x1800_0000, 1).is_empty());
/// ```
pub trait Memory {
    /// The bytes from physical `address` on: `length` of them, or fewer if memory ends before, or
    /// none. A draw asks once for each array, up to 12 bytes beyond its end, and once for its indices.
    /// Bytes that are missing read as 0 (*unknown on hardware*).
    fn bytes(&self, address: u32, length: usize) -> &[u8];
}

/// Guest memory as regions: each with its physical address. The first that contains an address
/// supplies the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Regions<'a>(pub &'a [(u32, &'a [u8])]);

impl Memory for Regions<'_> {
    fn bytes(&self, address: u32, length: usize) -> &[u8] {
        let mut regions = self.0.iter().filter_map(|&(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(start)?).ok()?;
            bytes.get(offset..).filter(|bytes| !bytes.is_empty())
        });
        let bytes = regions.next().unwrap_or_default();
        &bytes[..length.min(bytes.len())]
    }
}

/// Asks for bytes at an address that may not exist. Never more than `length`.
pub(super) fn read(memory: &dyn Memory, address: u64, length: u64) -> &[u8] {
    match u32::try_from(address) {
        Ok(address) => {
            let length = usize::try_from(length.min((1 << 32) - u64::from(address))).unwrap_or(usize::MAX);
            let bytes = memory.bytes(address, length);
            &bytes[..length.min(bytes.len())]
        }
        Err(_) => &[],
    }
}

/// The address that offsets of arrays and indices count from.
pub(super) fn base(registers: &RegisterFile) -> u64 {
    u64::from((registers.get(ATTRIBBUFFERS_LOC) & 0x1FFF_FFFE) << 3)
}

/// Bytes after an array that a draw asks for too. Conversion reads four components, of which the last
/// attribute may have one; without these bytes the last vertex of most arrays would take a path of its own.
const SPARE: u64 = 12;

/// Attributes that arrays can provide.
const ARRAYED: usize = 12;

/// An array of vertices, with the attributes that are fetched from it.
#[derive(Clone, Copy, Debug)]
struct Array {
    /// Of the twelve in the registers.
    number: u8,
    stride: u32,
    /// Bytes from the start of a vertex to the end of its last attribute.
    extent: u32,
}

/// An attribute that is fetched from an array.
#[derive(Clone, Copy, Debug)]
struct ArrayAttribute {
    /// The input register.
    register: u8,
    /// Position in [`FetchPlan::arrays`].
    array: u8,
    /// From the start of a vertex.
    offset: u32,
    element: Element,
}

/// Where the input registers of a vertex come from.
#[derive(Clone, Debug)]
pub(super) struct FetchPlan {
    arrays: Vec<Array>,
    attributes: Vec<ArrayAttribute>,
    /// Registers that take a default attribute, and which.
    constants: Vec<(u8, u8)>,
    /// The registers that take an attribute; bit n is `vn`.
    pub(super) input_mask: u16,
    /// Registers of a packed vertex.
    pub(super) stride: usize,
    /// Whether an array's stride differs from the end of its components.
    pub(super) has_odd_stride: bool,
}

impl FetchPlan {
    pub(super) fn new(registers: &RegisterFile) -> FetchPlan {
        let formats = u64::from(registers.get(ATTRIBBUFFERS_FORMAT_HIGH)) << 32
            | u64::from(registers.get(ATTRIBBUFFERS_FORMAT_LOW));
        let mut sources: [Option<(usize, u32, Element)>; ARRAYED] = [None; ARRAYED];
        let mut has_odd_stride = false;
        let mut groups: [Array; ARRAYED] = [Array { number: 0, stride: 0, extent: 0 }; ARRAYED];
        for (group, array) in groups.iter_mut().enumerate() {
            let [low, high] = [1, 2].map(|n| registers.get(ATTRIBBUFFER0_OFFSET + 3 * group as u16 + n));
            let components = u64::from(high) << 32 | u64::from(low);
            *array = Array { number: group as u8, stride: high >> 16 & 0xFF, extent: 0 };
            // Components align inside the vertex, wherever the array begins.
            let mut at = 0u32;
            for n in 0..(high >> 28).min(ARRAYED as u32) {
                let component = (components >> (4 * n) & 0xF) as usize;
                let Some(source) = sources.get_mut(component) else {
                    // 12 to 15 are one to four words of padding.
                    at = at.next_multiple_of(4) + 4 * (component - ARRAYED + 1) as u32;
                    continue;
                };
                let element = Element::from_register((formats >> (4 * component) & 0xF) as u8);
                at = at.next_multiple_of(element.alignment());
                *source = Some((group, at, element));
                at += element.bytes();
            }
            has_odd_stride |= at != 0 && at != array.stride;
        }
        let permutation = registers.permutation(Stage::Vertex);
        let attributes = registers.attributes(Stage::Vertex);
        let (arrays, array_attributes, constants) = Default::default();
        let mut plan =
            FetchPlan { arrays, attributes: array_attributes, constants, input_mask: 0, stride: 1, has_odd_stride };
        let mut position = [None; ARRAYED];
        // Of several attributes in one register the last counts.
        for attribute in (0..attributes).rev() {
            let register = permutation[attribute];
            if plan.input_mask >> register & 1 != 0 {
                continue;
            }
            plan.input_mask |= 1 << register;
            // The mask of default attributes, bits 59:48 of the formats, does not count: an array supplies its attributes
            // with their bits set too, and an attribute without array and bit takes its default.
            let Some((group, offset, element)) = sources.get(attribute).copied().flatten() else {
                plan.constants.push((register, attribute as u8));
                continue;
            };
            let array = *position[group].get_or_insert_with(|| {
                plan.arrays.push(groups[group]);
                plan.arrays.len() - 1
            });
            let extent = &mut plan.arrays[array].extent;
            *extent = (*extent).max(offset + element.bytes());
            plan.attributes.push(ArrayAttribute { register, array: array as u8, offset, element });
        }
        plan.stride = Vertices::stride_for(plan.input_mask);
        plan
    }

    /// Loads the plan. See [`prefetch`](super::prefetch).
    #[inline(always)]
    pub(super) fn prefetch(&self) -> u32 {
        let array = self.arrays.first().map_or(0, |array| array.stride);
        let attribute = self.attributes.first().map_or(0, |attribute| attribute.offset);
        array ^ attribute ^ self.constants.len() as u32
    }

    /// The number of arrays that a draw reads.
    #[inline]
    pub(super) fn array_count(&self) -> usize {
        self.arrays.len()
    }

    /// Registers that take a default attribute, and which.
    pub(super) fn default_attributes(&self) -> &[(u8, u8)] {
        &self.constants
    }

    /// Stores the default attributes in `rows`, of `stride` registers each.
    #[inline]
    pub(super) fn constants(&self, defaults: &Attributes, rows: &mut [Vec4], stride: usize) {
        for &(register, attribute) in &self.constants {
            let value = defaults[usize::from(attribute)];
            rows.iter_mut().skip(register.into()).step_by(stride).for_each(|to| *to = value);
        }
    }

    /// [`FetchPlan::constants`] of one vertex.
    #[inline]
    pub(super) fn constants_of_vertex(&self, defaults: &Attributes, to: &mut [Vec4]) {
        for &(register, attribute) in &self.constants {
            to[usize::from(register)] = defaults[usize::from(attribute)];
        }
    }
}

/// The vertices of a group, counted from the draw's lowest.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    /// Consecutive ones.
    From(u64),
    /// Any, in this order.
    Listed(&'a [u32]),
}

/// The arrays of one draw, `N` at most.
pub(super) struct Fetch<'p, 'a, const N: usize = ARRAYED> {
    plan: &'p FetchPlan,
    /// The bytes of each array, from the draw's lowest vertex on.
    slices: [&'a [u8]; N],
    /// Whether memory lacks bytes of an array.
    pub(super) is_short: bool,
}

impl<'p, 'a, const N: usize> Fetch<'p, 'a, N> {
    /// The vertices from `lowest` to `highest`. No bytes of arrays beyond `N`.
    #[inline]
    pub(super) fn new(
        plan: &'p FetchPlan,
        registers: &RegisterFile,
        memory: &'a dyn Memory,
        [lowest, highest]: [u64; 2],
    ) -> Fetch<'p, 'a, N> {
        // Not moved: it is large.
        let mut fetch = Fetch { plan, slices: [&[]; N], is_short: false };
        let base = base(registers);
        for (slice, array) in fetch.slices.iter_mut().zip(&plan.arrays) {
            let stride = u64::from(array.stride);
            // Below 2^42: neither the sum nor the products overflow.
            let offset = registers.get(ATTRIBBUFFER0_OFFSET + 3 * u16::from(array.number)) & 0x0FFF_FFFF;
            let address = base + u64::from(offset) + lowest * stride;
            let length = (highest - lowest) * stride + u64::from(array.extent);
            *slice = read(memory, address, length + SPARE);
            fetch.is_short |= (slice.len() as u64) < length;
        }
        fetch
    }

    /// Array `n` of the plan, and its bytes.
    #[inline(always)]
    fn array_bytes(&self, n: usize) -> (&'p Array, &'a [u8]) {
        (&self.plan.arrays[n], self.slices[n])
    }

    /// Stores the attributes from arrays in `rows`, one for each selected vertex, of `stride`
    /// registers each.
    pub(super) fn rows(&self, selection: Selection<'_>, rows: &mut [Vec4], stride: usize) {
        for &ArrayAttribute { register, array, offset, ref element } in &self.plan.attributes {
            let (array, slice) = self.array_bytes(array.into());
            let bytes = slice.get(offset as usize..).unwrap_or_default();
            let column = convert::Column { rows: &mut *rows, stride, register: register.into() };
            element.convert(bytes, array.stride, selection, column);
        }
    }

    /// Stores the attributes of one vertex from arrays, by one loop for all formats: a draw of a few
    /// vertices touches less code than with [`Fetch::rows`].
    #[inline]
    pub(super) fn vertex(&self, n: u64, to: &mut [Vec4]) {
        for &ArrayAttribute { register, array, offset, ref element } in &self.plan.attributes {
            let (array, slice) = self.array_bytes(array.into());
            let at = usize::try_from(n * u64::from(array.stride) + u64::from(offset)).unwrap_or(usize::MAX);
            element.convert_one(slice.get(at..).unwrap_or_default(), &mut to[usize::from(register)]);
        }
    }
}

#[cfg(test)]
mod tests;
