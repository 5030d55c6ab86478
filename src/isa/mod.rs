//! The vocabulary of the machine: decoded instructions and their operands.
//!
//! Interpreter, recompiler, assembler and disassembler share these types. Bit positions are in
//! `decode`, `encode` and [`table`], arithmetic in [`numeric`], control flow in `flow`.
//!
//! Invariant: every value of these types is legal. An operand can't name a missing register,
//! because the registers fill the hardware's seven-bit source space exactly (`v0-v15`, `r0-r15`,
//! `c0-c95`).

mod alu_op;
mod condition;
mod decode;
pub(crate) mod elementary;
mod encode;
pub(crate) mod float24;
pub(crate) mod flow;
pub mod numeric;
pub mod table;

pub use alu_op::{AluOp, DotOp, ScalarOp, VectorOp};
pub use condition::{CmpOp, Cond, CondOp, Relation, Test};
pub use encode::EncodeError;
use std::fmt;
pub(crate) use table::PointwiseResult;
pub use table::{Opcode, PointwiseOp};

/// A program address. Addresses count 32-bit words; the hardware's are twelve bits wide.
pub type Pc = u16;

/// Number of `v`, `r` and `o` registers each.
pub const REGS: usize = 16;
/// Number of float uniforms `c0..c95`.
pub const FLOAT_UNIFORMS: usize = 96;
/// Number of integer uniforms `i0..i3`.
pub const INT_UNIFORMS: usize = 4;
/// Number of boolean uniforms `b0..b15`.
pub const BOOL_UNIFORMS: usize = 16;
/// Number of operand descriptors an instruction can name (its field is seven bits wide).
pub const OPDESCS: usize = 128;
/// Words of program memory of the largest unit (the geometry unit; a vertex unit has 512).
pub const MAX_CODE_WORDS: usize = 4096;

/// A source register: `v0-v15` are 0x00-0x0F, `r0-r15` 0x10-0x1F, `c0-c95` 0x20-0x7F.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrcReg(u8);

/// The register of a [`SrcReg`]: a file and a number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SrcFile {
    /// Input attribute `v`.
    Input(u8),
    /// Temporary `r`.
    Temp(u8),
    /// Float uniform `c`.
    Uniform(u8),
}

impl SrcReg {
    /// From the machine's number; only the low seven bits count.
    pub const fn new(number: u8) -> SrcReg {
        SrcReg(number & 0x7F)
    }
    /// `v` register `n` (0-15).
    pub const fn input(n: u8) -> SrcReg {
        SrcReg(n & 0x0F)
    }
    /// `r` register `n` (0-15).
    pub const fn temp(n: u8) -> SrcReg {
        SrcReg(0x10 | (n & 0x0F))
    }
    /// Float uniform `n` (0-95).
    pub const fn uniform(n: u8) -> SrcReg {
        assert!((n as usize) < FLOAT_UNIFORMS);
        SrcReg(0x20 + n)
    }
    /// The machine's number, 0x00-0x7F.
    pub const fn number(self) -> u8 {
        self.0
    }
    /// The register's file and its number there.
    pub const fn file(self) -> SrcFile {
        match self.0 {
            n @ 0x00..=0x0F => SrcFile::Input(n),
            n @ 0x10..=0x1F => SrcFile::Temp(n - 0x10),
            n => SrcFile::Uniform(n - 0x20),
        }
    }
    /// Whether a five-bit ("narrow") operand field can name it: `v` and `r` can, uniforms can't.
    pub const fn is_narrow(self) -> bool {
        self.0 < 0x20
    }
}

impl fmt::Display for SrcReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file() {
            SrcFile::Input(n) => write!(f, "v{n}"),
            SrcFile::Temp(n) => write!(f, "r{n}"),
            SrcFile::Uniform(n) => write!(f, "c{n}"),
        }
    }
}

impl fmt::Debug for SrcReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A destination register: `o0-o15` are 0x00-0x0F, `r0-r15` 0x10-0x1F.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DstReg(u8);

/// The register of a [`DstReg`]: a file and a number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DstFile {
    /// Output `o`.
    Output(u8),
    /// Temporary `r`.
    Temp(u8),
}

