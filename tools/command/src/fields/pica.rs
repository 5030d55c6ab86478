//! SHBIN and DVOJ files <-> JSON: headers, tables, and the bytes that no field gives.
//!
//! Offsets are fields like all others, so a file of any producer's layout is written back byte for
//! byte.

use super::canvas::Canvas;
use super::record::{Record, View, array, bytes_of, get, magic, number, number_of, numbers, object, text};
use super::{FieldsError, VALUE, Walk};
use picajit::container::Kind;
use serde_json::{Map, Value, json};

const DVLB: Record =
    Record { at: 0, name: "DVLB", fields: &[magic(), number(4, 4, "dvles_count", "number of DVLEs", View::Always)] };

const DVLP: Record = Record {
    at: 0,
    name: "DVLP",
    fields: &[
        magic(),
        number(0x04, 4, "version", "version", View::Always),
        number(0x08, 4, "code_offset", "code: offset", View::Layout),
        number(0x0C, 4, "code_count", "code: words", View::Always),
        number(0x10, 4, "descriptors_offset", "descriptors: offset", View::Layout),
        number(0x14, 4, "descriptors_count", "descriptors: number", View::Always),
        number(0x18, 4, "unknown_18", "unknown", View::Layout),
    ],
};

/// The fields that only the full header of a DVLP has.
const DVLP_REST: Record = Record {
    at: 0x1C,
    name: "DVLP",
    fields: &[
        number(0, 4, "unknown_1c", "unknown", View::Unless(&[0])),
        number(4, 4, "files_offset", "source file names: offset", View::Layout),
        number(8, 4, "files_count", "source file names: bytes", View::Layout),
    ],
};
const SHORT_DVLP: usize = DVLP.size();
const FULL_DVLP: usize = SHORT_DVLP + DVLP_REST.size();

const DVLE: Record = Record {
    at: 0,
    name: "DVLE",
    fields: &[
        magic(),
        number(0x04, 2, "version", "version", View::Unless(&[0, 0x1002])),
        number(0x06, 1, "type", "type", View::Unless(&[0, 1])),
        number(0x07, 1, "merge", "merge", View::Unless(&[0, 1])),
        number(0x08, 4, "entry", "entry", View::Always),
        number(0x0C, 4, "end", "end of the main procedure", View::Always),
        number(0x10, 2, "input_mask", "input mask", View::Always),
        number(0x12, 2, "output_mask", "output mask", View::Always),
        number(0x14, 1, "geometry_mode", "geometry mode", View::Always),
        number(0x15, 1, "geometry_start", "first uniform of fixed mode", View::Always),
        number(0x16, 1, "main_vertices", "main vertices of variable mode", View::Always),
        number(0x17, 1, "geometry_vertices", "vertices of fixed mode", View::Always),
        number(0x18, 4, "constants_offset", "constants: offset", View::Layout),
        number(0x1C, 4, "constants_count", "constants: number", View::Layout),
        number(0x20, 4, "labels_offset", "labels: offset", View::Layout),
        number(0x24, 4, "labels_count", "labels: number", View::Layout),
        number(0x28, 4, "outputs_offset", "outputs: offset", View::Layout),
        number(0x2C, 4, "outputs_count", "outputs: number", View::Layout),
        number(0x30, 4, "uniforms_offset", "uniforms: offset", View::Layout),
        number(0x34, 4, "uniforms_count", "uniforms: number", View::Layout),
        number(0x38, 4, "symbols_offset", "symbols: offset", View::Layout),
        number(0x3C, 4, "symbols_count", "symbols: bytes", View::Layout),
    ],
};

