//! [`Choices`] -> cases, in three tiers: random words, random instructions, and programs that make
//! sense.
//!
//! The tiers find different faults. Random words find gaps in decoding. Random instructions find
//! wrong operands and unusual scopes. Sensible programs (`sensible`) run long enough to find wrong
//! state: nested loops, procedures that share an end, computed addresses, emitted outputs.
//!
//! Invariant: every program fits the unit's memory. Outside tier one its words come from `encode`.
//! The same choices give the same case on every machine and in every number format.

use super::case::Case;
use super::choice::Choices;
use super::registers;
use picajit::internals::ir::cfg::Explored;
use picajit::internals::kernel::Config;
use picajit::isa::numeric::Precision;
use picajit::isa::table::{ROWS, Row};
use picajit::isa::{
    Alu, CmpOp, Cond, CondOp, DstReg, Index, Inst, MAX_CODE_WORDS, Opcode, Pc, Setemit, Src, SrcReg, Stage, Swizzle,
    Test, WriteMask,
};
use picajit::program::{Entry, Program};
use std::sync::Arc;

/// Registers of each file that most instructions use.
pub(super) const FEW: u8 = 5;

/// Approximate words of a program: mostly few, because most faults need few, and compiling takes
/// most of the time.
const LENGTHS: [u32; 4] = [10, 16, 24, 60];

/// States of control flow beyond which a program is large. About one in ten is, and they take half
/// of the time to compile.
const STATES: usize = 128;

/// The percentage of large programs that are kept.
const LARGE: u32 = 4;

/// Most programs generated in place of a large one. A fuzzer's bytes may run out.
const RETRIES: u32 = 3;

/// Kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Random words.
    Words,
    /// Random instructions.
    Insts,
    /// Programs that make sense.
    Programs,
    /// The same, made for batches that run as groups, mostly in single precision, and for speculation that
    /// fails.
    Groups,
}

impl Tier {
    /// All of them.
    pub const ALL: [Tier; 4] = [Tier::Words, Tier::Insts, Tier::Programs, Tier::Groups];

    /// Its name on command lines.
    pub const fn name(self) -> &'static str {
        ["words", "insts", "programs", "groups"][self as usize]
    }
}

/// The case of `seed`, with at most `vertices` vertices; of any tier (mostly sensible programs) if
/// none is given.
pub fn case_from_seed(seed: u64, tier: Option<Tier>, vertices: u32) -> Case {
    let name = match tier {
        None => format!("seed {seed}"),
        Some(tier) => format!("seed {seed}, tier {}", tier.name()),
    };
    case(&mut Choices::from_seed(seed), tier, name, vertices)
}

/// The case encoded by a fuzzer's bytes.
pub fn case_from_bytes(bytes: &[u8], tier: Option<Tier>, vertices: u32) -> Case {
    case(&mut Choices::from_bytes(bytes), tier, format!("input of {} bytes", bytes.len()), vertices)
}

