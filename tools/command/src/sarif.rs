//! Findings of lint and errors of sources -> a log in the Static Analysis Results Interchange
//! Format, 2.1.0.

use crate::linted::{Linted, columns, file_name};
use crate::load::LoadError;
use crate::uri;
use picajit::text::AsmError;
use picajit_lint::{Finding, Rule, Severity};
use serde_json::{Value, json};

/// The rule of what does not assemble.
const ASSEMBLY_ERROR: &str = "assembly-error";

/// The log of shaders, and of files that could not be read.
pub fn log(linted: &[Linted], errors: &[LoadError]) -> Value {
    let mut results: Vec<Value> = Vec::new();
    for file in linted {
        results.extend(file.findings.iter().map(|f| finding(file, f)));
    }
    let mut notifications: Vec<Value> = Vec::new();
    for error in errors {
        match error {
            LoadError::Source(errors) => results.extend(errors.iter().map(assembly_error)),
            other => notifications.push(json!({
                "level": "error",
                "message": { "text": other.to_string() },
                "locations": [location(&other.file(), None)],
            })),
        }
    }
    let mut rules = vec![json!({
        "id": ASSEMBLY_ERROR,
        "shortDescription": { "text": "the text does not assemble" },
        "defaultConfiguration": { "level": "error" },
    })];
    rules.extend(Rule::ALL.iter().map(rule));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "picajit lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": notifications.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    if severity == Severity::Note { "note" } else { severity.name() }
}

fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.name(),
        "shortDescription": { "text": rule.evidence() },
        "help": { "text": rule.help() },
        "defaultConfiguration": { "level": level(rule.severity()) },
    })
}

/// A place: the file, and its line and columns.
fn location(file: &str, region: Option<Value>) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri::reference(file) } });
    if let Some(region) = region {
        physical["region"] = region;
    }
    json!({ "physicalLocation": physical })
}

fn finding(file: &Linted, f: &Finding) -> Value {
    let region = f.source.map(|(_, line)| match columns(&file.loaded, f) {
        Some((first, end)) => json!({ "startLine": line, "startColumn": first, "endColumn": end }),
        None => json!({ "startLine": line }),
    });
    let mut location = location(file_name(&file.loaded, f), region);
    if let Some(pc) = f.pc {
        location["logicalLocations"] = json!([{ "name": format!("word {pc}") }]);
    }
    json!({
        "ruleId": f.rule.name(),
        "level": level(f.severity()),
        "message": { "text": format!("{}\nhelp: {}", f.message, f.help()) },
        "locations": [location],
    })
}

fn assembly_error(error: &AsmError) -> Value {
    let help = error.help.as_ref().map_or(String::new(), |help| format!("\nhelp: {help}"));
    let region = json!({ "startLine": error.line, "startColumn": error.column });
    json!({
        "ruleId": ASSEMBLY_ERROR,
        "level": "error",
        "message": { "text": format!("{}{help}", error.kind) },
        "locations": [location(&error.file, Some(region))],
    })
}
