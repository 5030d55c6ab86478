//! One row per instruction: its encoding, its mnemonic, its format; and one per pointwise operation.
//! Both are macros, so a row is also a variant of its enum.
//!
//! The bit pictures are documentation: [`Format`] drives `decode` and `encode`, and a test checks
//! that each picture agrees with the format's field positions. Source of the encodings: ISA notes,
//! sections 2, 3.
//!
//! Picture letters: `o` opcode, `d` destination, `i` index register, `A`/`a` source 1 wide/narrow,
//! `B`/`b` source 2, `C`/`c` source 3, `p` operand descriptor, `x`/`y` compare operators, `X`/`Y`
//! reference flags, `q` condition operator, `t` target address, `n` length (lowest bit of `JMPU`:
//! the required value is false), `u` uniform number, `s` slot, `P` primitive, `W` winding, `-`
//! unused.

/// The layout of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// No operands: `BREAK NOP END EMIT`.
    F0,
    /// Two sources, the first wide.
    F1,
    /// Two sources, the second wide.
    F1i,
    /// One source.
    F1u,
    /// One source, no destination register: `MOVA`.
    F1a,
    /// `CMP`.
    F1c,
    /// A transfer on flags (or unconditional): `BREAKC CALL CALLC IFC JMPC`.
    F2,
    /// A transfer on a uniform: `CALLU IFU LOOP JMPU`.
    F3,
    /// `SETEMIT`.
    F4,
    /// Three sources, the second wide.
    F5,
    /// Three sources, the third wide.
    F5i,
}

/// One row of the instruction table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The instruction.
    pub opcode: Opcode,
    /// The assembler's name, lower case.
    pub mnemonic: &'static str,
    /// The layout of its word.
    pub format: Format,
    /// The word's bits from 31 down to 0 (see the letters above).
    pub bits: &'static str,
}

impl Row {
    /// Number of source operands.
    pub const fn sources(&self) -> usize {
        match self.format {
            Format::F0 | Format::F2 | Format::F3 | Format::F4 => 0,
            Format::F1u | Format::F1a => 1,
            Format::F1 | Format::F1i | Format::F1c => 2,
            Format::F5 | Format::F5i => 3,
        }
    }
    /// The source (0-2) in the wide field: the only one that can be a uniform, and the one that IDX
    /// applies to.
    pub const fn wide_source(&self) -> Option<usize> {
        match self.format {
            Format::F0 | Format::F2 | Format::F3 | Format::F4 => None,
            Format::F1 | Format::F1u | Format::F1a | Format::F1c => Some(0),
            Format::F1i | Format::F5 => Some(1),
            Format::F5i => Some(2),
        }
    }
    /// Whether it has an operand descriptor.
    pub const fn has_opdesc(&self) -> bool {
        self.sources() != 0
    }
}

macro_rules! instructions {
    ($($opcode:ident = $encoding:literal, $mnemonic:literal, $format:ident, $bits:literal;)*) => {
        /// Every instruction that the hardware defines. The discriminant is its canonical six-bit encoding.
        /// [`Opcode::Cmp`] has two encodings, [`Opcode::Madi`] and [`Opcode::Mad`] eight each; ten of the
        /// 64 are undefined.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)] // `numeric` and `interp` have the meaning of each
        pub enum Opcode {
            $($opcode = $encoding,)*
        }

        /// All defined instructions, in the order of their encodings.
        pub static ROWS: [Row; [$($encoding),*].len()] = [
            $(Row { opcode: Opcode::$opcode, mnemonic: $mnemonic, format: Format::$format, bits: $bits },)*
        ];
    };
}

