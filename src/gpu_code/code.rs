//! Structured code for a host's GPU: what both writers print.
//!
//! Values are numbers, vectors of four, or their bits; each is defined once. Variables are the only memory. Control
//! flow is a list of statements with nested `if`s and endless loops, since neither SPIR-V nor GLSL has jumps.
//!
//! The operations are those that every driver computes exactly: integer operations; addition, subtraction and
//! multiplication, which Vulkan requires to be correctly rounded; comparisons and conversions of small numbers. There
//! is no division, no square root and no function of the driver. Integers have no sign: an operation says how it reads
//! its operands.

use foldhash::quality::RandomState;
use std::collections::HashMap;

/// The kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Float,
    Uint,
    Bool,
}

/// One component or four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type {
    pub(crate) scalar: Scalar,
    pub(crate) vector: bool,
}

impl Type {
    pub(crate) const FLOAT: Type = Type { scalar: Scalar::Float, vector: false };
    pub(crate) const UINT: Type = Type { scalar: Scalar::Uint, vector: false };
    pub(crate) const BOOL: Type = Type { scalar: Scalar::Bool, vector: false };
    pub(crate) const VEC4: Type = Type { scalar: Scalar::Float, vector: true };

    #[inline(never)]
    fn with(self, scalar: Scalar) -> Type {
        Type { scalar, ..self }
    }
}

/// The number of a value: its index in [`Code::ops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) u32);

/// The number of a variable: its index in [`Code::vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Var(pub(crate) u32);

/// The definition of a value. Operations on vectors work component by component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// A constant in each component, as bits; 0 or 1 for a flag.
    Const(Type, [u32; 4]),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    /// Components of the second where the first, flags, holds; else of the third.
    Select(Id, Id, Id),
    /// A vector of four scalars.
    Vector([Id; 4]),
    Component(Id, u8),
    /// Components 0-3 of the first or 4-7 of the second.
    Shuffle(Id, Id, [u8; 4]),
    /// The content of a variable at this point.
    Get(Var),
    /// Register `v`.
    Input(u8),
    /// The float uniform of this number, below 96.
    FloatUniform(Id),
    /// A component of an integer uniform, 0-255.
    IntUniform {
        id: u8,
        component: u8,
    },
    /// All boolean uniforms, bit n is `bn`.
    BoolUniforms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    /// Of a float.
    Negate,
    Floor,
    /// A float's bits, and the float that has these bits.
    ToBits,
    FromBits,
    /// The float, below 2^31 in magnitude, truncated; as a signed number's bits.
    Truncate,
    /// The signed number, and the unsigned one, as a float.
    FromSigned,
    FromUnsigned,
    /// The number of the highest bit, or all bits set for 0.
    HighestBit,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    FloatAdd,
    FloatSub,
    FloatMul,
    /// Ordered comparisons: false with a NaN.
    FloatEqual,
    FloatLess,
    FloatLessEqual,
    Add,
    Sub,
    Mul,
    /// The high 32 bits of the product of unsigned numbers.
    MulHigh,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Equal,
    Less,
    LessSigned,
    Min,
    Both,
    Either,
}

/// A statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stmt {
    /// Evaluates a value that is not a constant.
    Def(Id),
    Set(Var, Id),
    /// Writes register `o`.
    Output(u8, Id),
    If(Id),
    Else,
    EndIf,
    /// A loop that only `Break` and `Return` leave.
    Loop,
    EndLoop,
    Break,
    Continue,
    /// Ends the run.
    Return,
}

/// The code of one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    /// The type of each value.
    pub(crate) types: Vec<Type>,
    /// The type of each variable. A variable is set before it is read.
    pub(crate) vars: Vec<Type>,
    pub(crate) body: Vec<Stmt>,
    constants: HashMap<(Type, [u32; 4]), Id, RandomState>,
}

// Not inlined, like the writers' helpers: they have hundreds of callers, and inlining adds 44 KB to the C library.
impl Code {
    /// The type of a value.
    pub(crate) fn ty(&self, id: Id) -> Type {
        self.types[id.0 as usize]
    }

    /// The definition of a value.
    pub(crate) fn op(&self, id: Id) -> Op {
        self.ops[id.0 as usize]
    }

    /// The bits of a constant.
    pub(crate) fn constant(&self, id: Id) -> Option<[u32; 4]> {
        if let Op::Const(_, bits) = self.op(id) { Some(bits) } else { None }
    }

    /// A new variable.
    pub(crate) fn var(&mut self, ty: Type) -> Var {
        self.vars.push(ty);
        Var(self.vars.len() as u32 - 1)
    }

    pub(crate) fn stmt(&mut self, stmt: Stmt) {
        self.body.push(stmt);
    }

