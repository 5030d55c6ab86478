//! A container's bytes <-> JSON with every field of the format. `inspect` prints it, `build` reads
//! it.
//!
//! A reader of the library accepts the bytes first. The JSON has all of them: numbers, arrays, texts,
//! and hexadecimal digits for what the format does not describe.

mod canvas;
mod mbs;
mod metallib;
mod pica;
mod record;
mod vbc;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;

pub use metallib::fields as metallib;
pub use record::{Unusual, hex};

use picajit::container::Kind;
use picajit::container::dvoj::Dvoj;
use picajit::container::shbin::Shbin;
use picajit_containers::vbc::{Dialect, Vbc};
use record::Record;
use serde_json::{Map, Value, json};
use std::fmt;

/// Memory of a file's JSON: bytes for each byte of the file, and bytes for any file. With the file's
/// model and what `build` makes of the JSON it stays below 64 times the file and 1 MiB.
const MEMORY: (usize, usize) = (40, 640 << 10);
/// Memory of a value, and of a field with its key. Both are measured.
const VALUE: usize = 80;
const FIELD: usize = 144;

/// Why fields can't be shown, or are no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsError {
    /// The tables have more rows than the file has room for, so they overlap or are no tables.
    TooManyRows,
    /// A part is outside of the file.
    Outside { at: usize },
    /// The JSON lacks a value.
    Missing { path: String },
    /// A value has another form.
    Form { path: String, wanted: String },
    /// A number doesn't fit its field.
    TooLarge { path: String, value: u64, most: u64 },
    /// A table has another number of rows than its header says.
    Count { path: String, key: String, count: u64, rows: usize },
    /// A part is outside of the file's size.
    PastEnd { path: String, at: usize, len: usize, size: usize },
    /// Two parts use the same bytes.
    Overlap { path: String, at: usize, len: usize },
}

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldsError::TooManyRows => f.write_str("the tables have too many rows for the file's size"),
            FieldsError::Outside { at } => write!(f, "at {at:#x}: a part is outside of the file"),
            FieldsError::Missing { path } => {
                write!(f, "`{path}` is missing\nhelp: `inspect --json` prints every field that `build` reads")
            }
            FieldsError::Form { path, wanted } => write!(f, "`{path}` is not {wanted}"),
            FieldsError::TooLarge { path, value, most } => write!(f, "`{path}` is {value}, at most {most} is possible"),
            FieldsError::Count { path, key, count, rows } => {
                write!(f, "`{path}` has {rows} rows, and `{key}` is {count}\nhelp: change both")
            }
            FieldsError::PastEnd { path, at, len, size } => {
                write!(
                    f,
                    "`{path}`, {len:#x} bytes at {at:#x}, ends after the file's {size:#x} bytes\nhelp: change `size`"
                )
            }
            FieldsError::Overlap { path, at, len } => {
                write!(f, "`{path}`, {len:#x} bytes at {at:#x}, overlaps another part\nhelp: change its offset")
            }
        }
    }
}

impl std::error::Error for FieldsError {}

/// The fields of a file, and those with unusual values.
pub struct Fields {
    /// The JSON object.
    pub json: Map<String, Value>,
    /// What text shows in any case.
    pub unusual: Vec<Unusual>,
}

/// Memory that the JSON of a file of `size` bytes may take.
fn memory(size: u64) -> usize {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    MEMORY.0.saturating_mul(size).saturating_add(MEMORY.1)
}

