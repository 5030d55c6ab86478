//! Installed code -> its name and its lines, for a profiler ([`Profiler`]).
//!
//! The program's listing serves perf as source: line 1 stands for code of no instruction, line
//! `pc + 2` for the instruction at `pc`. Invariant: a failure here never stops a compilation; the
//! first failure is reported once. The profiler does not know what code computes.

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
use crate::jit::abi::Stores;
use crate::jit::emit::Products;
use crate::jit::runtime::call::Code;
use crate::jit::settings::Variant;
use crate::profiler::{Profiler, ProfilerError};
use crate::program::{Entry, Program};
use cranelift_codegen::Context;
#[cfg(target_os = "linux")]
use perf::Output;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Receives the reason why the profiler does not hear of code.
pub(crate) type Handler = Box<dyn Fn(&ProfilerError) + Send + Sync>;

/// The connection of one engine to a profiler.
pub(crate) struct Profile {
    output: Option<Output>,
    problem: OnceLock<ProfilerError>,
    handler: OnceLock<Handler>,
    told: AtomicBool,
}

/// What code was compiled from.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) program: &'a Program,
    pub(crate) entry: Entry,
    pub(crate) precision: Precision,
    /// The kind of code: `vec4`, `exact`, `batch`, ...
    pub(crate) kind: &'a str,
}

/// One installed function, as the profiler records it.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to tell"))]
struct Installed<'a> {
    program: &'a Program,
    name: String,
    code: &'a [u8],
    /// Offsets and lines in ascending order, the first at offset 0.
    rows: Vec<(u32, u32)>,
}

/// No profiler on this system.
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
    /// Opens the output of `profiler`. A failure is kept until there is a handler.
    pub(crate) fn open(profiler: &Profiler) -> Profile {
        let (output, problem) = match Output::open(profiler) {
            Ok(output) => (output, OnceLock::new()),
            Err(problem) => (None, OnceLock::from(problem)),
        };
        Profile { output, problem, handler: OnceLock::new(), told: AtomicBool::new(false) }
    }

    /// Sets the handler of failures. Only the first handler counts.
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

    /// Records `code`, the code of `context`, before it can run.
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

/// The kind of code for one vertex.
pub(crate) fn kind(variant: Variant, products: Products, stores: Stores) -> &'static str {
    match (variant, products, stores) {
        (Variant::Unoptimised, ..) => "unoptimised",
        (_, Products::Speculative, Stores::Unit) => "vec4",
        (_, Products::Exact, Stores::Unit) => "exact",
        (_, Products::Speculative, Stores::Outputs) => "outputs",
        (_, Products::Exact, Stores::Outputs) => "exact outputs",
    }
}

/// `picajit:vertex@0x12:batch:3f1c2a9b`: stage, entry, kind of code, number format unless it is
/// single precision, and the first eight digits of
/// [`Program::hash128`](crate::program::Program::hash128).
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

/// The line of code that belongs to no instruction.
const NO_INSTRUCTION: u32 = 1;

/// The line of the instruction at `pc`.
const fn line(pc: u32) -> u32 {
    pc + 2
}

/// A listing of a program: a line each instruction, with address and word.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no profiler to show it"))]
fn listing(program: &Program) -> String {
    let mut out = format!("; PICA200 program {}; this line: code that no instruction became\n", digits(program));
    for ((pc, inst), word) in program.insts().zip(program.code()) {
        let _ = writeln!(out, "{pc:03x}  {word:08x}  {}", inst);
    }
    out
}

/// The lines of `len` bytes of code, given the code ranges of instructions. Code outside these
/// ranges belongs to no instruction.
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
