//! Mutants -> one source text that contains them all: *schemata*. Each place becomes
//! `if picajit::mutant::on(7) { changed } else { original }`, and a run selects one number.

use crate::mutant::{Form, Mutant};
use std::ops::Range;

/// A file with its mutants.
pub struct Rendered {
    pub text: String,
    /// For each mutant the bytes of its changed text, and those of its whole place.
    pub places: Vec<(usize, Range<usize>, Range<usize>)>,
}

/// Writes `source` with the mutants of these indices. Ranges nest or are disjoint; a mutant that
/// overlaps an earlier one is left out.
pub fn render(source: &str, all: &[Mutant], indices: &[usize]) -> Rendered {
    let mut order: Vec<usize> = indices.to_vec();
    order.sort_by_key(|&i| (all[i].range.start, std::cmp::Reverse(all[i].range.end), i));
    let mut out = Rendered { text: String::new(), places: Vec::new() };
    write_range(source, all, &order, 0..source.len(), &mut out);
    out
}

/// Writes the bytes `range` of the source with the mutants inside, which are in `order`.
fn write_range(source: &str, all: &[Mutant], order: &[usize], range: Range<usize>, out: &mut Rendered) {
    let mut at = range.start;
    let mut rest = order;
    while let [first, tail @ ..] = rest {
        let place = all[*first].range.clone();
        if place.start < at || place.end > range.end {
            // It crosses the end of another one.
            rest = tail;
            continue;
        }
        let same = 1 + tail.iter().take_while(|&&i| all[i].range == place).count();
        let (here, tail) = rest.split_at(same);
        let inside = tail.iter().take_while(|&&i| all[i].range.start < place.end).count();
        let (nested, tail) = tail.split_at(inside);
        out.text.push_str(&source[at..place.start]);
        write_place(source, all, here, nested, place.clone(), out);
        at = place.end;
        rest = tail;
    }
    out.text.push_str(&source[at..range.end]);
}

/// One place: the mutants `here`, and those inside its original.
fn write_place(
    source: &str,
    all: &[Mutant],
    here: &[usize],
    nested: &[usize],
    place: Range<usize>,
    out: &mut Rendered,
) {
    let start = out.text.len();
    // A deleted guard value: in a block of its own, the original would be dropped there.
    if let (&[mutant], Some((name, value))) = (here, guard_value(&source[place.clone()], &all[here[0]].new)) {
        out.text.push_str(&format!("let {name} = if picajit::mutant::on({}) {{ ", mutant + 1));
        let from = out.text.len();
        out.text.push_str("None");
        let new = from..out.text.len();
        out.text.push_str(&format!(" }} else {{ Some({value}) }};"));
        out.places.push((mutant, new, start..out.text.len()));
        return;
    }
    let expression = all[here[0]].form == Form::Expression;
    out.text.push_str(if expression { "(" } else { " " });
    let mut news = Vec::new();
    for &i in here {
        out.text.push_str(&format!("if picajit::mutant::on({}) {{ ", i + 1));
        let from = out.text.len();
        out.text.push_str(&all[i].new);
        news.push((i, from..out.text.len()));
        out.text.push_str(" } else ");
    }
    // In parentheses, or `{ {a} == b }` is a statement and then an error.
    out.text.push_str(if expression { "{ (" } else { "{ " });
    write_range(source, all, nested, place, out);
    out.text.push_str(if expression { ") })" } else { " }" });
    let end = out.text.len();
    out.places.extend(news.into_iter().map(|(i, new)| (i, new, start..end)));
}

/// The name and value of `let _name = value;`, if it is deleted.
fn guard_value<'a>(old: &'a str, new: &str) -> Option<(&'a str, &'a str)> {
    let (name, value) = old.trim().strip_prefix("let ")?.strip_suffix(';')?.split_once(" = ")?;
    (new.trim().is_empty() && name.starts_with('_') && !value.contains(';')).then_some((name, value))
}
