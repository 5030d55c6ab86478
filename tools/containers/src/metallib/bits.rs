//! A stream of bits -> the blocks and records of LLVM bitcode.
//!
//! A record keeps a bounded number of operands, and a blob only its place.

use crate::cursor::FormatError;

/// Operands of a record that are kept. Producers and triples are shorter.
const MOST_OPERANDS: usize = 1024;

/// A position in a stream of bits.
pub(super) struct Bits<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: u64,
    pub(super) base: u64,
}

/// A record of a block.
#[derive(Default)]
pub(super) struct Record {
    pub(super) code: u64,
    /// The operands, at most [`MOST_OPERANDS`].
    pub(super) operands: Vec<u64>,
    /// The bytes of a blob: start and length.
    pub(super) blob: Option<(u64, u64)>,
}

impl Record {
    /// The operands as text.
    pub(super) fn text(&self) -> String {
        self.operands.iter().map(|&b| u8::try_from(b).map_or('?', char::from)).collect()
    }
}

/// What follows in a block.
enum Item {
    End,
    Block { kind: u64, width: u32, end: u64 },
    Abbreviation,
    Record(Record),
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
    pub(super) fn error(&self, message: &str) -> FormatError {
        FormatError::new(self.base + self.at / 8, message)
    }

    /// The same stream at another byte.
    pub(super) fn at_byte(&self, byte: u64) -> Bits<'_> {
        Bits { bytes: self.bytes, at: 8 * byte, base: self.base }
    }

    pub(super) fn read(&mut self, n: u32) -> Result<u64, FormatError> {
        if n > 64 || self.at + u64::from(n) > 8 * self.bytes.len() as u64 {
            return Err(self.error("the bitcode is cut off"));
        }
        let (mut value, mut done) = (0, 0);
        while done < n {
            let bit = (self.at % 8) as u32;
            let count = (8 - bit).min(n - done);
            let bits = u64::from(self.bytes[(self.at / 8) as usize] >> bit) & ((1 << count) - 1);
            value |= bits << done;
            done += count;
            self.at += u64::from(count);
        }
        Ok(value)
    }

    /// A number in chunks of `n` bits whose highest one announces a further chunk.
    pub(super) fn vbr(&mut self, n: u32) -> Result<u64, FormatError> {
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
    pub(super) fn enter(&mut self) -> Result<(u64, u32, u64), FormatError> {
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

    /// Calls `found` for each record up to `end`, until it returns true.
    pub(super) fn records(
        &mut self,
        width: u32,
        end: u64,
        mut found: impl FnMut(&Record) -> bool,
    ) -> Result<(), FormatError> {
        let mut abbreviations = Vec::new();
        while self.at < end {
            match self.item(width, &mut abbreviations)? {
                Item::End => return Ok(()),
                Item::Block { end, .. } => self.at = end,
                Item::Record(record) if found(&record) => return Ok(()),
                Item::Record(_) | Item::Abbreviation => {}
            }
        }
        Ok(())
    }

    /// Stops after the start of a block of kind `wanted` in a block. Returns its width of ids and
    /// its end.
    pub(super) fn find_block(&mut self, width: u32, end: u64, wanted: u64) -> Result<Option<(u32, u64)>, FormatError> {
        let mut abbreviations = Vec::new();
        while self.at < end {
            match self.item(width, &mut abbreviations)? {
                Item::End => break,
                Item::Block { kind, width, end } if kind == wanted => return Ok(Some((width, end))),
                Item::Block { end, .. } => self.at = end,
                Item::Record(_) | Item::Abbreviation => {}
            }
        }
        Ok(None)
    }

    fn item(&mut self, width: u32, abbreviations: &mut Vec<Vec<Operand>>) -> Result<Item, FormatError> {
        Ok(match self.read(width)? {
            0 => Item::End,
            1 => {
                let (kind, width, end) = self.enter()?;
                Item::Block { kind, width, end }
            }
            2 => {
                abbreviations.push(self.abbreviation()?);
                Item::Abbreviation
            }
            3 => {
                let mut record = Record { code: self.vbr(6)?, ..Record::default() };
                let n = self.vbr(6)?;
                for _ in 0..n {
                    let operand = self.vbr(6)?;
                    keep(&mut record.operands, operand);
                }
                Item::Record(record)
            }
            id => {
                let abbreviation = abbreviations.get(id as usize - 4);
                let abbreviation = abbreviation.ok_or_else(|| self.error("an unknown abbreviation in the bitcode"))?;
                Item::Record(self.abbreviated(abbreviation)?)
            }
        })
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

    fn abbreviated(&mut self, abbreviation: &[Operand]) -> Result<Record, FormatError> {
        let (mut operands, mut blob) = (Vec::new(), None);
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
                    let start = self.at / 8;
                    let end = start.checked_add(n).filter(|&end| end <= self.bytes.len() as u64);
                    self.at = 8 * end.ok_or_else(|| self.error("the bitcode is cut off"))?;
                    self.align();
                    blob = Some((start, n));
                }
                scalar => {
                    let value = self.scalar(*scalar)?;
                    keep(&mut operands, value);
                }
            }
        }
        // An abbreviation without operands has no code; no record is of code 0 here.
        let code = if operands.is_empty() { 0 } else { operands.remove(0) };
        Ok(Record { code, operands, blob })
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
