//! [`Opcode`] -> the operation that it computes: [`AluOp`], decoded once, in normal form.
//!
//! `DPHI DSTI SGEI SLTI MADI` are encodings, not operations: they are `DPH DST SGE SLT MAD`. The
//! enums nest by what a component of the result depends on, so that a match names exactly the
//! operations it handles and needs no fallback:
//!
//! | class | component n of the result depends on |
//! |---|---|
//! | [`PointwiseOp`] | component n of every source, by the same formula for each n |
//! | [`DotOp`] | all summed components; every component is the same number |
//! | [`VectorOp::Dst`], [`VectorOp::Litp`] | by a formula of its own |
//! | [`ScalarOp`] | component x of the source; every component is the same number |
//!
//! [`super::numeric`] defines the operations.

use super::{Opcode, PointwiseOp, PointwiseResult};

/// An operation that computes a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AluOp {
    /// From vectors.
    Vector(VectorOp),
    /// From one number.
    Scalar(ScalarOp),
}

/// An operation on vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorOp {
    /// Component by component.
    Pointwise(PointwiseOp),
    /// A dot product.
    Dot(DotOp),
    /// `(1, a.y * b.y, a.z, b.w)`
    Dst,
    /// `(max(a.x, 0), clamped a.y, 0, max(a.w, 0))`; the instruction also sets both flags.
    Litp,
}

/// A sum of products, in every component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DotOp {
    /// Of x, y and z.
    Dp3,
    /// Of all components.
    Dp4,
    /// Of all components, with 1 in place of the first source's w.
    Dph,
}

/// A function of one number, in every component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // `numeric` has the meaning of each
pub enum ScalarOp {
    Rcp,
    Rsq,
    Ex2,
    Lg2,
}

impl Opcode {
    /// The operation that the instruction computes; `None` for `MOVA`, `CMP` and control flow.
    #[inline]
    pub const fn alu(self) -> Option<AluOp> {
        use AluOp::{Scalar, Vector};
        use VectorOp::{Dot, Dst, Litp, Pointwise};
        Some(match self {
            Opcode::Dp3 => Vector(Dot(DotOp::Dp3)),
            Opcode::Dp4 => Vector(Dot(DotOp::Dp4)),
            Opcode::Dph | Opcode::Dphi => Vector(Dot(DotOp::Dph)),
            Opcode::Dst | Opcode::Dsti => Vector(Dst),
            Opcode::Litp => Vector(Litp),
            Opcode::Rcp => Scalar(ScalarOp::Rcp),
            Opcode::Rsq => Scalar(ScalarOp::Rsq),
            Opcode::Ex2 => Scalar(ScalarOp::Ex2),
            Opcode::Lg2 => Scalar(ScalarOp::Lg2),
            _ => match PointwiseOp::of(self) {
                Some(op) => Vector(Pointwise(op)),
                None => return None,
            },
        })
    }

    /// The same operation, regardless of the source that the encoding allows to be a uniform:
    /// `DPHI` is `DPH`, `MADI` is `MAD`, and so on. The inverted forms do not exchange the operands
    /// of the operation.
    pub const fn normal_form(self) -> Opcode {
        match self.alu() {
            Some(AluOp::Vector(op)) => op.opcode(),
            Some(AluOp::Scalar(op)) => op.opcode(),
            None => self,
        }
    }
}

impl VectorOp {
    /// A copy.
    pub const MOV: VectorOp = VectorOp::Pointwise(PointwiseOp::Mov);

    /// The opcode in normal form.
    pub const fn opcode(self) -> Opcode {
        match self {
            VectorOp::Pointwise(op) => op.opcode(),
            VectorOp::Dot(op) => match op {
                DotOp::Dp3 => Opcode::Dp3,
                DotOp::Dp4 => Opcode::Dp4,
                DotOp::Dph => Opcode::Dph,
            },
            VectorOp::Dst => Opcode::Dst,
            VectorOp::Litp => Opcode::Litp,
        }
    }

    /// Number of sources.
    pub fn sources(self) -> usize {
        self.opcode().row().sources()
    }

    /// Whether it multiplies: an IEEE product may be NaN (0 * infinity) where the hardware gives a
    /// number.
    pub const fn multiplies(self) -> bool {
        match self {
            VectorOp::Pointwise(op) => matches!(op.result(), PointwiseResult::Product | PointwiseResult::ProductSum),
            VectorOp::Dot(_) | VectorOp::Dst => true,
            VectorOp::Litp => false,
        }
    }

    /// Whether the result may be a number although a source is NaN.
    pub const fn swallows_nan(self) -> bool {
        match self {
            VectorOp::Pointwise(op) => op.swallows_nan(),
            VectorOp::Dot(_) | VectorOp::Dst => false,
            VectorOp::Litp => true,
        }
    }

    /// Whether it takes a negated source `n` by subtracting instead of adding: the same by IEEE's
    /// definition of subtraction.
    pub const fn subtracts(self, n: usize) -> bool {
        match self {
            VectorOp::Pointwise(op) => match op.result() {
                PointwiseResult::Sum => true,
                PointwiseResult::ProductSum => n == 2,
                PointwiseResult::Source
                | PointwiseResult::Truth
                | PointwiseResult::Integer
                | PointwiseResult::Product => false,
            },
            VectorOp::Dot(_) | VectorOp::Dst | VectorOp::Litp => false,
        }
    }
}

impl DotOp {
    /// Number of products in the sum.
    pub const fn products(self) -> usize {
        match self {
            DotOp::Dp3 => 3,
            DotOp::Dp4 | DotOp::Dph => 4,
        }
    }
}

impl ScalarOp {
    /// Its opcode.
    pub const fn opcode(self) -> Opcode {
        match self {
            ScalarOp::Rcp => Opcode::Rcp,
            ScalarOp::Rsq => Opcode::Rsq,
            ScalarOp::Ex2 => Opcode::Ex2,
            ScalarOp::Lg2 => Opcode::Lg2,
        }
    }
}

impl From<PointwiseOp> for VectorOp {
    fn from(op: PointwiseOp) -> VectorOp {
        VectorOp::Pointwise(op)
    }
}

impl From<DotOp> for VectorOp {
    fn from(op: DotOp) -> VectorOp {
        VectorOp::Dot(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::table::{Format, ROWS};

    #[test]
    fn operations_are_the_rows_with_a_destination() {
        for row in &ROWS {
            let computes = matches!(row.format, Format::F1 | Format::F1i | Format::F1u | Format::F5 | Format::F5i);
            assert_eq!(row.opcode.alu().is_some(), computes, "{}", row.mnemonic);
        }
    }

    #[test]
    fn inverted_encodings_are_the_operation_of_the_normal_form() {
        use Opcode::{Dph, Dphi, Dst, Dsti, Mad, Madi, Sge, Sgei, Slt, Slti};
        let inverted = [(Dphi, Dph), (Dsti, Dst), (Sgei, Sge), (Slti, Slt), (Madi, Mad)];
        for (encoded, normal) in inverted {
            assert_eq!((encoded.alu(), encoded.normal_form()), (normal.alu(), normal));
        }
        for row in ROWS.iter().filter(|row| inverted.iter().all(|(encoded, _)| *encoded != row.opcode)) {
            assert_eq!(row.opcode.normal_form(), row.opcode);
        }
    }
}
