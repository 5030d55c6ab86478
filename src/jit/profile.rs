//! Code that was just installed -> its name and its lines, for whoever asked to be told ([`Profiler`]).
//!
//! The program's listing is what perf takes for the source: line 1 stands for code that no instruction became, line `pc + 2` for
//! the instruction at `pc`. Invariant: whatever fails here, compiling goes on; the first failure is told once. It must not know
//! what code computes.

#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod jitdump;
#[cfg(target_os = "linux")]
mod perf;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use crate::isa::float24::Rounding;
use crate::isa::numeric::Precision;
use crate::jit::Variant;
use crate::jit::emit::Products;
use crate::jit::runtime::call::Code;
use crate::profiler::{Profiler, ProfilerError};
use crate::program::{Entry, Program};
use crate::text::inst_to_string;
use cranelift_codegen::Context;
#[cfg(target_os = "linux")]
use perf::Output;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Is told why a profiler is not.
pub(crate) type Handler = Box<dyn Fn(&ProfilerError) + Send + Sync>;

/// What one engine does for a profiler.
pub(crate) struct Profile {
    output: Option<Output>,
    problem: OnceLock<ProfilerError>,
    handler: OnceLock<Handler>,
    told: AtomicBool,
}

/// What code was compiled of.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) program: &'a Program,
    pub(crate) entry: Entry,
    pub(crate) precision: Precision,
    /// The kind of code: `vec4`, `exact`, `batch`, ...
    pub(crate) kind: &'a str,
}

/// One function, as a profiler is told of it.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to tell"))]
struct Installed<'a> {
    program: &'a Program,
    name: String,
    code: &'a [u8],
    /// Offset and line, ascending, from offset 0 on.
    rows: Vec<(u32, u32)>,
}

/// Where there is no profiler.
#[cfg(not(target_os = "linux"))]
enum Output {}

#[cfg(not(target_os = "linux"))]
impl Output {
    fn open(profiler: &Profiler) -> Result<Option<Output>, ProfilerError> {
        match profiler {
            Profiler::None => Ok(None),
            _ => Err(ProfilerError::Platform),
        }
    }

    fn record(&self, _: &Installed<'_>) -> Result<(), ProfilerError> {
        match *self {}
    }
}

impl Profile {
    /// Opens what `profiler` writes to. A failure is kept until there is somebody to tell.
    pub(crate) fn open(profiler: &Profiler) -> Profile {
        let (output, problem) = match Output::open(profiler) {
            Ok(output) => (output, OnceLock::new()),
            Err(problem) => (None, OnceLock::from(problem)),
        };
        Profile { output, problem, handler: OnceLock::new(), told: AtomicBool::new(false) }
    }

    /// Who is told why nothing is recorded. Only the first one that is given counts.
    pub(crate) fn on_problem(&self, handler: Handler) {
        let _ = self.handler.set(handler);
        self.tell();
    }

    fn tell(&self) {
        if let (Some(handler), Some(problem)) = (self.handler.get(), self.problem.get())
            && !self.told.swap(true, Ordering::Relaxed)
        {
            handler(problem);
        }
    }

    /// Records `code`, which `context` was compiled to, before anybody can run it.
    pub(crate) fn record(&self, subject: Subject<'_>, code: &Code, context: &Context) {
        let Some(output) = &self.output else { return };
        let words = subject.program.code().len();
        let ranges = context.compiled_code().map_or(&[][..], |c| c.buffer.get_srclocs_sorted());
        let ranges = ranges.iter().map(|range| (range.start..range.end, range.loc.bits()));
        let rows = rows(ranges, code.bytes().len(), words);
        let installed = Installed { program: subject.program, name: name(subject), code: code.bytes(), rows };
        if let Err(problem) = output.record(&installed) {
            let _ = self.problem.set(problem);
            self.tell();
        }
    }
}

/// What kind of code it is that runs one vertex.
pub(crate) fn kind(variant: Variant, products: Products) -> &'static str {
    match (variant, products) {
        (Variant::Unoptimised, _) => "unoptimised",
        (_, Products::Speculative) => "vec4",
        (_, Products::Exact) => "exact",
    }
}

/// `picajit:vertex@0x12:lanes:3f1c2a9b`: stage, entry, kind of code and, unless it is single precision, its number format; the first
/// eight digits of [`Program::hash128`](crate::program::Program::hash128).
fn name(subject: Subject<'_>) -> String {
    let Subject { program, entry, precision, kind } = subject;
    let format = match precision {
        Precision::F32 => "",
        Precision::F24 { rounding: Rounding::Nearest } => "-f24-nearest",
        Precision::F24 { rounding: Rounding::TowardZero } => "-f24-zero",
    };
    format!("picajit:{}@{:#x}:{kind}{format}:{:.8}", entry.stage, entry.pc, digits(program))
}

/// The hash of a program in hexadecimal digits.
fn digits(program: &Program) -> String {
    program.hash128().to_string()
}

/// The line of code that no instruction became.
const NO_INSTRUCTION: u32 = 1;

/// The line of the instruction at `pc`.
const fn line(pc: u32) -> u32 {
    pc + 2
}

/// A program, one instruction a line, address and word before it.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to show it"))]
fn listing(program: &Program) -> String {
    let mut out = format!("; PICA200 program {}; this line: code that no instruction became\n", digits(program));
    for ((pc, inst), word) in program.insts().zip(program.code()) {
        let _ = writeln!(out, "{pc:03x}  {word:08x}  {}", inst_to_string(&inst));
    }
    out
}

/// Where in `len` bytes of code which line begins, given the ranges of code that instructions became. Between and behind them is
/// what no instruction became.
fn rows(ranges: impl Iterator<Item = (std::ops::Range<u32>, u32)>, len: usize, words: usize) -> Vec<(u32, u32)> {
    let mut rows: Vec<(u32, u32)> = Vec::new();
    let mut from = |offset, line| {
        if rows.last().is_none_or(|&(_, before)| before != line) {
            rows.push((offset, line));
        }
    };
    let mut end = 0;
    for (range, pc) in ranges.filter(|(range, _)| !range.is_empty()) {
        if range.start > end {
            from(end, NO_INSTRUCTION);
        }
        from(range.start, if (pc as usize) < words { line(pc) } else { NO_INSTRUCTION });
        end = range.end;
    }
    if (end as usize) < len {
        from(end, NO_INSTRUCTION);
    }
    rows
}
