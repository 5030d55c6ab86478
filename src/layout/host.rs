//! A host's memory and its [`Layout`] -> a [`Host`], on which shaders run in place.
//!
//! Invariant: both blocks have the layout's size and alignment.

use super::offsets::{Bools, GeometryOffsets, Layout, Offsets, VEC4};
use crate::state::{EmitState, EmittedVertex, NoEmitter, Registers, Uniforms, Unit, Vec4};
use std::cell::Cell;
use std::fmt;

/// Why memory does not fit a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostError {
    /// A block is shorter than in the layout.
    Short {
        /// `unit` or `uniforms`.
        block: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The layout's size in bytes.
        wanted: u32,
    },
    /// A block does not begin at a multiple of 16.
    Misaligned {
        /// `unit` or `uniforms`.
        block: &'static str,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Short { block, bytes, wanted } => {
                write!(f, "the {block} block has {bytes} bytes, not the {wanted} of the layout")
            }
            HostError::Misaligned { block } => write!(f, "the {block} block is not aligned to {VEC4} bytes"),
        }
    }
}

impl std::error::Error for HostError {}

/// Receives the vertices of a geometry program that runs on a host's memory. The host has the
/// vertex slots.
///
/// Vertices arrive in the order of their `EMIT`s, during the run or when it has ended. Until the
/// run returns, the unit's contents are unspecified.
pub trait HostEmitter {
    /// `EMIT`: the outputs of the current bank, all and not compacted, go to slot
    /// [`EmitState::vertex`]. Then, with [`EmitState::primitive`], slots 0-2 form a triangle.
    fn emit(&mut self, outputs: &Registers, how: EmitState);

    /// Several vertices, in order.
    fn emit_all(&mut self, vertices: &[EmittedVertex]) {
        vertices.iter().for_each(|vertex| self.emit(&vertex.outputs, vertex.how()));
    }

    /// The outputs that vertices in [`buffer`](HostEmitter::buffer) receive; bit n is `on`. The
    /// others stay there as they are.
    fn outputs(&self) -> u16 {
        u16::MAX
    }

    /// Free memory of the emitter's own, to which native code stores vertices, or `None`. The
    /// memory may be full now: then [`stored`](HostEmitter::stored) precedes the next request. If
    /// that request brings no memory either, vertices arrive by [`emit_all`](HostEmitter::emit_all).
    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        None
    }

    /// The first `count` vertices of the last [`buffer`](HostEmitter::buffer) now hold what was
    /// emitted, in order. With `full` the run needs more memory, and requests the buffer again.
    fn stored(&mut self, count: usize, full: bool) {
        let _ = (count, full);
    }
}

impl HostEmitter for NoEmitter {
    fn emit(&mut self, _: &Registers, _: EmitState) {}
    fn emit_all(&mut self, _: &[EmittedVertex]) {}
}

/// A unit's registers and the uniforms in a host's memory. The memory is cells because the host has
/// pointers of its own to the same bytes. It must not use them on other threads while a shader
/// runs.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    layout: &'a Layout,
    unit: &'a [Cell<u8>],
    uniforms: &'a [Cell<u8>],
}

impl<'a> Host<'a> {
    /// The blocks of registers and of uniforms, laid out as `layout`. Both may be the same memory.
    #[inline]
    pub fn new(layout: &'a Layout, unit: &'a [Cell<u8>], uniforms: &'a [Cell<u8>]) -> Result<Host<'a>, HostError> {
        let Offsets { unit_bytes, uniforms_bytes, .. } = layout.0;
        for (block, memory, wanted) in [("unit", unit, unit_bytes), ("uniforms", uniforms, uniforms_bytes)] {
            if memory.len() < wanted as usize {
                return Err(HostError::Short { block, bytes: memory.len(), wanted });
            }
            if !memory.as_ptr().addr().is_multiple_of(VEC4 as usize) {
                return Err(HostError::Misaligned { block });
            }
        }
        Ok(Host { layout, unit, uniforms })
    }

    /// The layout.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The block of registers.
    pub fn unit(&self) -> &'a [Cell<u8>] {
        self.unit
    }

