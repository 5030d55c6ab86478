//! [`Choices`] -> programs, in three tiers: random words, random instructions, and programs that make sense.
//!
//! The tiers find different things. Random words find what decoding lets through; random instructions find wrong
//! operands and scopes that nobody would write; sensible programs run long enough to find wrong state: loops in loops,
//! procedures that share an end, addresses that were computed, outputs emitted in turn. Sensible ones end scopes
//! carelessly now and then, since collisions of scope ends are where the machine is strange.
//!
//! Invariant: every program fits the unit's memory and is made of words that `encode` gave, or of anything in tier one.

use super::case::{self, Case};
use super::choice::Choices;
use picajit::isa::encode::encode;
use picajit::isa::numeric::Precision;
use picajit::isa::table::{self, ROWS, Row};
use picajit::isa::{
    Alu, CmpOp, Cond, CondOp, DstReg, Index, Inst, MAX_CODE_WORDS, Opcode, Pc, Setemit, Src, SrcReg, Stage, Swizzle,
    Test, WriteMask,
};
use picajit::kernel::Config;
use picajit::program::{Entry, Program};
use std::sync::Arc;

/// Every number format that engines are compared in.
const PRECISIONS: [Precision; 3] = Precision::ALL;

/// The temporary that backward jumps count down.
const COUNTER: u8 = 9;

/// Registers of each file that most instructions use.
const FEW: u8 = 5;

/// Words of a sensible program's memory, roughly, so that it can be read when it fails.
const LENGTH: u32 = 60;

/// The case of `seed`, with at most `vertices` vertices.
pub fn case_from_seed(seed: u64, vertices: u32) -> Case {
    case(&mut Choices::from_seed(seed), format!("seed {seed:#x}"), vertices)
}

/// The case that a fuzzer's bytes describe.
pub fn case_from_bytes(bytes: &[u8], vertices: u32) -> Case {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    case(&mut Choices::from_bytes(bytes), format!("bytes {hex}"), vertices)
}

fn case(choices: &mut Choices<'_>, name: String, vertices: u32) -> Case {
    let tier = choices.weighted(&[60, 25, 15]);
    let stage = if choices.percent(35) { Stage::Geometry } else { Stage::Vertex };
    let mut writer = Writer {
        choices,
        code: Vec::new(),
        opdescs: Vec::new(),
        stage,
        fixups: Vec::new(),
        clean: false,
        straight: false,
        loops: 0,
    };
    match tier {
        0 => writer.sensible(),
        1 => writer.typed(),
        _ => writer.words(),
    }
    let Writer { choices, code, opdescs, .. } = writer;
    let pc = match choices.below(20) {
        0 => choices.below(code.len() as u32 + 2) as Pc,
        _ => 0,
    };
    let fuel = match choices.below(20) {
        0 => 0,
        1 => 1,
        2 => 1024,
        _ => choices.pick(&[16, 64, 128, 256]),
    };
    let config = Config { precision: choices.pick(&PRECISIONS), fuel };
    let mut bulk = choices.fork();
    let wild = bulk.pick(&[0, 5, 30]);
    let count = 1 + bulk.below(vertices.max(1));
    let mask = |bulk: &mut Choices<'_>| if bulk.percent(60) { 0xFFFF } else { bulk.word() as u16 };
    Case {
        name,
        program: Arc::new(Program::from_words(&code, &opdescs).expect("programs are short")),
        entry: Entry { pc, stage },
        config,
        uniforms: case::uniforms(&mut bulk, wild),
        unit: case::unit(&mut bulk, wild),
        inputs: (0..count).map(|_| case::registers(&mut bulk, wild)).collect(),
        input_mask: mask(&mut bulk),
        output_mask: mask(&mut bulk),
    }
}

/// A program being written.
struct Writer<'c, 'a> {
    choices: &'c mut Choices<'a>,
    code: Vec<u32>,
    opdescs: Vec<u32>,
    stage: Stage,
    /// Calls and jumps of a sensible program whose targets are chosen when everything is in place.
    fixups: Vec<(usize, Inst)>,
    /// Everything that is read has been written by the same run, so that vertices don't depend on each other.
    clean: bool,
    /// No transfers.
    straight: bool,
    /// Loops around the current word.
    loops: u32,
}

