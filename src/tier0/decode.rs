//! Words of an entry -> [`Code`]: each reachable word decoded once, operands resolved to slots.

use super::code::{self, Block, BlockId, Code, Edge, Flow, Op, Operand, Register, Slot, Terminator, Transfers};
use crate::ir::analysis::RegisterUse;
use crate::ir::analysis::longest_run::LongestRun;
use crate::ir::cfg::{self, Cfg, Step};
use crate::isa::{AluOp, DstFile, FLOAT_UNIFORMS, Index, Inst, REGS, Src, SrcFile, Stage};
use crate::kernel::Config;
use crate::kernel::cancel::CancelFlag;
use crate::program::{Entry, Program};
use std::ops::Range;

/// Decodes an entry. Without a control-flow graph, which may exceed a limit, or with one that is
/// much larger than the words, runs follow the words.
pub fn decode(program: &Program, entry: Entry, config: &Config, cfg: Option<&Cfg>) -> Code {
    if let Some(cfg) = cfg
        && let Some(code) = decode_blocks(program, config, cfg)
    {
        return code;
    }
    let mut decoder = Decoder::new(entry);
    let mut words: Box<[(Inst, Range<u32>)]> = program.insts().map(|(_, inst)| (inst, decoder.inst(&inst))).collect();
    // Loops push their counters on a ring at run time.
    words.iter_mut().filter(|(inst, _)| matches!(inst, Inst::Loop { .. })).for_each(|(_, ops)| *ops = 0..0);
    let usage = RegisterUse::of_words(entry.stage, words.iter().map(|(inst, _)| *inst));
    decoder.finish(config, Flow::Words(words), usage, cfg)
}

fn decode_blocks(program: &Program, config: &Config, cfg: &Cfg) -> Option<Code> {
    let mut decoder = Decoder::new(cfg.entry);
    let mut ranges = vec![0..0; program.code().len()];
    for &pc in &cfg.reachable {
        let inst = program.inst(pc).expect("reachable words exist");
        ranges[usize::from(pc)] = decoder.inst(&inst);
    }
    let mut blocks = Vec::with_capacity(cfg.blocks.len());
    let mut pieces: Vec<Range<u32>> = Vec::new();
    for block in &cfg.blocks {
        let first = pieces.len();
        for step in &block.steps {
            let range = match *step {
                Step::Inst(pc, _) => ranges[usize::from(pc)].clone(),
                Step::LoopBegin { int, slot, shift, .. } => {
                    decoder.push(Op::LoopBegin { int, slot: slot as u8, shift })
                }
            };
            match pieces[first..].last_mut() {
                _ if range.is_empty() => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => pieces.push(range),
            }
        }
        let pieces = first as u32..pieces.len() as u32;
        blocks.push(Block { pieces, words: block.words, end: terminator(&block.term) });
    }
    if !code::is_compact(blocks.len(), pieces.len(), cfg.reachable.len()) {
        return None;
    }
    let flow = Flow::Blocks { blocks: blocks.into(), pieces: pieces.into() };
    Some(decoder.finish(config, flow, RegisterUse::new(cfg), Some(cfg)))
}

fn terminator(term: &cfg::Terminator) -> Terminator {
    let edge = |e: cfg::Edge| Edge { to: e.to as BlockId, backward: e.backward };
    match *term {
        cfg::Terminator::Exit(exit) => Terminator::Exit(exit),
        cfg::Terminator::Goto(e) => Terminator::Goto(edge(e)),
        cfg::Terminator::Branch { test, yes, no } => Terminator::Branch { test, yes: edge(yes), no: edge(no) },
        cfg::Terminator::LoopEnd { slot, again, exit, restore } => {
            Terminator::LoopEnd { slot: slot as u8, again: edge(again), exit: edge(exit), restore }
        }
        cfg::Terminator::LoopBreak { slot, exit, restore } => {
            Terminator::LoopBreak { slot: slot as u8, exit: edge(exit), restore }
        }
    }
}

/// Slots per register number; [`NO_SLOT`] where the entry does not name the register.
const NO_SLOT: Slot = Slot::MAX;

struct Decoder {
    entry: Entry,
    ops: Vec<Op>,
    registers: Vec<Register>,
    inputs: [Slot; REGS],
    temps: [Slot; REGS],
    outputs: [Slot; REGS],
    uniforms: [Slot; FLOAT_UNIFORMS],
    fetched: Slot,
}

impl Decoder {
    fn new(entry: Entry) -> Decoder {
        Decoder {
            entry,
            ops: Vec::with_capacity(64),
            registers: Vec::with_capacity(32),
            inputs: [NO_SLOT; REGS],
            temps: [NO_SLOT; REGS],
            outputs: [NO_SLOT; REGS],
            uniforms: [NO_SLOT; FLOAT_UNIFORMS],
            fetched: NO_SLOT,
        }
    }

