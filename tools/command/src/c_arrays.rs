//! A shader -> C definitions: words, addresses of entries and constants, as the C interface takes them.
//!
//! Invariant: the definitions of several shaders go together in one C or C++ file, if the names of their
//! files differ as identifiers.

use crate::load::{Loaded, LoadedEntry};
use picajit::container::float24::f24_to_f32;
use picajit::container::shbin::{Constant, Dvle};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The words and `entries` of a shader, under names that begin with that of its file.
pub fn definitions(loaded: &Loaded, entries: &[&LoadedEntry]) -> String {
    let name = identifier(&loaded.name);
    let upper = name.to_uppercase();
    let mut text = String::new();
    for LoadedEntry { index, entry, .. } in entries {
        line(&mut text, format_args!("#define {upper}_ENTRY_{index} {} /* the {} shader */", entry.pc, entry.stage));
    }
    for (part, words) in [("code", loaded.program.code()), ("opdescs", loaded.program.opdescs())] {
        // C has no empty arrays; the count is 0.
        let rows = if words.is_empty() { &[0] } else { words }.chunks(8);
        let rows = rows.map(|row| Vec::from_iter(row.iter().map(|word| format!("0x{word:08x},"))).join(" "));
        line(&mut text, format_args!("#define {upper}_{}_WORDS {}", part.to_uppercase(), words.len()));
        array(&mut text, format_args!("uint32_t {name}_{part}[{}]", words.len().max(1)), rows);
    }
    for LoadedEntry { index, dvle, .. } in entries {
        constants(&mut text, &format!("{name}_{index}"), dvle);
    }
    let math = if text.contains("INFINITY") || text.contains("NAN") { "#include <math.h>\n" } else { "" };
    format!("{math}#include <stdint.h>\n{text}")
}

/// The constants of each class that has some: register and value.
fn constants(text: &mut String, name: &str, dvle: &Dvle) {
    let mut classes = BTreeMap::<_, BTreeMap<u16, String>>::new();
    for constant in &dvle.constants {
        let (class, ctype, value) = match *constant {
            Constant::Float { value, .. } => ("c", "float value[4]", list(value.map(f24_to_f32).map(float))),
            Constant::Int { value, .. } => ("i", "uint8_t value[4]", list(value.map(|n| n.to_string()))),
            Constant::Bool { value, .. } => ("b", "uint8_t value", u8::from(value).to_string()),
        };
        // Of several for one register the last counts.
        classes.entry((class, ctype)).or_default().insert(constant.register(), value);
    }
    for ((class, ctype), rows) in classes {
        line(text, format_args!("#define {}_{}_CONSTANTS {}", name.to_uppercase(), class.to_uppercase(), rows.len()));
        let rows_of = rows.iter().map(|(n, value)| format!("{{{n}, {value}}},"));
        let declared = format_args!("struct {{ uint8_t n; {ctype}; }} {name}_{class}_constants[{}]", rows.len());
        array(text, declared, rows_of);
    }
}

fn array(text: &mut String, declared: std::fmt::Arguments<'_>, rows: impl Iterator<Item = String>) {
    line(text, format_args!("static const {declared} = {{"));
    rows.for_each(|row| line(text, format_args!("    {row}")));
    line(text, format_args!("}};"));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a string takes any text");
}

fn list(values: [String; 4]) -> String {
    format!("{{{}}}", values.join(", "))
}

/// A constant of C.
fn float(value: f32) -> String {
    match value {
        _ if value.is_nan() => "NAN".into(),
        f32::INFINITY => "INFINITY".into(),
        f32::NEG_INFINITY => "-INFINITY".into(),
        _ => format!("{value:?}f"),
    }
}

/// The name of a file without folders and ending, as a C identifier.
fn identifier(path: &str) -> String {
    let stem = Path::new(path).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().to_lowercase());
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("shader{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        let names = ["a/sky.v.pica", "Sky-2.shbin", "-", "2d.pica", "é.pica"].map(identifier);
        assert_eq!(names, ["sky_v", "sky_2", "shader_", "shader2d", "shader_"]);
    }

    #[test]
    fn numbers_are_constants_of_c() {
        let texts = [1.0, -0.0, 1e-10, f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(float);
        assert_eq!(texts, ["1.0f", "-0.0f", "1e-10f", "INFINITY", "-INFINITY", "NAN"]);
    }
}
