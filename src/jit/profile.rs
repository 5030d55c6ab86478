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

use super::Variant;
use super::code::Code;
use super::kernel::Source;
use super::math::Care;
use crate::isa::narrow::Rounding;
use crate::isa::numeric::Precision;
use crate::profiler::{Profiler, Unprofiled};
use crate::text::inst_to_string;
use cranelift_codegen::Context;
#[cfg(target_os = "linux")]
use perf::Output;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Is told why a profiler is not.
pub(super) type Handler = Box<dyn Fn(&Unprofiled) + Send + Sync>;

/// What one engine does for a profiler.
pub(super) struct Profile {
    output: Option<Output>,
    problem: OnceLock<Unprofiled>,
    handler: OnceLock<Handler>,
    told: AtomicBool,
}

/// One function, as a profiler is told of it.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to tell"))]
struct Installed<'a> {
    source: &'a Source,
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
    fn open(profiler: &Profiler) -> Result<Option<Output>, Unprofiled> {
        match profiler {
            Profiler::None => Ok(None),
            _ => Err(Unprofiled::Platform),
        }
    }

    fn record(&self, _: &Installed<'_>) -> Result<(), Unprofiled> {
        match *self {}
    }
}

impl Profile {
    /// Opens what `profiler` writes to. A failure is kept until there is somebody to tell.
    pub(super) fn open(profiler: &Profiler) -> Profile {
        let (output, problem) = match Output::open(profiler) {
            Ok(output) => (output, OnceLock::new()),
            Err(problem) => (None, OnceLock::from(problem)),
        };
        Profile { output, problem, handler: OnceLock::new(), told: AtomicBool::new(false) }
    }

    /// Who is told why nothing is recorded. Only the first one that is given counts.
    pub(super) fn on_problem(&self, handler: Handler) {
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
    pub(super) fn record(&self, source: &Source, kind: &str, code: &Code, context: &Context) {
        let Some(output) = &self.output else { return };
        let words = source.program.code().len();
        let ranges = context.compiled_code().map_or(&[][..], |c| c.buffer.get_srclocs_sorted());
        let ranges = ranges.iter().map(|range| (range.start..range.end, range.loc.bits()));
        let rows = rows(ranges, code.bytes().len(), words);
        let installed = Installed { source, name: name(source, kind), code: code.bytes(), rows };
        if let Err(problem) = output.record(&installed) {
            let _ = self.problem.set(problem);
            self.tell();
        }
    }
}

/// What kind of code it is that runs one vertex.
pub(super) fn kind(variant: Variant, care: Care) -> &'static str {
    match (variant, care) {
        (Variant::Unoptimised, _) => "unoptimised",
        (_, Care::Speculate) => "vec4",
        (_, Care::Exact) => "exact",
    }
}

/// `picajit:vertex@0x12:lanes:3f1c2a9b`: stage, entry, kind of code and, unless it is single precision, its number format; the first
/// eight digits of [`Program::hash128`](crate::program::Program::hash128).
fn name(source: &Source, kind: &str) -> String {
    let format = match source.config.precision {
        Precision::F32 => "",
        Precision::F24 { rounding: Rounding::Nearest } => "-f24-nearest",
        Precision::F24 { rounding: Rounding::TowardZero } => "-f24-zero",
    };
    format!("picajit:{}@{:#x}:{kind}{format}:{:.8}", source.entry.stage, source.entry.pc, digits(source))
}

/// The hash of a program in hexadecimal digits.
fn digits(source: &Source) -> String {
    source.program.hash128().to_string()
}

/// The line of code that no instruction became.
const NO_INSTRUCTION: u32 = 1;

/// The line of the instruction at `pc`.
const fn line(pc: u32) -> u32 {
    pc + 2
}

/// A program, one instruction a line, address and word before it.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to show it"))]
fn listing(source: &Source) -> String {
    let mut out = format!("; PICA200 program {}; this line: code that no instruction became\n", digits(source));
    for ((pc, inst), word) in source.program.insts().zip(source.program.code()) {
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
