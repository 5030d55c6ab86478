//! Attribute arrays -> streams that a host's GPU fetches vertices from: the arrays as they are where
//! its formats allow, attributes converted by the CPU where not, and a stream of constants.
//!
//! GPUs want attributes aligned to their components, and a vertex no longer than its stride. Arrays
//! of a console need neither.
//!
//! Invariant: vertex n of a stream holds what [`Fetch::rows`] converts for the n-th selected vertex.
//! This file must not know draws.

use super::convert::{Column, ComponentType};
use super::{ARRAYED, Array, ArrayAttribute, Fetch, FetchPlan, Selection};
use crate::isa::REGS;
use crate::state::{Registers, Vec4};
use std::ops::Range;

/// Streams of a draw: one for each array, one of converted attributes, one of constants.
pub const STREAMS: usize = ARRAYED + 2;
/// The stream of attributes that the CPU converts: vectors of f32.
pub(in crate::gpu) const CONVERTED: usize = ARRAYED;
/// The stream whose vertices are all the same: sixteen vectors of f32. Its stride is 0.
pub(in crate::gpu) const CONSTANTS: usize = ARRAYED + 1;

const VECTOR_BYTES: usize = size_of::<Vec4>();

/// Where a host's GPU finds an input register. Components that the attribute lacks are (0, 0, 0, 1),
/// as in Vulkan and OpenGL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamAttribute {
    /// The number of the stream.
    pub stream: u8,
    /// Bytes from the start of a vertex; aligned to a component.
    pub offset: u32,
    /// The type of its components.
    pub component: ComponentType,
    /// The number of its components, 1 to 4.
    pub components: u8,
}

/// Where a host's GPU finds the input registers. It depends on registers of the GPU only, so
/// pipelines are made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamLayout {
    /// By register.
    pub attributes: [StreamAttribute; REGS],
    /// Bytes from a vertex to the next in each stream; 0: all have the same.
    pub strides: [u32; STREAMS],
}

/// The bytes of a stream.
#[derive(Clone, Debug)]
pub(in crate::gpu) enum Source<'a> {
    /// In guest memory.
    Guest(&'a [u8]),
    /// In a buffer.
    Own(Range<usize>),
}

impl ArrayAttribute {
    /// Whether no GPU can fetch the attribute from its array.
    fn is_converted(&self, array: &Array) -> bool {
        !array.stride.is_multiple_of(self.element.alignment()) || array.extent > array.stride
    }
}

impl FetchPlan {
    /// The streams of draws with these arrays.
    pub(in crate::gpu) fn stream_layout(&self) -> StreamLayout {
        let vector = |stream: usize, n: usize| StreamAttribute {
            stream: stream as u8,
            offset: (VECTOR_BYTES * n) as u32,
            component: ComponentType::F32,
            components: 4,
        };
        let mut layout =
            StreamLayout { attributes: std::array::from_fn(|n| vector(CONSTANTS, n)), strides: [0; STREAMS] };
        let mut converted = 0;
        for attribute in &self.attributes {
            let array = &self.arrays[usize::from(attribute.array)];
            layout.attributes[usize::from(attribute.register)] = if attribute.is_converted(array) {
                converted += 1;
                vector(CONVERTED, converted - 1)
            } else {
                layout.strides[usize::from(attribute.array)] = array.stride;
                let (component, components) = (attribute.element.component, attribute.element.components);
                StreamAttribute { stream: attribute.array, offset: attribute.offset, component, components }
            };
        }
        layout.strides[CONVERTED] = (VECTOR_BYTES * converted) as u32;
        layout
    }

    /// The registers of the stream of constants; bit n is `vn`.
    pub(in crate::gpu) fn constant_registers(&self) -> u16 {
        self.attributes.iter().fold(!0, |mask, attribute| mask & !(1 << attribute.register))
    }
}

impl<'p, 'a> Fetch<'p, 'a> {
    /// The streams of the selected vertices, `count` of them. Bytes that are not whole in guest
    /// memory are appended to `own`. `constants` are the registers of that stream; `None`: the
    /// program reads none of them.
    pub(in crate::gpu) fn streams(
        &self,
        selection: Selection<'_>,
        count: usize,
        constants: Option<&Registers>,
        own: &mut Vec<u8>,
    ) -> [Source<'a>; STREAMS] {
        let mut sources = std::array::from_fn(|_| Source::Guest(&[]));
        let Some(last) = count.checked_sub(1) else { return sources };
        let mut converted = 0;
        for attribute in &self.plan.attributes {
            let n = usize::from(attribute.array);
            if attribute.is_converted(&self.plan.arrays[n]) {
                converted += 1;
            } else if matches!(sources[n], Source::Guest([])) {
                sources[n] = self.array(n, selection, last, own);
            }
        }
        if converted != 0 {
            sources[CONVERTED] = self.converted(selection, count, converted, own);
        }
        if let Some(registers) = constants {
            sources[CONSTANTS] = append_vectors(own, registers);
        }
        sources
    }

    /// The vertices of an array, up to number `last`.
    fn array(&self, n: usize, selection: Selection<'_>, last: usize, own: &mut Vec<u8>) -> Source<'a> {
        let (array, slice) = self.array_bytes(n);
        let (stride, extent) = (array.stride as usize, array.extent as usize);
        let bytes = last * stride + extent;
        match selection {
            Selection::From(first) => {
                let from = usize::try_from(first).unwrap_or(usize::MAX).saturating_mul(stride);
                let rest = slice.get(from..).unwrap_or_default();
                match rest.get(..bytes) {
                    Some(all) => Source::Guest(all),
                    None => append(own, rest.iter().copied().chain(std::iter::repeat(0)).take(bytes)),
                }
            }
            Selection::Listed(vertices) => {
                let start = own.len();
                own.resize(start + bytes, 0);
                for (to, &vertex) in own[start..].chunks_mut(stride).zip(vertices) {
                    let from = slice.get((vertex as usize).saturating_mul(stride)..).unwrap_or_default();
                    let whole = to.len().min(from.len());
                    to[..whole].copy_from_slice(&from[..whole]);
                }
                Source::Own(start..own.len())
            }
        }
    }

    /// The attributes that are converted.
    fn converted(&self, selection: Selection<'_>, count: usize, stride: usize, own: &mut Vec<u8>) -> Source<'a> {
        let mut rows = vec![[0.0; 4]; count * stride];
        let converted = self.plan.attributes.iter().filter(|s| s.is_converted(&self.plan.arrays[usize::from(s.array)]));
        for (register, attribute) in converted.enumerate() {
            let (array, slice) = self.array_bytes(attribute.array.into());
            let bytes = slice.get(attribute.offset as usize..).unwrap_or_default();
            let column = Column { rows: &mut rows, stride, register };
            attribute.element.convert(bytes, array.stride, selection, column);
        }
        append_vectors(own, &rows)
    }
}

fn append<'a>(own: &mut Vec<u8>, bytes: impl Iterator<Item = u8>) -> Source<'a> {
    let start = own.len();
    own.extend(bytes);
    Source::Own(start..own.len())
}

fn append_vectors<'a>(own: &mut Vec<u8>, vectors: &[Vec4]) -> Source<'a> {
    let start = own.len();
    own.resize(start + VECTOR_BYTES * vectors.len(), 0);
    let to: &mut [[u8; 4]] = own[start..].as_chunks_mut().0;
    to.iter_mut().zip(vectors.as_flattened()).for_each(|(to, x)| *to = x.to_ne_bytes());
    Source::Own(start..own.len())
}
