//! A request with a source as JSON -> the JSON of its page, or an error with its place.
//!
//! The module runs in a browser as WebAssembly, so a request must end within a second or so,
//! whatever it holds: the traces of all entries share one bound.

use super::names::visible;
use super::trace::{Bounds, trace};
use super::{Subject, entry, page, values};
use crate::kernel::Config;
use crate::lint::Rule;
use crate::text::{AsmError, Assembler, Assembly, Options, Warning};
use serde_json::{Value, json};

/// Most vertices of a request.
const VERTICES: u64 = 1024;
/// Executed instructions of all entries.
const EXECUTED: u64 = 3_000_000;

/// Answers `{"source", "values", "vertices", "chosen"}`. Missing fields are empty, and one vertex.
/// Values that don't fit the source give an error beside the page, whose values are then generated.
pub fn answer(request: &str) -> String {
    let request: Value = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return failure("request", 0, 0, &error.to_string()).to_string(),
    };
    let text = |field: &str| request[field].as_str().unwrap_or("");
    let vertices = request["vertices"].as_u64().unwrap_or(1).clamp(1, VERTICES) as usize;
    let chosen: Vec<usize> = match request["chosen"].as_array() {
        Some(list) => list.iter().filter_map(Value::as_u64).map(|n| n as usize).collect(),
        None => vec![0],
    };
    explore(text("source"), text("values"), vertices, &chosen).unwrap_or_else(|error| error).to_string()
}

fn explore(source: &str, given: &str, vertices: usize, chosen: &[usize]) -> Result<Value, Value> {
    let mut assembler = Assembler::new(Options::default());
    let assembly = assembler.add_file("shader.pica", source).and_then(|()| assembler.finish());
    let Assembly { shbin, warnings, lines, .. } = assembly.map_err(|e| source_error(&e))?;
    let program = shbin.program().expect("the assembler gives no more code than a program holds");
    let source = Some((source, &lines[..]));
    let subject = Subject { name: "shader.pica", kind: "PICA200 assembly", shbin: &shbin, program: &program, source };
    let count = shbin.dvles.len();
    let share = |n: usize| n / count.max(1);
    let whole = Bounds::default();
    let bounds = Bounds {
        steps: share(whole.steps),
        bytes: share(whole.bytes),
        executed: EXECUTED / count.max(1) as u64,
        points: whole.points,
    };
    let (mut entries, mut wrong) = (Vec::new(), None);
    for (index, dvle) in shbin.dvles.iter().enumerate() {
        let values = values::read(given, dvle, vertices).unwrap_or_else(|e| {
            wrong.get_or_insert_with(|| failure("values", e.line as u32, 1, &e.to_string()));
            values::read("", dvle, vertices).expect("an empty text has no error")
        });
        let mut entry = entry(&subject, index);
        entry["trace"] = trace(&program, dvle, &values, chosen, Config::of(dvle.stage), bounds);
        entries.push(entry);
    }
    let mut page = page(&subject, entries);
    page["warnings"] = warnings.iter().map(warning).collect();
    // They are among the findings too, without columns.
    if let Some(findings) = page["findings"].as_array_mut() {
        findings.retain(|finding| finding["rule"] != Rule::LenientReading.name());
    }
    let mut answer = wrong.unwrap_or_else(|| json!({}));
    answer["page"] = page;
    Ok(answer)
}

fn source_error(error: &AsmError) -> Value {
    failure("source", error.line, error.column, &error.kind.to_string())
}

/// `part` is the field of the request with the error.
fn failure(part: &str, line: u32, column: u32, text: &str) -> Value {
    json!({ "error": { "in": part, "line": line, "column": column, "text": visible(text) } })
}

/// A warning of the assembler.
pub fn warning(warning: &Warning) -> Value {
    json!({ "line": warning.line, "column": warning.column, "text": visible(&warning.kind.to_string()) })
}
