//! Program -> a simpler program: fewer words, plainer instructions, fewer descriptors.
//!
//! Invariant: an edit never makes a program longer, and a target that pointed at a remaining word
//! still points at it. The caller checks whether the edited program still shows the divergence.

use picajit::isa::table::Format;
use picajit::isa::{
    Cond, CondOp, DstReg, Index, Inst, OPDESCS, Opcode, Pc, Setemit, Src, SrcFile, SrcReg, Swizzle, Test, WriteMask,
};
use picajit::program::Program;
use std::ops::Range;

/// `NOP`.
pub(super) const NOP: u32 = 0x21 << 26;
/// `END`.
pub(super) const END: u32 = 0x22 << 26;

/// Number of kinds of [`simpler`].
pub(super) const KINDS: usize = 18;

/// `program` with its code changed, and not made longer than a program may be.
pub(super) fn with_code(program: &Program, change: impl FnOnce(&mut Vec<u32>)) -> Program {
    let mut code = program.code().to_vec();
    change(&mut code);
    Program::from_words(&code, program.opdescs()).expect("edits stay within the unit's memory")
}

/// `program` without the words of `range`, with targets adjusted, and the new address of `entry`. A
/// target inside the range becomes the word after it.
pub(super) fn delete(program: &Program, entry: Pc, range: Range<usize>) -> (Program, Pc) {
    let moved = |pc: Pc| match usize::from(pc) {
        at if at <= range.start => pc,
        at => at.saturating_sub(range.len()).max(range.start) as Pc,
    };
    let kept = program.code().iter().zip(program.insts()).filter(|(_, (pc, _))| !range.contains(&usize::from(*pc)));
    let code: Vec<u32> = kept
        .map(|(&word, (_, inst))| {
            let again = retarget(inst, moved);
            if again == inst { word } else { again.encode(0).unwrap_or(word) }
        })
        .collect();
    let shorter = Program::from_words(&code, program.opdescs()).expect("it got no longer");
    (shorter, moved(entry))
}

/// A transfer whose addresses have been moved.
fn retarget(inst: Inst, moved: impl Fn(Pc) -> Pc) -> Inst {
    // The length counts the words between two addresses, both of which move.
    let span = |target: Pc, len: u8| (moved(target), (moved(target + Pc::from(len)) - moved(target)) as u8);
    match inst {
        Inst::Call { test, target, len } => {
            let (target, len) = span(target, len);
            Inst::Call { test, target, len }
        }
        Inst::If { test, target, len } => {
            let (target, len) = span(target, len);
            Inst::If { test, target, len }
        }
        Inst::Loop { int, last } => Inst::Loop { int, last: moved(last + 1).saturating_sub(1) },
        Inst::Jump { test, target } => Inst::Jump { test, target: moved(target) },
        other => other,
    }
}

/// `program` with `inst` at `pc`, under a minimal descriptor. `None` if the table has no room for
/// one, or the instruction has no encoding.
pub(super) fn replace(program: &Program, pc: usize, inst: &Inst) -> Option<Program> {
    let mut opdescs = program.opdescs().to_vec();
    let index = match inst.opdesc() {
        None => 0,
        Some(wanted) => {
            let limit = if is_mad(inst) { 32 } else { OPDESCS };
            match opdescs.iter().take(limit).position(|&d| d == wanted) {
                Some(index) => index,
                None if opdescs.len() < limit => {
                    opdescs.push(wanted);
                    opdescs.len() - 1
                }
                None => return None,
            }
        }
    };
    let mut code = program.code().to_vec();
    *code.get_mut(pc)? = inst.encode(index as u8).ok()?;
    Program::from_words(&code, &opdescs).ok()
}

fn is_mad(inst: &Inst) -> bool {
    let row = inst.opcode().map(Opcode::row);
    row.is_some_and(|row| matches!(row.format, Format::F5 | Format::F5i))
}

/// `program` with only the descriptors that its words name, each once, those of `MAD` first. With
/// `plain`, fields that an instruction does not read are zero in descriptor and word. `None` if
/// `MAD`s name more descriptors than their field can address.
pub(super) fn compact(program: &Program, plain: bool) -> Option<Program> {
    let mut opdescs: Vec<u32> = Vec::new();
    let mut code = program.code().to_vec();
    for mads in [true, false] {
        for word in &mut code {
            let Some(index) = Inst::opdesc_index(*word) else { continue };
            let inst = Inst::decode(*word, program.opdesc(index));
            if is_mad(&inst) != mads {
                continue;
            }
            let wanted = if plain { inst.opdesc()? } else { program.opdesc(index) };
            let at = opdescs.iter().position(|&d| d == wanted).unwrap_or_else(|| {
                opdescs.push(wanted);
                opdescs.len() - 1
            });
            let field = if mads { 0x1F } else { 0x7F };
            if at > field {
                return None;
            }
            *word = if plain { inst.encode(at as u8).ok()? } else { *word & !(field as u32) | at as u32 };
        }
    }
    if plain {
        for word in &mut code {
            if Inst::opdesc_index(*word).is_none() {
                *word = Inst::decode(*word, 0).encode(0).ok()?;
            }
        }
    }
    Program::from_words(&code, &opdescs).ok()
}

