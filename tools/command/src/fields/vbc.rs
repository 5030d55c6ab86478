//! VBC files <-> JSON, in the file's dialect. `build` computes the counts of tables.

use super::record::{Field, Record, View, array, blob, bytes_of, get, number, number_of, numbers, object, text};
use super::{FIELD, FieldsError, VALUE, Walk};
use picajit_containers::vbc::{Dialect, STAGES, SubpassInput, Vbc};
use serde_json::{Map, Value, json};

const HEAD: Record = Record {
    at: 0,
    name: "header",
    fields: &[
        Field { at: 0, form: super::record::Form::Text(3), key: "magic", name: "magic", view: View::Layout },
        number(3, 1, "version", "version", View::Always),
    ],
};
/// Absent in A0.
const TYPE: Record =
    Record { at: 4, name: "header", fields: &[number(0, 1, "shader_type", "shader type", View::Always)] };
const SIZES: Record = Record {
    at: 5,
    name: "header",
    fields: &[
        numbers(0, (5, 2), "stage_words", "words of vert, tesc, tese, geom, frag", View::Always),
        numbers(10, (5, 2), "tables", "sizes of the binding tables", View::Always),
    ],
};
const INTERFACE: Record = Record {
    at: 0,
    name: "input, output",
    fields: &[
        number(0, 1, "location", "location", View::Always),
        number(1, 1, "base", "base type", View::Always),
        number(2, 1, "rows", "components", View::Always),
        number(3, 1, "columns", "columns", View::Always),
        number(4, 1, "array", "array length", View::Always),
        numbers(5, (3, 1), "reserved", "zeros", View::Unless(&[0])),
    ],
};
const BINDING: Record = Record {
    at: 0,
    name: "binding",
    fields: &[
        number(0, 1, "slot", "slot", View::Always),
        number(1, 1, "base", "base type", View::Always),
        number(2, 2, "stages", "stage mask", View::Always),
        numbers(4, (4, 1), "detail", "buffer size, or rank, texel type, component size and count", View::Always),
    ],
};
const UNIFORM_STAGES: Record = Record {
    at: 0,
    name: "uniform block, after its size",
    fields: &[number(0, 2, "stages", "stage mask", View::Always)],
};
const MEMBER_TYPE: Record = Record {
    at: 0,
    name: "type of a member",
    fields: &[
        number(0, 1, "base", "base type", View::Always),
        number(1, 1, "rows", "components", View::Always),
        number(2, 1, "columns", "columns", View::Always),
        number(3, 1, "array", "array length", View::Always),
    ],
};
const SUBPASS: Record = Record {
    at: 0,
    name: "subpass input",
    fields: &[
        number(0, 1, "texel", "texel type", View::Always),
        number(1, 1, "count", "components", View::Always),
        number(2, 2, "reserved", "zero", View::Unless(&[0])),
    ],
};

/// Every record of the format.
#[cfg(test)]
pub const RECORDS: [&Record; 8] = [&HEAD, &TYPE, &SIZES, &INTERFACE, &BINDING, &UNIFORM_STAGES, &MEMBER_TYPE, &SUBPASS];

/// Bytes of the numbers that the dialects store in different widths.
struct Widths {
    count: usize,
    uniform: usize,
    offset: usize,
    name: usize,
    has_type: bool,
}

fn widths(dialect: Dialect) -> Widths {
    let count = if dialect == Dialect::A0 { 1 } else { 4 };
    match dialect {
        Dialect::C => Widths { count, uniform: 2, offset: 2, name: 1, has_type: true },
        Dialect::A2 => Widths { count, uniform: 4, offset: 4, name: 4, has_type: true },
        Dialect::A1 | Dialect::A0 => Widths { count, uniform: 4, offset: 4, name: 4, has_type: false },
    }
}

/// A position in the file, which the reader has accepted.
struct Reader<'w, 'a> {
    walk: &'w mut Walk<'a>,
    at: usize,
}

