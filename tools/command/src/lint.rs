//! `picajit lint`: shaders -> what goes wrong with them on consoles, as text, JSON or SARIF.

use crate::builtin::BUILTINS;
use crate::display::printable;
use crate::linted::{Linted, columns, file_name};
use crate::load::{self, LoadError, Loaded};
use crate::programs::groups;
use crate::sarif;
use crate::scan;
use crate::source::Source;
use crate::{Status, VerbResult};
use picajit::container::Kind;
use picajit::text;
use picajit_lint::{Finding, Rule, Severity, lint};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
A comment `; lint: allow RULE reason` allows a rule: in its line, in the next statement if it has a line of its own, in \
the whole file before the first statement. docs/lint.md explains every rule.
Exit codes: 0 nothing grave, 1 an error or a denied finding, 2 unreadable input.
Example: picajit lint --deny warning shader.v.pica")]
pub struct Args {
    /// Shader files, - for standard input, or folders to their depth; without any, the built-in
    /// shaders.
    /// Sources with a library (`.nodvle`) among them are one program
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 1 for this rule, or for `note`, `warning` or `error` and graver; by default for
    /// errors
    #[arg(long, value_name = "RULE", value_parser = denied)]
    deny: Vec<Denied>,
    /// Find the shaders inside of files of any kind, such as .3dsx, .elf and .a
    #[arg(long)]
    scan: bool,
    /// Print all rules with their evidence
    #[arg(long, conflicts_with_all = ["files", "sarif"])]
    rules: bool,
    /// Print a JSON array with one object for each file
    #[arg(long)]
    json: bool,
    /// Print a SARIF log, for code hosts; errors of sources are results too
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
}

/// What `--deny` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    Rule(Rule),
    From(Severity),
}

impl Denied {
    fn covers(self, rule: Rule) -> bool {
        match self {
            Denied::Rule(denied) => denied == rule,
            Denied::From(severity) => rule.severity() >= severity,
        }
    }
}

fn denied(name: &str) -> Result<Denied, String> {
    let severities = [Severity::Note, Severity::Warning, Severity::Error];
    let severity = severities.into_iter().find(|severity| severity.name() == name).map(Denied::From);
    let rule = Rule::from_name(name).map(Denied::Rule);
    severity.or(rule).ok_or_else(|| "expected a rule of `lint --rules`, or note, warning or error".into())
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    if args.rules {
        rules(args.json, out)?;
        return Ok(Status::Fine);
    }
    let (shaders, errors) = shaders(args);
    errors.iter().for_each(LoadError::report);
    let of = |loaded: Loaded| Linted { findings: lint(&loaded.subject()), loaded };
    let linted: Vec<Linted> = shaders.into_iter().map(of).collect();
    if args.sarif {
        writeln!(out, "{:#}", sarif::log(&linted, &errors))?;
    } else if args.json {
        let mut all: Vec<Value> = linted.iter().map(file_json).collect();
        all.extend(errors.iter().map(|error| error.json(&error.file())));
        writeln!(out, "{:#}", Value::from(all))?;
    } else {
        for file in &linted {
            text(file, out)?;
        }
        let count = |severity| linted.iter().flat_map(|l| &l.findings).filter(|f| f.severity() == severity).count();
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
        writeln!(out, "{} shaders: {errors} errors, {warnings} warnings, {notes} notes", linted.len())?;
    }
    let deny = if args.deny.is_empty() { vec![Denied::From(Severity::Error)] } else { args.deny.clone() };
    let is_denied = |f: &Finding| f.severity() == Severity::Error || deny.iter().any(|d| d.covers(f.rule));
    let found = if linted.iter().flat_map(|l| &l.findings).any(is_denied) { Status::Different } else { Status::Fine };
    Ok(errors.iter().map(scan::status).chain([found]).max().expect("there is one"))
}