    /// The value of an operation, evaluated here.
    #[inline(never)]
    pub(crate) fn def(&mut self, op: Op) -> Id {
        let id = self.value(op);
        self.body.push(Stmt::Def(id));
        id
    }

    /// The value of an operation, evaluated before the statement with this number.
    pub(crate) fn def_at(&mut self, at: usize, op: Op) -> Id {
        let id = self.value(op);
        self.body.insert(at, Stmt::Def(id));
        id
    }

    fn value(&mut self, op: Op) -> Id {
        let ty = self.type_of(op);
        self.ops.push(op);
        self.types.push(ty);
        Id(self.ops.len() as u32 - 1)
    }

    /// A constant vector or scalar.
    #[inline(never)]
    pub(crate) fn constant_of(&mut self, ty: Type, bits: [u32; 4]) -> Id {
        if let Some(&id) = self.constants.get(&(ty, bits)) {
            return id;
        }
        let id = self.value(Op::Const(ty, bits));
        self.constants.insert((ty, bits), id);
        id
    }

    /// A constant integer.
    pub(crate) fn uint(&mut self, bits: u32) -> Id {
        self.constant_of(Type::UINT, [bits; 4])
    }

    /// A constant float.
    pub(crate) fn float(&mut self, x: f32) -> Id {
        self.constant_of(Type::FLOAT, [x.to_bits(); 4])
    }

    /// A constant of the same shape as `like`, the bits in each component.
    #[inline(never)]
    pub(crate) fn like(&mut self, like: Id, scalar: Scalar, bits: u32) -> Id {
        let ty = self.ty(like).with(scalar);
        self.constant_of(ty, [bits; 4])
    }

    #[inline(never)]
    pub(crate) fn unary(&mut self, op: Unary, a: Id) -> Id {
        self.def(Op::Unary(op, a))
    }

    #[inline(never)]
    pub(crate) fn binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        self.def(Op::Binary(op, a, b))
    }

    #[inline(never)]
    pub(crate) fn select(&mut self, flag: Id, yes: Id, no: Id) -> Id {
        self.def(Op::Select(flag, yes, no))
    }

    /// `op` with a constant integer in each component.
    pub(crate) fn with(&mut self, op: Binary, a: Id, bits: u32) -> Id {
        let b = self.like(a, Scalar::Uint, bits);
        self.binary(op, a, b)
    }

    pub(crate) fn component(&mut self, vector: Id, n: u8) -> Id {
        match self.op(vector) {
            Op::Vector(parts) => parts[usize::from(n)],
            Op::Const(ty, bits) => self.constant_of(Type { vector: false, ..ty }, [bits[usize::from(n)]; 4]),
            _ => self.def(Op::Component(vector, n)),
        }
    }

    /// The scalar in each component.
    pub(crate) fn splat(&mut self, scalar: Id) -> Id {
        self.def(Op::Vector([scalar; 4]))
    }

    /// Replaces no product of zero and infinity by zero.
    pub(crate) fn make_products_plain(&mut self) {
        for at in 0..self.ops.len() {
            let Op::Select(flag, product, _) = self.ops[at] else { continue };
            if matches!(self.op(product), Op::Binary(Binary::FloatMul, ..)) {
                let always = self.like(flag, Scalar::Bool, 1);
                self.ops[at] = Op::Select(always, product, product);
            }
        }
    }

    fn type_of(&self, op: Op) -> Type {
        match op {
            Op::Const(ty, _) => ty,
            Op::Unary(op, a) => match op {
                Unary::Negate | Unary::Floor | Unary::Not => self.ty(a),
                Unary::ToBits | Unary::Truncate | Unary::HighestBit => self.ty(a).with(Scalar::Uint),
                Unary::FromBits | Unary::FromSigned | Unary::FromUnsigned => self.ty(a).with(Scalar::Float),
            },
            Op::Binary(op, a, _) => match op {
                Binary::FloatEqual
                | Binary::FloatLess
                | Binary::FloatLessEqual
                | Binary::Equal
                | Binary::Less
                | Binary::LessSigned => self.ty(a).with(Scalar::Bool),
                _ => self.ty(a),
            },
            Op::Select(_, yes, _) => self.ty(yes),
            Op::Vector(parts) => Type { vector: true, ..self.ty(parts[0]) },
            Op::Component(vector, _) => Type { vector: false, ..self.ty(vector) },
            Op::Shuffle(a, ..) => self.ty(a),
            Op::Get(var) => self.vars[var.0 as usize],
            Op::Input(_) | Op::FloatUniform(_) => Type::VEC4,
            Op::IntUniform { .. } | Op::BoolUniforms => Type::UINT,
        }
    }
}
