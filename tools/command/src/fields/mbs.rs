//! MBS files <-> JSON: a tree of chunks. `build` computes sizes; everything else is a field.

use super::record::{Record, View, array, blob, bytes_of, get, number, numbers, object, text};
use super::{FIELD, FieldsError, VALUE, Walk};
use picajit_containers::cursor::{Cursor, FormatError};
use picajit_containers::mbs::{MbsStage, code};
use serde_json::{Map, Value, json};

const CORE: Record = Record { at: 0, name: "CFRA, CVER", fields: &[number(0, 4, "core", "core", View::Always)] };
const FSTA: Record = Record {
    at: 0,
    name: "FSTA",
    fields: &[
        number(0, 4, "stack_size", "stack size", View::Always),
        number(4, 4, "stack_offset", "stack offset", View::Always),
    ],
};
const FDIS: Record = Record { at: 0, name: "FDIS", fields: &[number(0, 4, "discard", "has discard", View::Always)] };
const FBUU: Record = Record {
    at: 0,
    name: "FBUU",
    fields: &[
        number(0, 1, "reads_color", "reads colour", View::Always),
        number(1, 1, "writes_color", "writes colour", View::Always),
        number(2, 1, "reads_depth", "reads depth", View::Always),
        number(3, 1, "writes_depth", "writes depth", View::Always),
        number(4, 1, "reads_stencil", "reads stencil", View::Always),
        number(5, 1, "writes_stencil", "writes stencil", View::Always),
        numbers(6, (2, 1), "zeros", "zeros", View::Unless(&[0])),
    ],
};
const FINS: Record = Record {
    at: 0,
    name: "FINS",
    fields: &[
        number(0, 4, "zero", "zero", View::Unless(&[0])),
        number(4, 4, "instructions", "instructions", View::Always),
        number(8, 4, "attribute_prefetch", "attribute prefetch", View::Always),
    ],
};
const COUNT: Record =
    Record { at: 0, name: "SVAR, SATT", fields: &[number(0, 4, "count", "number of symbols", View::Layout)] };
const SUNI: Record = Record {
    at: 0,
    name: "SUNI",
    fields: &[
        number(0, 4, "count", "number of symbols", View::Layout),
        number(4, 4, "space", "space in scalar slots", View::Always),
    ],
};
const SYMBOL: Record = Record {
    at: 0,
    name: "record of VUNI, VVAR",
    fields: &[
        number(0x00, 1, "zero", "zero", View::Unless(&[0])),
        number(0x01, 1, "type", "type", View::Always),
        number(0x02, 2, "components", "components", View::Always),
        number(0x04, 2, "component_size", "size of an element", View::Always),
        number(0x06, 2, "array", "array length", View::Always),
        number(0x08, 2, "stride", "stride", View::Always),
        number(0x0A, 1, "flags", "flags", View::Always),
        number(0x0B, 1, "precision", "precision", View::Always),
        number(0x0C, 4, "invariant", "invariant", View::Always),
        number(0x10, 2, "offset", "offset", View::Always),
        number(0x12, 2, "parent", "index of the parent struct", View::Always),
    ],
};
const ATTRIBUTE: Record = Record {
    at: 0,
    name: "record of VATT",
    fields: &[
        number(0x00, 1, "zero", "zero", View::Unless(&[0])),
        number(0x01, 1, "type", "type", View::Always),
        number(0x02, 2, "components", "components", View::Always),
        number(0x04, 2, "component_size", "size of an element", View::Always),
        number(0x06, 2, "array", "array length", View::Always),
        number(0x08, 2, "stride", "stride", View::Always),
        number(0x0A, 1, "flags", "flags", View::Always),
        number(0x0B, 1, "precision", "precision", View::Always),
        number(0x0C, 2, "unknown_0c", "zero", View::Unless(&[0])),
        number(0x0E, 2, "offset", "offset", View::Always),
    ],
};
const INDEX: Record = Record {
    at: 0,
    name: "ITDR, IYUV, IGRD",
    fields: &[number(0, 4, "value", "value, two's complement", View::Always)],
};

/// Every record of the format.
#[cfg(test)]
pub const RECORDS: [&Record; 10] = [&CORE, &FSTA, &FDIS, &FBUU, &FINS, &SUNI, &COUNT, &SYMBOL, &ATTRIBUTE, &INDEX];