/// `inst` with one property simplified; `kind` counts from 0 to [`KINDS`]. `None` if the property
/// is already simple or absent.
pub(super) fn simpler(inst: &Inst, kind: usize) -> Option<Inst> {
    let mut new = *inst;
    match kind {
        0..15 => {
            let src = sources(&mut new).get_mut(kind / 5)?;
            match kind % 5 {
                0 => src.negate = false,
                1 => src.swizzle = Swizzle::IDENTITY,
                2 => src.index = Index::None,
                3 => src.reg = first_of_file(src.reg),
                _ => src.reg = SrcReg::input(0),
            }
        }
        15 => match &mut new {
            Inst::Alu(alu) => alu.mask = WriteMask::ALL,
            Inst::Mova { mask, .. } => *mask = WriteMask::ALL,
            Inst::Call { test, .. } => *test = None,
            Inst::Setemit(parameters) => *parameters = Setemit::default(),
            Inst::Loop { int, .. } => *int = 0,
            Inst::Breakc { .. } => new = Inst::Break,
            _ => return None,
        },
        16 => match &mut new {
            Inst::Alu(alu) => alu.dst = DstReg::output(0),
            Inst::Call { test: Some(test), .. } | Inst::If { test, .. } | Inst::Jump { test, .. } => {
                *test = plain(*test)
            }
            Inst::Breakc { cond } => *cond = PLAIN,
            _ => return None,
        },
        _ => match &mut new {
            Inst::Alu(alu) => alu.op = alu.op.normal_form(),
            _ => return None,
        },
    }
    (new != *inst).then_some(new)
}

fn sources(inst: &mut Inst) -> &mut [Src] {
    match inst {
        Inst::Alu(alu) => {
            let count = alu.sources().len();
            &mut alu.src[..count]
        }
        Inst::Mova { src, .. } => std::slice::from_mut(src),
        Inst::Cmp { src, .. } => src,
        _ => &mut [],
    }
}

fn first_of_file(reg: SrcReg) -> SrcReg {
    match reg.file() {
        SrcFile::Input(_) => SrcReg::input(0),
        SrcFile::Temp(_) => SrcReg::temp(0),
        SrcFile::Uniform(_) => SrcReg::uniform(0),
    }
}

const PLAIN: Cond = Cond { op: CondOp::X, ref_x: true, ref_y: true };

fn plain(test: Test) -> Test {
    match test {
        Test::Flags(_) => Test::Flags(PLAIN),
        Test::Bool { .. } => Test::Bool { id: 0, value: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use picajit::text::assemble;

    fn program(body: &str) -> Program {
        let source = format!(".raw\n.proc main\n{body}\nend\n.end\n");
        assemble(&source).unwrap_or_else(|e| panic!("{e}")).shbin.program().expect("short")
    }

    fn text(program: &Program) -> Vec<String> {
        program.insts().map(|(_, inst)| inst.to_string()).collect()
    }

    #[test]
    fn targets_follow_their_words() {
        let before =
            program("rcall 3, 2\nnop\nrifu b0, 5, 1\nemit\nnop\nrloop i0, 7\nnop\nbreak\nrjmpu b1, 5\nrjmpu b1, 1");
        let (after, entry) = delete(&before, 5, 1..2);
        let want = ["rcall 2, 2", "rifu b0, 4, 1", "emit", "nop", "rloop i0, 6", "nop", "break", "rjmpu b1, 4"];
        assert_eq!((&text(&after)[..8], entry), (&want.map(String::from)[..], 4));
        assert_eq!(text(&after)[8..], ["rjmpu b1, 1", "end"], "a target at it becomes the word after it");
        // A part of a procedure, of an else part and the end of a loop.
        let (after, entry) = delete(&before, 2, 4..8);
        assert_eq!(text(&after), ["rcall 3, 1", "nop", "rifu b0, 4, 0", "emit", "rjmpu b1, 4", "rjmpu b1, 1", "end"]);
        assert_eq!(entry, 2);
    }

    #[test]
    fn deleting_everything_keeps_addresses_in_range() {
        let all = program("rcall 0, 4\nrloop i0, 3\nrifu b1, 2, 2\nrjmpu b0, 4095");
        for start in 0..4 {
            for end in start + 1..=4 {
                let (after, entry) = delete(&all, 3, start..end);
                assert_eq!(after.code().len(), 5 - (end - start));
                assert!(usize::from(entry) <= after.code().len());
            }
        }
    }

    #[test]
    fn unused_descriptors_are_removed_and_instructions_stay() {
        let source = ".raw\n.opdesc 0x12345678\n.opdesc 0x8000036F\n.opdesc 0x36F\n.proc main\nmov o0, v1 @1\n\
                      mad r1.x, v0, r0, -r3\nmov o1, v1 @2\nend\n.end\n";
        let before = assemble(source).expect("it assembles").shbin.program().expect("short");
        for plain in [false, true] {
            let after = compact(&before, plain).expect("few");
            assert_eq!(text(&after), text(&before));
            assert_eq!(after.opdescs().len(), if plain { 2 } else { 3 });
            assert!(Inst::opdesc_index(after.code()[1]) == Some(0), "MAD comes first");
        }
    }

    #[test]
    fn instructions_simplify_to_the_simplest_form() {
        let before =
            program("madi r3.yz, -v2.xxyz, r4, -c9[a0.y].wzyx\ncmp -r2.y, gt, le, r1\nrcallc !cmp.x || cmp.y, 0, 1");
        let mut plainer = before;
        for pc in 0..3 {
            for kind in 0..KINDS {
                let inst = plainer.inst(pc).expect("it is there");
                if let Some(new) = simpler(&inst, kind)
                    && let Some(program) = replace(&plainer, usize::from(pc), &new)
                {
                    assert_eq!(program.inst(pc), Some(new));
                    plainer = program;
                }
            }
        }
        assert_eq!(text(&plainer)[..3], ["mad o0, v0, v0, v0", "cmp v0, gt, le, v0", "rcall 0, 1"].map(String::from));
    }
}
