//! An executed instruction -> a line: address, instruction, results, and the target of a taken
//! transfer.

use crate::display;
use picajit::interp::Step;
use picajit::isa::{DstFile, Inst, Opcode, Stage};
use picajit::text::inst_to_string;
use picajit::text::literal::format_vec4;

/// The line of `step` on a unit of kind `stage`. `al` is aL before the step, updated to aL after
/// it. `place` is the line of the source that an object names.
pub fn line(step: &Step<'_>, stage: Stage, al: &mut i32, place: Option<String>) -> String {
    let mut effects = effects(step, stage);
    // The last word of a body changes aL too.
    if step.unit.al != *al || matches!(step.inst, Inst::Loop { .. }) {
        *al = step.unit.al;
        effects.push(format!("aL = {al}"));
    }
    match step.next {
        Some(next) if next != step.pc.wrapping_add(1) => effects.push(format!("-> {next}")),
        _ => {}
    }
    let text = format!("    {:>4}  {:<36}  {}", step.pc, inst_to_string(step.inst), effects.join(", "));
    let place = place.map_or(String::new(), |place| format!("  ; {place}"));
    format!("{}{place}", text.trim_end())
}

fn effects(step: &Step<'_>, stage: Stage) -> Vec<String> {
    let unit = step.unit;
    let flags = || format!("cmp = ({}, {})", unit.cmp[0], unit.cmp[1]);
    match step.inst {
        Inst::Alu(alu) => {
            let mut effects = Vec::new();
            if let Some((file, _, value)) = step.written() {
                let name = match file {
                    DstFile::Output(n) => format!("o{n}"),
                    DstFile::Temp(n) => format!("r{n}"),
                };
                effects.push(format!("{name} = {}", format_vec4(value.map(display::result))));
            }
            if alu.op == Opcode::Litp {
                effects.push(flags());
            }
            effects
        }
        Inst::Mova { .. } => vec![format!("a0 = ({}, {})", unit.a0[0], unit.a0[1])],
        Inst::Cmp { .. } => vec![flags()],
        Inst::Emit if stage == Stage::Geometry => {
            let triangle = if unit.setemit.primitive { " and a triangle" } else { "" };
            vec![format!("vertex in slot {}{triangle}", unit.setemit.vertex & 3)]
        }
        _ => Vec::new(),
    }
}