impl Writer<'_, '_> {
    fn pc(&self) -> Pc {
        self.code.len() as Pc
    }

    /// Tier one. Branch targets are mostly bent into the program, otherwise nearly every run would leave it at once.
    fn words(&mut self) {
        let len = 1 + self.choices.below(LENGTH);
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
        let len = 1 + self.choices.below(LENGTH);
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

    /// Appends `inst` under a descriptor of its own making.
    fn put(&mut self, inst: Inst) {
        let word = self.word(&inst);
        self.code.push(word);
    }

    fn word(&mut self, inst: &Inst) -> u32 {
        let limit = match inst {
            Inst::Alu(Alu { op: Opcode::Mad | Opcode::Madi, .. }) => 32,
            Inst::Alu(_) | Inst::Cmp { .. } | Inst::Mova { .. } => 128,
            _ => 0,
        };
        // Tables of few descriptors are shared, as in real programs; large ones use every number.
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
        encode(inst, index as u8).expect("generated operands fit their fields")
    }

    fn opdesc(&mut self) -> u32 {
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
    fn arithmetic(&mut self) -> Inst {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| row.sources() != 0).collect();
        let opcode = self.choices.pick(&rows).opcode;
        self.operation(opcode)
    }

    fn operation(&mut self, op: Opcode) -> Inst {
        let row = table::row(op);
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

    /// Any instruction without sources, in a program of `len` words. Those that end a run are rare, or nothing would run.
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

    fn cond(&mut self) -> Cond {
        let op = CondOp::new(self.choices.below(4) as u8);
        Cond { op, ref_x: self.choices.percent(50), ref_y: self.choices.percent(50) }
    }

    fn test(&mut self, can_invert: bool) -> Test {
        if self.choices.percent(60) {
            return Test::Flags(self.cond());
        }
        Test::Bool { id: self.choices.below(16) as u8, value: !can_invert || self.choices.percent(50) }
    }

    fn call(&mut self, target: Pc, len: u8) -> Inst {
        let test = if self.choices.percent(50) { None } else { Some(self.test(false)) };
        Inst::Call { test, target, len }
    }

    fn setemit(&mut self) -> Inst {
        Inst::Setemit(Setemit {
            vertex: self.choices.pick(&[0, 1, 2, 2, 3]),
            primitive: self.choices.percent(50),
            winding: self.choices.percent(50),
        })
    }

    /// Tier three.
    fn sensible(&mut self) {
        self.clean = self.choices.percent(40);
        self.straight = self.choices.percent(if self.clean { 35 } else { 5 });
        if self.clean {
            self.prologue();
        }
        let main_call = self.code.len();
        self.put(Inst::Nop);
        let main = 4 + self.choices.below(LENGTH / 2);
        if !self.straight && self.choices.percent(8) {
            self.tower();
        }
        self.block(main, 0);
        if self.choices.percent(90) {
            self.put(Inst::End);
        }
        let mut procedures = Vec::new();
        for _ in 0..self.choices.below(4) {
            let start = self.pc();
            let words = 1 + self.choices.below(10);
            self.block(words, 2);
            self.padding(30);
            if self.pc() > start {
                procedures.push((start, self.pc()));
            }
        }
        if !self.straight && self.choices.percent(15) {
            let head = self.chain();
            procedures.extend([head; 3]);
            let test = Some(self.test(false)).filter(|_| self.choices.percent(30));
            self.code[main_call] = self.word(&Inst::Call { test, target: head.0, len: (head.1 - head.0) as u8 });
        }
        if self.choices.percent(20) {
            self.put(Inst::End);
        }
        let len = self.pc();
        for (at, inst) in std::mem::take(&mut self.fixups) {
            let patched = match inst {
                Inst::Call { test, .. } if !procedures.is_empty() => {
                    let (start, end) = self.choices.pick(&procedures);
                    // Some enter a procedure behind its beginning: two calls with one end.
                    let skip =
                        if self.choices.percent(25) { self.choices.below(u32::from(end - start)) as Pc } else { 0 };
                    Inst::Call { test, target: start + skip, len: (end - start - skip) as u8 }
                }
                Inst::Call { .. } => Inst::Nop,
                Inst::Jump { test, .. } => {
                    let target = match self.choices.below(20) {
                        0 => self.choices.pick(&[len, len + 1, 0xFFF]),
                        1..=2 => at.saturating_sub(self.choices.below(6) as usize) as Pc,
                        3..=5 => self.choices.below(u32::from(len)) as Pc,
                        _ => (at as u32 + 1 + self.choices.below(8)).min(u32::from(len) - 1) as Pc,
                    };
                    Inst::Jump { test, target }
                }
                other => other,
            };
            self.code[at] = self.word(&patched);
        }
    }

    /// Writes what a clean program may read: few registers of each file, the counter, addresses, flags.
    fn prologue(&mut self) {
        let mut dsts: Vec<DstReg> = (0..FEW).map(DstReg::temp).collect();
        dsts.extend((0..FEW).map(DstReg::output).filter(|_| self.choices.percent(85)));
        for dst in dsts {
            let op = self.choices.pick(&[Opcode::Mov, Opcode::Mul, Opcode::Add, Opcode::Dp4]);
            let n = self.choices.below(16) as u8;
            let first = if self.choices.percent(50) { SrcReg::input(n) } else { SrcReg::uniform(n) };
            let second = if table::row(op).sources() == 2 {
                Src::plain(SrcReg::input(self.choices.below(16) as u8))
            } else {
                Alu::NO_SRC
            };
            self.put_full(Inst::Alu(Alu {
                op,
                dst,
                mask: WriteMask::ALL,
                src: [Src::plain(first), second, Alu::NO_SRC],
            }));
        }
        let small = Src::plain(SrcReg::uniform(self.choices.below(4) as u8));
        let input = Src::plain(SrcReg::input(self.choices.below(16) as u8));
        self.put_full(Inst::Alu(Alu {
            op: Opcode::Mov,
            dst: DstReg::temp(COUNTER),
            mask: WriteMask::ALL,
            src: [small, Alu::NO_SRC, Alu::NO_SRC],
        }));
        self.put_full(Inst::Mova { mask: WriteMask::ALL, src: small });
        self.put_full(Inst::Cmp { ops: [CmpOp::Ge, CmpOp::Lt], src: [small, input] });
    }

    /// Appends `inst`, writing all lanes. For the beginning of a program, where the table has room.
    fn put_full(&mut self, inst: Inst) {
        let opdesc = self.opdesc() | u32::from(WriteMask::ALL.bits());
        let index = self.opdescs.len() as u8;
        self.opdescs.push(opdesc);
        self.code.push(encode(&inst, index).expect("generated operands fit their fields"));
    }

    /// More scopes inside each other than a ring holds, with ends of their own or with shared ones.
    fn tower(&mut self) {
        let kind = self.choices.below(2);
        let floors = self.choices.pick(&[3, 4, 5, 6]) * if kind == 0 { 1 } else { 2 };
        let start = self.pc();
        let end = start + 2 * floors;
        let shared = self.choices.percent(20);
        let mut step = 0;
        for n in 0..floors {
            if !shared || self.choices.percent(20) {
                step += 1;
            }
            // The outermost ends last.
            let last = end - step.min(floors);
            let int = self.choices.below(4) as u8;
            let inst = if kind == 0 {
                Inst::Loop { int, last: last.max(start + n + 1) }
            } else {
                let len = self.choices.pick(&[0, 0, 1]);
                Inst::If { test: self.test(false), target: last + 1, len }
            };
            self.put(inst);
        }
        while self.pc() < end {
            let inst = self.arithmetic();
            self.put(inst);
        }
    }

    /// Procedures that each end with a call to the next, so that all of them return in one step; with more than three
    /// the machine loses an address. The place of the first one.
    fn chain(&mut self) -> (Pc, Pc) {
        let start = self.pc();
        let links = self.choices.pick(&[1, 2, 3, 3, 4, 5]);
        let lens: Vec<u8> = (0..=links).map(|_| self.choices.pick(&[1, 1, 2, 3])).collect();
        for (n, &len) in lens.iter().enumerate() {
            for _ in 1..len {
                let inst = self.arithmetic();
                self.put(inst);
            }
            let target = self.pc() + 1;
            match lens.get(n + 1) {
                Some(&len) => self.put(Inst::Call { test: None, target, len }),
                None => {
                    let inst = self.arithmetic();
                    self.put(inst);
                }
            }
        }
        (start, start + Pc::from(lens[0]))
    }

    /// A word to fill in later.
    fn later(&mut self, inst: Inst) {
        self.fixups.push((self.code.len(), inst));
        self.code.push(0);
    }

    fn padding(&mut self, percent: u32) {
        if self.choices.percent(percent) {
            self.put(Inst::Nop);
        }
    }

    /// About `words` words inside `depth` scopes.
    fn block(&mut self, words: u32, depth: u32) {
        let stop = self.code.len() + words as usize;
        while self.code.len() < stop {
            let room = (stop - self.code.len()) as u32;
            let flow = u32::from(!self.straight);
            let nest = flow * u32::from(depth < 6 && room > 2);
            let emits = if self.stage == Stage::Geometry { 14 } else { 1 };
            let leaves = flow * u32::from(self.loops > 0);
            let weights = [50, 6, 9 * nest, 9 * nest, 9 * flow, 5 * flow, 5 * leaves, emits, flow, 3 * nest];
            match self.choices.weighted(&weights) {
                0 => {
                    let inst = self.arithmetic();
                    self.put(inst);
                }
                1 => self.address(),
                2 => self.branch(room, depth),
                3 => self.repeat(room, depth),
                4 => {
                    let call = self.call(0, 0);
                    self.later(call);
                }
                5 => {
                    let test = self.test(true);
                    self.later(Inst::Jump { test, target: 0 });
                }
                6 => self.leave(),
                7 => self.emit(),
                8 => self.put(Inst::End),
                _ => self.countdown(room, depth),
            }
        }
    }

    /// `MOVA` of something that is a plausible address: `c0-c3`.
    fn address(&mut self) {
        let src = Src::plain(SrcReg::uniform(self.choices.below(4) as u8));
        self.put(Inst::Mova { mask: WriteMask::ALL, src });
    }

    fn branch(&mut self, room: u32, depth: u32) {
        if self.choices.percent(70) {
            let cmp = self.operation(Opcode::Cmp);
            self.put(cmp);
        }
        let test = self.test(false);
        let at = self.code.len();
        self.code.push(0);
        let words = 1 + self.choices.below(room.min(10));
        self.block(words, depth + 1);
        self.padding(40);
        let target = self.pc();
        if self.choices.percent(50) {
            let words = 1 + self.choices.below(room.min(6));
            self.block(words, depth + 1);
            self.padding(40);
        }
        let len = (self.pc() - target).min(255) as u8;
        self.code[at] = self.word(&Inst::If { test, target, len });
    }

    fn repeat(&mut self, room: u32, depth: u32) {
        let at = self.code.len();
        self.code.push(0);
        let words = 1 + self.choices.below(room.min(12));
        self.loops += 1;
        self.block(words, depth + 1);
        self.loops -= 1;
        self.padding(50);
        let int = self.choices.below(4) as u8;
        self.code[at] = self.word(&Inst::Loop { int, last: self.pc() - 1 });
    }

    /// Leaves a loop, mostly under a condition.
    fn leave(&mut self) {
        let inst = if self.choices.percent(15) { Inst::Break } else { Inst::Breakc { cond: self.cond() } };
        self.put(inst);
    }

    fn emit(&mut self) {
        if self.choices.percent(60) {
            let inst = self.setemit();
            self.put(inst);
        }
        self.put(Inst::Emit);
    }

    /// A loop made of a backward jump that counts [`COUNTER`] down; `c4` is -1.
    fn countdown(&mut self, room: u32, depth: u32) {
        let start = self.pc();
        let words = 1 + self.choices.below(room.min(6));
        self.block(words, depth + 1);
        let (counter, c4) = (Src::plain(SrcReg::temp(COUNTER)), Src::plain(SrcReg::uniform(4)));
        let src = [c4, counter, Alu::NO_SRC];
        self.put(Inst::Alu(Alu { op: Opcode::Add, dst: DstReg::temp(COUNTER), mask: WriteMask::ALL, src }));
        self.put(Inst::Cmp { ops: [CmpOp::Lt, CmpOp::Le], src: [c4, counter] });
        let cond = Cond { op: CondOp::X, ref_x: true, ref_y: true };
        self.put(Inst::Jump { test: Test::Flags(cond), target: start });
    }
}
