//! Results of runs, in sequence -> text, JSON or a file of floats. Each result is written at once.

use crate::display::{self, count, exit_id, exit_text, printable};
use crate::floats;
use crate::load::LoadedEntry;
use crate::output_path::{self, WriteError};
use crate::pipe;
use picajit::internals::literal::format_vec4;
use picajit::isa::Stage;
use picajit::state::{Exit, Registers};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Three vertices and whether the first two are exchanged.
pub type Triangle = ([Registers; 3], bool);

/// Writes results.
pub struct Shower<'a> {
    name: &'a str,
    entry: &'a LoadedEntry,
    backend: &'static str,
    runs: usize,
    json: bool,
    /// Output registers to show, with their purposes padded to one width.
    registers: Vec<(usize, String)>,
    file: Option<Floats>,
    exits: Exits,
    triangles: usize,
    announced: bool,
}

/// A file of floats being written.
struct Floats {
    name: String,
    out: BufWriter<Box<dyn Write>>,
}

impl Floats {
    fn write(&mut self, registers: &Registers) -> Result<(), WriteError> {
        floats::write(registers, &mut self.out).map_err(|error| self.error(error))
    }

    fn error(&self, error: io::Error) -> WriteError {
        WriteError { name: printable(&self.name), error }
    }
}

type Shown = Result<(), Box<dyn std::error::Error>>;