const DVOJ: Record = Record {
    at: 0,
    name: "DVOJ",
    fields: &[
        magic(),
        number(0x04, 2, "version", "version", View::Always),
        number(0x06, 1, "type", "type", View::Unless(&[0, 1])),
        number(0x07, 1, "merge", "merge", View::Unless(&[0, 1])),
        number(0x08, 2, "input_mask", "input mask", View::Always),
        number(0x0A, 2, "output_mask", "output mask", View::Always),
        number(0x0C, 4, "unknown_0c", "unknown", View::Unless(&[0xFFFF_FFFF])),
        number(0x10, 4, "constants_offset", "constants: offset", View::Layout),
        number(0x14, 4, "constants_count", "constants: number", View::Layout),
        number(0x18, 4, "labels_offset", "labels: offset", View::Layout),
        number(0x1C, 4, "labels_count", "labels: number", View::Layout),
        number(0x20, 4, "code_offset", "code: offset", View::Layout),
        number(0x24, 4, "code_count", "code: words", View::Always),
        number(0x28, 4, "descriptors_offset", "descriptors: offset", View::Layout),
        number(0x2C, 4, "descriptors_count", "descriptors: number", View::Always),
        number(0x30, 4, "lines_offset", "block 1: offset", View::Layout),
        number(0x34, 4, "lines_count", "block 1: number", View::Layout),
        number(0x38, 4, "notes_offset", "block 2: offset", View::Layout),
        number(0x3C, 4, "notes_count", "block 2: number", View::Layout),
        number(0x40, 4, "outputs_offset", "outputs: offset", View::Layout),
        number(0x44, 4, "outputs_count", "outputs: number", View::Layout),
        number(0x48, 4, "uniforms_offset", "uniforms: offset", View::Layout),
        number(0x4C, 4, "uniforms_count", "uniforms: number", View::Layout),
        number(0x50, 4, "symbols_offset", "symbols: offset", View::Layout),
        number(0x54, 4, "symbols_count", "symbols: bytes", View::Layout),
    ],
};

const DESCRIPTOR: Record = Record {
    at: 0,
    name: "descriptor",
    fields: &[
        number(0, 4, "word", "descriptor", View::Layout),
        number(4, 4, "unknown_04", "second word", View::Unless(&[0])),
    ],
};
const CONSTANT: Record = Record {
    at: 0,
    name: "constant",
    fields: &[
        number(0, 2, "type", "type", View::Always),
        number(2, 2, "register", "register within its class", View::Always),
        numbers(4, (4, 4), "words", "payload", View::Always),
    ],
};
const LABEL: Record = Record {
    at: 0,
    name: "label",
    fields: &[
        number(0, 2, "id", "id", View::Always),
        number(2, 2, "unknown_02", "unknown", View::Unless(&[1])),
        number(4, 4, "position", "position", View::Always),
        number(8, 4, "size", "size", View::Always),
        number(12, 4, "symbol", "symbol offset", View::Layout),
    ],
};
const OUTPUT: Record = Record {
    at: 0,
    name: "output",
    fields: &[
        number(0, 2, "type", "type", View::Always),
        number(2, 2, "register", "o register", View::Always),
        number(4, 2, "mask", "mask", View::Always),
        number(6, 2, "unknown_06", "unknown", View::Unless(&[0])),
    ],
};
const UNIFORM: Record = Record {
    at: 0,
    name: "uniform",
    fields: &[
        number(0, 4, "symbol", "symbol offset", View::Layout),
        number(4, 2, "first", "first register", View::Always),
        number(6, 2, "last", "last register", View::Always),
    ],
};
const LINE: Record = Record {
    at: 0,
    name: "block 1",
    fields: &[
        number(0, 4, "file", "symbol offset of the file name", View::Always),
        number(4, 4, "line", "line", View::Always),
    ],
};
const NOTE: Record = Record {
    at: 0,
    name: "block 2",
    fields: &[
        number(0, 4, "instruction", "instruction", View::Always),
        numbers(4, (2, 4), "unknown", "unknown", View::Always),
    ],
};

/// Every record of both formats.
#[cfg(test)]
pub const RECORDS: [&Record; 12] =
    [&DVLB, &DVLP, &DVLP_REST, &DVLE, &DESCRIPTOR, &CONSTANT, &LABEL, &OUTPUT, &UNIFORM, &DVOJ, &LINE, &NOTE];

/// What a table consists of.
#[derive(Clone, Copy)]
enum Rows {
    Records(&'static Record),
    Words,
    Text,
}

/// The tables of each header: key, and rows. The header's keys are `KEY_offset` and `KEY_count`.
type Tables = &'static [(&'static str, Rows)];
const OF_DVLP: Tables = &[("code", Rows::Words), ("descriptors", Rows::Records(&DESCRIPTOR))];
const OF_DVLP_REST: Tables = &[("files", Rows::Text)];
const OF_DVLE: Tables = &[
    ("constants", Rows::Records(&CONSTANT)),
    ("labels", Rows::Records(&LABEL)),
    ("outputs", Rows::Records(&OUTPUT)),
    ("uniforms", Rows::Records(&UNIFORM)),
    ("symbols", Rows::Text),
];
const OF_DVOJ: Tables = &[
    ("constants", Rows::Records(&CONSTANT)),
    ("labels", Rows::Records(&LABEL)),
    ("code", Rows::Words),
    ("descriptors", Rows::Records(&DESCRIPTOR)),
    ("lines", Rows::Records(&LINE)),
    ("notes", Rows::Records(&NOTE)),
    ("outputs", Rows::Records(&OUTPUT)),
    ("uniforms", Rows::Records(&UNIFORM)),
    ("symbols", Rows::Text),
];

