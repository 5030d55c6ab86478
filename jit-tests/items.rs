//! The names and values of a `run:` line -> [`Item`]s: register, components, values.
//!
//! [`crate::outcome`] applies items to state and checks results against them.

use picajit::container::float24::f24_to_f32;
use picajit::internals::literal::parse_f32;
use picajit::isa::{BOOL_UNIFORMS, FLOAT_UNIFORMS, INT_UNIFORMS, REGS};
use picajit::state::Exit;

/// Something a run can set or expect.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// Components of a vector register.
    Vector { file: File, number: usize, lanes: Vec<usize> },
    /// `i0-i3`
    Int(usize),
    /// `b0-b15`
    Bool(usize),
    /// Components of `a0`.
    Address(Vec<usize>),
    /// `aL`
    Loop,
    /// Components of `cmp`.
    Flags(Vec<usize>),
    /// `bank`: the output bank being written.
    Bank,
    /// `setemit = (slot, primitive, winding)`
    Setemit,
    /// `fuel`: what backward transfers may cost.
    Fuel,
    /// `exit`
    Exit,
    /// `tris`: how many triangles were emitted.
    Triangles,
    /// `tri[n].winding`
    Winding(usize),
}

/// A file of vector registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum File {
    V,
    R,
    C,
    /// The outputs in the current bank: before the run when set, after it when expected.
    O,
    /// `bank0.o3`, `bank1.o3`
    Bank(usize),
    /// `slot2.o3`: a vertex slot that `EMIT` fills.
    Slot(usize),
    /// `tri[1].v2.o3`: a vertex of an emitted triangle.
    Triangle {
        triangle: usize,
        vertex: usize,
    },
}

/// The value of a location.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Exit(Exit),
}

/// One `location = value`.
#[derive(Clone, Debug)]
pub struct Item {
    /// The location as written, for messages.
    pub name: String,
    pub place: Location,
    pub value: Value,
}

/// Parses `a = 1, b = (2, 3)`; an empty text has no items.
pub fn items(text: &str) -> Result<Vec<Item>, String> {
    split_commas(text)?.into_iter().map(item).collect()
}

fn item(text: &str) -> Result<Item, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not `location = value`"))?;
    let (name, value) = (name.trim(), value.trim());
    let place = place(name).ok_or_else(|| format!("`{name}` is not a register or a result"))?;
    let words = match value.strip_prefix('(') {
        None => vec![value],
        Some(rest) => split_commas(rest.strip_suffix(')').ok_or_else(|| format!("`{value}` lacks its `)`"))?)?,
    };
    let value = convert(&place, &words).map_err(|e| format!("`{name}`: {e}"))?;
    Ok(Item { name: name.to_string(), place, value })
}

/// Splits at commas outside parentheses; parts are trimmed and not empty.
fn split_commas(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| format!("`{text}` has a `)` too many"))?,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    if depth != 0 {
        return Err(format!("`{text}` lacks a `)`"));
    }
    if parts == [""] {
        return Ok(Vec::new());
    }
    if parts.contains(&"") {
        return Err(format!("`{text}` has an empty part"));
    }
    Ok(parts)
}

fn place(name: &str) -> Option<Location> {
    match name {
        "aL" => return Some(Location::Loop),
        "bank" => return Some(Location::Bank),
        "setemit" => return Some(Location::Setemit),
        "fuel" => return Some(Location::Fuel),
        "exit" => return Some(Location::Exit),
        "tris" => return Some(Location::Triangles),
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("tri[") {
        let (triangle, rest) = rest.split_once("].")?;
        let triangle = triangle.parse().ok()?;
        if rest == "winding" {
            return Some(Location::Winding(triangle));
        }
        let (vertex, rest) = rest.strip_prefix('v')?.split_once('.')?;
        let vertex = vertex.parse().ok().filter(|&v| v < 3)?;
        return output(File::Triangle { triangle, vertex }, rest);
    }
    for (prefix, limit) in [("bank", 2), ("slot", 4)] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let (n, rest) = rest.split_once('.')?;
            let n = n.parse().ok().filter(|&n: &usize| n < limit)?;
            return output(if prefix == "bank" { File::Bank(n) } else { File::Slot(n) }, rest);
        }
    }
    let (base, suffix) = name.split_once('.').map_or((name, None), |(b, s)| (b, Some(s)));
    let lanes = |count: usize| lanes(suffix, count);
    match base {
        "a0" => return Some(Location::Address(lanes(2)?)),
        "cmp" => return Some(Location::Flags(lanes(2)?)),
        _ => {}
    }
    let number = |limit: usize| base[1..].parse().ok().filter(|&n: &usize| n < limit);
    match base.chars().next()? {
        'v' => Some(Location::Vector { file: File::V, number: number(REGS)?, lanes: lanes(4)? }),
        'r' => Some(Location::Vector { file: File::R, number: number(REGS)?, lanes: lanes(4)? }),
        'c' => Some(Location::Vector { file: File::C, number: number(FLOAT_UNIFORMS)?, lanes: lanes(4)? }),
        'o' => output(File::O, name),
        'i' if suffix.is_none() => Some(Location::Int(number(INT_UNIFORMS)?)),
        'b' if suffix.is_none() => Some(Location::Bool(number(BOOL_UNIFORMS)?)),
        _ => None,
    }
}

