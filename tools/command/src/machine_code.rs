//! Machine code of either CPU -> lines of a page: address of the shader's instruction, offset,
//! bytes, text.
//!
//! Constants follow the code. The code ends before the first constant that an instruction names, with
//! an instruction that passes control on; padding stands between the two.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Mnemonic};
use picajit::isa::Pc;
use serde_json::{Value, json};
use std::ops::Range;
use yaxpeax_arch::{Decoder as _, U8Reader};

/// A disassembled instruction.
struct Line {
    offset: u32,
    length: u32,
    text: String,
    /// Offset of the constant that it loads.
    constant: Option<u32>,
    /// Whether the next instruction is not executed after it.
    is_last_of_block: bool,
}

/// Lines for the code of `cpu`, a name of `jit_or_stub::TARGETS`.
pub fn lines(cpu: &str, code: &[u8], ranges: &[(Range<u32>, Pc)]) -> Vec<Value> {
    let decoded = if cpu == "aarch64" { aarch64(code) } else { x86_64(code) };
    let row = |line: Line| {
        let bytes = &code[line.offset as usize..(line.offset + line.length) as usize];
        let bytes: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let after = ranges.partition_point(|(range, _)| range.end <= line.offset);
        let pc = ranges.get(after).filter(|(range, _)| range.contains(&line.offset)).map(|(_, pc)| *pc);
        json!([pc, line.offset, bytes, line.text])
    };
    decoded.into_iter().map(row).collect()
}

/// Instructions up to the first constant.
fn code_only(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut end = u32::MAX;
    let mut code = Vec::new();
    for line in lines {
        if line.offset >= end {
            break;
        }
        end = line.constant.map_or(end, |constant| end.min(constant));
        code.push(line);
    }
    let end = code.iter().rposition(|line| line.is_last_of_block).map_or(code.len(), |n| n + 1);
    code.truncate(end);
    code
}

fn x86_64(code: &[u8]) -> Vec<Line> {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    code_only(decoder.into_iter().map(|inst| {
        let mut text = String::new();
        formatter.format(&inst, &mut text);
        let constant = inst.is_ip_rel_memory_operand().then(|| inst.ip_rel_memory_address());
        let constant = constant.and_then(|at| u32::try_from(at).ok()).filter(|at| u64::from(*at) > inst.ip());
        let is_last_of_block = matches!(inst.mnemonic(), Mnemonic::Ret | Mnemonic::Jmp | Mnemonic::Ud2);
        Line { offset: inst.ip() as u32, length: inst.len() as u32, text, constant, is_last_of_block }
    }))
}

fn aarch64(code: &[u8]) -> Vec<Line> {
    let decoder = yaxpeax_arm::armv8::a64::InstDecoder::default();
    let line = |(n, word): (usize, &[u8])| {
        let offset = 4 * n as u32;
        let bits = word.try_into().map(u32::from_le_bytes).expect("chunks have four bytes");
        let text = match decoder.decode(&mut U8Reader::new(word)) {
            Ok(inst) => inst.to_string(),
            Err(_) => format!(".inst {bits:#010x}"),
        };
        // Loads of literals are the only use of constants: opc 011 V 00 imm19 Rt.
        let distance = (bits << 8).cast_signed() >> 13 << 2;
        let is_literal = bits & 0x3B00_0000 == 0x1800_0000 && distance > 0;
        let constant = is_literal.then(|| offset.wrapping_add_signed(distance));
        // RET, B and UDF.
        let is_last_of_block = bits == 0xD65F_03C0 || bits >> 26 == 0b00_0101 || bits >> 16 == 0;
        Line { offset, length: 4, text, constant, is_last_of_block }
    };
    code_only(code.chunks_exact(4).enumerate().map(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_no_code() {
        // vmovss xmm0, [rip+3]; ret; padding; a constant.
        let code = [0xC5, 0xFA, 0x10, 0x05, 3, 0, 0, 0, 0xC3, 0, 0, 0, 0, 0x80, 0x3F];
        let lines = lines("x86-64", &code, &[(0..8, 7)]);
        let texts: Vec<&str> = lines.iter().map(|l| l[3].as_str().unwrap()).collect();
        assert!(texts.len() == 2 && texts[0].starts_with("vmovss") && texts[1] == "ret", "{texts:?}");
        assert_eq!((&lines[0][0], &lines[1][0]), (&json!(7), &Value::Null));
        // ldr q0, +8; ret; a constant.
        let code: Vec<u8> = [0x9C00_0040u32, 0xD65F_03C0, 0x3F80_0000].iter().flat_map(|w| w.to_le_bytes()).collect();
        let lines = super::lines("aarch64", &code, &[(4..8, 3)]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0][3].as_str().unwrap().starts_with("ldr") && lines[1][3] == "ret", "{lines:?}");
        assert_eq!((&lines[0][0], &lines[1][0]), (&Value::Null, &json!(3)));
    }
}
