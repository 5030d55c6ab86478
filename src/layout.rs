//! Where a host keeps its registers and uniforms: byte offsets that it names -> a checked [`Layout`], and memory that is laid out
//! so -> a [`Host`] that shaders run on, in place.
//!
//! Invariant of a [`Layout`]: every field lies inside its block, is aligned as its type asks, and shares no byte with another.
//! Of a [`Host`]: both blocks are as long and as aligned as its layout says. It must not know who runs, nor how.

use crate::state::{EmitState, NoEmitter, Registers, Uniforms, Unit, Vec4};
use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;

/// No block is longer. Displacements in machine code have 32 bits.
const LONGEST: u32 = 16 << 20;
/// Bytes of a vector, and what it is aligned to.
const VEC4: u32 = size_of::<Vec4>() as u32;
const REGISTERS: u32 = size_of::<Registers>() as u32;

/// Byte offsets in a host's memory: of registers in the block that a unit is, of uniforms in a block that is only read. Both may
/// be one structure; that the fields of one don't meet those of the other is then not checked.
///
/// Vectors are four `float`, x first, aligned to 16 bytes; register n follows register n-1 at once. The numbers of
/// [`Layout::OWN`] are those of [`Unit`] and [`Uniforms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offsets {
    /// Bytes of the block of registers: where it begins, it is aligned to 16.
    pub unit_bytes: u32,
    /// Of `v0`.
    pub v: u32,
    /// Of `r0`.
    pub r: u32,
    /// Of `o0`, in the first bank.
    pub o: u32,
    /// What a geometry program needs besides. A host without it runs such programs all the same, on the interpreter, and each
    /// run then begins with bank 0 and with `SETEMIT` forgotten.
    pub geometry: Option<GeometryOffsets>,
    /// Of `a0.x` and `a0.y`: `int32_t`.
    pub a0: [u32; 2],
    /// Of `aL`: `int32_t`.
    pub al: u32,
    /// Of the flags `cmp.x` and `cmp.y`: a byte, set if it is not 0; 0 or 1 is written.
    pub cmp: [u32; 2],
    /// Bytes of the block of uniforms: where it begins, it is aligned to 16.
    pub uniforms_bytes: u32,
    /// Of `c0`.
    pub c: u32,
    /// Of `i0.x`: four bytes for each of four registers.
    pub i: u32,
    /// The booleans.
    pub b: Bools,
}

/// What only geometry programs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GeometryOffsets {
    /// From a register of the first output bank to that of the second.
    pub bank_stride: u32,
    /// Of the byte whose bit 0 says which bank is written.
    pub bank: u32,
    /// Of the byte whose bits 0-1 are the vertex slot, as the last `SETEMIT` said.
    pub vertex: u32,
    /// Of the byte that is not 0 if `EMIT` completes a triangle.
    pub primitive: u32,
    /// Of the byte that is not 0 if the triangle's first two vertices are to be exchanged.
    pub winding: u32,
}

/// How booleans are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bools {
    /// At this offset a `uint16_t` of which bit n is `bn`.
    Mask(u32),
    /// From this offset on 16 bytes; byte n is not 0 if `bn` is set.
    Bytes(u32),
}

/// What is wrong with [`Offsets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayoutError {
    /// A block is longer than this.
    TooLong {
        /// `unit` or `uniforms`.
        block: &'static str,
        /// The limit in bytes.
        limit: u32,
    },
    /// A field ends behind its block.
    Outside {
        /// The field's name, as in [`Offsets`].
        field: &'static str,
        /// Where it would end.
        end: u64,
        /// Where its block does.
        bytes: u32,
    },
    /// A field is not aligned as its type asks.
    Misaligned {
        /// The field's name.
        field: &'static str,
        /// Its offset, or the stride if it is the second bank.
        offset: u32,
        /// What would divide it.
        align: u32,
    },
    /// Two fields share bytes.
    Overlap {
        /// One field's name.
        field: &'static str,
        /// The other's.
        with: &'static str,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::TooLong { block, limit } => write!(f, "the {block} block has more than {limit} bytes"),
            LayoutError::Outside { field, end, bytes } => {
                write!(f, "{field} ends at byte {end}, its block at byte {bytes}")
            }
            LayoutError::Misaligned { field, offset, align } => {
                write!(f, "{field} is at {offset}, which is no multiple of {align}")
            }
            LayoutError::Overlap { field, with } => write!(f, "{field} and {with} share bytes"),
        }
    }
}

