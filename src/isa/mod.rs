//! The words of the machine: what an instruction is made of once its bits have been read.
//!
//! Everything above this module (interpreter, recompiler, assembler, disassembler) speaks in these types; nothing here
//! knows a bit position ([`decode`], [`encode`], [`table`]), a number ([`numeric`]) or where pc goes next ([`flow`]).
//!
//! Invariant: every value of these types is a legal one. An operand can't name a register that does not exist, because
//! the hardware's seven-bit source space is filled exactly (`v0-v15`, `r0-r15`, `c0-c95`).

mod alu_op;
pub mod decode;
pub mod elementary;
pub mod encode;
pub mod float24;
pub mod flow;
pub mod numeric;
pub mod table;

pub use alu_op::{AluOp, DotOp, PointwiseOp, ScalarOp, VectorOp};
use std::fmt;

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

/// Every instruction the hardware defines. The value is its canonical six-bit encoding; [`Opcode::Cmp`] owns two
/// encodings, [`Opcode::Madi`] and [`Opcode::Mad`] eight each, and ten of the 64 are undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // each is described by its row in `table` and its meaning in `numeric` and `interp`
pub enum Opcode {
    Add = 0x00,
    Dp3 = 0x01,
    Dp4 = 0x02,
    Dph = 0x03,
    Dst = 0x04,
    Ex2 = 0x05,
    Lg2 = 0x06,
    Litp = 0x07,
    Mul = 0x08,
    Sge = 0x09,
    Slt = 0x0A,
    Flr = 0x0B,
    Max = 0x0C,
    Min = 0x0D,
    Rcp = 0x0E,
    Rsq = 0x0F,
    Mova = 0x12,
    Mov = 0x13,
    Dphi = 0x18,
    Dsti = 0x19,
    Sgei = 0x1A,
    Slti = 0x1B,
    Break = 0x20,
    Nop = 0x21,
    End = 0x22,
    Breakc = 0x23,
    Call = 0x24,
    Callc = 0x25,
    Callu = 0x26,
    Ifu = 0x27,
    Ifc = 0x28,
    Loop = 0x29,
    Emit = 0x2A,
    Setemit = 0x2B,
    Jmpc = 0x2C,
    Jmpu = 0x2D,
    Cmp = 0x2E,
    Madi = 0x30,
    Mad = 0x38,
}

/// A source register: `v0-v15` are 0x00-0x0F, `r0-r15` 0x10-0x1F, `c0-c95` 0x20-0x7F.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrcReg(u8);

/// What a [`SrcReg`] names: a register file and a number in it.
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
    /// Which file, which register of it.
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

/// What a [`DstReg`] names.
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
    /// Which file, which register of it.
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

/// A component selector: lane 0 (x) in bits 7:6 down to lane 3 (w) in bits 1:0, values 0-3 = x, y, z, w.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Swizzle(pub u8);

impl Swizzle {
    /// `xyzw`: every lane takes its own component.
    pub const IDENTITY: Swizzle = Swizzle(0x1B);

