//! An executed instruction -> a line: address, instruction, results, and the target of a taken
//! transfer.

use crate::display;
use picajit::internals::interp::Step;
use picajit::internals::literal::format_vec4;
use picajit::isa::{DstFile, Inst, Opcode, Stage};
use serde_json::{Value, json};

/// `step` as JSON: what it wrote, and its target if it is a taken transfer. `al` and `place` are as for
/// [`line`].
pub fn json(step: &Step<'_>, stage: Stage, al: &mut i32, place: Option<String>) -> Value {
    let unit = step.unit;
    let mut json = json!({ "pc": step.pc, "inst": step.inst.to_string() });
    if let Some((file, _, value)) = step.written() {
        json[name(file)] = display::vec4_json(value.map(display::result));
    }
    let is_litp = matches!(step.inst, Inst::Alu(alu) if alu.op == Opcode::Litp);
    if is_litp || matches!(step.inst, Inst::Cmp { .. }) {
        json["cmp"] = json!(unit.cmp);
    }
    if matches!(step.inst, Inst::Mova { .. }) {
        json["a0"] = json!(unit.a0);
    }
    if matches!(step.inst, Inst::Emit) && stage == Stage::Geometry {
        json["emit"] = json!({ "slot": unit.setemit.vertex & 3, "triangle": unit.setemit.primitive });
    }
    if unit.al != *al || matches!(step.inst, Inst::Loop { .. }) {
        *al = unit.al;
        json["aL"] = json!(al);
    }
    if let Some(next) = step.next.filter(|next| *next != step.pc.wrapping_add(1)) {
        json["next"] = json!(next);
    }
    if let Some(place) = place {
        json["place"] = json!(place);
    }
    json
}

fn name(file: DstFile) -> String {
    match file {
        DstFile::Output(n) => format!("o{n}"),
        DstFile::Temp(n) => format!("r{n}"),
    }
}

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
    let text = format!("    {:>4}  {:<36}  {}", step.pc, step.inst.to_string(), effects.join(", "));
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
                effects.push(format!("{} = {}", name(file), format_vec4(value.map(display::result))));
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
