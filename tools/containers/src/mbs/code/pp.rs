//! An instruction of the fragment processor: a control word, then the fields of the units that it
//! names, without gaps, and zeros up to the last word.

use super::{bits, bytes, number, raw, set, words};

/// Bits of each unit's field, in the order of the control word's bits from 7 on.
const UNITS: [usize; 12] = [34, 62, 41, 43, 30, 44, 31, 30, 41, 73, 64, 64];

/// A field of the control word: name, first bit, bits.
type Field = (&'static str, usize, usize);
/// Fields of the control word, units apart.
const FIELDS: [Field; 6] =
    [("length", 0, 5), ("stop", 5, 1), ("bit6", 6, 1), ("next", 19, 6), ("prefetch", 25, 1), ("high", 26, 6)];
const CONTROL: usize = 32;
const FIRST_UNIT: usize = 7;

pub fn lines(code: &[u8]) -> Vec<String> {
    let words = words(code);
    let mut rest = &words[..];
    let mut lines = Vec::new();
    while let Some((&control, after)) = rest.split_first() {
        let length = (control & 31) as usize;
        if let Some((this, next)) = rest.split_at_checked(length).filter(|_| length > 0)
            && let Some(line) = line(this)
        {
            lines.push(line);
            rest = next;
        } else {
            lines.push(raw(control));
            rest = after;
        }
    }
    lines
}

/// The units of a control word: number, first bit, bits. `end` is the bit after the last one.
fn units(control: u32) -> (Vec<(usize, usize, usize)>, usize) {
    let mut at = CONTROL;
    let mut units = Vec::new();
    for (n, &count) in UNITS.iter().enumerate().filter(|(n, _)| control >> (FIRST_UNIT + n) & 1 != 0) {
        units.push((n, at, count));
        at += count;
    }
    (units, at)
}

/// `None` if the length is not that of the units.
fn line(words: &[u32]) -> Option<String> {
    let (units, end) = units(words[0]);
    if end.div_ceil(32) != words.len() || bits(words, end, words.len() * 32 - end) != 0 {
        return None;
    }
    let field = |&(name, at, count): &Field| {
        let value = bits(words, at, count);
        if value == 0 { String::new() } else { format!("{name}={value} ") }
    };
    let unit = |(n, at, count): (usize, usize, usize)| format!("unit{n}={:#x} ", bits(words, at, count));
    Some(FIELDS.iter().map(field).chain(units.into_iter().map(unit)).collect())
}

pub fn instruction(pairs: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    let mut control = [0];
    let mut values = [None; UNITS.len()];
    for (n, (key, text)) in pairs.iter().enumerate() {
        if pairs[..n].iter().any(|(other, _)| other == key) {
            return Err(format!("`{key}` is given twice"));
        }
        if let Some((_, at, count)) = FIELDS.iter().find(|field| field.0 == *key) {
            set(&mut control, *at, *count, number(text, *count as u32)?);
            continue;
        }
        let unit = key.strip_prefix("unit").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < UNITS.len());
        let unit = unit.ok_or_else(|| format!("no field is called `{key}`"))?;
        control[0] |= 1 << (FIRST_UNIT + unit);
        values[unit] = Some(number(text, UNITS[unit] as u32)?);
    }
    let (units, end) = units(control[0]);
    let mut words = vec![0; end.div_ceil(32)];
    let length = (control[0] & 31) as usize;
    if length != words.len() {
        return Err(format!("`length` is {length}, and the units take {} words", words.len()));
    }
    words[0] = control[0];
    for (n, at, count) in units {
        set(&mut words, at, count, values[n].unwrap_or_default());
    }
    Ok(bytes(&words))
}
