//! A recipe, seven numbers and a few patched words -> a program that is costly to compile.
//!
//! Any numbers give a program. A recipe is one line of text, so that bad ones can be kept.

use picajit::isa::{
    Alu, CmpOp, Cond, CondOp, DstReg, Index, Inst, MAX_CODE_WORDS, Opcode, Pc, Setemit, Src, SrcReg, Stage, Test,
    WriteMask,
};
use picajit::program::{Entry, Program};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What a program consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Operations in a row.
    Straight,
    /// Calls of one procedure.
    Calls,
    /// Calls of procedures that call the next one.
    DeepCalls,
    /// Nested conditions.
    Nested,
    /// Conditions one after the other, with else parts.
    Conditions,
    /// Forward jumps to one place, or across the next ones.
    Forward,
    /// Backward jumps.
    Backward,
    /// Loops, nested or one after the other, with ways out.
    Loops,
    /// Relative addresses, computed anew between reads.
    Relative,
    /// Many registers that live long.
    Pressure,
    /// A few components of each register, on many paths.
    Partial,
    /// Emitted vertices.
    Emits,
    /// One word throughout the memory, without END.
    NoEnd,
    /// A random program of the fuzzer, repeated.
    Random,
}

impl Family {
    pub const ALL: [Family; 14] = [
        Family::Straight,
        Family::Calls,
        Family::DeepCalls,
        Family::Nested,
        Family::Conditions,
        Family::Forward,
        Family::Backward,
        Family::Loops,
        Family::Relative,
        Family::Pressure,
        Family::Partial,
        Family::Emits,
        Family::NoEnd,
        Family::Random,
    ];
}

/// Numbers of a recipe: what they mean depends on the family.
pub const NUMBERS: usize = 7;

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub family: Family,
    /// How many parts; operations in a part; which operations; their operands; two more of the
    /// family; output registers written at the end.
    pub numbers: [u16; NUMBERS],
    /// Words that replace others.
    pub patches: Vec<(u16, u32)>,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.family)?;
        self.numbers.iter().try_for_each(|n| write!(f, " {n}"))?;
        self.patches.iter().try_for_each(|(at, word)| write!(f, " {at}:{word:08x}"))
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(line: &str) -> Result<Recipe, String> {
        let bad = || format!("`{line}` is no recipe");
        let mut words = line.split_whitespace();
        let name = words.next().ok_or_else(bad)?;
        let family = Family::ALL.into_iter().find(|f| format!("{f:?}") == name).ok_or_else(bad)?;
        let mut numbers = [0; NUMBERS];
        for n in &mut numbers {
            *n = words.next().and_then(|word| word.parse().ok()).ok_or_else(bad)?;
        }
        let patch = |word: &str| {
            let (at, word) = word.split_once(':')?;
            Some((at.parse().ok()?, u32::from_str_radix(word, 16).ok()?))
        };
        let patches = words.map(|word| patch(word).ok_or_else(bad)).collect::<Result<_, _>>()?;
        Ok(Recipe { family, numbers, patches })
    }
}

const OPERATIONS: [Opcode; 20] = [
    Opcode::Ex2,
    Opcode::Lg2,
    Opcode::Litp,
    Opcode::Rcp,
    Opcode::Rsq,
    Opcode::Mad,
    Opcode::Dp4,
    Opcode::Dph,
    Opcode::Dp3,
    Opcode::Dst,
    Opcode::Mul,
    Opcode::Add,
    Opcode::Max,
    Opcode::Min,
    Opcode::Sge,
    Opcode::Slt,
    Opcode::Flr,
    Opcode::Mov,
    Opcode::Mova,
    Opcode::Cmp,
];

/// Masks, selectors and signs of the first 32 descriptors, which the others repeat.
fn descriptors() -> Vec<u32> {
    let mask = |n: u32| [0xF, 0xF, 0x8, 0x4, 0x2, 0x1, 0xA, 0x7][n as usize % 8];
    let swizzle = |n: u32| [0x1B, 0xE4, 0x00, 0x6C, 0xB1, 0x39, 0xFF, 0x1B][n as usize % 8];
    let descriptor = |n: u32| match n {
        0 => 0x36F,
        n => {
            let sources = (0..3).map(|source| (swizzle(n / 4 + source) << 1 | (n >> source & 1)) << (4 + 9 * source));
            sources.fold(mask(n), |d, s| d | s)
        }
    };
    (0..128).map(|n| descriptor(n % 32)).collect()
}

struct Writer {
    code: Vec<u32>,
    kind: usize,
    operands: u16,
    /// Output registers written at the end.
    outputs: u8,
    /// Operations so far.
    n: usize,
}