    /// The block of uniforms.
    pub fn uniforms(&self) -> &'a [Cell<u8>] {
        self.uniforms
    }

    /// Copies of registers and uniforms. Vertex slots, which a host's memory does not have, are
    /// zero, as is any state without an offset in the layout.
    pub fn load(&self) -> (Unit, Uniforms) {
        let o = &self.layout.0;
        let (mut unit, mut uniforms) = (Unit::new(), Uniforms::new());
        get_vectors(self.unit, o.v, &mut unit.v);
        get_vectors(self.unit, o.r, &mut unit.r);
        get_vectors(self.unit, o.o, &mut unit.o[0]);
        unit.a0 = o.a0.map(|at| i32::from_ne_bytes(get(self.unit, at)));
        unit.al = i32::from_ne_bytes(get(self.unit, o.al));
        unit.cmp = o.cmp.map(|at| get(self.unit, at) != [0]);
        if let Some(g) = &o.geometry {
            get_vectors(self.unit, o.o + g.bank_stride, &mut unit.o[1]);
            [unit.bank] = get(self.unit, g.bank);
            unit.setemit = self.setemit(g);
        }
        get_vectors(self.uniforms, o.c, &mut uniforms.c);
        for (n, i) in uniforms.i.iter_mut().enumerate() {
            *i = get(self.uniforms, o.i + 4 * n as u32);
        }
        uniforms.b = self.bools();
        (unit, uniforms)
    }

    /// Writes a unit's registers to the host's memory.
    pub fn store(&self, unit: &Unit) {
        let o = &self.layout.0;
        put_vectors(self.unit, o.v, &unit.v);
        put_vectors(self.unit, o.r, &unit.r);
        o.a0.iter().zip(unit.a0).for_each(|(&at, a)| put(self.unit, at, a.to_ne_bytes()));
        put(self.unit, o.al, unit.al.to_ne_bytes());
        o.cmp.iter().zip(unit.cmp).for_each(|(&at, flag)| put(self.unit, at, [u8::from(flag)]));
        match &o.geometry {
            None => put_vectors(self.unit, o.o, unit.outputs()),
            Some(g) => {
                put_vectors(self.unit, o.o, &unit.o[0]);
                put_vectors(self.unit, o.o + g.bank_stride, &unit.o[1]);
                put(self.unit, g.bank, [unit.bank]);
                put(self.unit, g.vertex, [unit.setemit.vertex]);
                put(self.unit, g.primitive, [u8::from(unit.setemit.primitive)]);
                put(self.unit, g.winding, [u8::from(unit.setemit.winding)]);
            }
        }
    }

    /// Makes true flags 1, as [`Host::store`] does.
    pub(crate) fn normalise_flags(&self) {
        for flag in self.flag_bytes().into_iter().flatten() {
            if flag.get() > 1 {
                flag.set(1);
            }
        }
    }

    /// The bytes of the flags, to which [`Host::store`] writes 0 or 1.
    pub(crate) fn flag_bytes(&self) -> [Option<&'a Cell<u8>>; 4] {
        self.layout.flags().map(|at| at.map(|at| &self.unit[at as usize]))
    }

    /// Writes uniforms to the memory. Only for [`Image`](super::Image): a host's uniforms are
    /// read-only.
    pub(super) fn store_uniforms(&self, uniforms: &Uniforms) {
        let o = &self.layout.0;
        put_vectors(self.uniforms, o.c, &uniforms.c);
        uniforms.i.iter().enumerate().for_each(|(n, i)| put(self.uniforms, o.i + 4 * n as u32, *i));
        match o.b {
            Bools::Mask(at) => put(self.uniforms, at, uniforms.b.to_ne_bytes()),
            Bools::Bytes(at) => put::<16>(self.uniforms, at, std::array::from_fn(|n| (uniforms.b >> n & 1) as u8)),
        }
    }

    /// Sets the `v` registers of `mask` from `inputs`, as far as `inputs` reaches.
    pub fn take_inputs(&self, mask: u16, inputs: &[Vec4]) {
        let file = file(self.unit, self.layout.0.v);
        for n in bits(mask) {
            if let Some(input) = inputs.get(n) {
                put_vector(&file[n], *input);
            }
        }
    }

    /// Copies the current outputs of `mask` to `outputs`, as far as `outputs` reaches.
    pub fn copy_outputs(&self, mask: u16, outputs: &mut [Vec4]) {
        let file = file(self.unit, self.current_bank());
        for n in bits(mask) {
            if let Some(output) = outputs.get_mut(n) {
                *output = get_vector(&file[n]);
            }
        }
    }

    /// The layout's offsets.
    pub(super) fn offsets(&self) -> &'a Offsets {
        &self.layout.0
    }

    /// Offset of the current output bank.
    pub(super) fn current_bank(&self) -> u32 {
        let o = &self.layout.0;
        match &o.geometry {
            Some(g) if get::<1>(self.unit, g.bank)[0] & 1 != 0 => o.o + g.bank_stride,
            _ => o.o,
        }
    }

    pub(super) fn setemit(&self, g: &GeometryOffsets) -> EmitState {
        let [[vertex], [primitive], [winding]] = [g.vertex, g.primitive, g.winding].map(|at| get(self.unit, at));
        EmitState { vertex, primitive: primitive != 0, winding: winding != 0 }
    }
}