#[rustfmt::skip]
instructions! {
    Add     = 0x00, "add",     F1,  "000000 ddddd ii AAAAAAA bbbbb ppppppp";
    Dp3     = 0x01, "dp3",     F1,  "000001 ddddd ii AAAAAAA bbbbb ppppppp";
    Dp4     = 0x02, "dp4",     F1,  "000010 ddddd ii AAAAAAA bbbbb ppppppp";
    Dph     = 0x03, "dph",     F1,  "000011 ddddd ii AAAAAAA bbbbb ppppppp";
    Dst     = 0x04, "dst",     F1,  "000100 ddddd ii AAAAAAA bbbbb ppppppp";
    Ex2     = 0x05, "ex2",     F1u, "000101 ddddd ii AAAAAAA ----- ppppppp";
    Lg2     = 0x06, "lg2",     F1u, "000110 ddddd ii AAAAAAA ----- ppppppp";
    Litp    = 0x07, "litp",    F1u, "000111 ddddd ii AAAAAAA ----- ppppppp";
    Mul     = 0x08, "mul",     F1,  "001000 ddddd ii AAAAAAA bbbbb ppppppp";
    Sge     = 0x09, "sge",     F1,  "001001 ddddd ii AAAAAAA bbbbb ppppppp";
    Slt     = 0x0A, "slt",     F1,  "001010 ddddd ii AAAAAAA bbbbb ppppppp";
    Flr     = 0x0B, "flr",     F1u, "001011 ddddd ii AAAAAAA ----- ppppppp";
    Max     = 0x0C, "max",     F1,  "001100 ddddd ii AAAAAAA bbbbb ppppppp";
    Min     = 0x0D, "min",     F1,  "001101 ddddd ii AAAAAAA bbbbb ppppppp";
    Rcp     = 0x0E, "rcp",     F1u, "001110 ddddd ii AAAAAAA ----- ppppppp";
    Rsq     = 0x0F, "rsq",     F1u, "001111 ddddd ii AAAAAAA ----- ppppppp";
    Mova    = 0x12, "mova",    F1a, "010010 ----- ii AAAAAAA ----- ppppppp";
    Mov     = 0x13, "mov",     F1u, "010011 ddddd ii AAAAAAA ----- ppppppp";
    Dphi    = 0x18, "dphi",    F1i, "011000 ddddd ii aaaaa BBBBBBB ppppppp";
    Dsti    = 0x19, "dsti",    F1i, "011001 ddddd ii aaaaa BBBBBBB ppppppp";
    Sgei    = 0x1A, "sgei",    F1i, "011010 ddddd ii aaaaa BBBBBBB ppppppp";
    Slti    = 0x1B, "slti",    F1i, "011011 ddddd ii aaaaa BBBBBBB ppppppp";
    Break   = 0x20, "break",   F0,  "100000 --------------------------";
    Nop     = 0x21, "nop",     F0,  "100001 --------------------------";
    End     = 0x22, "end",     F0,  "100010 --------------------------";
    Breakc  = 0x23, "breakc",  F2,  "100011 X Y qq ------------ -- --------";
    Call    = 0x24, "call",    F2,  "100100 - - -- tttttttttttt -- nnnnnnnn";
    Callc   = 0x25, "callc",   F2,  "100101 X Y qq tttttttttttt -- nnnnnnnn";
    Callu   = 0x26, "callu",   F3,  "100110 uuuu tttttttttttt -- nnnnnnnn";
    Ifu     = 0x27, "ifu",     F3,  "100111 uuuu tttttttttttt -- nnnnnnnn";
    Ifc     = 0x28, "ifc",     F2,  "101000 X Y qq tttttttttttt -- nnnnnnnn";
    Loop    = 0x29, "for",     F3,  "101001 --uu tttttttttttt -- --------";
    Emit    = 0x2A, "emit",    F0,  "101010 --------------------------";
    Setemit = 0x2B, "setemit", F4,  "101011 ss P W ----------------------";
    Jmpc    = 0x2C, "jmpc",    F2,  "101100 X Y qq tttttttttttt -- --------";
    Jmpu    = 0x2D, "jmpu",    F3,  "101101 uuuu tttttttttttt -- -------n";
    Cmp     = 0x2E, "cmp",     F1c, "10111 xxx yyy ii AAAAAAA bbbbb ppppppp";
    Madi    = 0x30, "madi",    F5i, "110 ddddd ii aaaaa bbbbb CCCCCCC ppppp";
    Mad     = 0x38, "mad",     F5,  "111 ddddd ii aaaaa BBBBBBB ccccc ppppp";
}

/// What a pointwise operation makes of its sources, as far as rounding and bounds depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointwiseResult {
    /// A source, or a number of its magnitude.
    Source,
    /// 0 or 1.
    Truth,
    /// An integer next to the source.
    Integer,
    /// A product.
    Product,
    /// A sum of two sources.
    Sum,
    /// The sum of a product and the third source.
    ProductSum,
}

