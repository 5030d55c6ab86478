//! [`Mbs`] -> bytes, and the canonical form.

use super::{Chunk, Extra, Mbs, MbsProgram, MbsStage, ProgramPart, RootPart, Row, Symbol, Table};
use crate::cursor::FormatError;

impl Mbs {
    /// The file's bytes. A parsed value gives the bytes it was parsed from.
    ///
    /// Fails only if a chunk has 4 GiB or more.
    pub fn write(&self) -> Result<Vec<u8>, FormatError> {
        let mut out = Vec::new();
        chunk(&mut out, b"MBS1", |out| self.parts.iter().try_for_each(|part| root_part(out, part)))?;
        Ok(out)
    }

    /// The same programs with every rule obeyed that a rewrite can establish: the usual order of
    /// chunks, exact counts, padded names, and zeros in reserved fields.
    #[must_use]
    pub fn canonical(mut self) -> Mbs {
        for part in &mut self.parts {
            if let RootPart::Program(program) = part {
                program.make_canonical();
            }
        }
        self
    }
}

impl MbsProgram {
    fn make_canonical(&mut self) {
        let instructions = self.code().map_or(0, <[u8]>::len) / 16;
        self.parts.sort_by_key(rank);
        for part in &mut self.parts {
            match part {
                ProgramPart::Instructions { zero, count, attribute_prefetch } => {
                    (*zero, *count) = (0, instructions as u32);
                    *attribute_prefetch = (*attribute_prefetch).min(*count);
                }
                ProgramPart::Uniforms(t) | ProgramPart::Varyings(t) | ProgramPart::Attributes(t) => t.make_canonical(),
                _ => {}
            }
        }
    }
}

impl Table {
    fn make_canonical(&mut self) {
        self.count = self.symbols().count() as u32;
        for row in &mut self.rows {
            if let Row::Symbol(symbol) = row {
                symbol.zero = 0;
                let len = symbol.name().len();
                symbol.padded_name.truncate(len);
                symbol.padded_name.resize(len / 4 * 4 + 4, 0);
            }
        }
    }
}

/// Place of a chunk in the canonical order. The code is last.
fn rank(part: &ProgramPart) -> u8 {
    match part {
        ProgramPart::Stack { .. } | ProgramPart::Instructions { .. } => 0,
        ProgramPart::Discard(_) => 1,
        ProgramPart::Buffers(_) => 2,
        ProgramPart::Uniforms(_) => 3,
        ProgramPart::Attributes(_) => 4,
        ProgramPart::Varyings(_) => 5,
        ProgramPart::Unknown(_) => 6,
        ProgramPart::Code(_) => 7,
    }
}

type Written = Result<(), FormatError>;

/// A chunk whose body `body` appends.
fn chunk(out: &mut Vec<u8>, tag: &[u8; 4], body: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    let start = out.len();
    out.extend(tag);
    out.extend([0; 4]);
    body(out)?;
    let size = u32::try_from(out.len() - start - 8)
        .map_err(|_| FormatError::new(start as u64, format!("the chunk `{}` has 4 GiB or more", tag.escape_ascii())))?;
    out[start + 4..start + 8].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

fn raw(out: &mut Vec<u8>, c: &Chunk) -> Written {
    leaf(out, &c.tag, &c.body)
}

fn leaf(out: &mut Vec<u8>, tag: &[u8; 4], body: &[u8]) -> Written {
    chunk(out, tag, |out| {
        out.extend(body);
        Ok(())
    })
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|w| out.extend(w.to_le_bytes()));
}

fn root_part(out: &mut Vec<u8>, part: &RootPart) -> Written {
    let program = match part {
        RootPart::Program(program) => program,
        RootPart::Unknown(c) => return raw(out, c),
    };
    let tag = match program.stage {
        MbsStage::Fragment => b"CFRA",
        MbsStage::Vertex => b"CVER",
    };
    chunk(out, tag, |out| {
        words(out, &[program.core]);
        program.parts.iter().try_for_each(|part| program_part(out, part))
    })
}

pub(super) fn program_part(out: &mut Vec<u8>, part: &ProgramPart) -> Written {
    let leaf_of = |out: &mut Vec<u8>, tag: &[u8; 4], body: &[u32]| {
        chunk(out, tag, |out| {
            words(out, body);
            Ok(())
        })
    };
    match part {
        ProgramPart::Stack { size, offset } => leaf_of(out, b"FSTA", &[*size, *offset]),
        ProgramPart::Discard(flag) => leaf_of(out, b"FDIS", &[*flag]),
        ProgramPart::Buffers(bytes) => leaf(out, b"FBUU", bytes),
        ProgramPart::Instructions { zero, count, attribute_prefetch } => {
            leaf_of(out, b"FINS", &[*zero, *count, *attribute_prefetch])
        }
        ProgramPart::Uniforms(t) => table(out, [b"SUNI", b"VUNI"], t),
        ProgramPart::Varyings(t) => table(out, [b"SVAR", b"VVAR"], t),
        ProgramPart::Attributes(t) => table(out, [b"SATT", b"VATT"], t),
        ProgramPart::Code(code) => leaf(out, b"DBIN", code),
        ProgramPart::Unknown(c) => raw(out, c),
    }
}

fn table(out: &mut Vec<u8>, [tag, symbols]: [&[u8; 4]; 2], t: &Table) -> Written {
    chunk(out, tag, |out| {
        words(out, &[t.count]);
        if tag == b"SUNI" {
            words(out, &[t.space]);
        }
        t.rows.iter().try_for_each(|r| row(out, symbols, r))
    })
}

pub(super) fn row(out: &mut Vec<u8>, tag: &[u8; 4], row: &Row) -> Written {
    let s = match row {
        Row::Symbol(symbol) => symbol,
        Row::Unknown(c) => return raw(out, c),
    };
    chunk(out, tag, |out| {
        leaf(out, b"STRI", &s.padded_name)?;
        record(out, s, tag == b"VATT");
        s.extras.iter().try_for_each(|extra| match extra {
            Extra::Initial(values) => chunk(out, b"VINI", |out| {
                words(out, &[values.len() as u32]);
                words(out, values);
                Ok(())
            }),
            Extra::Index(chunks) => chunk(out, b"VIDX", |out| chunks.iter().try_for_each(|c| raw(out, c))),
            Extra::Unknown(c) => raw(out, c),
        })
    })
}

fn record(out: &mut Vec<u8>, s: &Symbol, is_attribute: bool) {
    out.extend([s.zero, s.kind]);
    [s.component_count, s.component_size, s.entry_count, s.src_stride].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out.extend([s.flags, s.precision]);
    if is_attribute {
        out.extend((s.invariant as u16).to_le_bytes());
        out.extend(s.offset.to_le_bytes());
    } else {
        out.extend(s.invariant.to_le_bytes());
        out.extend(s.offset.to_le_bytes());
        out.extend(s.parent.to_le_bytes());
    }
}