fn case(choices: &mut Choices<'_>, tier: Option<Tier>, name: String, vertices: u32) -> Case {
    let tiers = [Tier::Programs, Tier::Insts, Tier::Words, Tier::Groups];
    let tier = tier.unwrap_or_else(|| tiers[choices.weighted(&[60, 25, 15, 4])]);
    let groups = tier == Tier::Groups;
    let stage = if choices.percent(if groups { 20 } else { 35 }) { Stage::Geometry } else { Stage::Vertex };
    let (mut written, mut vast) = program(choices, tier, stage);
    for _ in 0..RETRIES {
        if vast || !is_large(&written, stage) || choices.percent(LARGE) {
            break;
        }
        (written, vast) = program(choices, tier, stage);
    }
    let len = written.code().len() as u32;
    let pc = match choices.below(20) {
        0 if !groups => choices.below(len + 2) as Pc,
        _ => 0,
    };
    let fuel = match choices.below(20) {
        0 => 0,
        1 => 1,
        2 => 4096,
        _ if groups => 1024,
        _ => choices.pick(&[32, 128, 256, 1024]),
    };
    // Groups of single precision have guards of products besides.
    let precision = if groups && choices.percent(50) { Precision::F32 } else { choices.pick(&Precision::ALL) };
    let config = Config { precision, fuel, ..Config::default() };
    let mut bulk = choices.fork();
    // Special values in many registers would fail every guard.
    let mix = bulk.pick(if groups { &registers::MIXES[..3] } else { &registers::MIXES });
    let count = match groups && stage == Stage::Geometry {
        // Fewer than eight invocations form no group.
        true => vertices.max(1) - bulk.below(vertices.div_ceil(2)),
        false => 1 + bulk.below(vertices.max(1)),
    };
    let mask = |bulk: &mut Choices<'_>| if bulk.percent(80) { 0xFFFF } else { bulk.word() as u16 };
    let (mut uniforms, mut unit) = (registers::uniforms(&mut bulk, mix), registers::unit(&mut bulk, mix));
    // Numbers that all vertices read and that are no float24 would fail the first check of each group.
    if groups && bulk.percent(90) {
        uniforms.narrow(precision);
        unit.r.as_flattened_mut().iter_mut().for_each(|x| *x = precision.operand(*x));
    }
    Case {
        name,
        program: Arc::new(written),
        entry: Entry { pc, stage },
        config,
        uniforms,
        unit,
        inputs: (0..count).map(|_| registers::file(&mut bulk, mix)).collect(),
        input_mask: mask(&mut bulk),
        output_mask: mask(&mut bulk),
    }
}

/// A program, and whether it has more states than a graph has on purpose.
fn program(choices: &mut Choices<'_>, tier: Tier, stage: Stage) -> (Program, bool) {
    let groups = tier == Tier::Groups;
    let length = choices.pick(&LENGTHS);
    let mut writer = Writer {
        choices,
        length,
        code: Vec::new(),
        opdescs: Vec::new(),
        stage,
        fixups: Vec::new(),
        clean: groups,
        groups,
        straight: false,
        forked: false,
        speculative: false,
        keeping: false,
        vast: false,
        loops: 0,
        insides: Vec::new(),
    };
    match tier {
        Tier::Programs | Tier::Groups => writer.sensible(),
        Tier::Insts => writer.typed(),
        Tier::Words => writer.words(),
    }
    (Program::from_words(&writer.code, &writer.opdescs).expect("programs are short"), writer.vast)
}

/// Whether control flow has more than [`STATES`] states from the most frequent entry.
fn is_large(program: &Program, stage: Stage) -> bool {
    Explored::new(program, Entry { pc: 0, stage }, STATES).is_err()
}

/// A program being written.
pub(super) struct Writer<'c, 'a> {
    pub(super) choices: &'c mut Choices<'a>,
    /// One of [`LENGTHS`].
    pub(super) length: u32,
    pub(super) code: Vec<u32>,
    pub(super) opdescs: Vec<u32>,
    pub(super) stage: Stage,
    /// Calls and jumps of a sensible program whose targets are chosen last.
    pub(super) fixups: Vec<(usize, Inst)>,
    /// Every read follows a write of the same run, so that vertices are independent.
    pub(super) clean: bool,
    /// Made for groups: clean, with speculation and branches whose edges join.
    pub(super) groups: bool,
    /// No transfers.
    pub(super) straight: bool,
    /// No transfers except branches whose edges join.
    pub(super) forked: bool,
    /// Products of zero and infinity before instructions that swallow NaN.
    pub(super) speculative: bool,
    /// Writes of registers that nothing reads, so that some vertices keep what others write.
    pub(super) keeping: bool,
    /// More states than a graph has.
    pub(super) vast: bool,
    /// Loops around the current word.
    pub(super) loops: u32,
    /// The second and the last word of finished then parts and loops: jump targets inside a scope
    /// that is not open.
    pub(super) insides: Vec<(Pc, Pc)>,
}

impl Writer<'_, '_> {
    pub(super) fn pc(&self) -> Pc {
        self.code.len() as Pc
    }