impl Rows {
    fn size(self) -> usize {
        match self {
            Rows::Records(record) => record.size(),
            Rows::Words => 4,
            Rows::Text => 1,
        }
    }
}

/// The fields of a linked file that [`picajit::container::shbin::Shbin::parse`] accepts.
pub fn shbin(walk: &mut Walk<'_>) -> Result<Map<String, Value>, FieldsError> {
    let mut file = read_shbin(walk)?;
    finish(walk, &mut file);
    Ok(file)
}

/// The same without its size, and without the bytes that no field gives.
pub fn read_shbin(walk: &mut Walk<'_>) -> Result<Map<String, Value>, FieldsError> {
    let mut file = walk.record(0, &DVLB)?;
    let count = walk.word(&file, "dvles_count");
    let offsets = words(walk, 8, count)?;
    let base = 8 + 4 * count;
    let mut program = walk.record(base, &DVLP)?;
    let mut tables = tables(walk, &program, base, OF_DVLP)?;
    let inside = |start: usize| (base..base + FULL_DVLP).contains(&start);
    let is_short = OF_DVLP.iter().any(|(key, _)| {
        let at = base + walk.word(&program, &format!("{key}_offset"));
        walk.word(&program, &format!("{key}_count")) > 0 && inside(at)
    }) || offsets.iter().any(|offset| offset.as_u64().is_some_and(|n| inside(n as usize)));
    if !is_short {
        let rest = walk.record(base + SHORT_DVLP, &DVLP_REST)?;
        tables.append(&mut self::tables(walk, &rest, base, OF_DVLP_REST)?);
        program.extend(rest);
    }
    program.append(&mut tables);
    let mut dvles = Vec::with_capacity(count);
    for offset in &offsets {
        let base = offset.as_u64().unwrap_or(0) as usize;
        let mut dvle = walk.record(base, &DVLE)?;
        let mut tables = self::tables(walk, &dvle, base, OF_DVLE)?;
        dvle.append(&mut tables);
        dvles.push(Value::Object(dvle));
    }
    file.insert("dvle_offsets".into(), offsets.into());
    file.insert("dvlp".into(), program.into());
    file.insert("dvles".into(), dvles.into());
    Ok(file)
}

/// The fields of an object that [`picajit::container::dvoj::Dvoj::parse`] accepts.
pub fn dvoj(walk: &mut Walk<'_>) -> Result<Map<String, Value>, FieldsError> {
    let mut file = read_dvoj(walk)?;
    finish(walk, &mut file);
    Ok(file)
}

/// The same without its size, and without the bytes that no field gives.
pub fn read_dvoj(walk: &mut Walk<'_>) -> Result<Map<String, Value>, FieldsError> {
    let mut file = walk.record(0, &DVOJ)?;
    let mut tables = tables(walk, &file, 0, OF_DVOJ)?;
    file.append(&mut tables);
    Ok(file)
}

/// Size, and the bytes that no field gives.
fn finish(walk: &mut Walk<'_>, file: &mut Map<String, Value>) {
    let others = walk.others().into_iter().map(|(at, bytes)| json!({ "at": at, "bytes": super::record::blob(bytes) }));
    file.insert("size".into(), json!(walk.bytes.len()));
    file.insert("other_bytes".into(), others.collect());
}

fn words(walk: &mut Walk<'_>, at: usize, count: usize) -> Result<Vec<Value>, FieldsError> {
    let bytes = walk.take(at, count.saturating_mul(4), count.saturating_mul(VALUE))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|w| json!(u32::from_le_bytes(*w))).collect())
}

fn tables(
    walk: &mut Walk<'_>,
    header: &Map<String, Value>,
    base: usize,
    list: Tables,
) -> Result<Map<String, Value>, FieldsError> {
    let mut all = Map::new();
    for (key, rows) in list {
        let [offset, count] = ["offset", "count"].map(|field| walk.word(header, &format!("{key}_{field}")));
        let at = base.saturating_add(offset);
        let value = match rows {
            _ if count == 0 && matches!(rows, Rows::Text) => json!(""),
            _ if count == 0 => json!([]),
            Rows::Text => text(walk.take(at, count, 2 * count)?),
            Rows::Words => words(walk, at, count)?.into(),
            Rows::Records(record) => {
                let mut list = walk.list(count, record)?;
                for n in 0..count {
                    list.push(walk.record(at + n * record.size(), record)?.into());
                }
                list.into()
            }
        };
        all.insert((*key).into(), value);
    }
    Ok(all)
}