impl<'a> Shower<'a> {
    /// For `runs` runs of an entry that writes `outputs`.
    pub fn new(
        name: &'a str,
        entry: &'a LoadedEntry,
        outputs: u16,
        backend: &'static str,
        runs: usize,
        json: bool,
    ) -> Shower<'a> {
        let purposes: Vec<_> = display::bits(outputs).map(|n| (n, display::purpose(&entry.dvle, n))).collect();
        let width = purposes.iter().map(|(_, p)| p.len()).max().unwrap_or(0);
        let pad = if width == 0 { 0 } else { width + 2 };
        let registers = purposes.into_iter().map(|(n, p)| (n, format!("{p:pad$}"))).collect();
        let exits = Exits::default();
        Shower { name, entry, backend, runs, json, registers, file: None, exits, triangles: 0, announced: false }
    }

    /// Sends values to a file; only a summary is shown.
    pub fn write_to(&mut self, path: &Path) -> Result<(), WriteError> {
        let name = path.display().to_string();
        let out: Box<dyn Write> = match pipe::is_pipe(path) {
            true => Box::new(io::stdout()),
            false => Box::new(File::create(path).map_err(|error| WriteError { name: printable(&name), error })?),
        };
        self.file = Some(Floats { name, out: BufWriter::new(out) });
        Ok(())
    }

    /// Before the first run.
    pub fn begin(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let head = json!({
            "file": self.name,
            "entry": self.entry.index,
            "stage": self.entry.entry.stage.to_string(),
            "backend": self.backend,
            "runs": self.runs,
            "outputs": self.file.as_ref().map(|f| &f.name),
        });
        let head = head.to_string();
        write!(out, "{}", head.strip_suffix('}').expect("an object ends in a brace"))?;
        if self.file.is_none() { write!(out, ",\"results\":[") } else { Ok(()) }
    }

    fn noun(&self) -> &'static str {
        match self.entry.entry.stage {
            Stage::Vertex => "vertex",
            Stage::Geometry => "invocation",
        }
    }

    /// Announces run `n`, whose trace follows before its results.
    pub fn announce(&mut self, n: usize, out: &mut dyn Write) -> io::Result<()> {
        self.announced = true;
        match (self.json, n) {
            (false, _) => writeln!(out, "{} {n}:", self.noun()),
            (true, 0) => write!(out, "\n{{\"trace\":["),
            (true, _) => write!(out, ",\n{{\"trace\":["),
        }
    }

    /// The head of a run's text.
    fn head(&self, n: usize, result: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.announced { writeln!(out, "  {result}") } else { writeln!(out, "{} {n}: {result}", self.noun()) }
    }

    fn registers(&self, indent: &str, values: &Registers, out: &mut dyn Write) -> io::Result<()> {
        for (n, purpose) in &self.registers {
            writeln!(out, "{indent}{:<4}{purpose}{}", format!("o{n}"), format_vec4(values[*n].map(display::result)))?;
        }
        Ok(())
    }

    fn registers_json(&self, values: &Registers) -> Value {
        let pairs =
            self.registers.iter().map(|(n, _)| (format!("o{n}"), display::vec4_json(values[*n].map(display::result))));
        Value::Object(pairs.collect())
    }

    fn item(&self, n: usize, item: &Value, out: &mut dyn Write) -> io::Result<()> {
        if self.announced {
            // The trace is its first field.
            return write!(out, "\n],{}", &item.to_string()[1..]);
        }
        write!(out, "{}\n{item}", if n == 0 { "" } else { "," })
    }

    /// Results of a vertex program.
    pub fn vertex(&mut self, n: usize, exit: Exit, outputs: &Registers, out: &mut dyn Write) -> Shown {
        self.exits.count(exit);
        if let Some(file) = &mut self.file {
            file.write(outputs)?;
        } else if self.json {
            let item = json!({ "exit": exit_id(exit), "outputs": self.registers_json(outputs) });
            self.item(n, &item, out)?;
        } else {
            let none = if self.registers.is_empty() { " (writes no output)" } else { "" };
            self.head(n, &format!("{}{none}", exit_text(exit)), out)?;
            self.registers("  ", outputs, out)?;
        }
        Ok(())
    }

    /// Triangles of a geometry program.
    pub fn invocation(&mut self, n: usize, exit: Exit, triangles: &[Triangle], out: &mut dyn Write) -> Shown {
        self.exits.count(exit);
        self.triangles += triangles.len();
        if let Some(file) = &mut self.file {
            triangles.iter().flat_map(|(vertices, _)| vertices).try_for_each(|v| file.write(v))?;
        } else if self.json {
            let triangle = |(vertices, winding): &Triangle| {
                let vertices: Vec<Value> = vertices.iter().map(|v| self.registers_json(v)).collect();
                json!({ "winding": winding, "vertices": vertices })
            };
            let triangles: Vec<Value> = triangles.iter().map(triangle).collect();
            self.item(n, &json!({ "exit": exit_id(exit), "triangles": triangles }), out)?;
        } else {
            self.head(n, &format!("{}, {}", exit_text(exit), count(triangles.len(), "triangle")), out)?;
            for (k, (vertices, winding)) in triangles.iter().enumerate() {
                let exchanged = if *winding { ", first two vertices exchanged in topology 3" } else { "" };
                writeln!(out, "  triangle {k}{exchanged}")?;
                for (slot, vertex) in vertices.iter().enumerate() {
                    writeln!(out, "    vertex {slot}")?;
                    self.registers("      ", vertex, out)?;
                }
            }
        }
        Ok(())
    }

    /// After the last run.
    pub fn end(mut self, out: &mut dyn Write) -> Shown {
        if let Some(file) = &mut self.file {
            let flushed = file.out.flush();
            flushed.map_err(|error| file.error(error))?;
        }
        let geometry = self.entry.entry.stage == Stage::Geometry;
        if self.json {
            let exits: Map<String, Value> = self.exits.iter().map(|(id, n)| (id.to_string(), json!(n))).collect();
            write!(out, "{}", if self.file.is_none() { "\n]" } else { "" })?;
            let triangles = if geometry { format!(",\"triangles\":{}", self.triangles) } else { String::new() };
            writeln!(out, ",\"exits\":{}{triangles}}}", Value::Object(exits))?;
        } else if let Some(file) = &self.file {
            let exits: Vec<String> = self.exits.iter().map(|(id, n)| format!("{n} {id}")).collect();
            let runs = count(self.runs, self.noun());
            let triangles = if geometry { format!(", {}", count(self.triangles, "triangle")) } else { String::new() };
            let (name, exits) = (printable(&file.name), exits.join(", "));
            let line = format!("{name}: {runs} ({exits}){triangles}, by {}", self.backend);
            output_path::say(Path::new(&file.name), line, out)?;
        }
        Ok(())
    }
}

/// Number of runs for each [`Exit`], by its number.
#[derive(Default)]
struct Exits([usize; 6]);

impl Exits {
    fn count(&mut self, exit: Exit) {
        self.0[exit as usize] += 1;
    }

    /// The exits that occurred, by their JSON names.
    fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> {
        const ALL: [Exit; 5] = [Exit::End, Exit::Fuel, Exit::BreakOutsideLoop, Exit::PastEnd, Exit::Cancelled];
        ALL.into_iter().map(|e| (exit_id(e), self.0[e as usize])).filter(|&(_, n)| n != 0)
    }
}
