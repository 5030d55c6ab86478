//! SSA over four-component values: one shader entry as data that can be rewritten, checked and
//! printed.
//!
//! # Rules of evaluation
//! 1. A [`Func`] is a list of blocks; block 0 begins the run and nothing jumps to it. A block's
//!    instructions run in order, then its terminator. An edge carries one argument for each
//!    parameter of its target, all read before any is set.
//! 2. A value is defined once, by a parameter or by one [`Inst::Def`], and that definition
//!    dominates every use. *Leaves* (constants, inputs, uniforms: [`Node::is_leaf`]) have no
//!    definition in a block: nothing in a run changes them, so each use evaluates them.
//! 3. A vector operation computes all four components from its sources as [`crate::isa::numeric`]
//!    defines; [`Use`] and [`ScalarUse`] apply a source's swizzle and sign at the use. A write mask
//!    is a [`Node::Merge`] of the register's old and new value. Dead components may hold any value.
//! 4. Registers are not values. Their contents enter by [`Node::Load`] and leave by
//!    [`Inst::Store`]. In the *SSA form* a register is loaded in block 0 only, and stored only
//!    right before the run ends and, outputs, before an EMIT. In the *memory form* each instruction
//!    loads what it reads and stores what it writes; this is the unoptimised form, for comparisons.
//! 5. [`Inst::Emit`] reads the outputs in memory and toggles the bank there. All memory accesses
//!    are in program order.
//!
//! [`mod@cfg`] finds the blocks, [`build`] constructs either form, [`simplify`] reduces it,
//! [`analysis`] proves facts about it, [`verify`] checks these rules, `print` shows it. None of
//! them depends on Cranelift.

pub mod analysis;
pub mod build;
pub mod cfg;
mod fuel;
mod insts;
mod order;
pub mod print;
pub mod register_set;
pub mod simplify;
#[cfg(test)]
mod tests;
pub mod verify;

use crate::isa::flow::Exit;
use crate::isa::{Cond, Pc, Relation, ScalarOp, Setemit, Swizzle, VectorOp, WriteMask};
use crate::program::Entry;
pub(crate) use order::components;
#[cfg(feature = "gpu-code")]
pub(crate) use order::{dominates, dominators};

/// The number of a value: its index in [`Func::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Four floats.
    Vec4,
    /// A signed 32-bit integer.
    Int,
    /// True or false.
    Flag,
}

/// A vector source: the value, swizzled, then negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use {
    /// The vector.
    pub value: Value,
    /// The component selector.
    pub swizzle: Swizzle,
    /// Flip all signs.
    pub negate: bool,
}

impl Use {
    /// The value unmodified.
    pub fn plain(value: Value) -> Use {
        Use { value, swizzle: Swizzle::IDENTITY, negate: false }
    }
    /// The scalar at component `c` of the source.
    pub fn component(&self, c: usize) -> ScalarUse {
        ScalarUse { value: self.value, component: self.swizzle.component(c) as u8, negate: self.negate }
    }
    /// Whether the source is the value unmodified.
    pub fn is_plain(&self) -> bool {
        self.swizzle == Swizzle::IDENTITY && !self.negate
    }
}

/// A scalar source: one component of a vector, optionally negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScalarUse {
    /// The vector.
    pub value: Value,
    /// Component 0-3.
    pub component: u8,
    /// Flip the sign.
    pub negate: bool,
}

/// A register in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mem {
    /// `r0-r15`.
    Temp(u8),
    /// `o0-o15` of a bank.
    Out {
        /// Register.
        n: u8,
        /// Bank, a [`Type::Int`] of 0 or 1.
        bank: Value,
    },
    /// `a0.x` (0) or `a0.y` (1).
    Address(u8),
    /// `aL`.
    LoopCounter,
    /// `cmp.x` (0) or `cmp.y` (1).
    Flag(u8),
    /// The current output bank; a load gives 0 or 1.
    Bank,
}