/// A file whose fields are read.
pub struct Walk<'a> {
    bytes: &'a [u8],
    /// The bytes that a field gives.
    covered: Vec<bool>,
    /// Memory that the JSON may still take.
    memory: usize,
    unusual: Vec<Unusual>,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8]) -> Walk<'a> {
        Walk { bytes, covered: vec![false; bytes.len()], memory: memory(bytes.len() as u64), unusual: Vec::new() }
    }

    /// An empty list of rows, if that many records may still be held.
    fn list(&self, count: usize, record: &Record) -> Result<Vec<Value>, FieldsError> {
        let is_possible = count.saturating_mul(record.memory()) <= self.memory;
        if is_possible { Ok(Vec::with_capacity(count)) } else { Err(FieldsError::TooManyRows) }
    }

    /// Counts the memory of values.
    fn hold(&mut self, count: usize, size: usize) -> Result<(), FieldsError> {
        let left = self.memory.checked_sub(count.saturating_mul(size));
        self.memory = left.ok_or(FieldsError::TooManyRows)?;
        Ok(())
    }

    /// `len` bytes, whose values take `memory` bytes.
    fn take(&mut self, at: usize, len: usize, memory: usize) -> Result<&'a [u8], FieldsError> {
        self.hold(1, memory)?;
        let end = at.checked_add(len).filter(|&end| end <= self.bytes.len()).ok_or(FieldsError::Outside { at })?;
        self.covered[at..end].fill(true);
        Ok(&self.bytes[at..end])
    }

    fn record(&mut self, at: usize, record: &Record) -> Result<Map<String, Value>, FieldsError> {
        let bytes = self.take(at, record.size(), record.memory())?;
        record.read(bytes, at, &mut self.unusual).ok_or(FieldsError::Outside { at })
    }

    /// A number that a record gave.
    fn word(&self, map: &Map<String, Value>, key: &str) -> usize {
        map.get(key).and_then(Value::as_u64).unwrap_or(0) as usize
    }

    /// Runs of bytes that no field gives, without those of zeros alone.
    fn others(&self) -> Vec<(usize, &'a [u8])> {
        let mut runs = Vec::new();
        let mut at = 0;
        for run in self.covered.chunk_by(|a, b| a == b) {
            let bytes = &self.bytes[at..at + run.len()];
            if !run[0] && bytes.iter().any(|&b| b != 0) {
                runs.push((at, bytes));
            }
            at += run.len();
        }
        runs
    }
}

/// The fields of a file that the reader of `kind` accepts; a Metal library has [`metallib`].
pub fn of(kind: Kind, bytes: &[u8], vbc: Option<&Vbc>) -> Result<Fields, FieldsError> {
    let mut walk = Walk::new(bytes);
    let mut json = Map::new();
    json.insert("format".into(), json!(name(kind)));
    let mut fields = match (kind, vbc) {
        (Kind::Shbin, _) => pica::shbin(&mut walk)?,
        (Kind::Dvoj, _) => pica::dvoj(&mut walk)?,
        (Kind::Mbs, _) => mbs::fields(&mut walk)?,
        (Kind::Vbc, Some(vbc)) => vbc::fields(&mut walk, vbc)?,
        (Kind::Vbc | Kind::Metallib, _) => Map::new(),
    };
    json.append(&mut fields);
    Ok(Fields { json, unusual: walk.unusual })
}

/// Bytes of the SHBIN or DVOJ file that begins where `bytes` begin: up to the last byte that a field
/// gives, and zeros up to a multiple of 4. `None` if its reader rejects it.
pub fn size(kind: Kind, bytes: &[u8]) -> Option<usize> {
    let read = match kind {
        Kind::Shbin if Shbin::parse(bytes).is_ok() => pica::read_shbin,
        Kind::Dvoj if Dvoj::parse(bytes).is_ok() => pica::read_dvoj,
        _ => return None,
    };
    let mut walk = Walk::new(bytes);
    read(&mut walk).ok()?;
    let end = walk.covered.iter().rposition(|&is_covered| is_covered)? + 1;
    let padding = bytes[end..].iter().take(end.next_multiple_of(4) - end).take_while(|&&byte| byte == 0);
    Some(end + padding.count())
}

/// Fields -> a file of their format. The caller checks it with the format's reader.
pub fn build(fields: &Value) -> Result<(Kind, Vec<u8>), FieldsError> {
    let map = record::object(fields, "fields")?;
    let format = record::get(map, "format", "fields")?;
    let kind = Kind::ALL.into_iter().find(|kind| format.as_str() == Some(name(*kind)));
    let unknown = || FieldsError::Form { path: "fields.format".into(), wanted: "SHBIN, DVOJ, MBS1 or VBC".into() };
    let kind = kind.ok_or_else(unknown)?;
    let bytes = match kind {
        Kind::Shbin | Kind::Dvoj => pica::build(kind, map)?,
        Kind::Mbs => mbs::build(map)?,
        Kind::Vbc => vbc::build(map)?,
        Kind::Metallib => return Err(unknown()),
    };
    Ok((kind, bytes))
}

/// The name of a format in `format`.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Shbin => "SHBIN",
        Kind::Dvoj => "DVOJ",
        Kind::Mbs => "MBS1",
        Kind::Metallib => "MTLB",
        Kind::Vbc => "VBC",
    }
}

/// The dialect of VBC fields.
fn dialect(map: &Map<String, Value>) -> Result<Dialect, FieldsError> {
    let wanted = || FieldsError::Form { path: "fields.dialect".into(), wanted: "A0, A1, A2 or C".into() };
    record::get(map, "dialect", "fields")?.as_str().and_then(Dialect::from_name).ok_or_else(wanted)
}
