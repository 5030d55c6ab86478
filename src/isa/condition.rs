//! What decides: the operators of `CMP`, conditions on the flags, and the tests of conditional
//! transfers.

/// A comparison operator of `CMP`. 6 and 7 are both "always true" on hardware (3dbrew) and stay
/// distinct so that decoding is lossless.
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
    /// The relation; `None` for the two operators that are always true.
    pub const fn relation(self) -> Option<Relation> {
        Some(match self {
            CmpOp::Eq => Relation::Eq,
            CmpOp::Ne => Relation::Ne,
            CmpOp::Lt => Relation::Lt,
            CmpOp::Le => Relation::Le,
            CmpOp::Gt => Relation::Gt,
            CmpOp::Ge => Relation::Ge,
            CmpOp::True6 | CmpOp::True7 => return None,
        })
    }
    /// The assembler's name.
    pub const fn mnemonic(self) -> &'static str {
        ["eq", "ne", "lt", "le", "gt", "ge", "true6", "true7"][self as usize]
    }
}

/// A relation of two numbers: an operator of `CMP` that is not always true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Relation {
    /// The assembler's name.
    pub const fn mnemonic(self) -> &'static str {
        ["eq", "ne", "lt", "le", "gt", "ge"][self as usize]
    }
}

/// The operator that joins the two tests of a flag condition (CONDOP field).
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
    /// The operator that joins X and Y.
    pub op: CondOp,
    /// The value that `cmp.x` must equal.
    pub ref_x: bool,
    /// The value that `cmp.y` must equal.
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

/// The condition of a transfer: on the flags, or on a boolean uniform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// `CALLC IFC JMPC BREAKC`.
    Flags(Cond),
    /// `CALLU IFU JMPU`: boolean uniform `id` equals `value`. Only `JMPU` can test for false.
    Bool {
        /// 0-15.
        id: u8,
        /// The required value.
        value: bool,
    },
}