const FLAGS: Test = Test::Flags(Cond { op: CondOp::X, ref_x: true, ref_y: true });

impl Writer {
    /// Appends an instruction. One whose target lies past the memory will be cut off anyway.
    fn put(&mut self, inst: Inst) {
        let nop = || Inst::Nop.encode(0).expect("no operands");
        self.code.push(inst.encode(0).unwrap_or_else(|_| nop()));
    }

    fn pc(&self) -> usize {
        self.code.len()
    }

    /// A test of flags or of a boolean uniform.
    fn test(&self, n: usize) -> Test {
        match self.operands >> 10 & 1 {
            0 => FLAGS,
            _ => Test::Bool { id: (n % 16) as u8, value: true },
        }
    }

    fn operations(&mut self, count: usize) {
        (0..count).for_each(|_| self.operation());
    }

    /// The next operation, of a kind that the numbers choose.
    fn operation(&mut self) {
        let (n, operands) = (self.n, usize::from(self.operands));
        self.n += 1;
        let count = OPERATIONS.len();
        let op = if self.kind < count { OPERATIONS[self.kind] } else { OPERATIONS[(n * 7 + self.kind) % count] };
        let narrow = |choice: usize| match choice & 3 {
            0 => SrcReg::temp(0),
            1 => SrcReg::temp((n + 5) as u8),
            2 => SrcReg::input((n * 3) as u8),
            _ => SrcReg::temp(n as u8),
        };
        let mut src = [Alu::NO_SRC; 3];
        for (k, source) in src[..op.row().sources()].iter_mut().enumerate() {
            *source = Src::plain(narrow(operands >> (2 * (k + 1))));
            if op.row().wide_source() == Some(k) && operands & 0x100 != 0 {
                let index = if operands & 0x200 == 0 { Index::None } else { Index::new((n % 4) as u8) };
                *source = Src { index, ..Src::plain(SrcReg::uniform((n % 96) as u8)) };
            }
        }
        let dst = match operands & 3 {
            0 => DstReg::temp(0),
            1 => DstReg::temp(n as u8),
            2 => DstReg::output(n as u8),
            _ => DstReg::temp((n % 4) as u8),
        };
        let inst = match op {
            Opcode::Mova => Inst::Mova { mask: WriteMask::ALL, src: src[0] },
            Opcode::Cmp => Inst::Cmp { ops: [CmpOp::Lt, CmpOp::Ge], src: [src[0], src[1]] },
            op => Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src }),
        };
        let descriptor = match operands >> 11 & 3 {
            0 => 0,
            1 => n % 32,
            2 => (operands >> 11) % 32,
            _ => 1 + n % 3,
        };
        self.code.push(inst.encode(descriptor as u8).expect("operands fit"));
    }

    fn one(&mut self, op: Opcode, dst: DstReg, from: SrcReg) {
        let src = [Src::plain(from), Alu::NO_SRC, Alu::NO_SRC];
        self.put(Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src }));
    }

    /// Writes outputs and ends.
    fn end(&mut self) {
        (0..self.outputs).for_each(|n| self.one(Opcode::Mov, DstReg::output(n), SrcReg::temp(n)));
        self.put(Inst::End);
    }

    fn compare(&mut self, n: usize) {
        let src = [SrcReg::temp(n as u8), SrcReg::input(n as u8)].map(Src::plain);
        self.put(Inst::Cmp { ops: [CmpOp::Lt, CmpOp::Ge], src });
    }

    /// Replaces the word at `at`.
    fn fix(&mut self, at: usize, inst: Inst) {
        if let Ok(word) = inst.encode(0) {
            self.code[at] = word;
        }
    }

    fn body(&mut self, recipe: &Recipe) {
        let [parts, each, _, _, x, y, _] = recipe.numbers.map(usize::from);
        match recipe.family {
            Family::Straight => self.operations(parts * each.max(1)),
            Family::Calls => self.calls(parts, each, x, y),
            Family::DeepCalls => self.deep_calls(parts, each, x, y),
            Family::Nested => self.nested(parts.min(64), each, x),
            Family::Conditions => self.conditions(parts, each, x, y),
            Family::Forward => self.forward(parts, each, x),
            Family::Backward => self.backward(parts, each, x),
            Family::Loops => self.loops(parts, each, x, y),
            Family::Relative => self.relative(parts, each),
            Family::Pressure => self.pressure(parts, each),
            Family::Partial => self.partial(parts, each),
            Family::Emits => self.emits(parts, each, x),
            Family::NoEnd | Family::Random => unreachable!("they have no body"),
        }
    }

    /// The procedure stands after the calls, which some condition may guard.
    fn calls(&mut self, parts: usize, each: usize, x: usize, y: usize) {
        let each = each.clamp(1, 255);
        let start = self.pc();
        let calls = start..start + parts.min(3000);
        calls.clone().for_each(|_| self.put(Inst::Nop));
        self.end();
        let target = self.pc();
        self.operations(x % each);
        if y % 2 == 1 && each > x % each {
            // A condition over the rest of the procedure.
            self.put(Inst::If { test: FLAGS, target: (target + each) as Pc, len: 0 });
        }
        self.operations(each.saturating_sub(self.pc() - target));
        for at in calls {
            let test = (y >> 1 & 1 == 1).then(|| self.test(at));
            self.fix(at, Inst::Call { test, target: target as Pc, len: each as u8 });
        }
    }

    /// Procedures of `x` calls of the next one.
    fn deep_calls(&mut self, parts: usize, each: usize, x: usize, y: usize) {
        let (depth, x) = (parts.clamp(1, 6), x.clamp(1, 8));
        let len = x + each.min(200);
        let call = self.pc();
        self.put(Inst::Nop);
        self.end();
        let first = self.pc();
        self.fix(call, Inst::Call { test: None, target: first as Pc, len: len as u8 });
        for level in 1..=depth {
            for n in 0..x {
                let test = (y % 2 == 1).then(|| self.test(n));
                let target = (first + level * len) as Pc;
                self.put(Inst::Call { test, target, len: len as u8 });
            }
            self.operations(len - x);
        }
        self.operations(len);
    }

    fn nested(&mut self, depth: usize, each: usize, x: usize) {
        let mut open = Vec::new();
        for n in 0..depth {
            self.compare(n);
            open.push(self.pc());
            self.put(Inst::Nop);
            self.operations(each);
        }
        while let Some(at) = open.pop() {
            let end = self.pc();
            self.operations((x % 8).min(255));
            let test = self.test(open.len());
            self.fix(at, Inst::If { test, target: end as Pc, len: (self.pc() - end) as u8 });
        }
    }

    fn conditions(&mut self, parts: usize, each: usize, x: usize, y: usize) {
        for n in 0..parts {
            if !y.is_multiple_of(4) {
                self.compare(n);
            }
            let at = self.pc();
            self.put(Inst::Nop);
            self.operations(each);
            let end = self.pc();
            self.operations(x % 64);
            let test = self.test(n);
            self.fix(at, Inst::If { test, target: end as Pc, len: (self.pc() - end) as u8 });
        }
    }

    fn forward(&mut self, parts: usize, each: usize, x: usize) {
        let mut jumps = Vec::new();
        for n in 0..parts {
            self.compare(n);
            jumps.push(self.pc());
            self.put(Inst::Nop);
            self.operations(each);
        }
        let end = self.pc();
        let far = if x == 0 { usize::MAX } else { x };
        for (n, &at) in jumps.iter().enumerate() {
            let target = n.checked_add(far).and_then(|m| jumps.get(m)).copied().unwrap_or(end);
            let test = self.test(n);
            self.fix(at, Inst::Jump { test, target: target as Pc });
        }
    }

    fn backward(&mut self, parts: usize, each: usize, x: usize) {
        let start = self.pc();
        for n in 0..parts {
            let here = self.pc();
            self.operations(each);
            self.compare(n);
            let target = if x.is_multiple_of(2) { start } else { here.saturating_sub(x * 4).max(start) };
            let test = self.test(n);
            self.put(Inst::Jump { test, target: target as Pc });
        }
    }

    fn loops(&mut self, parts: usize, each: usize, x: usize, y: usize) {
        let depth = 1 + x % 4;
        for n in 0..parts {
            let open: Vec<usize> = (0..depth).map(|k| self.pc() + k).collect();
            (0..depth).for_each(|_| self.put(Inst::Nop));
            self.operations(each);
            for k in 0..y % 8 {
                self.compare(k);
                self.put(Inst::Breakc { cond: Cond { op: CondOp::And, ref_x: true, ref_y: k % 2 == 0 } });
                self.operations(1);
            }
            for (k, &at) in open.iter().enumerate().rev() {
                // Each ends after those inside it.
                self.operation();
                self.fix(at, Inst::Loop { int: ((n + k) % 4) as u8, last: (self.pc() - 1) as Pc });
            }
        }
    }

    fn relative(&mut self, parts: usize, each: usize) {
        for n in 0..parts {
            let src = Src::plain(SrcReg::temp(n as u8));
            self.put(Inst::Mova { mask: WriteMask::ALL, src });
            for k in 0..each {
                let index = Index::new(1 + (k % 2) as u8);
                let src = Src { index, ..Src::plain(SrcReg::uniform(((n + k * 5) % 96) as u8)) };
                let op = [Opcode::Add, Opcode::Mul, Opcode::Dp4, Opcode::Max][k % 4];
                let dst = DstReg::temp((n + k) as u8);
                let src = [src, Src::plain(SrcReg::temp((n + k) as u8)), Alu::NO_SRC];
                self.put(Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src }));
            }
            self.operations(usize::from(self.operands >> 13));
        }
    }

    fn pressure(&mut self, parts: usize, each: usize) {
        (0..16).for_each(|n| self.one(Opcode::Mov, DstReg::temp(n), SrcReg::input(n)));
        for _ in 0..parts {
            for k in 0..each {
                let regs = [k, k * 7 + 1, k * 3 + 2].map(|n| Src::plain(SrcReg::temp(n as u8)));
                let src = [regs[0], Src::plain(SrcReg::uniform((k % 96) as u8)), regs[2]];
                let dst = DstReg::temp((k * 5) as u8);
                self.put(Inst::Alu(Alu { op: Opcode::Mad, dst, mask: WriteMask::ALL, src }));
            }
            self.operations(1);
        }
    }

    fn partial(&mut self, parts: usize, each: usize) {
        for n in 0..parts {
            self.compare(n);
            let at = self.pc();
            self.put(Inst::Nop);
            for k in 0..each {
                let dst = DstReg::output((n + k) as u8);
                let src = [Src::plain(SrcReg::temp(k as u8)), Alu::NO_SRC, Alu::NO_SRC];
                let inst = Inst::Alu(Alu { op: Opcode::Mov, dst, mask: WriteMask::ALL, src });
                let descriptor = 2 + ((n + k) % 6) as u8;
                self.code.push(inst.encode(descriptor).expect("operands fit"));
            }
            let test = self.test(n);
            self.fix(at, Inst::If { test, target: self.pc() as Pc, len: 0 });
            self.operations(1);
        }
    }

    fn emits(&mut self, parts: usize, each: usize, x: usize) {
        for n in 0..parts {
            self.operations(each);
            if x.is_multiple_of(2) {
                self.put(Inst::Setemit(Setemit { vertex: (n % 3) as u8, primitive: n % 3 == 2, winding: n % 2 == 0 }));
            }
            self.put(Inst::Emit);
        }
    }
}

