//! Sources in picasso's language with picasso's words, descriptors, tables and bytes for them.
//!
//! A file of `picasso/` holds many small cases, one trial each. A case begins with `body NAME:
//! STATEMENTS` (placed into `.proc main` ... `.end`) or `file NAME: STATEMENTS`. Statements are
//! separated by ` / `; indented lines continue the case:
//!
//! | line | meaning |
//! |---|---|
//! | `+ STATEMENTS` | more of the source |
//! | `next: STATEMENTS` | a further file; the files are called a, b, c |
//! | `no-nop` | without padding |
//! | `code`, `od` and words | all code words, all descriptors |
//! | `bytes` and words | the whole file, leading zeros dropped, `\|` anywhere between words |
//! | `same NAME` | the same file as an earlier case of this text |
//! | `dvle N: KIND START-END IN OUT [MODE]` | header; kind `vertex`, `geometry`, `geometry+merge`; masks; mode bytes |
//! | `constants N:`, `outputs N:`, `uniforms N:` | all rows: `c95=1,2,3,4`, `type:oN.mask`, `name=first-last`, in hex |
//! | `header LINES` | the C header after its two fixed lines, ` / ` between lines, without `#define ` |
//! | `warn FILE:LINE:COLUMN TEXT` | a warning; all of them must be there, in order |
//! | `error FILE:LINE:COLUMN TEXT` | the expected error |
//!
//! `\t \r \0 \f` and `\s` stand for characters; `;` begins a comment line. No expectation comes
//! from the assembler under test: words are derived by hand or known from picasso.

use libtest_mimic::{Failed, Trial};
use picajit::container::shbin::{Constant, Dvle, Shbin};
use picajit::isa::Stage;
use picajit::text::{Assembler, Assembly, Options};
use std::path::Path;
use std::sync::Arc;

/// A case: its name, its files and the lines about it.
pub struct Case {
    pub name: String,
    pub files: Vec<String>,
    pub no_nop: bool,
    claims: Vec<(String, String)>,
}

/// One trial per case of a file; one failing trial if the file can't be read.
pub fn trials(name: &str, path: &Path) -> Vec<Trial> {
    let cases = match std::fs::read_to_string(path).map_err(|e| e.to_string()).and_then(|text| cases(&text)) {
        Ok(cases) => Arc::new(cases),
        Err(e) => return vec![Trial::test(name, move || Err(Failed::from(e)))],
    };
    let trial = |n: usize| {
        let cases = cases.clone();
        Trial::test(format!("{name}/{}", cases[n].name), move || check(&cases, n).map_err(Failed::from))
    };
    (0..cases.len()).map(trial).collect()
}

fn source(text: &str) -> String {
    let text = text.replace(" / ", "\n");
    [("\\t", "\t"), ("\\r", "\r"), ("\\0", "\0"), ("\\f", "\x0C"), ("\\s", " ")]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
}

/// The cases of a text.
pub fn cases(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut bodies = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let at = |what: &str| format!("line {}: {what}", n + 1);
        if line.trim().is_empty() || line.starts_with(';') {
            continue;
        }
        if let Some(line) = line.strip_prefix("  ") {
            let case = cases.last_mut().ok_or_else(|| at("there is no case yet"))?;
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "+" => *case.files.last_mut().expect("a case has a file") += &format!("\n{}", source(rest)),
                "next:" => case.files.push(source(rest)),
                "no-nop" => case.no_nop = true,
                _ => case.claims.push((word.into(), rest.into())),
            }
            continue;
        }
        let (head, rest) = line.split_once(": ").ok_or_else(|| at("expected `body NAME: ...` or `file NAME: ...`"))?;
        let (kind, name) = head.split_once(' ').ok_or_else(|| at("a case needs a name"))?;
        if !matches!(kind, "body" | "file") || cases.iter().any(|c| c.name == name) {
            return Err(at("expected `body` or `file` and a new name"));
        }
        if kind == "body" {
            bodies.push(cases.len());
        }
        cases.push(Case { name: name.into(), files: vec![source(rest)], no_nop: false, claims: Vec::new() });
    }
    for n in bodies {
        let first = &mut cases[n].files[0];
        *first = format!(".proc main\n{first}\n.end");
    }
    match cases.iter().find(|c| c.claims.is_empty()) {
        Some(case) => Err(format!("case {} claims nothing", case.name)),
        None if cases.is_empty() => Err("no cases".into()),
        None => Ok(cases),
    }
}

/// The assembly of a case's files, or an error with its place.
fn assemble(case: &Case) -> Result<Assembly, String> {
    let mut assembler = Assembler::new(Options { no_nop: case.no_nop });
    let names: Vec<String> = (b'a'..).take(case.files.len()).map(|c| char::from(c).to_string()).collect();
    let added = names.iter().zip(&case.files).try_for_each(|(name, text)| assembler.add_file(name, text));
    let error = |e: picajit::text::AsmError| format!("{}:{}:{} {}", e.file, e.line, e.column, e.kind);
    added.and_then(|()| assembler.finish()).map_err(error)
}

