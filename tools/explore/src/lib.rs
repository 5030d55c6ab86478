//! A shader and values for it -> what a page shows, as JSON: words, graph, SSA, traces.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`words`] | a word and its descriptor | bit fields with names, operands |
//! | [`graph`] | a control-flow graph | blocks with their words and edges |
//! | [`trace`] | chosen vertices, on the oracle | every step as the registers that it changes |
//! | [`values`] | text, or a seed | uniforms and inputs |
//! | [`names`] | registers, semantics, text of files | names, and text that is safe to show |
//! | [`playground`] | a request with a source | the answer, or the assembler's error |
//!
//! Invariant: each text of a file passes [`names::visible`]; numbers of registers are their bits.
//! The page's script reads this JSON. The module must not depend on native code, so that it runs
//! where there is none.

pub mod graph;
pub mod names;
pub mod playground;
pub mod trace;
pub mod values;
pub mod words;

#[cfg(test)]
mod tests;

use names::{purpose, unified, visible};
use picajit::container::shbin::{Dvle, Shbin};
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::ir::{Form, Func};
use picajit::internals::kernel::default_fuel;
use picajit::isa::numeric::Precision;
use picajit::program::Program;
use picajit_lint::cost::{self, Cost};
use picajit_lint::lint;
use serde_json::{Map, Value, json};

/// A shader file, for a page.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kind of file.
    pub kind: &'a str,
    /// Code and tables.
    pub shbin: &'a Shbin,
    /// The program of `shbin`.
    pub program: &'a Program,
    /// The text it was assembled from, and for each word its line, from 1.
    pub source: Option<(&'a str, &'a [(u32, u32)])>,
}

/// The parts of a page that all entries share. `entries` are those of [`entry`].
pub fn page(subject: &Subject<'_>, entries: Vec<Value>) -> Value {
    let Subject { name, kind, shbin, program, source } = *subject;
    let line = |pc: usize| source.and_then(|(_, lines)| lines.get(pc)).map(|&(_, line)| line);
    let word = |(pc, inst)| {
        let at = usize::from(pc);
        words::word(program.code()[at], &inst, line(at))
    };
    json!({
        "format": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "name": visible(name),
        "kind": kind,
        "source": source.map(|(text, _)| text.lines().map(visible).collect::<Vec<_>>()),
        "words": program.insts().map(word).collect::<Vec<_>>(),
        "descriptors": shbin.opdescs.iter().map(|o| words::descriptor(o.word)).collect::<Vec<_>>(),
        "slots": trace::layout(),
        "findings": findings(subject),
        "timing": cost::TIMING,
        "entries": entries,
    })
}

/// Entry `index` of a page: names, graph and SSA. The caller adds traces and native code.
pub fn entry(subject: &Subject<'_>, index: usize) -> Value {
    let dvle = &subject.shbin.dvles[index];
    let entry = dvle.entry();
    let (graph, ssa) = match Cfg::build(subject.program, entry, Limits::default()) {
        Ok(cfg) => {
            let mut func = Func::build(&cfg, default_fuel(cfg.entry.stage), Form::Ssa);
            func.simplify(Precision::F32);
            (graph::graph(subject.program, &cfg), json!(numbered_lines(&func.to_string())))
        }
        Err(why) => (json!({ "error": why.to_string() }), json!(null)),
    };
    let labels = dvle.labels.iter().map(|label| json!([label.position, visible(&label.name)]));
    json!({
        "index": index,
        "stage": entry.stage.to_string(),
        "pc": entry.pc,
        "names": register_names(dvle),
        "labels": labels.collect::<Vec<_>>(),
        "cost": cost_of(subject, index),
        "graph": graph,
        "ssa": ssa,
    })
}

/// The subject of the rules.
fn linted<'a>(subject: &Subject<'a>) -> picajit_lint::Subject<'a> {
    let (sources, lines) = match subject.source {
        Some((text, lines)) => (vec![text], lines),
        None => (Vec::new(), &[][..]),
    };
    picajit_lint::Subject { lines, sources, ..picajit_lint::Subject::file(subject.program, subject.shbin) }
}

/// What goes wrong on consoles.
fn findings(subject: &Subject<'_>) -> Vec<Value> {
    let finding = |f: picajit_lint::Finding| {
        json!({
            "pc": f.pc,
            "line": f.source.map(|(_, line)| line),
            "entry": f.entry,
            "severity": f.severity().name(),
            "rule": f.rule.name(),
            "text": visible(&f.to_string()),
            "help": f.help(),
            "evidence": f.evidence(),
        })
    };
    lint(&linted(subject)).into_iter().map(finding).collect()
}

/// Instructions of the shortest and the longest run, and how often runs execute each word.
fn cost_of(subject: &Subject<'_>, index: usize) -> Value {
    let linted = linted(subject);
    match Cost::new(&linted, &linted.entries[index]) {
        Ok(cost) => {
            let words = cost.words.iter().map(|w| json!([w.pc, w.least, w.most]));
            json!({ "shortest": cost.shortest, "longest": cost.longest, "words": words.collect::<Vec<_>>() })
        }
        Err(_) => Value::Null,
    }
}

/// Declared names and purposes by register: `v0`, `c4`, `o0`, `b1`.
fn register_names(dvle: &Dvle) -> Value {
    let mut all = Map::new();
    for row in &dvle.uniforms {
        // A damaged table may name a range of any size.
        for (n, register) in (row.first..=row.last.min(0x87)).enumerate() {
            let name = visible(&row.name);
            let name = if row.first == row.last { name } else { format!("{name}[{n}]") };
            all.insert(unified(register), json!(name));
        }
    }
    for register in 0..16 {
        let purpose = purpose(dvle, register);
        if !purpose.is_empty() {
            all.insert(format!("o{register}"), json!(purpose));
        }
    }
    Value::Object(all)
}

/// Lines with the address that each begins with, if any: of SSA.
fn numbered_lines(text: &str) -> Vec<Value> {
    let line = |line: &str| {
        let trimmed = line.trim_start();
        let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let pc = trimmed[..digits].parse::<u32>().ok().filter(|_| trimmed[digits..].starts_with("  "));
        json!([pc, if pc.is_some() { &trimmed[digits + 2..] } else { trimmed.trim_end() }])
    };
    text.lines().map(line).collect()
}
