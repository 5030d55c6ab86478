//! JSON -> aligned text: fields as lines, lists of objects as tables. Texts from files are escaped
//! for terminals.

use crate::display::printable;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Columns before a field's value.
const WIDTH: usize = 20;
/// The field whose objects have tables of their own, and so are no rows of a table.
const BLOCKS: &str = "programs";

/// An object, its fields indented by `indent`. Empty fields are left out.
pub fn object(fields: &Map<String, Value>, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    for (name, value) in fields {
        let heading = name.replace('_', " ");
        match value {
            Value::Array(rows) if name == BLOCKS => {
                for row in rows.iter().filter_map(Value::as_object) {
                    writeln!(out)?;
                    object(row, indent, out)?;
                }
            }
            Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
                writeln!(out, "{:indent$}{heading}", "")?;
                table(rows, indent + 2, out)?;
            }
            _ => {
                let value = cell(value);
                if !value.is_empty() {
                    let width = WIDTH.max(heading.len() + 2);
                    writeln!(out, "{:indent$}{heading:<width$}{value}", "")?;
                }
            }
        }
    }
    Ok(())
}

fn table(rows: &[Value], indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.retain(|name| rows.iter().any(|row| !cell(&row[name.as_str()]).is_empty()));
    let mut lines = vec![names.iter().map(|n| n.replace('_', " ")).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| names.iter().map(|n| cell(&row[n.as_str()])).collect()));
    let widths: Vec<usize> =
        (0..names.len()).map(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0)).collect();
    for line in lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(c, &width)| format!("{c:width$}")).collect();
        writeln!(out, "{:indent$}{}", "", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A value on one line. Flags that are not set and missing values are empty.
fn cell(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".into(),
        Value::String(text) => printable(text),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| match value {
                Value::String(text) => printable(text),
                Value::Bool(true) => name.clone(),
                Value::Bool(false) | Value::Null => String::new(),
                other => format!("{} {other}", name.replace('_', " ")),
            };
            let mut parts: Vec<String> = fields.iter().map(field).collect();
            parts.retain(|p| !p.is_empty());
            parts.join(" ")
        }
        number => number.to_string(),
    }
}

/// Most characters of a value in [`tree`].
const MOST_SHOWN: usize = 96;

/// An object of any depth: every value, long ones shortened.
pub fn tree(fields: &Map<String, Value>, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    for (name, value) in fields {
        let heading = name.replace('_', " ");
        match value {
            Value::Object(inner) if !inner.contains_key("hex") => {
                writeln!(out, "{:indent$}{heading}", "")?;
                tree(inner, indent + 2, out)?;
            }
            Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
                for (n, row) in rows.iter().enumerate() {
                    let Some(row) = row.as_object() else { continue };
                    let is_flat = row.values().all(|v| !v.is_object() && !has_objects(v));
                    if is_flat {
                        let cells: Vec<String> =
                            row.iter().map(|(k, v)| format!("{} {}", k.replace('_', " "), leaf(v))).collect();
                        writeln!(out, "{:indent$}{heading} {n}: {}", "", cells.join(", "))?;
                    } else {
                        writeln!(out, "{:indent$}{heading} {n}", "")?;
                        tree(row, indent + 2, out)?;
                    }
                }
            }
            value => writeln!(out, "{:indent$}{heading:<WIDTH$}  {}", "", leaf(value))?,
        }
    }
    Ok(())
}

fn has_objects(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.first().is_some_and(Value::is_object))
}

fn leaf(value: &Value) -> String {
    let text = match value {
        Value::Array(list) => {
            let shown = list.iter().take(MOST_SHOWN / 4).map(leaf).collect::<Vec<_>>().join(" ");
            if list.len() > MOST_SHOWN / 4 { format!("{shown} ... ({} in all)", list.len()) } else { shown }
        }
        Value::String(text) => printable(text),
        Value::Object(hex) => hex.get("hex").and_then(Value::as_str).unwrap_or_default().into(),
        Value::Null => "none".into(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MOST_SHOWN) {
        Some((at, _)) if !value.is_array() => format!("{}... ({} characters)", &text[..at], text.chars().count()),
        _ => text,
    }
}
