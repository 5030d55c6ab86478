//! `picajit`, the command. Arguments -> one verb -> text on standard output and an exit code.
//!
//! Invariant: standard output has results only; messages about the run go to standard error. Exit
//! codes: 0 success; 1 a difference or a failed check; 2 wrong usage or unreadable input. A closed
//! pipe ends the program quietly. Every verb is a file with `Args` and `run`; verbs are
//! independent.

mod asm;
mod bench;
mod build;
mod builtin;
mod c_arrays;
mod completions;
mod convert;
mod count_instructions;
mod cpu;
mod diff;
mod disasm;
mod display;
mod draws;
mod embedded;
mod explore;
mod extract;
mod fat;
mod fields;
mod floats;
mod foreign;
mod foreign_json;
mod frames;
mod frames_verb;
mod fuzz;
mod gpu_code;
mod html;
mod inspect;
mod interrupt;
mod jit_or_stub;
mod json_text;
mod link_check;
mod lint;
mod linted;
mod load;
mod lsp;
mod machine_code;
mod mali;
mod man;
mod measure;
mod object;
#[cfg(feature = "gpu-tests")]
mod on_gpus;
mod output_path;
mod pipe;
mod playground;
mod plot;
mod programs;
mod recorded;
mod regress_file;
mod report;
mod run;
mod sarif;
mod scan;
mod serve;
mod show;
mod source;
mod stress;
mod strip;
mod subject;
mod trace;
mod uri;
#[cfg(feature = "gpu-tests")]
#[path = "../../../jit-tests/verdict.rs"]
mod verdict;
mod verify;
#[cfg(feature = "gpu-tests")]
#[path = "../../../jit-tests/vulkan.rs"]
mod vulkan;

#[cfg(test)]
#[path = "../../../jit-tests/prerequisites.rs"]
mod prerequisites;

use clap::{Parser, Subcommand};
use picajit::internals::generator;
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Inspect, disassemble, assemble, run and compare PICA200 (Nintendo 3DS) shaders
#[derive(Parser)]
#[command(name = "picajit", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
FILE is a SHBIN, an unlinked object (DVOJ), or assembly text ending in .pica,
.vsh, .gsh, .s or .asm; or -, standard input. A result may go to -, standard output.
inspect, verify, extract, strip, convert and link-check also read MBS, VBC and Metal libraries.
Exit codes: 0 success, 1 a difference or a failed check, 2 wrong usage or unreadable input.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show the contents of shader files: entries, constants, names, instructions, cost
    Inspect(inspect::Args),
    /// Warn of everything in shaders that is known to go wrong on consoles
    Lint(lint::Args),
    /// Check shader files of every format against the rules of their format
    Verify(verify::Args),
    /// Write a stage, a function or the sources of an MBS, VBC or Metal library to files
    Extract(extract::Args),
    /// Write a Metal library without its sources and debug paths
    Strip(strip::Args),
    /// Write a VBC file in another dialect, or a VBC or MBS file repaired
    Convert(convert::Args),
    /// Write an SHBIN, DVOJ, MBS or VBC file from the fields that `inspect --json` printed
    Build(build::Args),
    /// Check whether a vertex and a fragment program in MBS files fit
    LinkCheck(link_check::Args),
    /// Print a shader as assembly text, or one of its compilation stages
    Disasm(disasm::Args),
    /// Write a page that shows a shader, its compilation and a trace, for any browser, offline; or serve an editor
    Explore(explore::Args),
    /// Write a page with editors, in which picajit runs as WebAssembly, for any browser, offline
    Playground(playground::Args),
    /// Assemble text to a SHBIN file or an object, or link objects to a SHBIN file
    Asm(asm::Args),
    /// Serve an editor: diagnostics, code actions, hover, completion, rename, formatting of assembly text
    Lsp(lsp::Args),
    /// Run a shader on given or generated values and show its outputs
    Run(run::Args),
    /// Run shaders on every engine and compare all results bit by bit
    Diff(diff::Args),
    /// Run random programs on every engine and compare all results bit by bit
    Fuzz(fuzz::Args),
    /// Run random programs through one engine with a small cache, and check its memory and results
    Stress(stress::Args),
    /// Recompile shaders, check them against the interpreter, and print compile and run times
    Bench(bench::Args),
    /// Print the script that completes verbs and options in a shell
    Completions(completions::Args),
    /// Print a page of the manual, or write all pages
    Man(man::Args),
}

/// Result of a verb that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Exit code 0.
    Fine,
    /// A difference was found or a check failed: exit code 1.
    Different,
    /// Some input was unusable, and standard error has a message: exit code 2.
    Unusable,
}

/// Result of every verb. An error is printed and gives exit code 2.
pub type VerbResult = Result<Status, Box<dyn Error>>;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version arrive here too, for standard output. A closed stream is no error.
            return match error.print().and_then(|()| io::stdout().flush()) {
                Err(failed) if !error.use_stderr() && failed.kind() != io::ErrorKind::BrokenPipe => unwritable(&failed),
                _ => ExitCode::from(error.exit_code() as u8),
            };
        }
    };
    // Not locked: the language server writes from a thread of its own.
    let mut out = BufWriter::new(io::stdout());
    let outcome = match &cli.verb {
        Verb::Inspect(args) => inspect::run(args, &mut out),
        Verb::Lint(args) => lint::run(args, &mut out),
        Verb::Verify(args) => verify::run(args, &mut out),
        Verb::Extract(args) => extract::run(args, &mut out),
        Verb::Strip(args) => strip::run(args, &mut out),
        Verb::Convert(args) => convert::run(args, &mut out),
        Verb::Build(args) => build::run(args, &mut out),
        Verb::LinkCheck(args) => link_check::run(args, &mut out),
        Verb::Disasm(args) => disasm::run(args, &mut out),
        Verb::Explore(args) => explore::run(args, &mut out),
        Verb::Playground(args) => playground::run(args, &mut out),
        Verb::Asm(args) => asm::run(args, &mut out),
        Verb::Lsp(args) => lsp::run(args),
        Verb::Run(args) => run::run(args, &mut out),
        Verb::Diff(args) => diff::run(args, &mut out),
        Verb::Fuzz(args) => fuzz::run(args, &mut out),
        Verb::Stress(args) => stress::run(args, &mut out),
        Verb::Bench(args) => bench::run(args, &mut out),
        Verb::Completions(args) => completions::run(args, &mut out),
        Verb::Man(args) => man::run(args, &mut out),
    };
    let outcome = outcome.and_then(|status| Ok(out.flush().map(|()| status)?));
    // After a failed write the buffer would be flushed again.
    let (_stdout, _unwritten) = out.into_parts();
    match outcome {
        Ok(Status::Fine) => ExitCode::SUCCESS,
        Ok(Status::Different) => ExitCode::from(1),
        Ok(Status::Unusable) => ExitCode::from(2),
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(error) = error.downcast_ref::<load::LoadError>() {
                error.report();
            } else if let Some(error) = error.downcast_ref::<io::Error>() {
                // Other files have errors of their own, with names.
                return unwritable(error);
            } else {
                report::error(&*error);
            }
            ExitCode::from(2)
        }
    }
}

fn unwritable(error: &io::Error) -> ExitCode {
    report::error(format_args!("standard output can't be written: {error}"));
    ExitCode::from(2)
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