impl Recipe {
    /// The program and its entry.
    pub fn program(&self) -> (Arc<Program>, Entry) {
        let [parts, each, kind, operands, x, y, outputs] = self.numbers;
        let mut writer =
            Writer { code: Vec::new(), kind: usize::from(kind), operands, outputs: outputs.min(16) as u8, n: 0 };
        let mut opdescs = descriptors();
        let mut stage = if self.family == Family::Emits { Stage::Geometry } else { Stage::Vertex };
        match self.family {
            Family::NoEnd => {
                writer.operations(usize::from(parts));
                if usize::from(each) % 3 != 0 {
                    // Not only dead code.
                    writer.one(Opcode::Mov, DstReg::temp(0), SrcReg::input(0));
                }
                writer.operation();
                let word = if y % 2 == 0 { 0 } else { *writer.code.last().expect("just written") };
                writer.code.resize(MAX_CODE_WORDS, word);
            }
            Family::Random => {
                let seed = u64::from(parts) << 32 | u64::from(each) << 16 | u64::from(x);
                let case = picajit_fuzz::case_from_seed(seed, None, 1);
                (opdescs, stage) = (case.program.opdescs().to_vec(), case.entry.stage);
                for _ in 0..=y % 64 {
                    let end = Inst::End.encode(0).expect("no operands");
                    writer.code.extend(case.program.code().iter().filter(|word| **word != end));
                }
            }
            _ => {
                (0..16).for_each(|n| writer.one(Opcode::Mov, DstReg::temp(n), SrcReg::input(n)));
                writer.body(self);
            }
        }
        if !matches!(self.family, Family::NoEnd | Family::Calls | Family::DeepCalls) {
            writer.code.truncate(MAX_CODE_WORDS - 17);
            writer.end();
        }
        let mut code = writer.code;
        code.truncate(MAX_CODE_WORDS);
        for &(at, word) in &self.patches {
            let len = code.len();
            if let Some(place) = code.get_mut(usize::from(at) % len.max(1)) {
                *place = word;
            }
        }
        opdescs.truncate(128);
        let program = Program::from_words(&code, &opdescs).expect("it fits");
        (Arc::new(program), Entry { pc: 0, stage })
    }
}
