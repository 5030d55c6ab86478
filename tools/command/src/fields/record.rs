//! A record of fixed layout: bytes <-> JSON. Each format describes its records with [`Field`]s, and
//! reading, writing and the table in `docs/containers.md` follow that one description.

use super::{FIELD, FieldsError, VALUE};
use serde_json::{Map, Value, json};

/// How a field's bytes become JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number of 1, 2, 4 or 8 bytes, little endian.
    Number(usize),
    /// An array of numbers: how many, and the bytes of each.
    Numbers(usize, usize),
    /// So many bytes of text.
    Text(usize),
    /// So many bytes in hexadecimal.
    Hex(usize),
}

impl Form {
    pub(super) fn size(self) -> usize {
        match self {
            Form::Number(size) | Form::Text(size) | Form::Hex(size) => size,
            Form::Numbers(count, size) => count * size,
        }
    }
}

/// When `inspect` shows a field as text. JSON has every field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Always.
    Always,
    /// Where it has another value than these.
    Unless(&'static [u64]),
    /// With `--all`: it follows from the layout.
    Layout,
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Offset in the record.
    pub at: usize,
    /// Its form.
    pub form: Form,
    /// Its key in JSON.
    pub key: &'static str,
    /// What it is.
    pub name: &'static str,
    /// When text has it.
    pub view: View,
}

/// A number.
pub const fn number(at: usize, size: usize, key: &'static str, name: &'static str, view: View) -> Field {
    Field { at, form: Form::Number(size), key, name, view }
}

/// An array of numbers.
pub const fn numbers(
    at: usize,
    (count, size): (usize, usize),
    key: &'static str,
    name: &'static str,
    view: View,
) -> Field {
    Field { at, form: Form::Numbers(count, size), key, name, view }
}

/// A magic.
pub const fn magic() -> Field {
    Field { at: 0, form: Form::Text(4), key: "magic", name: "magic", view: View::Layout }
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its offset in the header that it is a part of.
    pub at: usize,
    /// Its name in `docs/containers.md`.
    pub name: &'static str,
    /// Its fields in the order of their offsets, without gaps.
    pub fields: &'static [Field],
}

/// A field with a value that known files lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusual {
    /// Offset in the file.
    pub at: usize,
    /// The record and the field.
    pub name: String,
    /// The value, as JSON prints it.
    pub value: String,
}

impl Record {
    /// Bytes of a record.
    pub const fn size(&self) -> usize {
        let last = self.fields[self.fields.len() - 1];
        last.at
            + match last.form {
                Form::Number(size) | Form::Text(size) | Form::Hex(size) => size,
                Form::Numbers(count, size) => count * size,
            }
    }

    /// Memory of the record's JSON.
    pub fn memory(&self) -> usize {
        let list = |field: &Field| if let Form::Numbers(count, _) = field.form { count * VALUE } else { 0 };
        VALUE + self.fields.iter().map(|field| FIELD + list(field) + 2 * field.form.size()).sum::<usize>()
    }

    /// The fields of the record at the start of `bytes`, which has them all. `at` is its offset.
    pub fn read(&self, bytes: &[u8], at: usize, unusual: &mut Vec<Unusual>) -> Option<Map<String, Value>> {
        let mut map = Map::with_capacity(self.fields.len());
        for field in self.fields {
            let body = bytes.get(field.at..field.at + field.form.size())?;
            let value = value(field.form, body);
            if let View::Unless(usual) = field.view
                && !is_usual(&value, usual)
            {
                let name = format!("{} {:02X}: {}", self.name, self.at + field.at, field.name);
                unusual.push(Unusual { at: at + field.at, name, value: value.to_string() });
            }
            map.insert(field.key.into(), value);
        }
        Some(map)
    }

    /// The inverse of [`Record::read`]. `path` names the object in errors.
    pub fn write(&self, map: &Map<String, Value>, path: &str) -> Result<Vec<u8>, FieldsError> {
        let mut out = Vec::new();
        for field in self.fields {
            let path = format!("{path}.{}", field.key);
            let value = map.get(field.key).ok_or_else(|| FieldsError::Missing { path: path.clone() })?;
            match field.form {
                Form::Number(size) => out.extend(&number_of(value, size, &path)?.to_le_bytes()[..size]),
                Form::Numbers(count, size) => {
                    let wrong =
                        || FieldsError::Form { path: path.clone(), wanted: format!("an array of {count} numbers") };
                    let list = value.as_array().filter(|list| list.len() == count).ok_or_else(wrong)?;
                    for (n, value) in list.iter().enumerate() {
                        out.extend(&number_of(value, size, &format!("{path}[{n}]"))?.to_le_bytes()[..size]);
                    }
                }
                Form::Text(size) | Form::Hex(size) => {
                    let bytes = bytes_of(value, &path)?;
                    if bytes.len() != size {
                        return Err(FieldsError::Form { path, wanted: format!("{size} bytes") });
                    }
                    out.extend(bytes);
                }
            }
        }
        Ok(out)
    }
}

fn value(form: Form, bytes: &[u8]) -> Value {
    match form {
        Form::Number(_) => json!(little_endian(bytes)),
        Form::Numbers(_, size) => bytes.chunks(size).map(little_endian).collect(),
        Form::Text(_) => text(bytes),
        Form::Hex(_) => blob(bytes),
    }
}

fn is_usual(value: &Value, usual: &[u64]) -> bool {
    match value {
        Value::Array(list) => list.iter().all(|value| is_usual(value, usual)),
        value => value.as_u64().is_some_and(|n| usual.contains(&n)),
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// Bytes as text; as hexadecimal digits if they are not UTF-8.
pub fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| blob(bytes), |text| json!(text))
}

/// Bytes as hexadecimal digits.
pub fn blob(bytes: &[u8]) -> Value {
    json!({ "hex": hex(bytes) })
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, b| {
        write!(text, "{b:02x}").expect("a String takes any text");
        text
    })
}

/// A number that `size` bytes hold.
pub fn number_of(value: &Value, size: usize, path: &str) -> Result<u64, FieldsError> {
    let most = u64::MAX >> (64 - 8 * size);
    let n = value.as_u64().ok_or_else(|| FieldsError::Form { path: path.into(), wanted: "a number from 0".into() })?;
    if n > most { Err(FieldsError::TooLarge { path: path.into(), value: n, most }) } else { Ok(n) }
}

/// The bytes that [`text`] or [`blob`] printed.
pub fn bytes_of(value: &Value, path: &str) -> Result<Vec<u8>, FieldsError> {
    if let Some(text) = value.as_str() {
        return Ok(text.as_bytes().to_vec());
    }
    let wrong = || FieldsError::Form { path: path.into(), wanted: "a text or an object with `hex` digits".into() };
    let digits = value["hex"].as_str().filter(|d| d.len().is_multiple_of(2)).ok_or_else(wrong)?;
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

/// The array at `key`.
pub fn array<'a>(map: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a [Value], FieldsError> {
    let path = || format!("{path}.{key}");
    let value = map.get(key).ok_or_else(|| FieldsError::Missing { path: path() })?;
    value.as_array().map(Vec::as_slice).ok_or_else(|| FieldsError::Form { path: path(), wanted: "an array".into() })
}

/// A value as an object.
pub fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, FieldsError> {
    value.as_object().ok_or_else(|| FieldsError::Form { path: path.into(), wanted: "an object".into() })
}

/// The value at `key`.
pub fn get<'a>(map: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a Value, FieldsError> {
    map.get(key).ok_or_else(|| FieldsError::Missing { path: format!("{path}.{key}") })
}
