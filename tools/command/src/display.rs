//! Registers, semantics and values -> their names in text and JSON. Names from files are escaped
//! for terminals.

use picajit::container::float24::f24_to_f32;
use picajit::container::shbin::{Constant, GeometryMode, Output};
use picajit::internals::literal::{format_f32, format_vec4};
use picajit::state::Exit;
pub use picajit_explore::names::{components, purpose, semantic, unified};
use serde_json::{Value, json};
use std::path::Path;

/// An output row's register and components: `o1.xyz`; the register alone if it is whole.
pub fn wired(o: &Output) -> String {
    match o.mask & 0xF {
        0xF => format!("o{}", o.register),
        mask => format!("o{}.{}", o.register, components(mask)),
    }
}

/// First and last register of a uniform table's row: `c0-c3`.
pub fn unified_range(first: u16, last: u16) -> String {
    if first == last { unified(first) } else { format!("{}-{}", unified(first), unified(last)) }
}

/// Ascending numbers with a prefix, neighbours joined: `c0-c3, c9`.
pub fn ranges(prefix: &str, numbers: impl IntoIterator<Item = usize>) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for n in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => spans.push((n, n)),
        }
    }
    let text =
        |(a, b): (usize, usize)| if a == b { format!("{prefix}{a}") } else { format!("{prefix}{a}-{prefix}{b}") };
    spans.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The registers of a mask: `o0-o2, o5`.
pub fn mask(prefix: &str, mask: u16) -> String {
    ranges(prefix, bits(mask))
}

/// The numbers of the set bits.
pub fn bits(mask: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |n| mask >> n & 1 != 0)
}

/// A constant's register.
pub fn constant_register(c: &Constant) -> String {
    let class = match c {
        Constant::Bool { .. } => 'b',
        Constant::Int { .. } => 'i',
        Constant::Float { .. } => 'c',
    };
    format!("{class}{}", c.register())
}

/// A constant's value as text, as in the registers.
pub fn constant_value(c: &Constant) -> String {
    match c {
        Constant::Bool { value, .. } => value.to_string(),
        Constant::Int { value: [x, y, z, w], .. } => format!("({x}, {y}, {z}, {w})"),
        Constant::Float { value, .. } => format_vec4(value.map(f24_to_f32)),
    }
}

/// A constant's value as JSON.
pub fn constant_json(c: &Constant) -> Value {
    match c {
        Constant::Bool { value, .. } => json!(value),
        Constant::Int { value, .. } => json!(value),
        Constant::Float { value, .. } => vec4_json(value.map(f24_to_f32)),
    }
}

/// A result as it is shown. All NaNs are equal: sign and payload are the host's.
pub fn result(x: f32) -> f32 {
    if x.is_nan() { f32::NAN } else { x }
}

/// A float, exactly. Infinities and NaN are strings that picajit reads back.
pub fn float_json(x: f32) -> Value {
    if x.is_finite() { json!(x) } else { json!(format_f32(x)) }
}

/// Four floats.
pub fn vec4_json(v: [f32; 4]) -> Value {
    v.map(float_json).as_slice().into()
}

/// How a geometry program gets its vertices.
pub fn geometry(mode: GeometryMode) -> String {
    match mode {
        GeometryMode::Point => "point mode".into(),
        GeometryMode::Variable { main_vertices } => format!("variable mode, {main_vertices} main vertices"),
        GeometryMode::Fixed { start, vertices } => format!("fixed mode, {vertices} vertices from c{start}"),
        GeometryMode::Unknown { bytes } => format!("unknown mode {bytes:02x?}"),
    }
}

/// A name from a file, with control characters escaped.
pub fn printable(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// A path with control characters escaped. JSON has the path itself.
pub fn path_name(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// `1 word`, `2 words`.
pub fn count(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('y') => format!("{n} {}ies", &noun[..noun.len() - 1]),
        _ if noun.ends_with('x') => format!("{n} {}ices", &noun[..noun.len() - 2]),
        _ => format!("{n} {noun}s"),
    }
}

/// An exit as text.
pub fn exit_text(exit: Exit) -> &'static str {
    match exit {
        Exit::End => "end",
        Exit::Fuel => "out of fuel",
        Exit::BreakOutsideLoop => "break outside of a loop",
        Exit::PastEnd => "past the last word",
        Exit::Cancelled => "cancelled",
    }
}

/// An exit's name in JSON.
pub fn exit_id(exit: Exit) -> &'static str {
    match exit {
        Exit::End => "end",
        Exit::Fuel => "fuel",
        Exit::BreakOutsideLoop => "break-outside-loop",
        Exit::PastEnd => "past-end",
        Exit::Cancelled => "cancelled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use picajit::container::shbin::Dvle;

    #[test]
    fn names_have_readable_forms() {
        assert_eq!(ranges("c", [0, 1, 2, 5, 7, 8]), "c0-c2, c5, c7-c8");
        assert_eq!(mask("o", 0x8003), "o0-o1, o15");
        assert_eq!(unified_range(0x10, 0x13), "c0-c3");
        assert_eq!(unified_range(0x87, 0x87), "b15");
        assert_eq!(unified(0x74), "0x74");
        assert_eq!([count(1, "word"), count(0, "entry"), count(2, "vertex")], ["1 word", "0 entries", "2 vertices"]);
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
        assert_eq!(vec4_json([0.5, f32::INFINITY, -0.0, f32::NAN]).to_string(), r#"[0.5,"inf",-0.0,"nan"]"#);
    }

    #[test]
    fn one_register_may_serve_two_purposes() {
        let row = |semantic, register, mask| Output { semantic, register, mask, unknown: 0 };
        let dvle = Dvle { outputs: vec![row(0, 0, 15), row(3, 1, 3), row(5, 1, 12)], ..Dvle::default() };
        assert_eq!(purpose(&dvle, 0), "position");
        assert_eq!(purpose(&dvle, 1), "xy texcoord0, zw texcoord1");
        assert_eq!(purpose(&dvle, 2), "");
        assert_eq!(wired(&dvle.outputs[1]), "o1.xy");
    }
}