    /// From the component (0-3) that each lane takes.
    pub const fn from_lanes(l: [u8; 4]) -> Swizzle {
        Swizzle((l[0] & 3) << 6 | (l[1] & 3) << 4 | (l[2] & 3) << 2 | (l[3] & 3))
    }
    /// All four lanes take component `c`.
    pub const fn splat(c: u8) -> Swizzle {
        Swizzle((c & 3) * 0x55)
    }
    /// The component (0-3) that `lane` (0-3) takes.
    pub const fn lane(self, lane: usize) -> usize {
        (self.0 >> (6 - 2 * lane)) as usize & 3
    }
    /// The component that each lane takes.
    pub const fn lanes(self) -> [usize; 4] {
        [self.lane(0), self.lane(1), self.lane(2), self.lane(3)]
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lanes().iter().try_for_each(|&c| f.write_str(["x", "y", "z", "w"][c]))
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The lanes an instruction writes. As in an operand descriptor, bit 3 is x and bit 0 is w.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteMask(u8);

impl WriteMask {
    /// No lane.
    pub const NONE: WriteMask = WriteMask(0);
    /// All four lanes.
    pub const ALL: WriteMask = WriteMask(0xF);

    /// From descriptor bits; only the low four count.
    pub const fn new(bits: u8) -> WriteMask {
        WriteMask(bits & 0xF)
    }
    /// The descriptor bits: bit 3 = x ... bit 0 = w.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Whether `lane` (0 = x) is written.
    pub const fn has(self, lane: usize) -> bool {
        self.0 >> (3 - lane) & 1 != 0
    }
    /// The mask with `lane` (0 = x) written as well.
    pub const fn with(self, lane: usize) -> WriteMask {
        WriteMask(self.0 | 8 >> lane)
    }
    /// The same lanes with bit 0 = x ... bit 3 = w, as SHBIN output tables and lane loops count them.
    pub const fn lane_bits(self) -> u8 {
        let b = self.0;
        (b & 8) >> 3 | (b & 4) >> 1 | (b & 2) << 1 | (b & 1) << 3
    }
}

impl fmt::Display for WriteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..4).filter(|&l| self.has(l)).try_for_each(|l| f.write_str(["x", "y", "z", "w"][l]))
    }
}

impl fmt::Debug for WriteMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// Which address register is added to the wide operand's uniform number (IDX field).
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
    /// Relative addressing. Only the wide operand of a format can have it; it acts on uniforms only and is ignored
    /// on `v` and `r` (hardware tests written down in the ISA notes, section 2.4).
    pub index: Index,
    /// Component selection.
    pub swizzle: Swizzle,
    /// Flip the sign of all four lanes after the swizzle.
    pub negate: bool,
}

impl Src {
    /// `reg` as it stands: no index, identity swizzle, not negated.
    pub const fn plain(reg: SrcReg) -> Src {
        Src { reg, index: Index::None, swizzle: Swizzle::IDENTITY, negate: false }
    }
    /// The uniform number and address register if this operand really is relative, i.e. indexed *and* a uniform.
    pub fn relative(&self) -> Option<(u8, Index)> {
        match (self.reg.file(), self.index) {
            (_, Index::None) | (SrcFile::Input(_) | SrcFile::Temp(_), _) => None,
            (SrcFile::Uniform(n), index) => Some((n, index)),
        }
    }
}

/// A comparison operator of `CMP`. 6 and 7 are both "always true" on hardware (3dbrew) and are kept apart so that
/// decoding loses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum CmpOp {
    Eq = 0,
    Ne = 1,
    Lt = 2,
    Le = 3,
    Gt = 4,
    Ge = 5,
    True6 = 6,
    True7 = 7,
}

impl CmpOp {
    /// From the three-bit field; only the low three bits count.
    pub const fn new(bits: u8) -> CmpOp {
        match bits & 7 {
            0 => CmpOp::Eq,
            1 => CmpOp::Ne,
            2 => CmpOp::Lt,
            3 => CmpOp::Le,
            4 => CmpOp::Gt,
            5 => CmpOp::Ge,
            6 => CmpOp::True6,
            _ => CmpOp::True7,
        }
    }
    /// The assembler's word for it.
    pub const fn mnemonic(self) -> &'static str {
        ["eq", "ne", "lt", "le", "gt", "ge", "true6", "true7"][self as usize]
    }
}

/// How a flag condition joins its two tests (CONDOP field).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CondOp {
    /// X or Y.
    Or = 0,
    /// X and Y.
    And = 1,
    /// X alone.
    X = 2,
    /// Y alone.
    Y = 3,
}

impl CondOp {
    /// From the two-bit field; only the low two bits count.
    pub const fn new(bits: u8) -> CondOp {
        match bits & 3 {
            0 => CondOp::Or,
            1 => CondOp::And,
            2 => CondOp::X,
            _ => CondOp::Y,
        }
    }
}

