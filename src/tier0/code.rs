//! The decoded form of an entry, which both executors run: operations on slots, and their order.
//!
//! Invariant: every slot number in an operation is below [`Code::registers`]' length, and every
//! range and block number lies inside its table.

use crate::ir::analysis::RegisterUse;
use crate::ir::analysis::longest_run::LongestRun;
use crate::ir::register_set::RegisterSet;
use crate::isa::flow::Exit;
use crate::isa::numeric::Precision;
use crate::isa::{CmpOp, Cond, Index, Inst, ScalarOp, Setemit, Stage, Swizzle, Test, VectorOp};
use crate::kernel::cancel::CancelFlag;
use crate::program::Entry;
use std::ops::Range;

/// A register of the entry's working set: its index in [`Code::registers`].
pub type Slot = u8;

/// The register that a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// `v`
    Input(u8),
    /// `r`
    Temp(u8),
    /// `o` of the current bank.
    Output(u8),
    /// `c` by its number in the word.
    Uniform(u8),
    /// A uniform by an address register, fetched right before its use.
    Fetched,
}

impl Register {
    /// Its components (bit 0 = x) in the set. Inputs and uniforms do not carry over.
    pub fn components_in(self, set: &RegisterSet) -> u8 {
        match self {
            Register::Temp(n) => set.temp(n),
            Register::Output(n) => set.output(n),
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => 0,
        }
    }
}

/// The components of a mask with bit 0 = x.
pub fn components(mask: u8) -> impl Iterator<Item = usize> {
    (0..4).filter(move |c| mask >> c & 1 != 0)
}

/// A source of an operation: the slot, swizzled, then negated.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The slot.
    pub slot: Slot,
    /// The component selector.
    pub swizzle: Swizzle,
    /// Flip all signs.
    pub negate: bool,
    /// Whether the slot holds a uniform: a group sets the first lanes of its columns only.
    pub uniform: bool,
}

/// One operation. Components are masks with bit 0 = x.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A vector operation; `LITP` also sets the flags.
    Vector {
        /// The operation.
        op: VectorOp,
        /// The slot written.
        dst: Slot,
        /// Its components.
        mask: u8,
        /// The sources; unused ones repeat the first.
        src: [Operand; 3],
    },
    /// A function of the source's x.
    Scalar {
        /// The operation.
        op: ScalarOp,
        /// The slot written.
        dst: Slot,
        /// Its components.
        mask: u8,
        /// The source.
        src: Operand,
    },
    /// `MOVA`.
    ToAddress {
        /// Bit 0: `a0.x`; bit 1: `a0.y`.
        mask: u8,
        /// The source.
        src: Operand,
    },
    /// `CMP`.
    Compare {
        /// Operators of x and y.
        ops: [CmpOp; 2],
        /// The operands.
        src: [Operand; 2],
    },
    /// A relative uniform to a [`Register::Fetched`] slot.
    Fetch {
        /// The slot.
        dst: Slot,
        /// The number in the word.
        base: u8,
        /// The address register.
        index: Index,
    },
    /// A LOOP begins, with its counters in ring slot `slot`.
    LoopBegin {
        /// The integer uniform.
        int: u8,
        /// 0 for the outermost loop.
        slot: u8,
        /// The ring was full: the counters in slots 1.. move down by one first.
        shift: bool,
    },
    /// `EMIT` in a geometry program.
    Emit,
    /// `SETEMIT` in a geometry program.
    Setemit(Setemit),
}

/// The number of a block.
pub type BlockId = u16;

/// Consecutive operations and a terminator.
#[derive(Clone, Debug)]
pub struct Block {
    /// The ranges of [`Code::ops`] that run in order: a part of [`Flow::Blocks`]' pieces.
    pub pieces: Range<u32>,
    /// Words that a run executes in it.
    pub words: u32,
    /// What follows.
    pub end: Terminator,
}

/// An edge to a block.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The block.
    pub to: BlockId,
    /// Whether it is a backward transfer, at which a run without fuel ends.
    pub backward: bool,
}