/// The indices of the set bits.
fn bits(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (n < 16).then_some(n)
    })
}

pub(super) fn get<const N: usize>(memory: &[Cell<u8>], at: u32) -> [u8; N] {
    let from = memory[at as usize..].first_chunk::<N>().expect("the layout checked that the field is inside the block");
    from.each_ref().map(Cell::get)
}

pub(super) fn put<const N: usize>(memory: &[Cell<u8>], at: u32, bytes: [u8; N]) {
    let to = memory[at as usize..].first_chunk::<N>().expect("the layout checked that the field is inside the block");
    to.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
}

/// A vector in a host's memory.
type Bytes = [Cell<u8>; VEC4 as usize];

/// A file of sixteen registers. One bounds check covers all of them: a check per register slows
/// batches measurably.
fn file(memory: &[Cell<u8>], at: u32) -> &[Bytes; 16] {
    memory[at as usize..].as_chunks().0.first_chunk().expect("the layout checked that the field is inside the block")
}

/// Word by word: the compiler merges the bytes into one load.
pub(super) fn get_vector(from: &Bytes) -> Vec4 {
    let word = |n: usize| f32::from_ne_bytes([from[n].get(), from[n + 1].get(), from[n + 2].get(), from[n + 3].get()]);
    [word(0), word(4), word(8), word(12)]
}

/// Word by word, as [`get_vector`].
pub(super) fn put_vector(to: &Bytes, v: Vec4) {
    for (n, x) in v.into_iter().enumerate() {
        let [a, b, c, d] = x.to_ne_bytes();
        to[4 * n].set(a);
        to[4 * n + 1].set(b);
        to[4 * n + 2].set(c);
        to[4 * n + 3].set(d);
    }
}

fn get_vectors(memory: &[Cell<u8>], at: u32, to: &mut [Vec4]) {
    let from = memory[at as usize..].as_chunks().0;
    to.iter_mut().zip(from).for_each(|(v, from)| *v = get_vector(from));
}

fn put_vectors(memory: &[Cell<u8>], at: u32, from: &[Vec4]) {
    let to = memory[at as usize..].as_chunks().0;
    from.iter().zip(to).for_each(|(v, to)| put_vector(to, *v));
}