    /// Tier one. Most branch targets are reduced into the program; otherwise nearly every run would
    /// leave it at once.
    fn words(&mut self) {
        let len = 1 + self.choices.below(self.length);
        for _ in 0..len {
            let mut word = self.choices.word();
            if self.choices.percent(40) {
                word = word & 0x03FF_FFFF | u32::from(self.choices.below(64) as u8) << 26;
            }
            if word >> 29 == 4 && self.choices.percent(85) {
                word = word & !(0xFFF << 10) | self.choices.below(len + 1) << 10;
            }
            self.code.push(word);
        }
        let descs = self.choices.pick(&[0, 1, 32, 128]);
        self.opdescs = (0..descs).map(|_| self.choices.word()).collect();
    }

    /// Tier two.
    fn typed(&mut self) {
        let len = 1 + self.choices.below(self.length);
        for _ in 0..len {
            let inst = match self.choices.weighted(&[72, 26, 2]) {
                0 => self.arithmetic(),
                1 => self.transfer(len as Pc),
                _ => {
                    Inst::Undefined { word: self.choices.pick(&[0x10, 0x14, 0x1C]) << 26 | self.choices.below(1 << 26) }
                }
            };
            self.put(inst);
        }
        if self.choices.percent(80) {
            self.put(Inst::End);
        }
    }

    /// Appends `inst` under a random descriptor.
    pub(super) fn put(&mut self, inst: Inst) {
        let word = self.word(&inst);
        self.code.push(word);
    }

    pub(super) fn word(&mut self, inst: &Inst) -> u32 {
        let limit = match inst {
            Inst::Alu(Alu { op: Opcode::Mad | Opcode::Madi, .. }) => 32,
            Inst::Alu(_) | Inst::Cmp { .. } | Inst::Mova { .. } => 128,
            _ => 0,
        };
        // Small tables share descriptors, as real programs do; large ones use every index.
        let known = self.opdescs.len().min(limit);
        let index = if limit == 0 {
            0
        } else if known < limit && (known == 0 || self.choices.percent(60)) && self.opdescs.len() == known {
            let mut opdesc = self.opdesc();
            if let Inst::Mova { .. } = inst
                && self.choices.percent(70)
            {
                opdesc |= 0xC;
            }
            self.opdescs.push(opdesc);
            known
        } else {
            self.choices.below(known as u32) as usize
        };
        inst.encode(index as u8).expect("generated operands fit their fields")
    }

    pub(super) fn opdesc(&mut self) -> u32 {
        let mask = match self.choices.below(20) {
            0 => WriteMask::NONE.bits(),
            1..=8 => WriteMask::ALL.bits(),
            _ => self.choices.below(16) as u8,
        };
        let mut desc = u32::from(mask) | u32::from(self.choices.percent(5)) << 31;
        for n in 0..3 {
            let swizzle = match self.choices.below(10) {
                0..=4 => Swizzle::IDENTITY,
                5..=6 => Swizzle::splat(self.choices.below(4) as u8),
                _ => Swizzle(self.choices.below(256) as u8),
            };
            desc |= u32::from(swizzle.0) << (5 + 9 * n) | u32::from(self.choices.percent(20)) << (4 + 9 * n);
        }
        desc
    }

