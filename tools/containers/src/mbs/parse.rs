//! Bytes -> [`Mbs`]. Nesting is fixed, so no recursion follows the file.

use super::{Chunk, Extra, Mbs, MbsProgram, MbsStage, ProgramPart, RootPart, Row, Symbol, Table};
use crate::cursor::{Cursor, FormatError};

/// Length of an attribute's record; other symbols have four bytes more.
const ATTRIBUTE_RECORD: u64 = 16;
const RECORD: u64 = 20;

impl Mbs {
    /// Reads a file. Fails where chunks don't fill their parents exactly; all other oddities are
    /// findings of [`Mbs::verify`].
    pub fn parse(bytes: &[u8]) -> Result<Mbs, FormatError> {
        let mut file = Cursor::new(0, bytes);
        let magic = file.array::<4>("the magic")?;
        if magic != *b"MBS1" {
            let message = format!("the file should begin with \"MBS1\", not \"{}\"", magic.escape_ascii());
            return Err(FormatError::new(0, message));
        }
        let size = file.u32("the size of the file")?;
        if u64::from(size) + 8 != bytes.len() as u64 {
            let message =
                format!("the header announces {:#x} bytes, the file has {:#x}", u64::from(size) + 8, bytes.len());
            return Err(FormatError::new(4, message));
        }
        let mut parts = Vec::new();
        while !file.is_at_end() {
            let (tag, body) = chunk(&mut file)?;
            parts.push(match &tag {
                b"CFRA" => RootPart::Program(program(MbsStage::Fragment, body)?),
                b"CVER" => RootPart::Program(program(MbsStage::Vertex, body)?),
                _ => RootPart::Unknown(unknown(tag, body)),
            });
        }
        Ok(Mbs { parts })
    }
}

/// Tag and body of the next chunk.
fn chunk<'a>(cursor: &mut Cursor<'a>) -> Result<([u8; 4], Cursor<'a>), FormatError> {
    let tag = cursor.array::<4>("the tag of a chunk")?;
    let size = cursor.u32("the size of a chunk")?;
    let body = cursor.extent(size.into(), &format!("the chunk `{}`", tag.escape_ascii()))?;
    Ok((tag, body))
}

fn unknown(tag: [u8; 4], body: Cursor<'_>) -> Chunk {
    Chunk { tag, body: body.rest().to_vec() }
}

fn program(stage: MbsStage, mut body: Cursor<'_>) -> Result<MbsProgram, FormatError> {
    let core = body.u32("the core")?;
    let mut parts = Vec::new();
    while !body.is_at_end() {
        let (tag, mut chunk) = chunk(&mut body)?;
        let part = match (&tag, chunk.rest().len()) {
            (b"FSTA", 8) => ProgramPart::Stack { size: chunk.u32("FSTA")?, offset: chunk.u32("FSTA")? },
            (b"FDIS", 4) => ProgramPart::Discard(chunk.u32("FDIS")?),
            (b"FBUU", 8) => ProgramPart::Buffers(chunk.array("FBUU")?),
            (b"FINS", 12) => ProgramPart::Instructions {
                zero: chunk.u32("FINS")?,
                count: chunk.u32("FINS")?,
                attribute_prefetch: chunk.u32("FINS")?,
            },
            (b"SUNI", _) => ProgramPart::Uniforms(table(chunk, b"VUNI")?),
            (b"SVAR", _) => ProgramPart::Varyings(table(chunk, b"VVAR")?),
            (b"SATT", _) => ProgramPart::Attributes(table(chunk, b"VATT")?),
            (b"DBIN", _) => ProgramPart::Code(chunk.rest().to_vec()),
            _ => ProgramPart::Unknown(unknown(tag, chunk)),
        };
        parts.push(part);
    }
    Ok(MbsProgram { stage, core, parts })
}

/// A table whose symbols have the tag `symbols`.
fn table(mut body: Cursor<'_>, symbols: &[u8; 4]) -> Result<Table, FormatError> {
    let count = body.u32("the number of symbols")?;
    let space = if symbols == b"VUNI" { body.u32("the space of the uniforms")? } else { 0 };
    let mut rows = Vec::new();
    while !body.is_at_end() {
        let (tag, chunk) = chunk(&mut body)?;
        rows.push(if tag == *symbols {
            Row::Symbol(symbol(chunk, symbols == b"VATT")?)
        } else {
            Row::Unknown(unknown(tag, chunk))
        });
    }
    Ok(Table { count, space, rows })
}

fn symbol(mut body: Cursor<'_>, is_attribute: bool) -> Result<Symbol, FormatError> {
    let at = body.offset();
    let (tag, name) = chunk(&mut body)?;
    if tag != *b"STRI" {
        let message = format!("a symbol should begin with `STRI`, not `{}`", tag.escape_ascii());
        return Err(FormatError::new(at, message));
    }
    let mut record = body.extent(if is_attribute { ATTRIBUTE_RECORD } else { RECORD }, "the record of a symbol")?;
    let r = &mut record;
    let field = "the record of a symbol";
    let mut symbol = Symbol {
        padded_name: name.rest().to_vec(),
        zero: r.u8(field)?,
        kind: r.u8(field)?,
        component_count: r.u16(field)?,
        component_size: r.u16(field)?,
        entry_count: r.u16(field)?,
        src_stride: r.u16(field)?,
        flags: r.u8(field)?,
        precision: r.u8(field)?,
        invariant: if is_attribute { r.u16(field)?.into() } else { r.u32(field)? },
        offset: r.u16(field)?,
        parent: if is_attribute { super::NO_PARENT } else { r.u16(field)? },
        extras: Vec::new(),
    };
    while !body.is_at_end() {
        let (tag, chunk) = chunk(&mut body)?;
        symbol.extras.push(extra(tag, chunk));
    }
    Ok(symbol)
}

/// A chunk after a record. An unexpected body is kept verbatim.
fn extra(tag: [u8; 4], body: Cursor<'_>) -> Extra {
    match &tag {
        b"VINI" => initial(body).map_or_else(|| Extra::Unknown(unknown(tag, body)), Extra::Initial),
        b"VIDX" => index(body).map_or_else(|_| Extra::Unknown(unknown(tag, body)), Extra::Index),
        _ => Extra::Unknown(unknown(tag, body)),
    }
}

fn initial(mut body: Cursor<'_>) -> Option<Vec<u32>> {
    let count = body.u32("VINI").ok()?;
    let (words, rest) = body.rest().as_chunks::<4>();
    (words.len() as u64 == u64::from(count) && rest.is_empty())
        .then(|| words.iter().map(|w| u32::from_le_bytes(*w)).collect())
}

fn index(mut body: Cursor<'_>) -> Result<Vec<Chunk>, FormatError> {
    let mut chunks = Vec::new();
    while !body.is_at_end() {
        let (tag, chunk) = chunk(&mut body)?;
        chunks.push(unknown(tag, chunk));
    }
    Ok(chunks)
}