/// The terminator of a block.
#[derive(Clone, Copy, Debug)]
pub enum Terminator {
    /// The run ends.
    Exit(Exit),
    /// To one block.
    Goto(Edge),
    /// By a condition.
    Branch {
        /// The condition.
        test: Test,
        /// The edge if it holds.
        yes: Edge,
        /// The edge otherwise.
        no: Edge,
    },
    /// The body of the loop in ring slot `slot` ends.
    LoopEnd {
        /// Ring slot of its counters.
        slot: u8,
        /// The edge to the body, if iterations are left.
        again: Edge,
        /// The edge out of the loop.
        exit: Edge,
        /// Whether `exit` restores aL to its value before the loop.
        restore: bool,
    },
    /// A BREAK leaves the loop in ring slot `slot`.
    LoopBreak {
        /// Ring slot of its counters.
        slot: u8,
        /// The edge out of the loop.
        exit: Edge,
        /// As in `LoopEnd`.
        restore: bool,
    },
}

/// The order of operations.
#[derive(Clone, Debug)]
pub enum Flow {
    /// Blocks of the control-flow graph; the first is the entry.
    Blocks {
        /// All blocks.
        blocks: Box<[Block]>,
        /// Ranges of operations.
        pieces: Box<[Range<u32>]>,
    },
    /// The graph exceeds a limit: a run keeps the scope rings itself. Each word of the program has
    /// its instruction and its operations.
    Words(Box<[(Inst, Range<u32>)]>),
}

/// A decoded entry.
#[derive(Clone, Debug)]
pub struct Code {
    /// Address and stage.
    pub entry: Entry,
    /// The number format.
    pub precision: Precision,
    /// Words that a run may execute.
    pub fuel: u32,
    /// Ends runs at their next backward transfer.
    pub cancel: CancelFlag,
    /// The register of each slot.
    pub registers: Box<[Register]>,
    /// All operations.
    pub ops: Box<[Op]>,
    /// Their order.
    pub flow: Flow,
    /// What the entry reads and writes.
    pub usage: RegisterUse,
    /// The bound of the words of its runs; `None`: fuel is the only one.
    pub longest_run: Option<LongestRun>,
    /// Whether an operation fetches a uniform by an address register.
    pub fetches: bool,
    /// What a run of one vertex loads before it begins.
    pub loads: Transfers,
    /// What it stores when it ends.
    pub stores: Transfers,
}

/// Slots, each with the number of its register, by register file.
#[derive(Clone, Debug)]
pub struct Transfers {
    /// `v`; loaded only.
    pub inputs: Box<[(Slot, u8)]>,
    /// `c`; loaded only.
    pub uniforms: Box<[(Slot, u8)]>,
    /// `r`
    pub temps: Box<[(Slot, u8)]>,
    /// `o` of the current bank.
    pub outputs: Box<[(Slot, u8)]>,
}

impl Code {
    /// Whether it is a geometry program.
    pub fn is_geometry(&self) -> bool {
        self.entry.stage == Stage::Geometry
    }

    /// The blocks and pieces, if the control-flow graph is within its limits.
    pub fn blocks(&self) -> Option<(&[Block], &[Range<u32>])> {
        match &self.flow {
            Flow::Blocks { blocks, pieces } => Some((blocks, pieces)),
            Flow::Words(_) => None,
        }
    }

    /// Whether runs end. A call, which keeps the loops over operations small.
    #[inline(never)]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_set()
    }

    /// Bytes of memory it occupies.
    pub fn bytes(&self) -> usize {
        let flow = match &self.flow {
            Flow::Blocks { blocks, pieces } => size_of_val(&**blocks) + size_of_val(&**pieces),
            Flow::Words(words) => size_of_val(&**words),
        };
        let longest_run = self.longest_run.as_ref().map_or(0, LongestRun::bytes);
        size_of::<Code>() + size_of_val(&*self.registers) + size_of_val(&*self.ops) + flow + longest_run
    }
}

impl Operand {
    /// The slot's component that is component `c` of the operand.
    pub fn component(&self, c: usize) -> usize {
        self.swizzle.component(c)
    }
}

/// Whether a program of `states` (pc, scopes) pairs and `words` reachable words is decoded to
/// blocks: cloned procedures can take far more memory than the words.
pub fn is_compact(blocks: usize, pieces: usize, words: usize) -> bool {
    blocks * size_of::<Block>() + pieces * size_of::<Range<u32>>() <= 48 * size_of::<u32>() * words.max(16)
}

/// Whether the flags satisfy a condition, for 64 vertices at once.
pub fn holds(cond: Cond, flags: [u64; 2]) -> u64 {
    use crate::isa::CondOp;
    let x = if cond.ref_x { flags[0] } else { !flags[0] };
    let y = if cond.ref_y { flags[1] } else { !flags[1] };
    match cond.op {
        CondOp::Or => x | y,
        CondOp::And => x & y,
        CondOp::X => x,
        CondOp::Y => y,
    }
}