impl Mem {
    /// The type of its contents.
    pub fn ty(self) -> Type {
        match self {
            Mem::Temp(_) | Mem::Out { .. } => Type::Vec4,
            Mem::Address(_) | Mem::LoopCounter | Mem::Bank => Type::Int,
            Mem::Flag(_) => Type::Flag,
        }
    }
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A block's parameter.
    Param(Type),
    /// A constant vector, as bits.
    Const([u32; 4]),
    /// A constant integer.
    Int(i32),
    /// A constant flag.
    Flag(bool),
    /// Input register `v`.
    Input(u8),
    /// Float uniform `c`.
    Uniform(u8),
    /// A component (0-2) of an integer uniform, 0-255.
    IntUniform {
        /// The uniform's number.
        id: u8,
        /// x, y or z.
        component: u8,
    },
    /// The content of a register in memory at this point.
    Load(Mem),
    /// The integer if it is in -128..=127, else 0: the offset of an address register in relative
    /// addressing.
    Offset(Value),
    /// Float uniform `(base + offset) & 0x7F`, or (1, 1, 1, 1) if that is above 95.
    Relative {
        /// Uniform number in the word.
        base: u8,
        /// An [`Node::Offset`].
        offset: Value,
    },
    /// A vector operation on [`VectorOp::sources`] sources.
    Alu {
        /// The operation.
        op: VectorOp,
        /// The sources; unused ones repeat the first.
        src: [Use; 3],
    },
    /// A scalar operation: its result in all four components.
    Scalar {
        /// The operation.
        op: ScalarOp,
        /// The argument.
        src: ScalarUse,
    },
    /// Components of `mask` from `new`, the others from `old`.
    Merge {
        /// The components from `new`.
        mask: WriteMask,
        /// The register's former value.
        old: Value,
        /// The value written.
        new: Value,
    },
    /// A float as an address: truncated, saturated, NaN is 0.
    ToAddress(ScalarUse),
    /// A comparison of two scalars.
    Compare {
        /// The operator; never one of the two that always hold.
        op: Relation,
        /// Left.
        a: ScalarUse,
        /// Right.
        b: ScalarUse,
    },
    /// Wrapping sum of two integers.
    Add(Value, Value),
    /// The other output bank: 1 for 0, 0 for 1.
    Flip(Value),
}

impl Node {
    /// Whether the node is evaluated at each use instead of in a block.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Node::Const(_) | Node::Int(_) | Node::Flag(_) | Node::Input(_) | Node::Uniform(_) | Node::IntUniform { .. }
        )
    }

    /// The type of the value.
    pub fn ty(&self) -> Type {
        match self {
            Node::Param(ty) => *ty,
            Node::Load(mem) => mem.ty(),
            Node::Const(_)
            | Node::Input(_)
            | Node::Uniform(_)
            | Node::Relative { .. }
            | Node::Alu { .. }
            | Node::Scalar { .. }
            | Node::Merge { .. } => Type::Vec4,
            Node::Int(_)
            | Node::IntUniform { .. }
            | Node::Offset(_)
            | Node::ToAddress(_)
            | Node::Add(..)
            | Node::Flip(_) => Type::Int,
            Node::Flag(_) | Node::Compare { .. } => Type::Flag,
        }
    }

    /// Calls `f` on every operand.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        let mut node = *self;
        node.map_uses(|v| {
            f(v);
            v
        });
    }

    /// Replaces every operand.
    pub fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Node::Param(_)
            | Node::Const(_)
            | Node::Int(_)
            | Node::Flag(_)
            | Node::Input(_)
            | Node::Uniform(_)
            | Node::IntUniform { .. } => {}
            Node::Load(mem) => mem.map_uses(f),
            Node::Offset(v) | Node::Flip(v) | Node::Relative { offset: v, .. } => *v = f(*v),
            Node::Alu { op, src } => {
                let count = op.sources();
                for s in &mut src[..count] {
                    s.value = f(s.value);
                }
                for n in count..3 {
                    src[n] = src[0];
                }
            }
            Node::Scalar { src, .. } | Node::ToAddress(src) => src.value = f(src.value),
            Node::Merge { old, new, .. } => {
                *old = f(*old);
                *new = f(*new);
            }
            Node::Compare { a, b, .. } => {
                a.value = f(a.value);
                b.value = f(b.value);
            }
            Node::Add(a, b) => {
                *a = f(*a);
                *b = f(*b);
            }
        }
    }
}

impl Mem {
    /// Replaces the bank, if it has one.
    pub fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        if let Mem::Out { bank, .. } = self {
            *bank = f(*bank);
        }
    }
}

