//! An instruction of the vertex processor: 128 bits, whose fields are all known by name. The values of
//! some have no known meaning and stay numbers.

use super::{bits, bytes, number, raw, set, words};

/// What a field's values are called.
#[derive(Clone, Copy)]
enum Names {
    Number,
    /// An operand of a unit.
    Source,
    /// The result that a store takes.
    Result,
    List(&'static [(u128, &'static str)]),
}

/// A field: name, bits, names of values, usual value.
type Field = (&'static str, usize, Names, u128);

const ADD: Names = Names::List(&[(0, "add"), (1, "floor"), (2, "sign"), (4, "ge"), (5, "lt"), (6, "min"), (7, "max")]);
const MUL: Names = Names::List(&[(0, "mul"), (1, "complex1"), (3, "complex2"), (4, "select")]);
const COMPLEX: Names = Names::List(&[
    (0, "nop"),
    (2, "exp2"),
    (3, "log2"),
    (4, "rsqrt"),
    (5, "rcp"),
    (9, "pass"),
    (12, "address12"),
    (13, "address13"),
    (14, "address14"),
    (15, "address15"),
]);
const PASS: Names = Names::List(&[(2, "pass"), (4, "preexp2"), (5, "postlog2"), (6, "clamp")]);
const FLAGS: Names = Names::List(&[(0, "normal"), (12, "temporary"), (13, "branch")]);
const NONE: u128 = 7;
const UNUSED: u128 = 21;

/// In the order of their bits.
const FIELDS: [Field; 36] = [
    ("mul0.a", 5, Names::Source, UNUSED),
    ("mul0.b", 5, Names::Source, UNUSED),
    ("mul1.a", 5, Names::Source, UNUSED),
    ("mul1.b", 5, Names::Source, UNUSED),
    ("mul0.negate", 1, Names::Number, 0),
    ("mul1.negate", 1, Names::Number, 0),
    ("acc0.a", 5, Names::Source, UNUSED),
    ("acc0.b", 5, Names::Source, UNUSED),
    ("acc1.a", 5, Names::Source, UNUSED),
    ("acc1.b", 5, Names::Source, UNUSED),
    ("acc.negate", 4, Names::Number, 0),
    ("load", 9, Names::Number, 0),
    ("load.offset", 3, Names::List(&[(1, "a1"), (2, "a2"), (3, "a3"), (7, "none")]), NONE),
    ("reg0", 4, Names::Number, 0),
    ("reg0.is_attribute", 1, Names::Number, 0),
    ("reg1", 4, Names::Number, 0),
    ("store0.is_temporary", 1, Names::Number, 0),
    ("store1.is_temporary", 1, Names::Number, 0),
    ("branch", 1, Names::Number, 0),
    ("branch.low", 1, Names::Number, 0),
    ("store0.x", 3, Names::Result, NONE),
    ("store0.y", 3, Names::Result, NONE),
    ("store1.z", 3, Names::Result, NONE),
    ("store1.w", 3, Names::Result, NONE),
    ("acc.op", 3, ADD, 0),
    ("complex.op", 4, COMPLEX, 0),
    ("store0", 4, Names::Number, 0),
    ("store0.is_varying", 1, Names::Number, 0),
    ("store1", 4, Names::Number, 0),
    ("store1.is_varying", 1, Names::Number, 0),
    ("mul.op", 3, MUL, 0),
    ("pass.op", 3, PASS, 2),
    ("complex.a", 5, Names::Source, UNUSED),
    ("pass.a", 5, Names::Source, UNUSED),
    ("flags", 4, FLAGS, 0),
    ("target", 8, Names::Number, 0),
];

/// Operands by their number; `None` for those of unknown meaning. `@1` and `@2` are results of the
/// last instruction and of the one before it.
const SOURCES: [Option<&str>; 32] = [
    Some("reg0.x"),
    Some("reg0.y"),
    Some("reg0.z"),
    Some("reg0.w"),
    Some("reg1.x"),
    Some("reg1.y"),
    Some("reg1.z"),
    Some("reg1.w"),
    None,
    None,
    None,
    None,
    Some("load.x"),
    Some("load.y"),
    Some("load.z"),
    Some("load.w"),
    Some("acc0@1"),
    Some("acc1@1"),
    Some("mul0@1"),
    Some("mul1@1"),
    Some("pass@1"),
    Some("unused"),
    Some("complex@1"),
    Some("pass@2"),
    Some("acc0@2"),
    Some("acc1@2"),
    Some("mul0@2"),
    Some("mul1@2"),
    Some("reg0@1.x"),
    Some("reg0@1.y"),
    Some("reg0@1.z"),
    Some("reg0@1.w"),
];
const RESULTS: [Option<&str>; 8] =
    [Some("acc0"), Some("acc1"), Some("mul0"), Some("mul1"), Some("pass"), None, Some("complex"), Some("none")];

impl Names {
    fn name(self, value: u128) -> Option<&'static str> {
        match self {
            Names::Number => None,
            Names::Source => SOURCES[value as usize],
            Names::Result => RESULTS[value as usize],
            Names::List(list) => list.iter().find(|row| row.0 == value).map(|row| row.1),
        }
    }
}

const WORDS: usize = 4;

pub fn lines(code: &[u8]) -> Vec<String> {
    let words = words(code);
    let (instructions, rest) = words.as_chunks::<WORDS>();
    instructions.iter().map(|words| line(words)).chain(rest.iter().map(|word| raw(*word))).collect()
}

fn line(words: &[u32]) -> String {
    let mut line = String::new();
    let mut at = 0;
    for (name, count, names, usual) in FIELDS {
        let value = bits(words, at, count);
        at += count;
        if value != usual {
            let value = names.name(value).map_or_else(|| value.to_string(), Into::into);
            line += &format!("{name}={value} ");
        }
    }
    // A line without fields would be lost.
    if line.is_empty() { "flags=normal".into() } else { line }
}

pub fn instruction(pairs: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    for (n, (key, _)) in pairs.iter().enumerate() {
        if !FIELDS.iter().any(|field| field.0 == *key) {
            return Err(format!("no field is called `{key}`"));
        }
        if pairs[..n].iter().any(|(other, _)| other == key) {
            return Err(format!("`{key}` is given twice"));
        }
    }
    let mut words = [0; WORDS];
    let mut at = 0;
    for (name, count, names, usual) in FIELDS {
        let value = match pairs.iter().find(|(key, _)| *key == name) {
            Some((_, text)) => {
                let named = (0..1 << count.min(5)).find(|value| names.name(*value) == Some(text));
                named.map_or_else(|| number(text, count as u32), Ok)?
            }
            None => usual,
        };
        set(&mut words, at, count, value);
        at += count;
    }
    Ok(bytes(&words))
}
