//! Shaders -> the number of instructions of their native code, for each target CPU: `bench
//! --static`.
//!
//! Nothing runs, so the figures are the same on every host and in every run. An instruction is a
//! line of `disasm --stage host`, whether or not a run executes it.

use crate::jit_or_stub::{self, Making, NoBatchCode, Shape, TARGETS};
use crate::report;
use crate::subject::Subject;
use picajit::internals::float24::Rounding;
use picajit::isa::numeric::Precision;
use serde_json::json;
use std::io::{self, Write};

/// Kinds of code: name, shape, number format.
const KINDS: [(&str, Shape, Precision); 4] = [
    ("vec4", Shape::Vec4, Precision::F32),
    ("unopt.", Shape::Unoptimised, Precision::F32),
    ("batch", Shape::Batch, Precision::F32),
    ("f24", Shape::Vec4, Precision::F24 { rounding: Rounding::Nearest }),
];

/// Writes the table, or an object for each shader, CPU and kind. False if some shader did not
/// compile.
pub fn tally(subjects: &[Subject], json: bool, out: &mut dyn Write) -> io::Result<bool> {
    if !json {
        heading(out)?;
    }
    let mut whole = true;
    let mut sums = [[Some(0); KINDS.len()]; TARGETS.len()];
    for subject in subjects {
        let (title, words) = (subject.title(), subject.size().0);
        let counts = match counts(subject) {
            Ok(counts) => counts,
            Err(reason) => {
                report::error(format_args!("{title}: {reason}"));
                whole = false;
                continue;
            }
        };
        for ((target, row), sums) in TARGETS.iter().zip(&counts).zip(&mut sums) {
            for (((kind, ..), count), sum) in KINDS.iter().zip(row).zip(sums) {
                let Some((instructions, bytes)) = count else { continue };
                *sum = sum.map(|sum: usize| sum + instructions);
                if json {
                    let object = json!({
                        "shader": subject.shader, "entry": subject.index, "words": words, "target": target,
                        "kind": kind.trim_end_matches('.'), "instructions": instructions, "bytes": bytes,
                    });
                    writeln!(out, "{object}")?;
                }
            }
        }
        if !json {
            line(
                out,
                &title,
                &words.to_string(),
                &counts.map(|row| row.map(|c| c.map(|(instructions, _)| instructions))),
            )?;
        }
    }
    if !json {
        line(out, "all", "", &sums)?;
    }
    Ok(whole)
}

/// Instructions and bytes, if the shape has code.
type Counts = [[Option<(usize, usize)>; KINDS.len()]; TARGETS.len()];

fn counts(subject: &Subject) -> Result<Counts, picajit::internals::kernel::Unsupported> {
    let mut counts = Counts::default();
    for (target, row) in TARGETS.into_iter().zip(&mut counts) {
        for ((_, shape, precision), count) in KINDS.into_iter().zip(row) {
            let making = Making { target: Some(target), shape, precision };
            *count = match jit_or_stub::explain(&subject.program, subject.entry, making) {
                Ok(stages) => Some((stages.instructions, stages.code.len())),
                Err(NoBatchCode::Unsupported(why)) => return Err(why),
                #[cfg(feature = "jit")]
                Err(_) => None,
            };
        }
    }
    Ok(counts)
}

fn heading(out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{:20} {:5}", "instructions", "")?;
    TARGETS.iter().try_for_each(|target| write!(out, " | {target:<27}"))?;
    write!(out, "\n{:20} {:>5}", "", "words")?;
    for _ in TARGETS {
        write!(out, " |")?;
        KINDS.iter().try_for_each(|(kind, ..)| write!(out, " {kind:>6}"))?;
    }
    writeln!(out)
}

fn line(
    out: &mut dyn Write,
    title: &str,
    words: &str,
    counts: &[[Option<usize>; KINDS.len()]; TARGETS.len()],
) -> io::Result<()> {
    // Names of files can be long.
    let between = if title.chars().count() > 20 { "\n" } else { "" };
    let name = if between.is_empty() { title } else { "" };
    write!(out, "{}{between}{name:20} {words:>5}", if between.is_empty() { "" } else { title })?;
    for row in counts {
        write!(out, " |")?;
        for count in row {
            write!(out, " {:>6}", count.map_or("-".to_string(), |n| n.to_string()))?;
        }
    }
    writeln!(out)
}

#[cfg(all(test, feature = "jit"))]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_shader_has_a_line_and_registers_in_memory_cost_more() {
        let subjects = crate::subject::of(&[]).0;
        let mut out = Vec::new();
        assert!(tally(&subjects, false, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2 + subjects.len() + 1, "{text}");
        let all = text.lines().last().unwrap();
        for part in all.split(" |").skip(1) {
            let counts: Vec<usize> = part.split_whitespace().map(|n| n.parse().unwrap()).collect();
            assert!(counts[0] > 100 && counts[1] > counts[0] && counts[3] > counts[0], "{all}");
        }
    }
}
