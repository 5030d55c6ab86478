//! Byte offsets of registers and uniforms in a host's memory -> a checked [`Layout`].
//!
//! Invariant: every field lies inside its block, has its type's alignment, and shares no byte with
//! another field of its block.

use crate::state::{EmitState, Registers, Uniforms, Unit, Vec4};
use std::fmt;
use std::mem::offset_of;

/// Largest block. Displacements in machine code have 32 bits.
const MAX_BLOCK_BYTES: u32 = 16 << 20;
/// Size and alignment of a vector in bytes.
pub(super) const VEC4: u32 = size_of::<Vec4>() as u32;
const REGISTERS: u32 = size_of::<Registers>() as u32;

/// Byte offsets in a host's memory: of registers in the block of the unit, and of uniforms in a
/// block that is only read. Both blocks may be one structure; overlap between fields of the two
/// blocks is not checked.
///
/// A vector is four `float`, x first, aligned to 16 bytes. The registers of a file are contiguous.
/// [`Layout::OWN`] has the offsets of [`Unit`] and [`Uniforms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offsets {
    /// Size of the unit's block in bytes. The block is aligned to 16.
    pub unit_bytes: u32,
    /// Offset of `v0`.
    pub v: u32,
    /// Offset of `r0`.
    pub r: u32,
    /// Offset of `o0` in the first bank.
    pub o: u32,
    /// State of geometry programs. Without it such programs run on the interpreter, and each run
    /// begins with bank 0 and default `SETEMIT` parameters.
    pub geometry: Option<GeometryOffsets>,
    /// Offsets of `a0.x` and `a0.y`: `int32_t`.
    pub a0: [u32; 2],
    /// Offset of `aL`: `int32_t`.
    pub al: u32,
    /// Offsets of the flags `cmp.x` and `cmp.y`: a byte each. Nonzero is true. A run that sets a flag
    /// writes 0 or 1, and a run that does not leaves the byte as it is. A geometry program without
    /// [`Offsets::geometry`] leaves 0 or 1 in either case.
    pub cmp: [u32; 2],
    /// Size of the uniforms' block in bytes. The block is aligned to 16.
    pub uniforms_bytes: u32,
    /// Offset of `c0`.
    pub c: u32,
    /// Offset of `i0.x`: four bytes for each of four registers.
    pub i: u32,
    /// The booleans.
    pub b: Bools,
}

/// Offsets of the state that only geometry programs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GeometryOffsets {
    /// Distance from a register of the first output bank to the same one of the second.
    pub bank_stride: u32,
    /// Offset of the byte whose bit 0 is the current bank.
    pub bank: u32,
    /// Offset of the byte whose bits 0-1 are the vertex slot of the last `SETEMIT`.
    pub vertex: u32,
    /// Offset of the byte that is nonzero if `EMIT` completes a triangle: a flag like `cmp`.
    pub primitive: u32,
    /// Offset of the byte that is nonzero if the triangle's first two vertices are exchanged: a flag
    /// like `cmp`.
    pub winding: u32,
}

/// The representation of booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bools {
    /// A `uint16_t` at this offset; bit n is `bn`.
    Mask(u32),
    /// 16 bytes from this offset on; byte n is nonzero if `bn` is set.
    Bytes(u32),
}

/// Why [`Offsets`] are not a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayoutError {
    /// A block is too long.
    TooLong {
        /// `unit` or `uniforms`.
        block: &'static str,
        /// The limit in bytes.
        limit: u32,
    },
    /// A field ends after its block.
    Outside {
        /// The field's name, as in [`Offsets`].
        field: &'static str,
        /// End of the field.
        end: u64,
        /// End of its block.
        bytes: u32,
    },
    /// A field is misaligned.
    Misaligned {
        /// The field's name.
        field: &'static str,
        /// Its offset, or the stride for the second bank.
        offset: u32,
        /// The alignment.
        align: u32,
    },
    /// Two fields share bytes.
    Overlap {
        /// Name of one field.
        field: &'static str,
        /// Name of the other.
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

/// Checked offsets.
///
/// ```
/// use picajit::layout::{Bools, Layout, Offsets};
///
/// let offsets = Offsets {
///     unit_bytes: 784,
///     v: 0,
///     r: 256,
///     o: 512,
///     geometry: None, // for vertex programs
///     a0: [768, 772],
///     al: 776,
///     cmp: [780, 781],
///     uniforms_bytes: 1568,
///     c: 0,
///     i: 1536,
///     b: Bools::Mask(1552),
/// };
/// assert!(Layout::new(offsets).is_ok());
/// let error = Layout::new(Offsets { r: 240, ..offsets }).unwrap_err();
/// assert_eq!(error.to_string(), "v and r share bytes");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout(pub(super) Offsets);

/// A field to check.
struct Field {
    name: &'static str,
    offset: u32,
    bytes: u32,
    align: u32,
}

impl Layout {
    /// The layout of [`Unit`] and [`Uniforms`].
    pub const OWN: Layout = {
        const SETEMIT: usize = offset_of!(Unit, setemit);
        Layout(Offsets {
            // Up to the last register: without the padding and the slots after it.
            unit_bytes: (SETEMIT + size_of::<EmitState>()) as u32,
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
            uniforms_bytes: (offset_of!(Uniforms, b) + size_of::<u16>()) as u32,
            c: offset_of!(Uniforms, c) as u32,
            i: offset_of!(Uniforms, i) as u32,
            b: Bools::Mask(offset_of!(Uniforms, b) as u32),
        })
    };

    /// Checks that every field lies inside its block, is aligned, and overlaps no other.
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

    /// Offsets of all flags: `cmp.x`, `cmp.y`, and those that `SETEMIT` sets, if it has them.
    pub(crate) fn flags(&self) -> [Option<u32>; 4] {
        let Offsets { cmp: [x, y], geometry, .. } = self.0;
        [Some(x), Some(y), geometry.map(|g| g.primitive), geometry.map(|g| g.winding)]
    }
}

fn check(block: &'static str, bytes: u32, fields: Vec<Field>) -> Result<(), LayoutError> {
    if bytes > MAX_BLOCK_BYTES {
        return Err(LayoutError::TooLong { block, limit: MAX_BLOCK_BYTES });
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
    let begins_in = |a: &Field, b: &Field| a.offset >= b.offset && u64::from(a.offset) < end(b);
    let pairs = fields.iter().flat_map(|field| fields.iter().map(move |with| (field, with)));
    match pairs.filter(|(field, with)| !std::ptr::eq(*field, *with)).find(|(field, with)| begins_in(with, field)) {
        Some((field, with)) => Err(LayoutError::Overlap { field: field.name, with: with.name }),
        None => Ok(()),
    }
}