macro_rules! pointwise {
    ($($op:ident = $($opcode:ident)|+, $result:ident, swallows_nan: $swallows:literal;)*) => {
        /// An operation whose result has in each component the same function of the sources' component.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // `numeric` has the meaning of each
        pub enum PointwiseOp {
            $($op,)*
        }

        impl PointwiseOp {
            /// Every one.
            #[cfg(test)]
            pub(crate) const ALL: &[PointwiseOp] = &[$(PointwiseOp::$op),*];

            /// The operation that an instruction computes, if it is one of these.
            pub(crate) const fn of(opcode: Opcode) -> Option<PointwiseOp> {
                match opcode {
                    $($(Opcode::$opcode)|+ => Some(PointwiseOp::$op),)*
                    _ => None,
                }
            }

            /// Its opcode in normal form.
            pub(crate) const fn opcode(self) -> Opcode {
                match self {
                    $(PointwiseOp::$op => Opcode::$op,)*
                }
            }

            /// Number of sources.
            pub(crate) const fn sources(self) -> usize {
                match self {
                    $(PointwiseOp::$op => const { Opcode::$op.row().sources() },)*
                }
            }

            /// What it makes of its sources.
            pub(crate) const fn result(self) -> PointwiseResult {
                match self {
                    $(PointwiseOp::$op => PointwiseResult::$result,)*
                }
            }

            /// Whether the result may be a number although a source is NaN.
            pub(crate) const fn swallows_nan(self) -> bool {
                match self {
                    $(PointwiseOp::$op => $swallows,)*
                }
            }

            /// Calls `f` with the operation: inlined, it is compiled for each of them by itself.
            #[inline(always)]
            pub(crate) fn specialize(self, mut f: impl FnMut(PointwiseOp)) {
                match self {
                    $(PointwiseOp::$op => f(PointwiseOp::$op),)*
                }
            }
        }
    };
}

#[rustfmt::skip]
pointwise! {
    Add = Add,        Sum,        swallows_nan: false;
    Mul = Mul,        Product,    swallows_nan: false;
    Mad = Mad | Madi, ProductSum, swallows_nan: false;
    Max = Max,        Source,     swallows_nan: true;
    Min = Min,        Source,     swallows_nan: true;
    Sge = Sge | Sgei, Truth,      swallows_nan: true;
    Slt = Slt | Slti, Truth,      swallows_nan: true;
    Flr = Flr,        Integer,    swallows_nan: false;
    Mov = Mov,        Source,     swallows_nan: false;
}

/// For each six-bit opcode the index of its row, or 0xFF.
static BY_OPCODE: [u8; 64] = {
    let mut map = [0xFF; 64];
    let mut i = 0;
    while i < ROWS.len() {
        let first = ROWS[i].opcode as usize;
        let count = match ROWS[i].opcode {
            Opcode::Cmp => 2,
            Opcode::Madi | Opcode::Mad => 8,
            _ => 1,
        };
        let mut k = 0;
        while k < count {
            map[first + k] = i as u8;
            k += 1;
        }
        i += 1;
    }
    map
};

impl Row {
    /// The row of a word's six top bits; `None` for the ten undefined opcodes.
    pub fn of_word(word: u32) -> Option<&'static Row> {
        ROWS.get(usize::from(BY_OPCODE[(word >> 26) as usize]))
    }
}

impl Opcode {
    /// The row of the instruction.
    pub const fn row(self) -> &'static Row {
        &ROWS[BY_OPCODE[self as usize] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_32_bits_and_hold_the_opcode() {
        for r in &ROWS {
            let bits: String = r.bits.chars().filter(|c| *c != ' ').collect();
            assert_eq!(bits.len(), 32, "{}", r.mnemonic);
            let prefix: String = bits.chars().take_while(|c| matches!(c, '0' | '1')).collect();
            let opcode = format!("{:06b}", r.opcode as u8);
            assert!(opcode.starts_with(&prefix), "{}: {} against {}", r.mnemonic, prefix, opcode);
            assert_eq!(bits.chars().filter(|c| *c == 'p').count() != 0, r.has_opdesc(), "{}", r.mnemonic);
        }
    }

    #[test]
    fn every_encoding_has_one_row_or_is_undefined() {
        let undefined: Vec<u32> = (0..64).filter(|op| Row::of_word(op << 26).is_none()).collect();
        assert_eq!(undefined, [0x10, 0x11, 0x14, 0x15, 0x16, 0x17, 0x1C, 0x1D, 0x1E, 0x1F]);
        for r in &ROWS {
            assert_eq!(r.opcode.row().opcode, r.opcode);
        }
    }
}
