//! A code word or an operand descriptor -> its bit fields, each with a name and its meaning; an
//! instruction -> its operands.

use picajit::isa::table::Row;
use picajit::isa::{CmpOp, CondOp, DstFile, DstReg, Index, Inst, Opcode, Src, SrcFile, SrcReg, Swizzle, WriteMask};
use serde_json::{Value, json};

/// A word of a listing. `line` is its source line.
pub fn word(word: u32, inst: &Inst, line: Option<u32>) -> Value {
    let (dst, sources) = operands(inst);
    json!({
        "word": word,
        "descriptor": Inst::opdesc_index(word),
        "text": inst.to_string(),
        "line": line,
        "fields": fields(word),
        "dst": dst,
        "src": sources,
    })
}

/// A descriptor with its fields, those of three sources.
pub fn descriptor(word: u32) -> Value {
    let mask = WriteMask::new((word & 0xF) as u8);
    let mut fields = vec![json!([31, 31, "unused", (word >> 31).to_string()])];
    for n in (0..3u32).rev() {
        let negate = 4 + 9 * n;
        let swizzle = Swizzle((word >> (negate + 1)) as u8);
        fields.push(json!([negate + 8, negate + 1, format!("selector {}", n + 1), swizzle.to_string()]));
        let sign = if word >> negate & 1 != 0 { "negated" } else { "as it is" };
        fields.push(json!([negate, negate, format!("sign {}", n + 1), sign]));
    }
    let written = if mask.bits() == 0 { "no component".into() } else { mask.to_string() };
    fields.push(json!([3, 0, "write mask", written]));
    json!({ "word": word, "fields": fields })
}

/// Destination (file, number, mask) and sources (file, number, selector, sign, index register).
fn operands(inst: &Inst) -> (Value, Vec<Value>) {
    match inst {
        Inst::Alu(alu) => {
            let (file, n) = match alu.dst.file() {
                DstFile::Output(n) => ("o", n),
                DstFile::Temp(n) => ("r", n),
            };
            (json!([file, n, alu.mask.to_string()]), alu.sources().iter().map(source).collect())
        }
        Inst::Mova { mask, src } => (json!(["a", 0, mask.to_string()]), vec![source(src)]),
        Inst::Cmp { src, .. } => (json!(null), src.iter().map(source).collect()),
        _ => (json!(null), Vec::new()),
    }
}

fn source(src: &Src) -> Value {
    let (file, n) = match src.reg.file() {
        SrcFile::Input(n) => ("v", n),
        SrcFile::Temp(n) => ("r", n),
        SrcFile::Uniform(n) => ("c", n),
    };
    let index = src.relative().map(|(_, index)| index_name(index));
    json!([file, n, src.swizzle.components(), src.negate, index])
}

fn index_name(index: Index) -> &'static str {
    match index {
        Index::None => "none",
        Index::A0x => "a0.x",
        Index::A0y => "a0.y",
        Index::AL => "aL",
    }
}

/// The fields of a word from bit 31 down: first bit, last bit, name, meaning. They cover all bits.
fn fields(word: u32) -> Vec<Value> {
    let Some(row) = Row::of_word(word) else {
        let rest = format!("{:#x}", word & 0x03FF_FFFF);
        return vec![json!([31, 26, "opcode", "undefined"]), json!([25, 0, "unknown", rest])];
    };
    let letters: Vec<u8> = row.bits.bytes().filter(|b| *b != b' ').collect();
    let kind = |letter: u8| if letter.is_ascii_digit() { b'o' } else { letter };
    let mut all = Vec::new();
    let mut start = 0;
    while start < letters.len() {
        let letter = kind(letters[start]);
        let len = letters[start..].iter().take_while(|l| kind(**l) == letter).count();
        let (first, last) = (31 - start, 32 - start - len);
        let value = (word >> last) & (u32::MAX >> (32 - len));
        let (name, meaning) = meaning(row, letter, value, len);
        all.push(json!([first, last, name, meaning]));
        start += len;
    }
    all
}

/// Name and meaning of a field by its letter in [`Row::bits`].
fn meaning(row: &Row, letter: u8, value: u32, width: usize) -> (&'static str, String) {
    let byte = value as u8;
    let register = || SrcReg::new(byte).to_string();
    let flag = |set: &str, clear: &str| if value != 0 { set.to_string() } else { clear.to_string() };
    match letter {
        b'o' => ("opcode", row.mnemonic.into()),
        b'd' => ("destination", DstReg::new(byte).to_string()),
        b'i' => ("index register", index_name(Index::new(byte)).into()),
        b'A' | b'a' => ("source 1", register()),
        b'B' | b'b' => ("source 2", register()),
        b'C' | b'c' => ("source 3", register()),
        b'p' => ("descriptor", value.to_string()),
        b'x' => ("operator of x", CmpOp::new(byte).mnemonic().into()),
        b'y' => ("operator of y", CmpOp::new(byte).mnemonic().into()),
        b'X' => ("reference of x", flag("cmp.x is true", "cmp.x is false")),
        b'Y' => ("reference of y", flag("cmp.y is true", "cmp.y is false")),
        b'q' => ("condition", ["x or y", "x and y", "x alone", "y alone"][CondOp::new(byte) as usize].into()),
        b't' if row.opcode == Opcode::Loop => ("last word", value.to_string()),
        b't' => ("target", value.to_string()),
        b'n' if width == 1 => ("inverted", flag("jumps if false", "jumps if true")),
        b'n' => ("length", value.to_string()),
        b'u' if row.opcode == Opcode::Loop => ("integer uniform", format!("i{value}")),
        b'u' => ("boolean uniform", format!("b{value}")),
        b's' => ("slot", value.to_string()),
        b'P' => ("primitive", flag("sends a triangle", "no triangle")),
        b'W' => ("winding", flag("exchanges two vertices", "in order")),
        _ => ("unused", if value == 0 { "0".into() } else { format!("{value:#x}") }),
    }
}