impl<'a> Reader<'_, 'a> {
    fn record(&mut self, record: &Record) -> Result<Map<String, Value>, FieldsError> {
        let map = self.walk.record(self.at, record)?;
        self.at += record.size();
        Ok(map)
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], FieldsError> {
        let bytes = self.walk.take(self.at, len, 2 * len)?;
        self.at += len;
        Ok(bytes)
    }

    fn number(&mut self, size: usize) -> Result<u64, FieldsError> {
        Ok(self.bytes(size)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    fn records(&mut self, count: usize, record: &Record) -> Result<Value, FieldsError> {
        let count = self.number(count)?;
        let mut list = self.walk.list(count as usize, record)?;
        for _ in 0..count {
            list.push(self.record(record)?.into());
        }
        Ok(list.into())
    }
}

/// The fields of a file that was read as `vbc`.
pub fn fields(walk: &mut Walk<'_>, vbc: &Vbc) -> Result<Map<String, Value>, FieldsError> {
    let dialect = vbc.dialect;
    let widths = widths(dialect);
    let mut r = Reader { walk, at: 0 };
    let mut map = Map::new();
    map.insert("dialect".into(), json!(dialect.to_string()));
    map.extend(r.record(&HEAD)?);
    if dialect != Dialect::A0 {
        map.extend(r.record(&TYPE)?);
    }
    map.extend(r.record(&SIZES)?);
    for (key, record) in [("inputs", &INTERFACE), ("outputs", &INTERFACE), ("bindings", &BINDING)] {
        map.insert(key.into(), r.records(widths.count, record)?);
    }
    let mut uniform = Map::new();
    let size = r.number(widths.uniform)?;
    uniform.insert("size".into(), json!(size));
    if size != 0 {
        uniform.extend(r.record(&UNIFORM_STAGES)?);
        let count = r.number(4)?;
        let mut members = r.walk.list(count as usize, &MEMBER_TYPE)?;
        for _ in 0..count {
            members.push(member(&mut r, dialect, &widths)?);
        }
        uniform.insert("members".into(), members.into());
    }
    map.insert("uniform".into(), uniform.into());
    let _count = r.number(4)?;
    let mut inputs = Vec::with_capacity(vbc.subpass_inputs.len());
    for input in &vbc.subpass_inputs {
        inputs.push(match input {
            SubpassInput::Plain { .. } => Value::Object(r.record(&SUBPASS)?),
            SubpassInput::Dumped(bytes) => json!({ "dumped": blob(r.bytes(bytes.len())?) }),
        });
    }
    map.insert("subpass_inputs".into(), inputs.into());
    let mut modules = Map::new();
    for (module, stage) in vbc.modules.iter().zip(STAGES) {
        modules.insert(stage.into(), blob(r.bytes(module.len())?));
    }
    map.insert("modules".into(), modules.into());
    Ok(map)
}

fn member(r: &mut Reader<'_, '_>, dialect: Dialect, widths: &Widths) -> Result<Value, FieldsError> {
    // Six fields in a map that grows by doubling.
    r.walk.hold(1, VALUE + 12 * FIELD)?;
    let mut map = Map::new();
    let name = |r: &mut Reader<'_, '_>, map: &mut Map<String, Value>| {
        let len = r.number(widths.name)? as usize;
        map.insert("name".into(), text(r.bytes(len)?));
        Ok::<_, FieldsError>(())
    };
    // Only C has the name first.
    if dialect == Dialect::C {
        name(r, &mut map)?;
    }
    map.insert("offset".into(), json!(r.number(widths.offset)?));
    if widths.has_type {
        map.extend(r.record(&MEMBER_TYPE)?);
    }
    if dialect != Dialect::C {
        name(r, &mut map)?;
    }
    Ok(map.into())
}

/// Fields -> a file.
pub fn build(file: &Map<String, Value>) -> Result<Vec<u8>, FieldsError> {
    let path = "fields";
    let dialect = super::dialect(file)?;
    let widths = widths(dialect);
    let mut out = HEAD.write(file, path)?;
    if dialect != Dialect::A0 {
        out.extend(TYPE.write(file, path)?);
    }
    out.extend(SIZES.write(file, path)?);
    for (key, record) in [("inputs", &INTERFACE), ("outputs", &INTERFACE), ("bindings", &BINDING)] {
        let rows = array(file, key, path)?;
        put(&mut out, rows.len() as u64, widths.count, key)?;
        for (n, row) in rows.iter().enumerate() {
            let path = format!("{path}.{key}[{n}]");
            out.extend(record.write(object(row, &path)?, &path)?);
        }
    }
    let uniform = object(get(file, "uniform", path)?, "fields.uniform")?;
    put_uniform(&mut out, uniform, dialect, &widths)?;
    let inputs = array(file, "subpass_inputs", path)?;
    put(&mut out, inputs.len() as u64, 4, "subpass_inputs")?;
    for (n, input) in inputs.iter().enumerate() {
        let path = format!("{path}.subpass_inputs[{n}]");
        let input = object(input, &path)?;
        match input.get("dumped") {
            Some(bytes) => out.extend(bytes_of(bytes, &path)?),
            None => out.extend(SUBPASS.write(input, &path)?),
        }
    }
    let modules = object(get(file, "modules", path)?, "fields.modules")?;
    for stage in STAGES {
        out.extend(bytes_of(get(modules, stage, "fields.modules")?, &format!("fields.modules.{stage}"))?);
    }
    Ok(out)
}

fn put_uniform(
    out: &mut Vec<u8>,
    uniform: &Map<String, Value>,
    dialect: Dialect,
    widths: &Widths,
) -> Result<(), FieldsError> {
    let path = "fields.uniform";
    let size = number_of(get(uniform, "size", path)?, widths.uniform, "fields.uniform.size")?;
    put(out, size, widths.uniform, path)?;
    if size == 0 {
        return Ok(());
    }
    out.extend(UNIFORM_STAGES.write(uniform, path)?);
    let members = array(uniform, "members", path)?;
    put(out, members.len() as u64, 4, path)?;
    for (n, member) in members.iter().enumerate() {
        let path = format!("{path}.members[{n}]");
        let member = object(member, &path)?;
        let name = bytes_of(get(member, "name", &path)?, &format!("{path}.name"))?;
        let mut named = Vec::new();
        put(&mut named, name.len() as u64, widths.name, &format!("{path}.name"))?;
        named.extend(name);
        let mut rest = Vec::new();
        put(&mut rest, number_of(get(member, "offset", &path)?, 8, &path)?, widths.offset, &format!("{path}.offset"))?;
        if widths.has_type {
            rest.extend(MEMBER_TYPE.write(member, &path)?);
        }
        let (first, second) = if dialect == Dialect::C { (named, rest) } else { (rest, named) };
        out.extend(first);
        out.extend(second);
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, value: u64, size: usize, path: &str) -> Result<(), FieldsError> {
    let value = number_of(&json!(value), size, path)?;
    out.extend(&value.to_le_bytes()[..size]);
    Ok(())
}