/// A condition on the flags: `X = (cmp.x == ref_x)`, `Y = (cmp.y == ref_y)`, joined by `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cond {
    /// How X and Y are joined.
    pub op: CondOp,
    /// What `cmp.x` must equal.
    pub ref_x: bool,
    /// What `cmp.y` must equal.
    pub ref_y: bool,
}

impl Cond {
    /// Whether the condition holds for these flags.
    pub const fn eval(self, cmp: [bool; 2]) -> bool {
        let (x, y) = (cmp[0] == self.ref_x, cmp[1] == self.ref_y);
        match self.op {
            CondOp::Or => x || y,
            CondOp::And => x && y,
            CondOp::X => x,
            CondOp::Y => y,
        }
    }
}

/// What decides a conditional transfer: the flags, or a boolean uniform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// `CALLC IFC JMPC BREAKC`.
    Flags(Cond),
    /// `CALLU IFU JMPU`: boolean uniform `id` equals `value`. Only `JMPU` can ask for false.
    Bool {
        /// 0-15.
        id: u8,
        /// The wanted value.
        value: bool,
    },
}

/// A decoded instruction. `decode` maps every one of the 2^32 words to exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    /// Everything that computes a vector and writes it to a register under a mask. `LITP` also sets both flags.
    Alu(Alu),
    /// `MOVA`: lane 0 to `a0.x` and lane 1 to `a0.y`, where the mask has them.
    Mova {
        /// Lanes x and y choose `a0.x` and `a0.y`; z and w mean nothing.
        mask: WriteMask,
        /// The vector whose x and y are converted.
        src: Src,
    },
    /// `CMP`: sets both flags whatever the descriptor's mask says (ISA notes 4.5).
    Cmp {
        /// Operators of lane 0 -> `cmp.x` and lane 1 -> `cmp.y`.
        ops: [CmpOp; 2],
        /// Left and right.
        src: [Src; 2],
    },
    /// Does nothing.
    Nop,
    /// Ends the run, whatever scopes are open.
    End,
    /// Leaves the innermost loop.
    Break,
    /// Leaves the innermost loop if the flags say so.
    Breakc {
        /// The condition.
        cond: Cond,
    },
    /// `CALL CALLC CALLU`: run the words `target .. target + len`, then come back.
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
        /// First word of the else part; the then part ends there.
        target: Pc,
        /// Words in the else part; 0 if there is none.
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
        /// Where to.
        target: Pc,
    },
    /// `EMIT`: copy the outputs to a vertex slot, maybe send a triangle, change the output bank.
    Emit,
    /// `SETEMIT`: what the following `EMIT`s do.
    Setemit(Setemit),
    /// A word whose opcode the hardware's documents do not define. It does nothing.
    Undefined {
        /// The word as it stands.
        word: u32,
    },
}

/// The operands of an arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alu {
    /// The instruction as it was encoded (`DPHI` stays `DPHI`): one that [computes](Opcode::alu).
    pub op: Opcode,
    /// Where the result goes.
    pub dst: DstReg,
    /// Which lanes of it.
    pub mask: WriteMask,
    /// SRC1, SRC2, SRC3; how many of them count is [`table::Row::sources`], the others are [`Alu::NO_SRC`].
    pub src: [Src; 3],
}

impl Alu {
    /// Stands where an instruction has no operand.
    pub const NO_SRC: Src = Src::plain(SrcReg::new(0));

    /// The operation.
    pub fn operation(&self) -> AluOp {
        self.op.alu().expect("the opcode of an `Alu` computes")
    }

    /// The operands that count.
    pub fn sources(&self) -> &[Src] {
        &self.src[..table::row(self.op).sources()]
    }
}

/// The parameters that `SETEMIT` leaves for the following `EMIT`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Setemit {
    /// Vertex slot, 0-3.
    pub vertex: u8,
    /// Whether `EMIT` sends slots 0, 1, 2 as a triangle.
    pub primitive: bool,
    /// Whether the first two vertices of that triangle are exchanged.
    pub winding: bool,
}

/// What kind of unit runs a program.
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