impl DstReg {
    /// From the machine's number; only the low five bits count.
    pub const fn new(number: u8) -> DstReg {
        DstReg(number & 0x1F)
    }
    /// `o` register `n` (0-15).
    pub const fn output(n: u8) -> DstReg {
        DstReg(n & 0x0F)
    }
    /// `r` register `n` (0-15).
    pub const fn temp(n: u8) -> DstReg {
        DstReg(0x10 | (n & 0x0F))
    }
    /// The machine's number, 0x00-0x1F.
    pub const fn number(self) -> u8 {
        self.0
    }
    /// The register's file and its number there.
    pub const fn file(self) -> DstFile {
        if self.0 < 0x10 { DstFile::Output(self.0) } else { DstFile::Temp(self.0 - 0x10) }
    }
}

impl fmt::Display for DstReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file() {
            DstFile::Output(n) => write!(f, "o{n}"),
            DstFile::Temp(n) => write!(f, "r{n}"),
        }
    }
}

impl fmt::Debug for DstReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A component selector: result component x in bits 7:6 down to w in bits 1:0, values 0-3 = x, y,
/// z, w.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Swizzle(pub u8);

impl Swizzle {
    /// `xyzw`: every component selects itself.
    pub const IDENTITY: Swizzle = Swizzle(0x1B);

    /// The selector of these source components (0-3), x first.
    pub const fn from_components(c: [u8; 4]) -> Swizzle {
        Swizzle((c[0] & 3) << 6 | (c[1] & 3) << 4 | (c[2] & 3) << 2 | (c[3] & 3))
    }
    /// Every component selects component `c`.
    pub const fn splat(c: u8) -> Swizzle {
        Swizzle((c & 3) * 0x55)
    }
    /// The source component (0-3) of result component `c` (0-3).
    pub const fn component(self, c: usize) -> usize {
        (self.0 >> (6 - 2 * c)) as usize & 3
    }
    /// The source component of each result component.
    pub const fn components(self) -> [usize; 4] {
        [self.component(0), self.component(1), self.component(2), self.component(3)]
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.components().iter().try_for_each(|&c| f.write_str(["x", "y", "z", "w"][c]))
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The components that an instruction writes. As in an operand descriptor, bit 3 is x and bit 0 is
/// w.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteMask(u8);

impl WriteMask {
    /// No component.
    pub const NONE: WriteMask = WriteMask(0);
    /// All four components.
    pub const ALL: WriteMask = WriteMask(0xF);

    /// From descriptor bits; only the low four count.
    pub const fn new(bits: u8) -> WriteMask {
        WriteMask(bits & 0xF)
    }
    /// The descriptor bits: bit 3 = x ... bit 0 = w.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Whether component `c` (0 = x) is written.
    pub const fn has(self, c: usize) -> bool {
        self.0 >> (3 - c) & 1 != 0
    }
    /// The mask with component `c` (0 = x) added.
    pub const fn with(self, c: usize) -> WriteMask {
        WriteMask(self.0 | 8 >> c)
    }
    /// The same components with bit 0 = x ... bit 3 = w, as in SHBIN output tables and
    /// `ir::analysis::Components`.
    pub const fn component_bits(self) -> u8 {
        let b = self.0;
        (b & 8) >> 3 | (b & 4) >> 1 | (b & 2) << 1 | (b & 1) << 3
    }
}

impl fmt::Display for WriteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..4).filter(|&c| self.has(c)).try_for_each(|c| f.write_str(["x", "y", "z", "w"][c]))
    }
}

impl fmt::Debug for WriteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// The address register that is added to the wide operand's uniform number (IDX field).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Index {
    /// No relative addressing.
    #[default]
    None = 0,
    /// `a0.x`
    A0x = 1,
    /// `a0.y`
    A0y = 2,
    /// `aL`, the loop counter.
    AL = 3,
}

impl Index {
    /// From the two-bit field; only the low two bits count.
    pub const fn new(bits: u8) -> Index {
        match bits & 3 {
            0 => Index::None,
            1 => Index::A0x,
            2 => Index::A0y,
            _ => Index::AL,
        }
    }
}

/// A source operand: fetch the register, swizzle, then negate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Src {
    /// The register named by the word.
    pub reg: SrcReg,
    /// Relative addressing. Only the wide operand of a format can have it; it affects uniforms only
    /// and is ignored on `v` and `r` (hardware tests in the ISA notes, section 2.4).
    pub index: Index,
    /// Component selection.
    pub swizzle: Swizzle,
    /// Flip the sign of all four components after the swizzle.
    pub negate: bool,
}