impl std::error::Error for LayoutError {}

/// Offsets that have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout(Offsets);

/// A field on the way through the checks.
struct Field {
    name: &'static str,
    offset: u32,
    bytes: u32,
    align: u32,
}

impl Layout {
    /// That of [`Unit`] and [`Uniforms`].
    pub const OWN: Layout = {
        const SETEMIT: usize = offset_of!(Unit, setemit);
        Layout(Offsets {
            unit_bytes: size_of::<Unit>() as u32,
            v: offset_of!(Unit, v) as u32,
            r: offset_of!(Unit, r) as u32,
            o: offset_of!(Unit, o) as u32,
            geometry: Some(GeometryOffsets {
                bank_stride: REGISTERS,
                bank: offset_of!(Unit, bank) as u32,
                vertex: (SETEMIT + offset_of!(EmitState, vertex)) as u32,
                primitive: (SETEMIT + offset_of!(EmitState, primitive)) as u32,
                winding: (SETEMIT + offset_of!(EmitState, winding)) as u32,
            }),
            a0: [offset_of!(Unit, a0) as u32, offset_of!(Unit, a0) as u32 + 4],
            al: offset_of!(Unit, al) as u32,
            cmp: [offset_of!(Unit, cmp) as u32, offset_of!(Unit, cmp) as u32 + 1],
            uniforms_bytes: size_of::<Uniforms>() as u32,
            c: offset_of!(Uniforms, c) as u32,
            i: offset_of!(Uniforms, i) as u32,
            b: Bools::Mask(offset_of!(Uniforms, b) as u32),
        })
    };

    /// Checks that every field lies inside its block, is aligned and is alone.
    pub fn new(offsets: Offsets) -> Result<Layout, LayoutError> {
        let vectors = |name, offset, bytes| Field { name, offset, bytes, align: VEC4 };
        let int = |name, offset| Field { name, offset, bytes: 4, align: 4 };
        let byte = |name, offset| Field { name, offset, bytes: 1, align: 1 };
        let Offsets { a0, cmp, .. } = offsets;
        let mut unit = vec![
            vectors("v", offsets.v, REGISTERS),
            vectors("r", offsets.r, REGISTERS),
            vectors("o", offsets.o, REGISTERS),
            int("a0.x", a0[0]),
            int("a0.y", a0[1]),
            int("aL", offsets.al),
            byte("cmp.x", cmp[0]),
            byte("cmp.y", cmp[1]),
        ];
        if let Some(g) = offsets.geometry {
            if g.bank_stride % VEC4 != 0 {
                return Err(LayoutError::Misaligned { field: "bank_stride", offset: g.bank_stride, align: VEC4 });
            }
            let bank = u64::from(offsets.o) + u64::from(g.bank_stride);
            let offset = u32::try_from(bank).map_err(|_| LayoutError::Outside {
                field: "the second bank",
                end: bank + u64::from(REGISTERS),
                bytes: offsets.unit_bytes,
            })?;
            unit.push(vectors("the second bank", offset, REGISTERS));
            unit.push(byte("bank", g.bank));
            unit.push(byte("vertex", g.vertex));
            unit.push(byte("primitive", g.primitive));
            unit.push(byte("winding", g.winding));
        }
        let uniforms = vec![
            vectors("c", offsets.c, size_of_val(&Uniforms::new().c) as u32),
            Field { name: "i", offset: offsets.i, bytes: 16, align: 1 },
            match offsets.b {
                Bools::Mask(offset) => Field { name: "b", offset, bytes: 2, align: 2 },
                Bools::Bytes(offset) => Field { name: "b", offset, bytes: 16, align: 1 },
            },
        ];
        check("unit", offsets.unit_bytes, unit)?;
        check("uniforms", offsets.uniforms_bytes, uniforms)?;
        Ok(Layout(offsets))
    }