    /// Any instruction with sources, any operands.
    pub(super) fn arithmetic(&mut self) -> Inst {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.sources() != 0).collect();
        let opcode = self.choices.pick(&rows).opcode;
        self.operation(opcode)
    }

    pub(super) fn operation(&mut self, op: Opcode) -> Inst {
        let row = op.row();
        let mut src = [Alu::NO_SRC; 3];
        for (n, s) in src[..row.sources()].iter_mut().enumerate() {
            *s = self.source(row.wide_source() == Some(n));
        }
        match op {
            Opcode::Mova => Inst::Mova { mask: WriteMask::ALL, src: src[0] },
            Opcode::Cmp => {
                let ops = [(); 2].map(|()| CmpOp::new(self.choices.below(8) as u8));
                Inst::Cmp { ops, src: [src[0], src[1]] }
            }
            _ => {
                let n = self.register();
                let dst = if self.choices.percent(65) { DstReg::temp(n) } else { DstReg::output(n) };
                Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src })
            }
        }
    }

    fn source(&mut self, wide: bool) -> Src {
        let n = self.register();
        let reg = match self.choices.below(if wide { 10 } else { 5 }) {
            0..=1 => SrcReg::input(n),
            2..=4 => SrcReg::temp(n),
            _ => SrcReg::uniform(self.choices.below(96) as u8),
        };
        let relative = wide && self.choices.percent(35);
        let mut index = if relative { Index::new(1 + self.choices.below(3) as u8) } else { Index::None };
        if index == Index::AL && self.clean && self.loops == 0 {
            index = Index::A0x;
        }
        Src { index, ..Src::plain(reg) }
    }

    /// The number of a `v`, `r` or `o` register. Few, so that values meet.
    fn register(&mut self) -> u8 {
        let any = !self.clean && self.choices.percent(15);
        self.choices.below(if any { 16 } else { u32::from(FEW) }) as u8
    }

    /// Any instruction without sources, in a program of `len` words. Instructions that end a run
    /// are rare, or little would execute.
    fn transfer(&mut self, len: Pc) -> Inst {
        let flow: Vec<&Row> = ROWS.iter().filter(|row| row.sources() == 0).collect();
        let mut opcode = self.choices.pick(&flow).opcode;
        if matches!(opcode, Opcode::End | Opcode::Break | Opcode::Breakc) && self.choices.percent(60) {
            opcode = Opcode::Loop;
        }
        let target = self.target(len);
        let span = match self.choices.below(30) {
            0 => 255,
            1 => self.choices.below(256),
            _ => self.choices.below(7),
        } as u8;
        match opcode {
            Opcode::End => Inst::End,
            Opcode::Break => Inst::Break,
            Opcode::Breakc => Inst::Breakc { cond: self.cond() },
            Opcode::Call | Opcode::Callc | Opcode::Callu => self.call(target, span),
            Opcode::Ifc | Opcode::Ifu => Inst::If { test: self.test(false), target, len: span },
            Opcode::Loop => Inst::Loop { int: self.choices.below(4) as u8, last: target },
            Opcode::Jmpc | Opcode::Jmpu => Inst::Jump { test: self.test(true), target },
            Opcode::Emit => Inst::Emit,
            Opcode::Setemit => self.setemit(),
            _ => Inst::Nop,
        }
    }

    fn target(&mut self, len: Pc) -> Pc {
        let (pc, choices) = (self.pc(), &mut *self.choices);
        match choices.below(20) {
            0 => choices.below(MAX_CODE_WORDS as u32) as Pc,
            1 => len + choices.below(3) as Pc,
            2..=3 => pc.saturating_sub(choices.below(5) as Pc),
            4..=6 => choices.below(u32::from(len) + 1) as Pc,
            _ => pc + 1 + choices.below(8) as Pc,
        }
    }

    pub(super) fn cond(&mut self) -> Cond {
        let op = CondOp::new(self.choices.below(4) as u8);
        Cond { op, ref_x: self.choices.percent(50), ref_y: self.choices.percent(50) }
    }

    pub(super) fn test(&mut self, can_invert: bool) -> Test {
        if self.choices.percent(60) {
            return Test::Flags(self.cond());
        }
        Test::Bool { id: self.choices.below(16) as u8, value: !can_invert || self.choices.percent(50) }
    }

    pub(super) fn call(&mut self, target: Pc, len: u8) -> Inst {
        let test = if self.choices.percent(50) { None } else { Some(self.test(false)) };
        Inst::Call { test, target, len }
    }

    pub(super) fn setemit(&mut self) -> Inst {
        Inst::Setemit(Setemit {
            vertex: self.choices.pick(&[0, 1, 2, 2, 3]),
            primitive: self.choices.percent(50),
            winding: self.choices.percent(50),
        })
    }
}
