//! The kinds of faults: the rule meant for each, and how it is planted in a program.

use super::{Original, Written};
use picajit::container::shbin::Constant;
use picajit::isa::{Inst, Stage};
use picajit_lint::Rule;

/// A kind of fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// The rule meant for it; any one of these counts.
    pub(super) meant: &'static [Rule],
    /// Rules that a consequence of the fault breaks, so that they are no false alarm.
    pub(super) consequences: &'static [Rule],
    /// Whether the oracle must tell mutants from their originals.
    pub(super) observable: bool,
    pub(super) stages: &'static [Stage],
    /// The mutants of a program, as sources.
    pub(super) plant: fn(&Original) -> Vec<String>,
}

/// The meaning `view` of an output, in a container.
const VIEW: u16 = 8;

const BOTH: &[Stage] = &[Stage::Vertex, Stage::Geometry];

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "an output is not written",
        meant: &[Rule::UnwrittenOutput],
        // What the output was computed from is then without use.
        consequences: &[Rule::UnusedInput, Rule::UnusedValue],
        observable: true,
        stages: &[Stage::Vertex],
        plant: |o| o.without_sole_writers(|written| matches!(written, Written::Output)),
    },
    Fault {
        name: "an emitted output is not written",
        meant: &[Rule::StaleOutput, Rule::UnwrittenOutput],
        // What the output was computed from is then without use.
        consequences: &[Rule::UnusedInput, Rule::UnusedValue],
        observable: true,
        stages: &[Stage::Geometry],
        plant: |o| o.without_sole_writers(|written| matches!(written, Written::Output)),
    },
    Fault {
        name: "a temporary, address or flag is not written",
        meant: &[Rule::ReadBeforeWrite],
        // A loop whose flag nothing sets never ends.
        consequences: &[Rule::UnusedInput, Rule::UnusedValue, Rule::UnusedName, Rule::EndlessLoop],
        observable: true,
        stages: BOTH,
        plant: |o| o.without_sole_writers(|written| matches!(written, Written::Other)),
    },
    Fault {
        name: "no end",
        meant: &[Rule::RunsOffEnd],
        consequences: &[],
        observable: false,
        stages: &[Stage::Vertex],
        plant: |o| vec![o.replaced(|statement| if statement == "end" { Some("nop".into()) } else { None })],
    },
    Fault {
        name: "two adjacent MOVAs",
        meant: &[Rule::AdjacentMova],
        // Nothing reads what the planted instructions write.
        consequences: &[Rule::UnusedValue],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let v = o.an_input();
            vec![o.begun_with(&format!("mova a0.x, {v}\nmova a0.y, {v}\nnop"))]
        },
    },
    Fault {
        name: "a break outside of a loop",
        meant: &[Rule::BreakOutsideLoop],
        consequences: &[],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let v = o.an_input();
            vec![o.begun_with(&format!("cmp {v}, lt, lt, {v}\nbreakc cmp.x"))]
        },
    },
    Fault {
        name: "a loop without an exit",
        meant: &[Rule::EndlessLoop],
        consequences: &[Rule::UnboundUniform],
        observable: false,
        stages: BOTH,
        plant: |o| vec![o.begun_with("endless_loop:\nnop\njmpu b14, endless_loop")],
    },
    Fault {
        name: "two inputs in one instruction",
        meant: &[Rule::TwoInputs],
        consequences: &[Rule::UnusedValue],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let declared: Vec<u8> = (0..15).filter(|n| o.dvle().input_mask >> n & 1 != 0).collect();
            let [a, b, ..] = declared[..] else { return Vec::new() };
            vec![o.begun_with(&format!("cmp v{a}, lt, lt, v{b}"))]
        },
    },
    Fault {
        name: "an input without a declaration",
        meant: &[Rule::UndeclaredInput],
        consequences: &[Rule::UnusedValue],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let mask = o.dvle().input_mask;
            let free = (0..15).find(|n| mask != 0 && mask >> n & 1 == 0);
            free.map(|n| o.begun_with(&format!("cmp v{n}, lt, lt, v{n}"))).into_iter().collect()
        },
    },
    Fault {
        name: "a constant with two values",
        meant: &[Rule::ConstantOverwritten],
        consequences: &[],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let constants = o.dvle().constants.iter();
            let floats = constants.filter(|c| matches!(c, Constant::Float { .. }));
            let again = |c: &Constant| format!("{}\n.setf c{}(9, 8, 7, 6)\n", o.source, c.register());
            floats.take(1).map(again).collect()
        },
    },
    Fault {
        name: "five nested loops",
        meant: &[Rule::ScopeDepth],
        consequences: &[Rule::UnboundUniform],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let nested = format!("{}nop\n{}", "for i0\n".repeat(5), ".end\n".repeat(5));
            vec![o.begun_with(nested.trim_end())]
        },
    },
    Fault {
        name: "an emit in a vertex program",
        meant: &[Rule::EmitInVertex],
        consequences: &[],
        observable: false,
        stages: &[Stage::Vertex],
        plant: |o| vec![o.begun_with("emit")],
    },
    Fault {
        name: "no setemit",
        meant: &[Rule::EmitWithoutSetemit],
        // The parameters then come from an earlier invocation.
        consequences: &[Rule::CarriedState],
        observable: false,
        stages: &[Stage::Geometry],
        plant: |o| {
            let emits = o.has(|inst| *inst == Inst::Emit) && o.has(|inst| matches!(inst, Inst::Setemit(_)));
            let without = |s: &str| s.starts_with("setemit").then(|| "nop".to_string());
            if emits { vec![o.replaced(without)] } else { Vec::new() }
        },
    },
    Fault {
        name: "two emits without outputs between them",
        meant: &[Rule::StaleOutput],
        consequences: &[Rule::CarriedState],
        observable: false,
        stages: &[Stage::Geometry],
        plant: |o| {
            let mapped = o.dvle().outputs.iter().any(|row| row.semantic != 9);
            let twice = |s: &str| (s == "emit").then(|| "emit\nemit".to_string());
            if mapped && o.has(|inst| *inst == Inst::Emit) { vec![o.replaced(twice)] } else { Vec::new() }
        },
    },
    Fault {
        name: "a constant index beyond c95",
        meant: &[Rule::OutOfBounds],
        // Nothing reads what the planted instructions write.
        consequences: &[Rule::UnusedValue, Rule::UnboundUniform],
        observable: false,
        stages: BOTH,
        plant: |o| o.with_constant("100, 0, 0, 0", |c, r| format!("mova a0.x, {c}\nnop\nmov {r}, c0[a0.x]")),
    },
    Fault {
        name: "the reciprocal of the constant 0",
        meant: &[Rule::InfiniteResult],
        consequences: &[Rule::UnusedValue],
        observable: false,
        stages: BOTH,
        plant: |o| o.with_constant("0, 1, 1, 1", |c, r| format!("rcp {r}.x, {c}.x")),
    },
    Fault {
        name: "a loop whose counter stays",
        meant: &[Rule::LoopStep],
        consequences: &[Rule::UnusedValue, Rule::UnboundUniform],
        observable: false,
        stages: BOTH,
        plant: |o| o.with_integer("3, 0, 0, 0", |i, r| format!("for {i}\nmov {r}, c0[aL]\nnop\n.end\nnop")),
    },
    Fault {
        name: "nested loops of 256 iterations",
        meant: &[Rule::LongRun],
        consequences: &[],
        observable: false,
        stages: &[Stage::Vertex],
        plant: |o| o.with_integer("255, 0, 1, 0", |i, _| format!("for {i}\nfor {i}\nnop\n.end\nnop\n.end\nnop")),
    },
    Fault {
        name: "no position",
        meant: &[Rule::NoPosition],
        // Its register now has another meaning, and may lack components for it.
        consequences: &[Rule::UnwrittenOutput, Rule::StaleOutput, Rule::CarriedState],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let is_position = |s: &str| s.starts_with(".out") && s.split_whitespace().any(|word| word == "position");
            let with_view = |s: &str| is_position(s).then(|| s.replace(" position", " view"));
            let is_free = o.dvle().outputs.iter().all(|row| row.semantic != VIEW);
            let is_planted = is_free && o.source.lines().any(|line| is_position(line.trim()));
            if is_planted { vec![o.replaced(with_view)] } else { Vec::new() }
        },
    },
    Fault {
        name: "a write over the value of another alias",
        meant: &[Rule::SharedRegister],
        consequences: &[Rule::UnusedValue],
        observable: false,
        stages: BOTH,
        plant: |o| {
            let statements = |c: &str, r: &str| {
                format!(
                    ".alias planted_a {r}\n.alias planted_b {r}\n\
                     mov planted_a, {c}\nmov planted_b, {c}\ncmp {c}, lt, lt, planted_a"
                )
            };
            o.with_constant("1, 2, 3, 4", statements)
        },
    },
    Fault {
        name: "a name without use",
        meant: &[Rule::UnusedName],
        consequences: &[],
        observable: false,
        stages: BOTH,
        plant: |o| vec![format!("{}\n.alias planted r0\n", o.source)],
    },
    Fault {
        name: "a value without use",
        meant: &[Rule::UnusedValue],
        consequences: &[],
        observable: false,
        stages: BOTH,
        plant: |o| o.with_integer("0, 0, 1, 0", |_, r| format!("mov {r}, {}", o.an_input())),
    },
];
