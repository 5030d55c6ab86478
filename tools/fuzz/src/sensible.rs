//! [`Writer`]'s third tier: sensible programs. Nested blocks, procedures, counted loops, computed
//! addresses, emitted outputs; and scopes with coinciding ends, where the hardware is least
//! obvious.
//!
//! Invariant: every reserved word is filled in when [`Writer::sensible`] returns. Of register
//! contents it knows only `c0-c6`.

use super::generate::{FEW, Writer};
use super::speculation::SCRATCH;
use picajit::isa::{Alu, CmpOp, Cond, CondOp, DstReg, Inst, Opcode, Pc, Src, SrcReg, Stage, Test, WriteMask};

/// The temporary that backward jumps count down.
const COUNTER: u8 = 9;
/// Registers that nothing reads and that only [`Writer::keep`] writes, temporaries and outputs.
const KEPT: [u8; 3] = [12, 13, 14];

impl Writer<'_, '_> {
    /// Tier three.
    pub(super) fn sensible(&mut self) {
        self.clean = self.groups || self.choices.percent(if self.stage == Stage::Vertex { 60 } else { 20 });
        self.straight = self.choices.percent(if self.clean && !self.groups { 25 } else { 5 });
        // A divergent branch would make invocations that emit dependent.
        let emits = self.groups && self.stage == Stage::Geometry && self.choices.percent(90);
        self.straight |= emits;
        self.forked = self.clean && !self.straight && self.choices.percent(if self.groups { 90 } else { 60 });
        self.speculative = self.groups && self.choices.percent(80);
        self.keeping = self.clean && !emits && self.choices.percent(50);
        if self.clean {
            self.prologue();
        }
        let main_call = self.code.len();
        self.put(Inst::Nop);
        let main = 4 + self.choices.below(self.length / 2);
        if !self.straight && self.choices.percent(if self.clean { 16 } else { 8 }) {
            self.tower();
        }
        self.block(main, 0);
        if emits {
            self.emits();
        }
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
        if self.flows() && self.choices.percent(15) {
            self.vast = self.choices.percent(12);
            let (head, test) = match self.vast {
                // A run through it takes more fuel than most programs have; a boolean bypasses it.
                true => (self.maze(), Some(Test::Bool { id: self.choices.below(16) as u8, value: true })),
                false => {
                    let head = self.chain();
                    procedures.extend([head; 3]);
                    (head, Some(self.test(false)).filter(|_| self.choices.percent(30)))
                }
            };
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
                    // Some enter a procedure after its beginning: two calls with one end.
                    let skip =
                        if self.choices.percent(25) { self.choices.below(u32::from(end - start)) as Pc } else { 0 };
                    Inst::Call { test, target: start + skip, len: (end - start - skip) as u8 }
                }
                Inst::Call { .. } => Inst::Nop,
                Inst::Jump { test, .. } => {
                    let target = match self.choices.below(20) {
                        6..=13 if !self.insides.is_empty() => {
                            let (first, last) = self.choices.pick(&self.insides);
                            first + self.choices.below(u32::from(last - first) + 1) as Pc
                        }
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

    /// Whether there are transfers other than branches whose edges join.
    fn flows(&self) -> bool {
        !self.straight && !self.forked
    }

    /// Initialises everything that a clean program may read: few registers of each file, the
    /// counter, addresses, flags.
    fn prologue(&mut self) {
        let mut dsts: Vec<DstReg> = (0..FEW).map(DstReg::temp).collect();
        if self.speculative {
            self.begin_speculation();
            dsts.extend(SCRATCH.map(DstReg::temp));
        }
        let outputs = if self.forked { 100 } else { 85 };
        dsts.extend((0..FEW).map(DstReg::output).filter(|_| self.choices.percent(outputs)));
        for (k, dst) in dsts.into_iter().enumerate() {
            if k >= usize::from(FEW) && self.choices.percent(20) {
                self.matrix(dst);
                continue;
            }
            let op = self.choices.pick(&[Opcode::Mov, Opcode::Mul, Opcode::Add, Opcode::Dp4]);
            let n = self.choices.below(16) as u8;
            let first = if self.choices.percent(50) { SrcReg::input(n) } else { SrcReg::uniform(n) };
            let second = if op.row().sources() == 2 {
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

    /// A matrix times a vector, as positions are made. For the beginning of a program, where the
    /// table has room.
    fn matrix(&mut self, dst: DstReg) {
        let op = self.choices.pick(&[Opcode::Dp4, Opcode::Dp4, Opcode::Dp3, Opcode::Dphi]);
        let factor = match self.choices.percent(70) {
            true => SrcReg::input(self.choices.below(16) as u8),
            false => SrcReg::temp(self.choices.below(u32::from(FEW)) as u8),
        };
        let first = self.choices.below(93) as u8;
        let opdesc = self.opdesc() & !u32::from(WriteMask::ALL.bits());
        for lane in 0..4 {
            let [factor, row] = [factor, SrcReg::uniform(first + lane)].map(Src::plain);
            let src = if op == Opcode::Dphi { [factor, row, Alu::NO_SRC] } else { [row, factor, Alu::NO_SRC] };
            let inst = Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src });
            let index = self.opdescs.len() as u8;
            self.opdescs.push(opdesc | 8 >> lane);
            self.code.push(inst.encode(index).expect("generated operands fit their fields"));
        }
    }

    /// Appends `inst`, writing all components. For the beginning of a program, where the table has
    /// room.
    fn put_full(&mut self, inst: Inst) {
        self.put_masked(inst, WriteMask::ALL.bits());
    }

    /// Appends `inst` under a random descriptor with this write mask.
    fn put_masked(&mut self, inst: Inst, mask: u8) {
        let opdesc = self.opdesc() & !u32::from(WriteMask::ALL.bits()) | u32::from(mask);
        let index = self.opdescs.len() as u8;
        self.opdescs.push(opdesc);
        self.code.push(inst.encode(index).expect("generated operands fit their fields"));
    }

    /// More scopes inside each other than a ring holds, with ends of their own or with shared ones.
    fn tower(&mut self) {
        if self.clean {
            self.divergent_flags();
        }
        let kind = if self.forked { 1 } else { self.choices.below(2) };
        let floors =
            self.choices.pick(if self.clean { &[4, 5, 5, 6] } else { &[3, 4, 5, 6] }) * if kind == 0 { 1 } else { 2 };
        let start = self.pc();
        let end = start + 2 * floors;
        let shared = self.choices.percent(20);
        // One boolean opens most of them, so that vertices differ above.
        let open = Test::Bool { id: self.choices.below(16) as u8, value: true };
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
                let test = if self.clean && n + 3 < floors { open } else { self.test(false) };
                Inst::If { test, target: last + 1, len }
            };
            self.put(inst);
        }
        while self.pc() < end {
            let inst = self.arithmetic();
            self.put(inst);
        }
    }

    /// Procedures that each end with a call to the next, so that all of them return in one step;
    /// with more than three the machine loses an address. The place of the first one.
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

    /// Procedures that each call the next from many places: more states than a graph has. The place
    /// of the first one.
    fn maze(&mut self) -> (Pc, Pc) {
        const WORDS: Pc = 12;
        let start = self.pc();
        for _ in 0..3 {
            let next = self.pc() + WORDS;
            (1..WORDS).for_each(|_| self.put(Inst::Call { test: None, target: next, len: WORDS as u8 }));
            // The last word only returns.
            self.put(Inst::Nop);
        }
        for _ in 0..WORDS {
            let inst = self.arithmetic();
            self.put(inst);
        }
        (start, start + WORDS)
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
            let flow = u32::from(self.flows());
            let nest = u32::from(depth < 6 && room > 2);
            let fork = nest * u32::from(!self.straight);
            let emits = if self.stage == Stage::Geometry { 14 } else { flow };
            let leaves = flow * u32::from(self.loops > 0);
            let repeat = (flow + u32::from(self.groups)) * nest;
            let weights = [
                50,
                6,
                if self.keeping { 27 } else { 9 } * fork,
                9 * repeat,
                9 * flow,
                6 * flow,
                18 * leaves,
                emits,
                flow,
                3 * flow * nest,
                4 * fork,
                12 * u32::from(self.speculative),
                u32::from(self.keeping) * if depth > 0 { 14 } else { 2 },
            ];
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
                9 => self.countdown(room, depth),
                10 => self.chosen(),
                11 => self.speculation(),
                _ => self.keep(),
            }
        }
    }