fn shaders(args: &Args) -> (Vec<Loaded>, Vec<LoadError>) {
    let (mut shaders, mut errors) = (Vec::new(), Vec::new());
    if args.files.is_empty() {
        return (BUILTINS.iter().map(builtin).collect(), errors);
    }
    if args.scan {
        for paths in scan::all(&args.files, Kind::is_pica) {
            let loaded = paths.map_err(|(_, error)| error).and_then(|paths| load::load_all(&paths));
            loaded.map_or_else(|error| errors.push(error), |loaded| shaders.push(loaded));
        }
        return (shaders, errors);
    }
    let (groups, of_folders) = groups(&args.files, |kind| kind.is_pica());
    errors.extend(of_folders);
    for group in groups {
        load::load_all(&group.paths).map_or_else(|error| errors.push(error), |loaded| shaders.push(loaded));
    }
    (shaders, errors)
}

fn builtin(b: &crate::builtin::Builtin) -> Loaded {
    let assembly = text::assemble(b.source).expect("a test assembles each");
    let source = Source::single(b.name.into(), b.source.into(), assembly.lines);
    load::assembled(b.name.into(), assembly.shbin, source)
}

fn text(linted: &Linted, out: &mut dyn Write) -> io::Result<()> {
    let Linted { loaded, findings } = linted;
    for f in findings {
        let (place, excerpt) = place(loaded, f);
        writeln!(out, "{place}: {}: {} [{}]", f.severity(), f.message, f.rule)?;
        if !excerpt.is_empty() {
            writeln!(out, "    {excerpt}")?;
        }
        writeln!(out, "    help: {}", f.help())?;
    }
    Ok(())
}

/// Where a finding is, and the text there: the line of a source, `a.pica:12`; the word otherwise.
fn place(loaded: &Loaded, f: &Finding) -> (String, String) {
    let name = printable(file_name(loaded, f));
    if let Some(((_, text), (_, line))) = loaded.source.as_ref().and_then(|s| s.line(f.source?)).zip(f.source) {
        return (format!("{name}:{line}"), printable(text));
    }
    let entry = match f.entry {
        Some(entry) if loaded.entries.len() > 1 => format!(", entry {entry}"),
        _ => String::new(),
    };
    match f.pc {
        Some(pc) => {
            let inst = loaded.program.inst(pc).map(|inst| inst.to_string()).unwrap_or_default();
            let line = loaded.object_place(pc).map_or(String::new(), |place| format!(" ({place})"));
            (format!("{name}: word {pc}{entry}{line}"), inst)
        }
        None => (format!("{name}{entry}"), String::new()),
    }
}

fn finding_json(loaded: &Loaded, f: &Finding) -> Value {
    let mut json = json!({
        "file": file_name(loaded, f),
        "rule": f.rule.name(),
        "severity": f.severity().name(),
        "entry": f.entry,
        "pc": f.pc,
        "line": f.source.map(|(_, line)| line),
        "column": columns(loaded, f).map(|(first, _)| first),
        "message": f.message,
        "help": f.help(),
        "evidence": f.evidence(),
    });
    if let Some((file, line)) = f.pc.and_then(|pc| loaded.object_line(pc)) {
        json["object_line"] = json!({ "file": file, "line": line });
    }
    json
}

fn file_json(linted: &Linted) -> Value {
    json!({
        "file": linted.loaded.name,
        "findings": linted.findings.iter().map(|f| finding_json(&linted.loaded, f)).collect::<Vec<_>>(),
    })
}

fn rules(json: bool, out: &mut dyn Write) -> io::Result<()> {
    let row = |r: &Rule| json!({ "rule": r.name(), "severity": r.severity().name(), "evidence": r.evidence(), "help": r.help() });
    if json {
        return writeln!(out, "{:#}", Rule::ALL.iter().map(row).collect::<Value>());
    }
    for r in Rule::ALL {
        writeln!(out, "{r} ({})\n    {}\n    help: {}", r.severity(), r.evidence(), r.help())?;
    }
    Ok(())
}
