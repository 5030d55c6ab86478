//! LLVM bitcode of a module -> the producer's identification, the target triple and the compiler.
//!
//! Blocks are skipped by their lengths, so only the records of three blocks are decoded.

use super::bits::Bits;
use super::ident;
use crate::cursor::FormatError;

/// What a module says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bitcode {
    /// Producer, of the identification block.
    pub producer: Option<String>,
    /// Target triple, of the module block.
    pub triple: Option<String>,
    /// Name and version of the compiler: the text of `!llvm.ident`, of the metadata block.
    pub ident: Option<String>,
}

/// Magic of Apple's wrapper, and of bitcode.
const WRAPPER: u32 = 0x0B17_C0DE;
const MAGIC: [u8; 4] = *b"BC\xC0\xDE";

const IDENTIFICATION_BLOCK: u64 = 13;
const MODULE_BLOCK: u64 = 8;
/// Codes of the records with the producer and with the triple.
const STRING: u64 = 1;
const TRIPLE: u64 = 2;

/// The bitcode in a wrapper. Fails if the wrapper has other fields than Apple's tools write.
pub fn unwrapped(module: &[u8]) -> Result<&[u8], FormatError> {
    let fail = |at, message: &str| FormatError::new(at, message);
    let word = |n: usize| module.get(4 * n..).and_then(|b| b.first_chunk()).map_or(0, |w| u32::from_le_bytes(*w));
    if module.starts_with(&MAGIC) {
        return Ok(module);
    }
    if word(0) != WRAPPER {
        return Err(fail(0, "neither bitcode nor its wrapper"));
    }
    let (version, offset, size) = (word(1), word(2), word(3));
    if (version, offset) != (0, 20) {
        return Err(fail(4, "the wrapper's version and offset are not 0 and 20"));
    }
    let end = 20 + size as usize;
    let code = module.get(20..end).ok_or_else(|| fail(12, "the bitcode is longer than the module"))?;
    if !code.starts_with(&MAGIC) {
        return Err(fail(20, "the wrapper holds no bitcode"));
    }
    if module[end..].iter().any(|&b| b != 0) {
        return Err(fail(end as u64, "the padding after the bitcode is not zero"));
    }
    Ok(code)
}

impl Bitcode {
    /// Reads a module, with or without wrapper. Offsets count from the module's start.
    pub fn parse(module: &[u8]) -> Result<Bitcode, FormatError> {
        let code = unwrapped(module)?;
        let mut bits = Bits { bytes: code, at: 32, base: (module.len() - code.len()).min(20) as u64 };
        let mut found = Bitcode::default();
        while bits.at + 64 <= 8 * code.len() as u64 && found.triple.is_none() {
            if bits.read(2)? != 1 {
                return Err(bits.error("no block at the top of the bitcode"));
            }
            let (id, width, end) = bits.enter()?;
            match id {
                IDENTIFICATION_BLOCK => bits.records(width, end, |record| {
                    if record.code == STRING {
                        found.producer = Some(record.text());
                    }
                    false
                })?,
                MODULE_BLOCK => {
                    let start = bits.at;
                    bits.records(width, end, |record| {
                        if record.code == TRIPLE {
                            found.triple = Some(record.text());
                        }
                        record.code == TRIPLE
                    })?;
                    bits.at = start;
                    // Damaged metadata leave the rest as it is.
                    found.ident = ident::ident(&mut bits, width, end).unwrap_or(None);
                }
                _ => {}
            }
            bits.at = end;
        }
        Ok(found)
    }
}
