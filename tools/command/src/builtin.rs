//! Built-in shaders, in assembly: `bench` and `diff` use them if no files are named, so that a
//! fresh checkout has real shaders to measure.
//!
//! Written for this project, each after a technique of games. Together they use most of the
//! instruction set and every kind of control flow.

/// A shader's name and its source.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Short and unique.
    pub name: &'static str,
    /// Assembly.
    pub source: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, source: include_str!(concat!("shaders/", $name, ".pica")) }),*]
    };
}

/// All of them, simple ones first.
pub const BUILTINS: &[Builtin] = builtin![
    "transform",
    "lighting",
    "skinning",
    "lights",
    "branches",
    "calls",
    "fog",
    "water",
    "quads",
    "ribbon",
    "fan"
];

#[cfg(test)]
mod tests {
    use super::*;
    use picajit::isa::{Inst, Opcode, Stage};
    use picajit::text::assemble;
    use std::collections::HashSet;

    #[test]
    fn all_assemble_without_warnings_and_have_realistic_sizes() {
        for b in BUILTINS {
            let assembly = assemble(b.source).unwrap_or_else(|e| panic!("{}: {e}", b.name));
            assert!(assembly.warnings.is_empty(), "{}: {}", b.name, assembly.warnings[0]);
            let words = assembly.shbin.code.len();
            assert!((7..=80).contains(&words), "{}: {words} words", b.name);
            assert_eq!(assembly.shbin.dvles.len(), 1, "{}", b.name);
            assert_ne!(assembly.shbin.dvles[0].output_mask, 0, "{}", b.name);
        }
    }

    #[test]
    fn together_they_use_most_instructions() {
        let (mut opcodes, mut stages, mut relative) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut kinds = HashSet::new();
        for b in BUILTINS {
            let shbin = assemble(b.source).unwrap().shbin;
            stages.insert(shbin.dvles[0].stage);
            for (_, inst) in shbin.program().unwrap().insts() {
                kinds.insert(std::mem::discriminant(&inst));
                if let Inst::Alu(alu) = &inst {
                    opcodes.insert(alu.op);
                    relative.extend(alu.sources().iter().filter_map(|s| s.relative().map(|(_, index)| index)));
                }
            }
        }
        assert_eq!(stages, HashSet::from([Stage::Vertex, Stage::Geometry]));
        assert_eq!(relative.len(), 3, "a0.x, a0.y and aL: {relative:?}");
        for op in [Opcode::Dp3, Opcode::Dp4, Opcode::Mad, Opcode::Rsq, Opcode::Rcp, Opcode::Ex2, Opcode::Lg2] {
            assert!(opcodes.contains(&op), "{op:?}");
        }
        assert!(kinds.len() >= 10, "only {} kinds of instructions", kinds.len());
    }
}