fn output(file: File, name: &str) -> Option<Location> {
    let (base, suffix) = name.split_once('.').map_or((name, None), |(b, s)| (b, Some(s)));
    let number = base.strip_prefix('o')?.parse().ok().filter(|&n: &usize| n < REGS)?;
    Some(Location::Vector { file, number, lanes: lanes(suffix, 4)? })
}

/// Components of a suffix like `xz`, each at most once; all `count` without a suffix.
fn lanes(suffix: Option<&str>, count: usize) -> Option<Vec<usize>> {
    let Some(letters) = suffix else { return Some((0..count).collect()) };
    let mut lanes = Vec::new();
    for letter in letters.chars() {
        let lane = "xyzw".find(letter).filter(|&l| l < count && !lanes.contains(&l))?;
        lanes.push(lane);
    }
    (!lanes.is_empty()).then_some(lanes)
}

fn convert(place: &Location, words: &[&str]) -> Result<Value, String> {
    let counted = |wanted: usize| {
        if words.len() == wanted { Ok(()) } else { Err(format!("{wanted} values wanted, {} given", words.len())) }
    };
    let ints = || {
        words.iter().map(|w| w.parse().map_err(|_| format!("`{w}` is not an integer"))).collect::<Result<Vec<i64>, _>>()
    };
    let bools = || words.iter().map(|w| boolean(w)).collect::<Result<Vec<bool>, _>>();
    match place {
        Location::Vector { lanes, .. } => {
            counted(lanes.len())?;
            Ok(Value::Floats(words.iter().map(|w| float(w)).collect::<Result<_, _>>()?))
        }
        Location::Int(_) => {
            counted(if words.len() == 3 { 3 } else { 4 })?;
            let values: Vec<i64> = ints()?;
            if values.iter().any(|v| !(0..=255).contains(v)) {
                return Err("an integer uniform holds bytes".into());
            }
            Ok(Value::Ints(values))
        }
        Location::Address(lanes) => counted(lanes.len()).and_then(|()| Ok(Value::Ints(ints()?))),
        Location::Flags(lanes) => counted(lanes.len()).and_then(|()| Ok(Value::Bools(bools()?))),
        Location::Bool(_) | Location::Winding(_) => counted(1).and_then(|()| Ok(Value::Bools(bools()?))),
        Location::Loop | Location::Bank | Location::Fuel | Location::Triangles => {
            counted(1).and_then(|()| Ok(Value::Ints(ints()?)))
        }
        Location::Setemit => {
            counted(3)?;
            let flag = |w: &str| boolean(w).map(i64::from);
            let slot: i64 = words[0].parse().map_err(|_| format!("`{}` is not a slot", words[0]))?;
            Ok(Value::Ints(vec![slot, flag(words[1])?, flag(words[2])?]))
        }
        Location::Exit => {
            counted(1)?;
            exit(words[0]).map(Value::Exit).ok_or_else(|| format!("`{}` is not an exit", words[0]))
        }
    }
}

fn boolean(word: &str) -> Result<bool, String> {
    match word {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{word}` is neither true nor false")),
    }
}

fn exit(word: &str) -> Option<Exit> {
    Some(match word {
        "end" => Exit::End,
        "fuel" => Exit::Fuel,
        "break-outside-loop" => Exit::BreakOutsideLoop,
        "past-end" => Exit::PastEnd,
        _ => return None,
    })
}

/// A number, or `f24#XXXXXX`: a float24 word as a host uploads it.
fn float(word: &str) -> Result<f32, String> {
    if let Some(digits) = word.strip_prefix("f24#") {
        let bits = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 6);
        return bits.map(f24_to_f32).ok_or_else(|| format!("`{word}` is not six hexadecimal digits after f24#"));
    }
    parse_f32(word).map_err(|e| format!("`{word}`: {e}"))
}