/// Fields -> a file.
pub fn build(kind: Kind, file: &Map<String, Value>) -> Result<Vec<u8>, FieldsError> {
    let path = "fields";
    let mut canvas = Canvas::new(number_of(get(file, "size", path)?, 4, "fields.size")? as usize)?;
    if kind == Kind::Dvoj {
        canvas.put(0, &DVOJ.write(file, path)?, path)?;
        put_tables(&mut canvas, file, 0, OF_DVOJ, path)?;
    } else {
        canvas.put(0, &DVLB.write(file, path)?, path)?;
        let offsets = array(file, "dvle_offsets", path)?;
        let dvles = array(file, "dvles", path)?;
        for (key, list) in [("dvle_offsets", offsets), ("dvles", dvles)] {
            same_count(file, "dvles_count", list.len(), &format!("{path}.{key}"))?;
        }
        let base = 8 + 4 * offsets.len();
        canvas.put(8, &words_of(offsets, "fields.dvle_offsets")?, "fields.dvle_offsets")?;
        let path = "fields.dvlp";
        let program = object(get(file, "dvlp", "fields")?, path)?;
        canvas.put(base, &DVLP.write(program, path)?, path)?;
        put_tables(&mut canvas, program, base, OF_DVLP, path)?;
        if program.contains_key(DVLP_REST.fields[0].key) {
            canvas.put(base + SHORT_DVLP, &DVLP_REST.write(program, path)?, path)?;
            put_tables(&mut canvas, program, base, OF_DVLP_REST, path)?;
        }
        for (n, (offset, dvle)) in offsets.iter().zip(dvles).enumerate() {
            let path = format!("fields.dvles[{n}]");
            let (base, dvle) = (number_of(offset, 4, &path)? as usize, object(dvle, &path)?);
            canvas.put(base, &DVLE.write(dvle, &path)?, &path)?;
            put_tables(&mut canvas, dvle, base, OF_DVLE, &path)?;
        }
    }
    for (n, other) in array(file, "other_bytes", path)?.iter().enumerate() {
        let path = format!("fields.other_bytes[{n}]");
        let other = object(other, &path)?;
        let at = number_of(get(other, "at", &path)?, 4, &path)? as usize;
        canvas.put(at, &bytes_of(get(other, "bytes", &path)?, &path)?, &path)?;
    }
    Ok(canvas.into_bytes())
}

fn words_of(list: &[Value], path: &str) -> Result<Vec<u8>, FieldsError> {
    let mut out = Vec::new();
    for (n, value) in list.iter().enumerate() {
        out.extend((number_of(value, 4, &format!("{path}[{n}]"))? as u32).to_le_bytes());
    }
    Ok(out)
}

fn same_count(header: &Map<String, Value>, key: &str, rows: usize, path: &str) -> Result<(), FieldsError> {
    let count = number_of(get(header, key, path)?, 4, key)?;
    if count == rows as u64 {
        Ok(())
    } else {
        Err(FieldsError::Count { path: path.into(), key: key.into(), count, rows })
    }
}

fn put_tables(
    canvas: &mut Canvas,
    header: &Map<String, Value>,
    base: usize,
    list: Tables,
    path: &str,
) -> Result<(), FieldsError> {
    for (key, rows) in list {
        let path = format!("{path}.{key}");
        let bytes = match rows {
            Rows::Text => bytes_of(get(header, key, &path)?, &path)?,
            Rows::Words => words_of(array(header, key, &path)?, &path)?,
            Rows::Records(record) => {
                let mut out = Vec::new();
                for (n, row) in array(header, key, &path)?.iter().enumerate() {
                    let path = format!("{path}[{n}]");
                    out.extend(record.write(object(row, &path)?, &path)?);
                }
                out
            }
        };
        same_count(header, &format!("{key}_count"), bytes.len() / rows.size(), &path)?;
        if !bytes.is_empty() {
            let offset = number_of(get(header, &format!("{key}_offset"), &path)?, 4, &path)? as usize;
            canvas.put(base + offset, &bytes, &path)?;
        }
    }
    Ok(())
}