    /// The offsets.
    pub fn offsets(&self) -> &Offsets {
        &self.0
    }
}

fn check(block: &'static str, bytes: u32, mut fields: Vec<Field>) -> Result<(), LayoutError> {
    if bytes > LONGEST {
        return Err(LayoutError::TooLong { block, limit: LONGEST });
    }
    let end = |f: &Field| u64::from(f.offset) + u64::from(f.bytes);
    for field in &fields {
        let Field { name, offset, align, .. } = *field;
        if end(field) > u64::from(bytes) {
            return Err(LayoutError::Outside { field: name, end: end(field), bytes });
        }
        if offset % align != 0 {
            return Err(LayoutError::Misaligned { field: name, offset, align });
        }
    }
    fields.sort_by_key(|f| f.offset);
    match fields.windows(2).find(|pair| end(&pair[0]) > u64::from(pair[1].offset)) {
        Some(pair) => Err(LayoutError::Overlap { field: pair[0].name, with: pair[1].name }),
        None => Ok(()),
    }
}

/// Memory that is not what a layout asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostError {
    /// A block is shorter than the layout says.
    Short {
        /// `unit` or `uniforms`.
        block: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The layout's.
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

/// Receives what a geometry program emits when it runs on a host's memory. The host has the vertex slots.
pub trait HostEmitter {
    /// `EMIT`: outputs of the current bank, whole, not compacted, to slot [`EmitState::vertex`]; then, with
    /// [`EmitState::primitive`], slots 0-2 make a triangle. What else the unit holds meanwhile is unspecified.
    fn emit(&mut self, outputs: &Registers, how: EmitState);
}

impl HostEmitter for NoEmitter {
    fn emit(&mut self, _: &Registers, _: EmitState) {}
}

/// A unit's registers and the uniforms in a host's memory. The cells say that the host has pointers of its own to the same bytes;
/// it must not use them on other threads while a shader runs.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    layout: &'a Layout,
    unit: &'a [Cell<u8>],
    uniforms: &'a [Cell<u8>],
}

impl<'a> Host<'a> {
    /// Memory laid out as `layout` says: the block of registers and that of uniforms, which may be the same.
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

    /// Its layout.
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

    /// Copies of all that it holds. Slots, which it has none of, are zero, and so is what the layout has no place for.
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
        uniforms.b = match o.b {
            Bools::Mask(at) => u16::from_ne_bytes(get(self.uniforms, at)),
            Bools::Bytes(at) => {
                let bytes: [u8; 16] = get(self.uniforms, at);
                (0..16).filter(|&n| bytes[n] != 0).fold(0, |mask, n| mask | 1 << n)
            }
        };
        (unit, uniforms)
    }

    /// Puts a unit's registers where the layout says.
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

    /// Takes inputs whose bit is set in `mask`.
    pub fn take_inputs(&self, mask: u16, inputs: &Registers) {
        for n in bits(mask) {
            put_vector(self.unit, self.layout.0.v + n as u32 * VEC4, inputs[n]);
        }
    }

    /// Copies the current outputs whose bit is set in `mask`.
    pub fn copy_outputs(&self, mask: u16, outputs: &mut Registers) {
        let o = &self.layout.0;
        let bank = match &o.geometry {
            Some(g) if get::<1>(self.unit, g.bank)[0] & 1 != 0 => o.o + g.bank_stride,
            _ => o.o,
        };
        for n in bits(mask) {
            outputs[n] = get_vector(self.unit, bank + n as u32 * VEC4);
        }
    }

    /// The meaning of `EMIT`, as [`Unit::emit`]. Does nothing in a layout without the places for it.
    pub fn emit(&self, emitter: &mut dyn HostEmitter) {
        let Some(g) = &self.layout.0.geometry else { return };
        let mut outputs = [[0.0; 4]; 16];
        self.copy_outputs(u16::MAX, &mut outputs);
        emitter.emit(&outputs, self.setemit(g));
        let [bank] = get(self.unit, g.bank);
        put(self.unit, g.bank, [!bank & 1]);
    }

    fn setemit(&self, g: &GeometryOffsets) -> EmitState {
        let [[vertex], [primitive], [winding]] = [g.vertex, g.primitive, g.winding].map(|at| get(self.unit, at));
        EmitState { vertex, primitive: primitive != 0, winding: winding != 0 }
    }
}