/// The body of a chunk.
enum Body {
    /// A record alone.
    Leaf(&'static Record),
    /// A record, then chunks.
    Parent(&'static Record),
    /// A chunk `STRI`, a record, further chunks.
    Symbol(&'static Record),
    /// Chunks.
    Chunks,
    /// A count of 32 bits and as many words.
    Words,
    /// Text.
    Text,
    /// Machine code.
    Code(MbsStage),
    /// Anything else.
    Raw,
}

/// The body of a chunk below a chunk.
fn body(parent: &[u8], tag: &[u8]) -> Body {
    match tag {
        b"DBIN" if parent == b"CFRA" => Body::Code(MbsStage::Fragment),
        b"DBIN" if parent == b"CVER" => Body::Code(MbsStage::Vertex),
        b"CFRA" | b"CVER" => Body::Parent(&CORE),
        b"FSTA" => Body::Leaf(&FSTA),
        b"FDIS" => Body::Leaf(&FDIS),
        b"FBUU" => Body::Leaf(&FBUU),
        b"FINS" => Body::Leaf(&FINS),
        b"SUNI" => Body::Parent(&SUNI),
        b"SVAR" | b"SATT" => Body::Parent(&COUNT),
        b"VUNI" | b"VVAR" => Body::Symbol(&SYMBOL),
        b"VATT" => Body::Symbol(&ATTRIBUTE),
        b"VIDX" => Body::Chunks,
        b"ITDR" | b"IYUV" | b"IGRD" => Body::Leaf(&INDEX),
        b"VINI" => Body::Words,
        b"STRI" => Body::Text,
        _ => Body::Raw,
    }
}

/// Memory of the text of an instruction, for each of its bytes.
const CODE: usize = 36;

/// Levels of chunks that are followed; the format has four.
const DEPTH: usize = 6;

/// The fields of a file that [`picajit_containers::mbs::Mbs::parse`] accepts.
pub fn fields(walk: &mut Walk<'_>) -> Result<Map<String, Value>, FieldsError> {
    let mut file = Cursor::new(8, walk.bytes.get(8..).unwrap_or_default());
    let chunks = chunks(walk, &mut file, b"MBS1", DEPTH)?.ok_or(FieldsError::Outside { at: 8 })?;
    Ok(Map::from_iter([("magic".into(), json!("MBS1")), ("chunks".into(), chunks)]))
}

/// The chunks up to the end of an extent; `None` if they don't fill it.
fn chunks(
    walk: &mut Walk<'_>,
    extent: &mut Cursor<'_>,
    parent: &[u8],
    depth: usize,
) -> Result<Option<Value>, FieldsError> {
    let mut all = Vec::new();
    while !extent.is_at_end() {
        let at = extent.offset();
        let Ok((tag, body)) = chunk(extent) else { return Ok(None) };
        let mut map = Map::new();
        map.insert("tag".into(), text(&tag));
        map.insert("at".into(), json!(at));
        // Arrays and objects grow by doubling.
        walk.hold(1, 3 * VALUE + 4 * FIELD + 4 * body.rest().len().min(64))?;
        let inside = if depth == 0 { None } else { inside(walk, (parent, &tag), body, depth)? };
        match inside {
            Some(mut fields) => map.append(&mut fields),
            None => drop(map.insert("body".into(), blob(body.rest()))),
        }
        all.push(Value::Object(map));
    }
    Ok(Some(all.into()))
}

fn chunk<'a>(cursor: &mut Cursor<'a>) -> Result<([u8; 4], Cursor<'a>), FormatError> {
    let tag = cursor.array::<4>("tag")?;
    let size = cursor.u32("size")?;
    Ok((tag, cursor.extent(size.into(), "body")?))
}

/// The fields of a chunk; `None` if its body has another form than its tag says.
fn inside(
    walk: &mut Walk<'_>,
    (parent, tag): (&[u8], &[u8]),
    mut body: Cursor<'_>,
    depth: usize,
) -> Result<Option<Map<String, Value>>, FieldsError> {
    let mut map = Map::new();
    let form = self::body(parent, tag);
    if let Body::Symbol(_) = form {
        let Some((_, name)) = chunk(&mut body).ok().filter(|(tag, _)| tag == b"STRI") else { return Ok(None) };
        map.insert("string".into(), text(name.rest()));
    }
    match form {
        Body::Text => return Ok(Some(Map::from_iter([("string".into(), text(body.rest()))]))),
        Body::Raw => return Ok(None),
        Body::Code(stage) => {
            // An instruction of a few bytes may have a line of some hundred.
            walk.hold(body.rest().len(), CODE)?;
            let text = code::disassemble(stage, body.rest());
            if !body.rest().len().is_multiple_of(4) {
                return Ok(None);
            }
            return Ok(Some(Map::from_iter([("code".into(), text.lines().map(|line| json!(line)).collect())])));
        }
        Body::Words => {
            let count = body.u32("count").unwrap_or(u32::MAX);
            let (words, rest) = body.rest().as_chunks::<4>();
            if !rest.is_empty() || words.len() != count as usize {
                return Ok(None);
            }
            walk.hold(words.len(), VALUE)?;
            map.insert("words".into(), words.iter().map(|w| json!(u32::from_le_bytes(*w))).collect());
            return Ok(Some(map));
        }
        Body::Leaf(record) | Body::Parent(record) | Body::Symbol(record) => {
            let at = body.offset() as usize;
            let Ok(bytes) = body.take(record.size() as u64, "record") else { return Ok(None) };
            walk.hold(2, record.memory())?;
            map.extend(record.read(bytes, at, &mut walk.unusual).unwrap_or_default());
        }
        Body::Chunks => {}
    }
    if let Body::Leaf(_) = form {
        return Ok(body.is_at_end().then_some(map));
    }
    let Some(chunks) = chunks(walk, &mut body, tag, depth - 1)? else { return Ok(None) };
    map.insert("chunks".into(), chunks);
    Ok(Some(map))
}

/// Fields -> a file.
pub fn build(file: &Map<String, Value>) -> Result<Vec<u8>, FieldsError> {
    let mut out = Vec::new();
    put(&mut out, b"MBS1", "fields", |out| put_chunks(out, file, b"MBS1", "fields", DEPTH))?;
    Ok(out)
}

/// A chunk whose body `body` appends.
fn put(
    out: &mut Vec<u8>,
    tag: &[u8],
    path: &str,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), FieldsError>,
) -> Result<(), FieldsError> {
    out.extend(tag);
    out.extend([0; 4]);
    let start = out.len();
    body(out)?;
    let size = out.len() - start;
    let most = u32::MAX;
    let size = u32::try_from(size).map_err(|_| FieldsError::TooLarge {
        path: path.into(),
        value: size as u64,
        most: most.into(),
    })?;
    out[start - 4..start].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

fn put_chunks(
    out: &mut Vec<u8>,
    map: &Map<String, Value>,
    parent: &[u8],
    path: &str,
    depth: usize,
) -> Result<(), FieldsError> {
    for (n, chunk) in array(map, "chunks", path)?.iter().enumerate() {
        let path = format!("{path}.chunks[{n}]");
        let chunk = object(chunk, &path)?;
        let tag = bytes_of(get(chunk, "tag", &path)?, &path)?;
        if tag.len() != 4 {
            return Err(FieldsError::Form { path: format!("{path}.tag"), wanted: "four bytes".into() });
        }
        put(out, &tag, &path, |out| put_body(out, (parent, &tag), chunk, &path, depth))?;
    }
    Ok(())
}

fn put_body(
    out: &mut Vec<u8>,
    (parent, tag): (&[u8], &[u8]),
    chunk: &Map<String, Value>,
    path: &str,
    depth: usize,
) -> Result<(), FieldsError> {
    if depth == 0 || chunk.contains_key("body") {
        out.extend(bytes_of(get(chunk, "body", path)?, &format!("{path}.body"))?);
        return Ok(());
    }
    let string = || bytes_of(get(chunk, "string", path)?, &format!("{path}.string"));
    match body(parent, tag) {
        Body::Text => out.extend(string()?),
        Body::Code(stage) => {
            for (n, line) in array(chunk, "code", path)?.iter().enumerate() {
                let wrong = |wanted| FieldsError::Form { path: format!("{path}.code[{n}]"), wanted };
                let line = line.as_str().ok_or_else(|| wrong("a text".into()))?;
                let words = code::assemble(stage, line);
                out.extend(words.map_err(|error| wrong(format!("an instruction: {}", error.message)))?);
            }
        }
        Body::Raw => return Err(FieldsError::Missing { path: format!("{path}.body") }),
        Body::Words => {
            let words = array(chunk, "words", path)?;
            out.extend((words.len() as u32).to_le_bytes());
            for (n, word) in words.iter().enumerate() {
                let word = super::record::number_of(word, 4, &format!("{path}.words[{n}]"))?;
                out.extend((word as u32).to_le_bytes());
            }
        }
        Body::Leaf(record) => out.extend(record.write(chunk, path)?),
        Body::Parent(record) => {
            out.extend(record.write(chunk, path)?);
            put_chunks(out, chunk, tag, path, depth - 1)?;
        }
        Body::Symbol(record) => {
            let string = string()?;
            put(out, b"STRI", path, |out| {
                out.extend(string);
                Ok(())
            })?;
            out.extend(record.write(chunk, path)?);
            put_chunks(out, chunk, tag, path, depth - 1)?;
        }
        Body::Chunks => put_chunks(out, chunk, tag, path, depth - 1)?,
    }
    Ok(())
}