impl Src {
    /// `reg` unmodified: no index, identity swizzle, not negated.
    pub const fn plain(reg: SrcReg) -> Src {
        Src { reg, index: Index::None, swizzle: Swizzle::IDENTITY, negate: false }
    }
    /// The uniform number and address register if this operand is relative, i.e. indexed *and* a
    /// uniform.
    pub fn relative(&self) -> Option<(u8, Index)> {
        match (self.reg.file(), self.index) {
            (_, Index::None) | (SrcFile::Input(_) | SrcFile::Temp(_), _) => None,
            (SrcFile::Uniform(n), index) => Some((n, index)),
        }
    }
}

/// A decoded instruction. `decode` maps every one of the 2^32 words to exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    /// Computes a vector and writes it to a register under a mask. `LITP` also sets both flags.
    Alu(Alu),
    /// `MOVA`: x to `a0.x` and y to `a0.y`, where the mask has them.
    Mova {
        /// Components x and y select `a0.x` and `a0.y`; z and w have no meaning.
        mask: WriteMask,
        /// The vector whose x and y are converted.
        src: Src,
    },
    /// `CMP`: sets both flags, regardless of the descriptor's mask (ISA notes 4.5).
    Cmp {
        /// Operators of x -> `cmp.x` and y -> `cmp.y`.
        ops: [CmpOp; 2],
        /// Left and right.
        src: [Src; 2],
    },
    /// Does nothing.
    Nop,
    /// Ends the run, regardless of open scopes.
    End,
    /// Leaves the innermost loop.
    Break,
    /// Leaves the innermost loop if the condition holds.
    Breakc {
        /// The condition.
        cond: Cond,
    },
    /// `CALL CALLC CALLU`: run the words `target .. target + len`, then return.
    Call {
        /// `None` for plain `CALL`.
        test: Option<Test>,
        /// First word of the procedure.
        target: Pc,
        /// Words in the procedure.
        len: u8,
    },
    /// `IFU IFC`.
    If {
        /// The condition.
        test: Test,
        /// First word of the else block; the then block ends there.
        target: Pc,
        /// Words in the else block; 0 if there is none.
        len: u8,
    },
    /// `LOOP`: the body is `pc + 1 ..= last`.
    Loop {
        /// Integer uniform, 0-3.
        int: u8,
        /// Address of the last word of the body.
        last: Pc,
    },
    /// `JMPC JMPU`.
    Jump {
        /// The condition.
        test: Test,
        /// The address.
        target: Pc,
    },
    /// `EMIT`: copy the outputs to a vertex slot, send a triangle if set so, toggle the output
    /// bank.
    Emit,
    /// `SETEMIT`: the parameters of the following `EMIT`s.
    Setemit(Setemit),
    /// A word with an undocumented opcode. It does nothing.
    Undefined {
        /// The word.
        word: u32,
    },
}

/// The operands of an arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alu {
    /// The instruction as it was encoded (`DPHI` stays `DPHI`): one that [computes](Opcode::alu).
    pub op: Opcode,
    /// The destination.
    pub dst: DstReg,
    /// The components of it that are written.
    pub mask: WriteMask,
    /// SRC1, SRC2, SRC3; the first [`table::Row::sources`] are in use, the others are
    /// [`Alu::NO_SRC`].
    pub src: [Src; 3],
}

impl Alu {
    /// Placeholder for a missing operand.
    pub const NO_SRC: Src = Src::plain(SrcReg::new(0));

    /// The operation.
    #[inline]
    pub fn operation(&self) -> AluOp {
        self.op.alu().expect("the opcode of an `Alu` computes")
    }

    /// The operands in use.
    pub fn sources(&self) -> &[Src] {
        &self.src[..self.op.row().sources()]
    }
}

/// The parameters that `SETEMIT` sets for the following `EMIT`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Setemit {
    /// Vertex slot, 0-3.
    pub vertex: u8,
    /// Whether `EMIT` sends slots 0, 1, 2 as a triangle.
    pub primitive: bool,
    /// Whether the first two vertices of that triangle are exchanged.
    pub winding: bool,
}

/// The kind of unit that runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Stage {
    /// A vertex unit: no `EMIT`.
    #[default]
    Vertex,
    /// The geometry unit.
    Geometry,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Vertex => "vertex",
            Stage::Geometry => "geometry",
        })
    }
}
