//! One row per instruction: its bits, its mnemonic, its format.
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

use super::Opcode;

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

const fn def(opcode: Opcode, mnemonic: &'static str, format: Format, bits: &'static str) -> Row {
    Row { opcode, mnemonic, format, bits }
}

/// All defined instructions, in the order of their encodings.
#[rustfmt::skip]
pub static ROWS: [Row; 39] = {
    use {Format::*, Opcode::*};
    [
    def(Add,     "add",     F1,  "000000 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Dp3,     "dp3",     F1,  "000001 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Dp4,     "dp4",     F1,  "000010 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Dph,     "dph",     F1,  "000011 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Dst,     "dst",     F1,  "000100 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Ex2,     "ex2",     F1u, "000101 ddddd ii AAAAAAA ----- ppppppp"),
    def(Lg2,     "lg2",     F1u, "000110 ddddd ii AAAAAAA ----- ppppppp"),
    def(Litp,    "litp",    F1u, "000111 ddddd ii AAAAAAA ----- ppppppp"),
    def(Mul,     "mul",     F1,  "001000 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Sge,     "sge",     F1,  "001001 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Slt,     "slt",     F1,  "001010 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Flr,     "flr",     F1u, "001011 ddddd ii AAAAAAA ----- ppppppp"),
    def(Max,     "max",     F1,  "001100 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Min,     "min",     F1,  "001101 ddddd ii AAAAAAA bbbbb ppppppp"),
    def(Rcp,     "rcp",     F1u, "001110 ddddd ii AAAAAAA ----- ppppppp"),
    def(Rsq,     "rsq",     F1u, "001111 ddddd ii AAAAAAA ----- ppppppp"),
    def(Mova,    "mova",    F1a, "010010 ----- ii AAAAAAA ----- ppppppp"),
    def(Mov,     "mov",     F1u, "010011 ddddd ii AAAAAAA ----- ppppppp"),
    def(Dphi,    "dphi",    F1i, "011000 ddddd ii aaaaa BBBBBBB ppppppp"),
    def(Dsti,    "dsti",    F1i, "011001 ddddd ii aaaaa BBBBBBB ppppppp"),
    def(Sgei,    "sgei",    F1i, "011010 ddddd ii aaaaa BBBBBBB ppppppp"),
    def(Slti,    "slti",    F1i, "011011 ddddd ii aaaaa BBBBBBB ppppppp"),
    def(Break,   "break",   F0,  "100000 --------------------------"),
    def(Nop,     "nop",     F0,  "100001 --------------------------"),
    def(End,     "end",     F0,  "100010 --------------------------"),
    def(Breakc,  "breakc",  F2,  "100011 X Y qq ------------ -- --------"),
    def(Call,    "call",    F2,  "100100 - - -- tttttttttttt -- nnnnnnnn"),
    def(Callc,   "callc",   F2,  "100101 X Y qq tttttttttttt -- nnnnnnnn"),
    def(Callu,   "callu",   F3,  "100110 uuuu tttttttttttt -- nnnnnnnn"),
    def(Ifu,     "ifu",     F3,  "100111 uuuu tttttttttttt -- nnnnnnnn"),
    def(Ifc,     "ifc",     F2,  "101000 X Y qq tttttttttttt -- nnnnnnnn"),
    def(Loop,    "for",     F3,  "101001 --uu tttttttttttt -- --------"),
    def(Emit,    "emit",    F0,  "101010 --------------------------"),
    def(Setemit, "setemit", F4,  "101011 ss P W ----------------------"),
    def(Jmpc,    "jmpc",    F2,  "101100 X Y qq tttttttttttt -- --------"),
    def(Jmpu,    "jmpu",    F3,  "101101 uuuu tttttttttttt -- -------n"),
    def(Cmp,     "cmp",     F1c, "10111 xxx yyy ii AAAAAAA bbbbb ppppppp"),
    def(Madi,    "madi",    F5i, "110 ddddd ii aaaaa bbbbb CCCCCCC ppppp"),
    def(Mad,     "mad",     F5,  "111 ddddd ii aaaaa BBBBBBB ccccc ppppp"),
    ]
};

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

/// The row of a word's six top bits; `None` for the ten undefined opcodes.
pub fn row_of_word(word: u32) -> Option<&'static Row> {
    ROWS.get(usize::from(BY_OPCODE[(word >> 26) as usize]))
}

/// The row of an instruction.
pub fn row(opcode: Opcode) -> &'static Row {
    &ROWS[usize::from(BY_OPCODE[opcode as usize])]
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
        let undefined: Vec<u32> = (0..64).filter(|op| row_of_word(op << 26).is_none()).collect();
        assert_eq!(undefined, [0x10, 0x11, 0x14, 0x15, 0x16, 0x17, 0x1C, 0x1D, 0x1E, 0x1F]);
        for r in &ROWS {
            assert_eq!(row(r.opcode).opcode, r.opcode);
        }
    }
}