fn check(cases: &[Case], n: usize) -> Result<(), String> {
    let case = &cases[n];
    let claimed = |word: &str| case.claims.iter().filter(|c| c.0 == word).map(|c| c.1.clone()).collect::<Vec<_>>();
    let assembly = match (assemble(case), claimed("error").as_slice()) {
        (Ok(assembly), []) => assembly,
        (Ok(_), [error, ..]) => return Err(format!("accepted, expected: {error}")),
        (Err(got), [error]) if got == *error && case.claims.len() == 1 => return Ok(()),
        (Err(got), wanted) => return Err(format!("error: {got}\nexpected: {wanted:?}")),
    };
    let bytes = assembly.shbin.write().map_err(|e| e.to_string())?;
    let place = |w: &picajit::text::Warning| format!("{}:{}:{} {}", w.file, w.line, w.column, w.kind);
    equal("warnings", assembly.warnings.iter().map(place).collect(), claimed("warn"))?;
    for (word, rest) in case.claims.iter().filter(|c| c.0 != "warn") {
        let shbin = &assembly.shbin;
        // Claims about one entry point begin with its number.
        let dvle = || {
            let (n, rest) = rest.split_once(':').ok_or("expected `N: ...`")?;
            let n: usize = n.parse().map_err(|_| "not the number of an entry point")?;
            Ok::<_, String>((shbin.dvles.get(n).ok_or("no such entry point")?, split(rest)))
        };
        match word.as_str() {
            "code" => equal("code", shbin.code.clone(), words(rest)?)?,
            "od" => {
                equal("descriptors", shbin.opdescs.iter().map(|d| d.word).collect(), words(rest)?)?;
                equal("second words", shbin.opdescs.iter().map(|d| d.extra).collect(), vec![0; shbin.opdescs.len()])?;
            }
            "bytes" => {
                let whole = bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("whole words"))).collect();
                equal("bytes", whole, words(rest)?)?;
            }
            "same" => {
                let other = cases[..n].iter().find(|c| c.name == *rest).ok_or(format!("no case {rest} before"))?;
                equal("bytes", bytes.clone(), assemble(other)?.shbin.write().map_err(|e| e.to_string())?)?;
            }
            "dvles" => equal("entry points", vec![shbin.dvles.len().to_string()], split(rest))?,
            "dvle" => dvle().and_then(|(d, wanted)| equal("header", header_of(d), wanted))?,
            "constants" => dvle().and_then(|(d, wanted)| equal("constants", constants_of(d), wanted))?,
            "outputs" => dvle().and_then(|(d, wanted)| equal("outputs", outputs_of(d), wanted))?,
            "uniforms" => dvle().and_then(|(d, wanted)| equal("uniforms", uniforms_of(d), wanted))?,
            "header" => {
                let lines = rest.split(" / ").filter(|l| !l.is_empty()).map(|l| format!("#define {l}\n"));
                let wanted = format!("// Generated by picasso\n#pragma once\n{}", lines.collect::<String>());
                equal("header", vec![assembly.c_header()], vec![wanted])?;
            }
            other => return Err(format!("no claim is called `{other}`")),
        }
    }
    // The written file reads back as an equal value.
    let again = Shbin::parse(&bytes).map_err(|e| format!("can't be read back: {e}"))?;
    if again == assembly.shbin { Ok(()) } else { Err("reads back as something else".into()) }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: Vec<T>, wanted: Vec<T>) -> Result<(), String> {
    let message = || format!("{what}\n  expected: {wanted:08X?}\n       got: {got:08X?}");
    if got == wanted { Ok(()) } else { Err(message()) }
}

fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

fn words(text: &str) -> Result<Vec<u32>, String> {
    let number = |w: &str| u32::from_str_radix(w, 16).map_err(|_| format!("`{w}` is not a hexadecimal word"));
    text.split_whitespace().filter(|w| *w != "|").map(number).collect()
}

fn header_of(d: &Dvle) -> Vec<String> {
    let kind = match (d.stage, d.merge_outmaps) {
        (Stage::Vertex, false) => "vertex",
        (Stage::Vertex, true) => "vertex+merge",
        (Stage::Geometry, false) => "geometry",
        (Stage::Geometry, true) => "geometry+merge",
    };
    let mut out = vec![kind.to_string(), format!("{:X}-{:X}", d.entry, d.end)];
    out.extend([d.input_mask, d.output_mask].map(|mask| format!("{mask:04X}")));
    let mode = d.geometry.to_bytes();
    if d.stage == Stage::Geometry || mode != [0; 4] {
        out.extend(mode.map(|byte| format!("{byte:02X}")));
    }
    out
}

fn constants_of(d: &Dvle) -> Vec<String> {
    let row = |c: &Constant| match *c {
        Constant::Bool { register, value } => format!("b{register}={}", u8::from(value)),
        Constant::Int { register, value: [x, y, z, w] } => format!("i{register}={x:X},{y:X},{z:X},{w:X}"),
        Constant::Float { register, value: [x, y, z, w] } => format!("c{register}={x:X},{y:X},{z:X},{w:X}"),
    };
    d.constants.iter().map(row).collect()
}

fn outputs_of(d: &Dvle) -> Vec<String> {
    d.outputs.iter().map(|o| format!("{}:o{}.{:X}", o.semantic, o.register, o.mask)).collect()
}

fn uniforms_of(d: &Dvle) -> Vec<String> {
    d.uniforms.iter().map(|u| format!("{}={:X}-{:X}", u.name, u.first, u.last)).collect()
}
