//! A request with a source as JSON -> the JSON of its page, or its errors with their places.
//!
//! The module runs in a browser as WebAssembly, so a request must end within a second or so,
//! whatever it holds: the traces of all entries share one bound.

use super::names::visible;
use super::trace::{Bounds, trace};
use super::{Subject, entry, page, values};
use picajit::internals::kernel::Config;
use picajit::text::{self, AsmError, Assembler, Assembly, Options, Warning};
use picajit_lint::Rule;
use serde_json::{Value, json};

/// Most vertices of a request.
const VERTICES: u64 = 1024;
/// Executed instructions of all entries.
const EXECUTED: u64 = 3_000_000;
/// Most errors of a source.
const ERRORS: usize = 100;
/// Name of a source without one.
const NAME: &str = "shader.pica";

/// Answers `{"source", "values", "vertices", "chosen", "name"}` with `{"page", "errors"}`. Missing
/// fields are empty, one vertex, and `shader.pica`; `chosen` are the traced vertices. Values that don't fit the source give an error beside the page,
/// whose values are then generated.
pub fn answer(request: &str) -> String {
    let request: Value = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => {
            let error = Failure { part: "request", line: 0, column: 0, text: error.to_string(), help: None };
            return json!({ "errors": [error.json()] }).to_string();
        }
    };
    let text = |field: &str| request[field].as_str().unwrap_or("");
    let vertices = request["vertices"].as_u64().unwrap_or(1).clamp(1, VERTICES) as usize;
    let chosen: Vec<usize> = match request["chosen"].as_array() {
        Some(list) => list.iter().filter_map(Value::as_u64).map(|n| n as usize).collect(),
        None => vec![0],
    };
    let name = request["name"].as_str().unwrap_or(NAME);
    explore(name, text("source"), text("values"), vertices, &chosen).unwrap_or_else(|error| error).to_string()
}

fn explore(name: &str, source: &str, given: &str, vertices: usize, chosen: &[usize]) -> Result<Value, Value> {
    let mut assembler = Assembler::new(Options::default());
    let assembly = assembler.add_file(name, source).and_then(|()| assembler.finish());
    let Assembly { shbin, warnings, lines, .. } = assembly.map_err(|first| source_errors(name, source, first))?;
    let program = shbin.program().expect("the assembler gives no more code than a program holds");
    let source = Some((source, &lines[..]));
    let subject = Subject { name, kind: "PICA200 assembly", shbin: &shbin, program: &program, source };
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
            let text = e.kind.to_string();
            let (text, help) = text.split_once("\nhelp: ").map_or((&*text, None), |(text, help)| (text, Some(help)));
            let (text, help) = (text.to_string(), help.map(String::from));
            wrong.get_or_insert(Failure { part: "values", line: e.line as u32, column: 1, text, help });
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
    Ok(json!({ "page": page, "errors": wrong.iter().map(Failure::json).collect::<Vec<_>>() }))
}

/// All errors of a source; `first` ended its assembly.
fn source_errors(name: &str, source: &str, first: AsmError) -> Value {
    let mut all = text::errors(&[(name, source)], Options::default());
    all.truncate(ERRORS);
    if all.is_empty() {
        all.push(first);
    }
    let errors = all.into_iter().map(|e| {
        let help = e.help.map(String::from);
        Failure { part: "source", line: e.line, column: e.column, text: e.kind.to_string(), help }.json()
    });
    json!({ "errors": errors.collect::<Vec<_>>() })
}

/// An error in a field of the request.
struct Failure {
    part: &'static str,
    line: u32,
    column: u32,
    text: String,
    help: Option<String>,
}

impl Failure {
    fn json(&self) -> Value {
        let help = self.help.as_deref().map(visible);
        json!({ "in": self.part, "line": self.line, "column": self.column, "text": visible(&self.text), "help": help })
    }
}

/// A warning of the assembler.
pub fn warning(warning: &Warning) -> Value {
    json!({ "line": warning.line, "column": warning.column, "text": visible(&warning.kind.to_string()) })
}