/// The numbers of the bits that are set.
fn bits(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (n < 16).then_some(n)
    })
}

fn get<const N: usize>(memory: &[Cell<u8>], at: u32) -> [u8; N] {
    let from = memory[at as usize..].first_chunk::<N>().expect("checked: inside the block");
    from.each_ref().map(Cell::get)
}

fn put<const N: usize>(memory: &[Cell<u8>], at: u32, bytes: [u8; N]) {
    let to = memory[at as usize..].first_chunk::<N>().expect("checked: inside the block");
    to.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
}

fn get_vector(memory: &[Cell<u8>], at: u32) -> Vec4 {
    // A word at a time: compilers make one load of it, and a batch spends its time here.
    let from = memory[at as usize..].first_chunk::<16>().expect("checked: inside the block");
    let word = |n: usize| f32::from_ne_bytes([from[n].get(), from[n + 1].get(), from[n + 2].get(), from[n + 3].get()]);
    [word(0), word(4), word(8), word(12)]
}

fn put_vector(memory: &[Cell<u8>], at: u32, v: Vec4) {
    let to = memory[at as usize..].first_chunk::<16>().expect("checked: inside the block");
    for (n, x) in v.into_iter().enumerate() {
        let [a, b, c, d] = x.to_ne_bytes();
        to[4 * n].set(a);
        to[4 * n + 1].set(b);
        to[4 * n + 2].set(c);
        to[4 * n + 3].set(d);
    }
}

fn get_vectors(memory: &[Cell<u8>], at: u32, to: &mut [Vec4]) {
    to.iter_mut().enumerate().for_each(|(n, v)| *v = get_vector(memory, at + n as u32 * VEC4));
}

fn put_vectors(memory: &[Cell<u8>], at: u32, from: &[Vec4]) {
    from.iter().enumerate().for_each(|(n, v)| put_vector(memory, at + n as u32 * VEC4, *v));
}

/// Memory of our own, laid out as a host's: for those who try a layout out. Bytes that no field has are 0xA5.
pub struct Image {
    layout: Layout,
    /// Both blocks with room to align each, in bytes that nobody else has.
    memory: [Vec<u8>; 2],
}

impl Image {
    /// Holds a copy of this.
    pub fn new(layout: Layout, unit: &Unit, uniforms: &Uniforms) -> Image {
        let Offsets { unit_bytes, uniforms_bytes, .. } = layout.0;
        let memory = [unit_bytes, uniforms_bytes].map(|bytes| vec![0xA5; bytes as usize + VEC4 as usize]);
        let mut image = Image { layout, memory };
        image.with(|host| {
            host.store(unit);
            host.store_uniforms(uniforms);
        });
        image
    }

    /// What is done on it as a host's memory.
    pub fn with<T>(&mut self, f: impl FnOnce(&Host<'_>) -> T) -> T {
        let [unit, uniforms] = self.memory.each_mut().map(|bytes| {
            let start = bytes.as_ptr().addr().wrapping_neg() % VEC4 as usize;
            Cell::from_mut(&mut bytes[start..]).as_slice_of_cells()
        });
        f(&Host::new(&self.layout, unit, uniforms).expect("made for this layout"))
    }
}

impl Host<'_> {
    /// Puts uniforms where the layout says. Only for memory of our own: a host's are its own to write.
    fn store_uniforms(&self, uniforms: &Uniforms) {
        let o = &self.layout.0;
        put_vectors(self.uniforms, o.c, &uniforms.c);
        uniforms.i.iter().enumerate().for_each(|(n, i)| put(self.uniforms, o.i + 4 * n as u32, *i));
        match o.b {
            Bools::Mask(at) => put(self.uniforms, at, uniforms.b.to_ne_bytes()),
            Bools::Bytes(at) => put::<16>(self.uniforms, at, std::array::from_fn(|n| (uniforms.b >> n & 1) as u8)),
        }
    }
}

#[cfg(test)]
mod tests;
