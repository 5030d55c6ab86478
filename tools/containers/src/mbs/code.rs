//! Machine code of MBS programs <-> text, one line an instruction: `FIELD=VALUE`, without the fields
//! that have their usual value. Every bit is a field, so text gives the same words again.
//!
//! The fields are those of public descriptions. They lack the contents of the fragment processor's
//! units, so each unit is one number.

mod gp;
mod pp;
#[cfg(test)]
mod tests;

use super::MbsStage;
use crate::cursor::FormatError;

/// The text of a program's code. What is no instruction becomes lines with `word=`.
pub fn disassemble(stage: MbsStage, code: &[u8]) -> String {
    let lines = match stage {
        MbsStage::Vertex => gp::lines(code),
        MbsStage::Fragment => pp::lines(code),
    };
    lines.into_iter().map(|line| line.trim_end().to_string() + "\n").collect()
}

/// The code of a text. An error has the number of its line, from 1, as offset.
pub fn assemble(stage: MbsStage, text: &str) -> Result<Vec<u8>, FormatError> {
    let mut code = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split(';').next().unwrap_or(line).trim();
        if line.is_empty() {
            continue;
        }
        let read = || {
            let pairs = line.split_whitespace().map(|word| word.split_once('=').ok_or(format!("`{word}` has no `=`")));
            let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_, _>>()?;
            match (pairs[0], stage) {
                (("word", word), _) => Ok(number(word, 32)?.to_le_bytes()[..4].to_vec()),
                (_, MbsStage::Vertex) => gp::instruction(&pairs),
                (_, MbsStage::Fragment) => pp::instruction(&pairs),
            }
        };
        code.extend(read().map_err(|message: String| FormatError::new(n as u64 + 1, message))?);
    }
    Ok(code)
}

/// A number of some bits, in decimal or as `0x...`.
fn number(text: &str, bits: u32) -> Result<u128, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.map_err(|_| format!("`{text}` is no number"))?;
    if value >> bits == 0 { Ok(value) } else { Err(format!("`{text}` has more than {bits} bits")) }
}

/// The bits of a field.
fn bits(words: &[u32], at: usize, count: usize) -> u128 {
    (0..count).fold(0, |value, n| value | u128::from(words[(at + n) / 32] >> ((at + n) % 32) & 1) << n)
}

/// Sets the bits of a field that is 0.
fn set(words: &mut [u32], at: usize, count: usize, value: u128) {
    (0..count).for_each(|n| words[(at + n) / 32] |= ((value >> n & 1) as u32) << ((at + n) % 32));
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes after the last word are lost: the format has none.
fn words(code: &[u8]) -> Vec<u32> {
    code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn raw(word: u32) -> String {
    format!("word={word:#010x}")
}
