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
                    writeln!(out, "{:indent$}{heading:<WIDTH$}{value}", "")?;
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