    /// `MOVA` of something that is a plausible address: `c0-c3`; for groups also an input.
    fn address(&mut self) {
        let n = self.choices.below(4) as u8;
        let divergent = self.groups && self.choices.percent(40);
        let src = Src::plain(if divergent { SrcReg::input(n) } else { SrcReg::uniform(n) });
        self.put(Inst::Mova { mask: WriteMask::ALL, src });
    }

    fn branch(&mut self, room: u32, depth: u32) {
        let divergent = self.speculative && self.choices.percent(70);
        if divergent {
            self.divergent_flags();
        } else if self.choices.percent(70) {
            let cmp = self.operation(Opcode::Cmp);
            self.put(cmp);
        }
        let test = if divergent { Test::Flags(self.cond()) } else { self.test(false) };
        let at = self.code.len();
        self.code.push(0);
        let words = 1 + self.choices.below(room.min(10));
        if self.speculative && self.choices.percent(60) {
            self.speculation();
        }
        if self.keeping && self.choices.percent(70) {
            self.keep();
        }
        self.block(words, depth + 1);
        self.padding(40);
        let target = self.pc();
        self.inside(at, target - 1);
        if self.choices.percent(50) {
            let words = 1 + self.choices.below(room.min(6));
            self.block(words, depth + 1);
            self.padding(40);
        }
        let len = (self.pc() - target).min(255) as u8;
        self.code[at] = self.word(&Inst::If { test, target, len });
    }