/// One step of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inst {
    /// Evaluates a node that is not a leaf.
    Def(Value),
    /// Writes a register in memory.
    Store(Mem, Value),
    /// Emits the outputs in memory, and toggles the bank there.
    Emit,
    /// Sets the parameters of the following emits.
    Setemit(Setemit),
}

/// The terminator of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// The run ends.
    Exit(Exit),
    /// To one block.
    Goto(Edge),
    /// By a condition.
    Branch {
        /// The condition.
        test: BranchTest,
        /// The edge if it holds.
        yes: Edge,
        /// The edge otherwise.
        no: Edge,
    },
}

/// The condition of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchTest {
    /// A condition on two flags.
    Flags {
        /// The condition. If it reads one flag, both values may be that flag.
        cond: Cond,
        /// `cmp.x`
        x: Value,
        /// `cmp.y`
        y: Value,
    },
    /// A boolean uniform has this value.
    Bool {
        /// 0-15.
        id: u8,
        /// The required value.
        value: bool,
    },
    /// An integer is not zero.
    NonZero(Value),
    /// An integer is not less than this: the fuel lasts.
    AtLeast(Value, i32),
}

impl BranchTest {
    /// Whether it guards a backward transfer. Every cycle has such a test.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // without code nothing checks it
    pub(crate) fn is_fuel_check(&self) -> bool {
        matches!(self, BranchTest::AtLeast(..))
    }

    /// Replaces every operand.
    pub fn map_uses(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            BranchTest::Flags { cond, x, y } => {
                use crate::isa::CondOp;
                if cond.op != CondOp::Y {
                    *x = f(*x);
                }
                *y = if cond.op == CondOp::X { *x } else { f(*y) };
                if cond.op == CondOp::Y {
                    *x = *y;
                }
            }
            BranchTest::Bool { .. } => {}
            BranchTest::NonZero(v) | BranchTest::AtLeast(v, _) => *v = f(*v),
        }
    }
}

/// An edge to another block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its number.
    pub to: usize,
    /// One argument per parameter.
    pub args: Vec<Value>,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first program address, for dumps and debug information.
    pub pc: Pc,
    /// Its parameters.
    pub params: Vec<Value>,
    /// Its instructions, each with its program address.
    pub insts: Vec<(Pc, Inst)>,
    /// Its terminator.
    pub term: Terminator,
}

/// One entry of a program in SSA.
#[derive(Clone, Debug)]
pub struct Func {
    /// The program entry.
    pub entry: Entry,
    /// Its form (rule 4).
    pub form: Form,
    /// All values.
    pub nodes: Vec<Node>,
    /// All blocks.
    pub blocks: Vec<Block>,
}

/// The storage of registers between instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// In values, which are stored to memory at the end of the run.
    Ssa,
    /// In memory.
    Memory,
}

impl Func {
    /// The definition of a value.
    pub fn node(&self, value: Value) -> &Node {
        &self.nodes[value.0 as usize]
    }

    /// Whether any instruction emits.
    pub fn emits(&self) -> bool {
        self.blocks.iter().flat_map(|b| &b.insts).any(|(_, i)| *i == Inst::Emit)
    }

    /// For each block the blocks with an edge to it, one for each edge.
    pub(crate) fn predecessors(&self) -> Vec<Vec<usize>> {
        let mut predecessors = vec![Vec::new(); self.blocks.len()];
        for (from, block) in self.blocks.iter().enumerate() {
            block.term.edges().for_each(|edge| predecessors[edge.to].push(from));
        }
        predecessors
    }

    /// A new value. The caller adds its definition to a block if the node is not a leaf.
    pub fn value(&mut self, node: Node) -> Value {
        self.nodes.push(node);
        Value(self.nodes.len() as u32 - 1)
    }
}

impl Terminator {
    /// The edges, in order.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        let (a, b) = match self {
            Terminator::Exit(_) => (None, None),
            Terminator::Goto(e) => (Some(e), None),
            Terminator::Branch { yes, no, .. } => (Some(yes), Some(no)),
        };
        a.into_iter().chain(b)
    }

    /// The edges, mutable.
    pub fn edges_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        let (a, b) = match self {
            Terminator::Exit(_) => (None, None),
            Terminator::Goto(e) => (Some(e), None),
            Terminator::Branch { yes, no, .. } => (Some(yes), Some(no)),
        };
        a.into_iter().chain(b)
    }
}
