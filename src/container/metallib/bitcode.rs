//! LLVM bitcode of a module -> the producer's identification and the target triple.
//!
//! Blocks are skipped by their lengths, so only the records of two blocks are decoded.

use crate::container::cursor::FormatError;

/// What a module says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bitcode {
    /// Producer, of the identification block.
    pub producer: Option<String>,
    /// Target triple, of the module block.
    pub triple: Option<String>,
}

/// Magic of Apple's wrapper, and of bitcode.
const WRAPPER: u32 = 0x0B17_C0DE;
const MAGIC: [u8; 4] = *b"BC\xC0\xDE";

const IDENTIFICATION_BLOCK: u64 = 13;
const MODULE_BLOCK: u64 = 8;
/// Codes of the records with the producer and with the triple.
const STRING: u64 = 1;
const TRIPLE: u64 = 2;
/// Operands of a record that are kept. Producers and triples are shorter.
const MOST_OPERANDS: usize = 1024;

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
                IDENTIFICATION_BLOCK => bits.records(width, end, |code, text| {
                    if code == STRING {
                        found.producer = Some(text);
                    }
                    false
                })?,
                MODULE_BLOCK => bits.records(width, end, |code, text| {
                    if code == TRIPLE {
                        found.triple = Some(text);
                    }
                    code == TRIPLE
                })?,
                _ => {}
            }
            bits.at = end;
        }
        Ok(found)
    }
}

/// A position in a stream of bits.
struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
    base: u64,
}

/// An operand of an abbreviation.
#[derive(Clone, Copy)]
enum Operand {
    Literal(u64),
    Fixed(u32),
    Vbr(u32),
    Array,
    Char6,
    Blob,
}

impl Bits<'_> {
    fn error(&self, message: &str) -> FormatError {
        FormatError::new(self.base + self.at / 8, message)
    }

    fn read(&mut self, n: u32) -> Result<u64, FormatError> {
        if n > 64 || self.at + u64::from(n) > 8 * self.bytes.len() as u64 {
            return Err(self.error("the bitcode is cut off"));
        }
        let mut value = 0;
        for bit in 0..n {
            let at = self.at + u64::from(bit);
            value |= u64::from(self.bytes[(at / 8) as usize] >> (at % 8) & 1) << bit;
        }
        self.at += u64::from(n);
        Ok(value)
    }

    /// A number in chunks of `n` bits whose highest one announces a further chunk.
    fn vbr(&mut self, n: u32) -> Result<u64, FormatError> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let chunk = self.read(n)?;
            let more = chunk >> (n - 1) & 1 != 0;
            if shift < 64 {
                value |= (chunk & !(1 << (n - 1))) << shift;
            }
            shift += n - 1;
            if !more {
                return Ok(value);
            }
        }
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(32);
    }

    /// After the id of a block's start: its kind, width of ids, and end.
    fn enter(&mut self) -> Result<(u64, u32, u64), FormatError> {
        let (id, width) = (self.vbr(8)?, self.vbr(4)?);
        self.align();
        let words = self.read(32)?;
        let end = self.at + 32 * words;
        if end > 8 * self.bytes.len() as u64 {
            return Err(self.error("a block of the bitcode is longer than its module"));
        }
        if !(2..=32).contains(&width) {
            return Err(self.error("a block of the bitcode has ids of an impossible width"));
        }
        Ok((id, width as u32, end))
    }

    /// Calls `found` for the code and text of each record up to `end`, until it returns true.
    fn records(&mut self, width: u32, end: u64, mut found: impl FnMut(u64, String) -> bool) -> Result<(), FormatError> {
        let mut abbreviations: Vec<Vec<Operand>> = Vec::new();
        while self.at < end {
            let operands = match self.read(width)? {
                0 => return Ok(()),
                1 => {
                    let (_, _, inner) = self.enter()?;
                    self.at = inner;
                    continue;
                }
                2 => {
                    abbreviations.push(self.abbreviation()?);
                    continue;
                }
                3 => {
                    let code = self.vbr(6)?;
                    let n = self.vbr(6)?;
                    let mut operands = vec![code];
                    for _ in 0..n {
                        let operand = self.vbr(6)?;
                        keep(&mut operands, operand);
                    }
                    operands
                }
                id => {
                    let abbreviation = abbreviations.get(id as usize - 4);
                    let abbreviation =
                        abbreviation.ok_or_else(|| self.error("an unknown abbreviation in the bitcode"))?;
                    self.abbreviated(abbreviation)?
                }
            };
            let Some((&code, text)) = operands.split_first() else { continue };
            if found(code, text.iter().map(|&b| u8::try_from(b).map_or('?', char::from)).collect()) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn abbreviation(&mut self) -> Result<Vec<Operand>, FormatError> {
        let n = self.vbr(5)?;
        let mut operands = Vec::new();
        for _ in 0..n {
            let operand = if self.read(1)? == 1 {
                Operand::Literal(self.vbr(8)?)
            } else {
                match self.read(3)? {
                    // Elements without bits would allow endless arrays.
                    code @ (1 | 2) => match (code, self.vbr(5)?) {
                        (1, bits @ 1..=64) => Operand::Fixed(bits as u32),
                        (2, bits @ 2..=32) => Operand::Vbr(bits as u32),
                        (_, 0) => Operand::Literal(0),
                        _ => return Err(self.error("an operand of the bitcode has an impossible width")),
                    },
                    3 => Operand::Array,
                    4 => Operand::Char6,
                    5 => Operand::Blob,
                    _ => return Err(self.error("an unknown encoding in the bitcode")),
                }
            };
            operands.push(operand);
        }
        Ok(operands)
    }

    fn abbreviated(&mut self, abbreviation: &[Operand]) -> Result<Vec<u64>, FormatError> {
        let mut operands = Vec::new();
        let mut rest = abbreviation.iter();
        while let Some(operand) = rest.next() {
            match operand {
                Operand::Array => {
                    let n = self.vbr(6)?;
                    let element =
                        rest.next().filter(|e| matches!(e, Operand::Fixed(_) | Operand::Vbr(_) | Operand::Char6));
                    let element = *element.ok_or_else(|| self.error("an array without elements in the bitcode"))?;
                    for _ in 0..n {
                        let value = self.scalar(element)?;
                        keep(&mut operands, value);
                    }
                }
                Operand::Blob => {
                    let n = self.vbr(6)?;
                    self.align();
                    for _ in 0..n {
                        let value = self.read(8)?;
                        keep(&mut operands, value);
                    }
                    self.align();
                }
                scalar => {
                    let value = self.scalar(*scalar)?;
                    keep(&mut operands, value);
                }
            }
        }
        Ok(operands)
    }

    fn scalar(&mut self, operand: Operand) -> Result<u64, FormatError> {
        const CHAR6: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
        match operand {
            Operand::Literal(value) => Ok(value),
            Operand::Fixed(bits) => self.read(bits),
            Operand::Vbr(bits) => self.vbr(bits),
            Operand::Char6 => Ok(CHAR6[self.read(6)? as usize].into()),
            Operand::Array | Operand::Blob => Err(self.error("an array in place of a number in the bitcode")),
        }
    }
}

fn keep(operands: &mut Vec<u64>, operand: u64) {
    if operands.len() < MOST_OPERANDS {
        operands.push(operand);
    }
}
