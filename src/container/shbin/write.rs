//! [`Shbin`] -> bytes, in the file layout of the free assembler.
//!
//! The bytes depend on the value alone. The parts are contiguous: program header, code,
//! descriptors, file names, entry points. Each entry point is header, constants, labels, outputs,
//! uniforms and symbols, padded to a multiple of four. An empty table has the offset at which it
//! would begin.

use super::error::ShbinWriteError;
use super::tables::NO_SIZE;
use super::{Constant, Dvle, Shbin};
use crate::isa::{MAX_CODE_WORDS, Stage};

const PROGRAM_HEADER: usize = 0x28;
const DVLE_HEADER: usize = 0x40;

impl Shbin {
    /// The file. Values, rows and names are written unchanged and in order; an assembler sorts and
    /// checks them. In particular an entry point outside the code is written, and [`Shbin::parse`]
    /// rejects it.
    ///
    /// Fails if there are more than 4096 code words, a name has a zero byte, or offsets don't fit.
    pub fn write(&self) -> Result<Vec<u8>, ShbinWriteError> {
        if self.code.len() > MAX_CODE_WORDS {
            return Err(ShbinWriteError::CodeTooLong { words: self.code.len() });
        }
        let mut program = self.program_part()?;
        pad(&mut program);
        let dvles = self.dvles.iter().map(dvle_part).collect::<Result<Vec<_>, _>>()?;

        let mut file = Bytes::default();
        file.raw(b"DVLB");
        file.size(dvles.len())?;
        let mut offset = 8 + 4 * dvles.len() + program.0.len();
        for dvle in &dvles {
            file.size(offset)?;
            offset += dvle.0.len();
        }
        file.raw(&program.0);
        dvles.iter().for_each(|d| file.raw(&d.0));
        Ok(file.0)
    }

    fn program_part(&self) -> Result<Bytes, ShbinWriteError> {
        let mut names = Bytes::default();
        for name in &self.file_names {
            names.name(name)?;
        }
        let opdescs_at = PROGRAM_HEADER + 4 * self.code.len();
        let names_at = opdescs_at + 8 * self.opdescs.len();

        let mut b = Bytes::default();
        b.raw(b"DVLP");
        b.u32(self.version);
        b.size(PROGRAM_HEADER)?;
        b.size(self.code.len())?;
        b.size(opdescs_at)?;
        b.size(self.opdescs.len())?;
        // Official files repeat the offset of the names here; the free assembler writes the same
        // sum without names.
        b.size(names_at)?;
        b.u32(0);
        b.size(if names.0.is_empty() { 0 } else { names_at })?;
        b.size(names.0.len())?;
        self.code.iter().for_each(|&w| b.u32(w));
        for opdesc in &self.opdescs {
            b.u32(opdesc.word);
            b.u32(opdesc.extra);
        }
        b.raw(&names.0);
        Ok(b)
    }
}

/// One entry point with its tables.
fn dvle_part(dvle: &Dvle) -> Result<Bytes, ShbinWriteError> {
    let (mut uniforms, mut labels, mut symbols) = (Bytes::default(), Bytes::default(), Bytes::default());
    // Names of uniforms come first, so that a file without labels has the free assembler's symbol
    // table.
    for uniform in &dvle.uniforms {
        uniforms.size(symbols.0.len())?;
        uniforms.u16(uniform.first);
        uniforms.u16(uniform.last);
        symbols.name(&uniform.name)?;
    }
    for label in &dvle.labels {
        labels.u16(label.id);
        labels.u16(label.unknown);
        labels.u32(label.position);
        labels.u32(label.size.unwrap_or(NO_SIZE));
        labels.size(symbols.0.len())?;
        symbols.name(&label.name)?;
    }
    let mut constants = Bytes::default();
    dvle.constants.iter().for_each(|c| constants.constant(c));
    let mut outputs = Bytes::default();
    for o in &dvle.outputs {
        [o.semantic, o.register, o.mask, o.unknown].into_iter().for_each(|v| outputs.u16(v));
    }

    let mut b = Bytes::default();
    b.raw(b"DVLE");
    b.u16(dvle.version);
    b.raw(&[u8::from(dvle.stage == Stage::Geometry), u8::from(dvle.merge_outmaps)]);
    b.u32(dvle.entry);
    b.u32(dvle.end);
    b.u16(dvle.input_mask);
    b.u16(dvle.output_mask);
    b.raw(&dvle.geometry.to_bytes());
    let mut offset = DVLE_HEADER;
    for (table, count) in [
        (&constants, dvle.constants.len()),
        (&labels, dvle.labels.len()),
        (&outputs, dvle.outputs.len()),
        (&uniforms, dvle.uniforms.len()),
        (&symbols, symbols.0.len()),
    ] {
        b.size(offset)?;
        b.size(count)?;
        offset += table.0.len();
    }
    [&constants, &labels, &outputs, &uniforms, &symbols].into_iter().for_each(|t| b.raw(&t.0));
    pad(&mut b);
    Ok(b)
}

/// Pads with zeros to a multiple of four. No size field counts the padding.
fn pad(b: &mut Bytes) {
    b.0.resize(b.0.len().next_multiple_of(4), 0);
}

/// Little-endian output.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn u16(&mut self, value: u16) {
        self.raw(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }
    /// A size, count or offset as a 32-bit field.
    fn size(&mut self, value: usize) -> Result<(), ShbinWriteError> {
        self.u32(u32::try_from(value).map_err(|_| ShbinWriteError::TooLarge)?);
        Ok(())
    }
    fn name(&mut self, name: &str) -> Result<(), ShbinWriteError> {
        if name.contains('\0') {
            return Err(ShbinWriteError::NameHasNul { name: name.into() });
        }
        self.raw(name.as_bytes());
        self.raw(&[0]);
        Ok(())
    }
    /// Type, register and sixteen bytes of value, regardless of the type.
    fn constant(&mut self, constant: &Constant) {
        let (kind, words) = match *constant {
            Constant::Bool { value, .. } => (0, [u32::from(value), 0, 0, 0]),
            Constant::Int { value, .. } => (1, [u32::from_le_bytes(value), 0, 0, 0]),
            Constant::Float { value, .. } => (2, value),
        };
        self.u16(kind);
        self.u16(constant.register());
        words.into_iter().for_each(|w| self.u32(w));
    }
}