    fn finish(self, config: &Config, flow: Flow, usage: RegisterUse, cfg: Option<&Cfg>) -> Code {
        // A register is stored as a whole.
        let loads = self.transfers(&|register| match register {
            Register::Input(_) | Register::Uniform(_) => true,
            Register::Temp(_) | Register::Output(_) => {
                let needed = register.components_in(&(usage.read_first | usage.kept)) != 0;
                needed || !matches!(register.components_in(&usage.written), 0 | 0xF)
            }
            Register::Fetched => false,
        });
        let stores = self.transfers(&|register| register.components_in(&usage.written) != 0);
        let fetches = self.ops.iter().any(|op| matches!(op, Op::Fetch { .. }));
        Code {
            entry: self.entry,
            precision: config.precision,
            fuel: config.fuel(),
            cancel: CancelFlag::default(),
            registers: self.registers.into(),
            ops: self.ops.into(),
            flow,
            usage,
            longest_run: cfg.and_then(LongestRun::new),
            fetches,
            loads,
            stores,
        }
    }

    /// The slots of these registers.
    fn transfers(&self, wanted: &dyn Fn(Register) -> bool) -> Transfers {
        let mut files: [Vec<(Slot, u8)>; 4] = Default::default();
        for (slot, &register) in (0..).zip(&self.registers) {
            let (file, n) = match register {
                Register::Input(n) => (0, n),
                Register::Uniform(n) => (1, n),
                Register::Temp(n) => (2, n),
                Register::Output(n) => (3, n),
                Register::Fetched => continue,
            };
            if wanted(register) {
                files[file].push((slot, n));
            }
        }
        let [inputs, uniforms, temps, outputs] = files.map(Vec::into_boxed_slice);
        Transfers { inputs, uniforms, temps, outputs }
    }

    fn push(&mut self, op: Op) -> Range<u32> {
        let at = self.ops.len() as u32;
        self.ops.push(op);
        at..at + 1
    }

    /// The operations of an instruction; none for control flow.
    fn inst(&mut self, inst: &Inst) -> Range<u32> {
        let start = self.ops.len() as u32;
        let geometry = self.entry.stage == Stage::Geometry;
        let op = match *inst {
            Inst::Alu(alu) => {
                let mask = alu.mask.component_bits();
                let mut src = [self.operand(&alu.src[0]); 3];
                for (operand, source) in src.iter_mut().zip(alu.sources()).skip(1) {
                    *operand = self.operand(source);
                }
                let dst = self.slot(match alu.dst.file() {
                    DstFile::Output(n) => Register::Output(n),
                    DstFile::Temp(n) => Register::Temp(n),
                });
                match alu.operation() {
                    AluOp::Vector(op) => Op::Vector { op, dst, mask, src },
                    AluOp::Scalar(op) => Op::Scalar { op, dst, mask, src: src[0] },
                }
            }
            Inst::Mova { mask, src } => Op::ToAddress { mask: mask.component_bits() & 3, src: self.operand(&src) },
            Inst::Cmp { ops, src } => Op::Compare { ops, src: src.map(|s| self.operand(&s)) },
            Inst::Emit if geometry => Op::Emit,
            Inst::Setemit(parameters) if geometry => Op::Setemit(parameters),
            _ => return start..start,
        };
        self.ops.push(op);
        start..self.ops.len() as u32
    }

    /// The operand of a source, after the operation that fetches it, if it has an index.
    fn operand(&mut self, src: &Src) -> Operand {
        let register = match src.reg.file() {
            SrcFile::Input(n) => Register::Input(n),
            SrcFile::Temp(n) => Register::Temp(n),
            SrcFile::Uniform(n) if src.index == Index::None => Register::Uniform(n),
            SrcFile::Uniform(n) => {
                let dst = self.slot(Register::Fetched);
                // One slot is enough: an instruction has at most one source with an index.
                self.ops.push(Op::Fetch { dst, base: n, index: src.index });
                Register::Fetched
            }
        };
        let uniform = matches!(register, Register::Uniform(_));
        Operand { slot: self.slot(register), swizzle: src.swizzle, negate: src.negate, uniform }
    }

    fn slot(&mut self, register: Register) -> Slot {
        let next = self.registers.len() as Slot;
        let slot = match register {
            Register::Input(n) => &mut self.inputs[usize::from(n)],
            Register::Temp(n) => &mut self.temps[usize::from(n)],
            Register::Output(n) => &mut self.outputs[usize::from(n)],
            Register::Uniform(n) => &mut self.uniforms[usize::from(n)],
            Register::Fetched => &mut self.fetched,
        };
        if *slot == NO_SLOT {
            *slot = next;
            self.registers.push(register);
        }
        *slot
    }
}