    /// A register that a branch fills from one of few uniforms, and computations on it after the
    /// branch. The value is uniform on each edge and divergent after the join. `c0-c3` are
    /// plausible addresses too.
    fn chosen(&mut self) {
        let n = self.choices.below(u32::from(FEW)) as u8;
        let ways = 1 + self.choices.below(2);
        if ways == 1 {
            self.constant(n);
        }
        let uniform = Src::plain(SrcReg::uniform(self.choices.below(96) as u8));
        let input = Src::plain(SrcReg::input(self.choices.below(u32::from(FEW)) as u8));
        let ops = [(); 2].map(|()| CmpOp::new(self.choices.below(6) as u8));
        self.put(Inst::Cmp { ops, src: [uniform, input] });
        let at = self.code.len();
        self.code.push(0);
        self.constant(n);
        self.padding(40);
        let target = self.pc();
        if ways == 2 {
            self.constant(n);
            self.padding(40);
        }
        let test = Test::Flags(self.cond());
        self.code[at] = self.word(&Inst::If { test, target, len: (self.pc() - target) as u8 });
        let chosen = Src::plain(SrcReg::temp(n));
        match self.choices.below(3) {
            0 => {
                self.put(Inst::Mova { mask: WriteMask::ALL, src: chosen });
                let read = self.operation(Opcode::Add);
                self.put(read);
            }
            1 => self.put(Inst::Cmp { ops, src: [uniform, chosen] }),
            _ => {
                let (op, dst) = (Opcode::Dp4, DstReg::output(n));
                let src = [uniform, chosen, Alu::NO_SRC];
                self.put(Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src }));
            }
        }
    }

    /// A write of a register that nothing reads. In a branch some vertices make it and some don't.
    fn keep(&mut self) {
        let op = self.choices.pick(&[Opcode::Mov, Opcode::Mov, Opcode::Add, Opcode::Mad, Opcode::Max]);
        let Inst::Alu(mut alu) = self.operation(op) else { unreachable!("these operations write a register") };
        let n = self.choices.pick(&KEPT);
        alu.dst = if self.choices.percent(50) { DstReg::temp(n) } else { DstReg::output(n) };
        self.put(Inst::Alu(alu));
    }

    /// Moves `c0`, `c1`, `c2` or `c3` to `r{n}`.
    fn constant(&mut self, n: u8) {
        let src = Src::plain(SrcReg::uniform(self.choices.below(4) as u8));
        let (op, dst) = (Opcode::Mov, DstReg::temp(n));
        self.put(Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src: [src, Alu::NO_SRC, Alu::NO_SRC] }));
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
        self.inside(at, self.pc() - 1);
        self.code[at] = self.word(&Inst::Loop { int, last: self.pc() - 1 });
    }

    /// Records the middle of a scope that the word `at` opens and that ends with `last`.
    fn inside(&mut self, at: usize, last: Pc) {
        let first = at as Pc + 2;
        if first <= last {
            self.insides.push((first, last));
        }
    }

    /// Leaves a loop, mostly under a condition.
    fn leave(&mut self) {
        let inst = if self.choices.percent(60) { Inst::Break } else { Inst::Breakc { cond: self.cond() } };
        self.put(inst);
    }

    /// EMITs, in a loop or in a branch of which a uniform decides, or in neither.
    fn emits(&mut self) {
        let kind = self.choices.below(4);
        let at = self.code.len();
        if kind != 0 {
            self.code.push(0);
        }
        (0..1 + self.choices.below(3)).for_each(|_| self.emit());
        let (n, last) = (self.choices.below(4) as u8, self.pc() - 1);
        match kind {
            0 => {}
            1 => {
                let test = Test::Bool { id: n, value: true };
                self.code[at] = self.word(&Inst::If { test, target: last + 1, len: 0 });
            }
            _ => self.code[at] = self.word(&Inst::Loop { int: n, last }),
        }
    }

    /// EMIT. For groups most of what it reads is new, and of one output two components are.
    fn emit(&mut self) {
        let new = self.groups && self.opdescs.len() < 128 - usize::from(FEW) && self.choices.percent(95);
        for n in (0..=FEW).filter(|_| new) {
            let op = self.choices.pick(&[Opcode::Mov, Opcode::Mov, Opcode::Add, Opcode::Mul]);
            let Inst::Alu(mut alu) = self.operation(op) else { unreachable!("these operations write a register") };
            alu.dst = DstReg::output(n);
            self.put_masked(Inst::Alu(alu), if n == FEW { 0b0101 } else { WriteMask::ALL.bits() });
        }
        if self.choices.percent(if new { 95 } else { 60 }) {
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
