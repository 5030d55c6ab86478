//! The tables that linked files and objects share -> values.
//!
//! Invariant: memory for a table is allocated only after the table is found inside the file and its
//! bytes are charged to [`BudgetedReader`]'s budget. So overlapping tables can't turn a small file
//! into a large value, and reading time is linear in the file's length. The offset of an empty
//! table is never checked.

use super::error::{MAX_SHARING, Part, ShbinError, ShbinErrorKind};
use super::{Constant, Label, Opdesc, Output, Uniform};
use crate::container::reader::{Reader, Record, Table};
use crate::isa::MAX_CODE_WORDS;

/// A label without a size.
pub(crate) const NO_SIZE: u32 = u32::MAX;

/// A file, and the number of bytes that its parts may still use together.
pub(crate) struct BudgetedReader<'a> {
    reader: Reader<'a>,
    left: usize,
}

/// The location of a table, from a header.
#[derive(Clone, Copy)]
pub(crate) struct TableLocation {
    /// Absolute offset of the header's field, for errors.
    field: usize,
    start: u64,
    count: u32,
}

impl TableLocation {
    /// From the (offset, count) pair at `field` of `header`; the offset counts from `base`.
    pub(crate) fn pair(header: &Record<'_>, field: usize, base: u64) -> TableLocation {
        TableLocation {
            field: header.at(field),
            start: base + u64::from(header.u32(field)),
            count: header.u32(field + 4),
        }
    }

    /// Absolute offset of the first entry.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Whether the table has no entries; then `start` has no meaning.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> BudgetedReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> BudgetedReader<'a> {
        BudgetedReader { reader: Reader::new(bytes), left: bytes.len().saturating_mul(MAX_SHARING) }
    }

    /// Charges `bytes` of `part` to the budget; the field at `offset` located the part.
    fn charge(&mut self, offset: usize, part: Part, bytes: usize) -> Result<(), ShbinError> {
        let len = self.reader.len();
        self.left =
            self.left.checked_sub(bytes).ok_or(ShbinError { offset, kind: ShbinErrorKind::Overlap { part, len } })?;
        Ok(())
    }

    /// A header of `size` bytes with this magic; the field at `offset` located it.
    pub(crate) fn header(
        &mut self,
        offset: usize,
        part: Part,
        start: u64,
        size: usize,
        magic: &[u8; 4],
    ) -> Result<Record<'a>, ShbinError> {
        let past_end = |past| ShbinError { offset, kind: ShbinErrorKind::PastEnd { part, past } };
        // A wrong magic is reported before a short file.
        let found = self.reader.record(start, 4).map_err(past_end)?;
        if found.array(0) != *magic {
            let kind = ShbinErrorKind::Magic { part, expected: *magic, found: found.array(0) };
            return Err(ShbinError { offset: found.at(0), kind });
        }
        let row = self.reader.record(start, size).map_err(past_end)?;
        self.charge(offset, part, size)?;
        Ok(row)
    }

    /// `count` entries of `size` bytes at `start`; the field at `offset` located them.
    pub(crate) fn table_at(
        &mut self,
        offset: usize,
        part: Part,
        (start, count): (u64, u32),
        size: usize,
    ) -> Result<Table<'a>, ShbinError> {
        if count == 0 {
            return Ok(Table::EMPTY);
        }
        let table = self
            .reader
            .table(start, u64::from(count), size)
            .map_err(|past| ShbinError { offset, kind: ShbinErrorKind::PastEnd { part, past } })?;
        self.charge(offset, part, table.bytes().len())?;
        Ok(table)
    }

    /// The table at `at`, entries of `size` bytes.
    pub(crate) fn table(&mut self, at: TableLocation, part: Part, size: usize) -> Result<Table<'a>, ShbinError> {
        self.table_at(at.field, part, (at.start, at.count), size)
    }

    /// Code words, at most [`MAX_CODE_WORDS`].
    pub(crate) fn code(&mut self, at: TableLocation) -> Result<Vec<u32>, ShbinError> {
        if at.count as usize > MAX_CODE_WORDS {
            // The count is the second field of the pair.
            return Err(ShbinError { offset: at.field + 4, kind: ShbinErrorKind::CodeTooLong { words: at.count } });
        }
        Ok(self.table(at, Part::Code, 4)?.iter().map(|r| r.u32(0)).collect())
    }

    pub(crate) fn opdescs(&mut self, at: TableLocation) -> Result<Vec<Opdesc>, ShbinError> {
        let table = self.table(at, Part::Opdescs, 8)?;
        Ok(table.iter().map(|r| Opdesc { word: r.u32(0), extra: r.u32(4) }).collect())
    }

    pub(crate) fn constants(&mut self, at: TableLocation) -> Result<Vec<Constant>, ShbinError> {
        self.table(at, Part::Constants, 0x14)?.iter().map(|r| constant(&r)).collect()
    }

    pub(crate) fn outputs(&mut self, at: TableLocation) -> Result<Vec<Output>, ShbinError> {
        let table = self.table(at, Part::Outputs, 8)?;
        let output =
            |r: Record<'_>| Output { semantic: r.u16(0), register: r.u16(2), mask: r.u16(4), unknown: r.u16(6) };
        Ok(table.iter().map(output).collect())
    }

    /// Labels, with names from `symbols`.
    pub(crate) fn labels(&mut self, at: TableLocation, symbols: &[u8]) -> Result<Vec<Label>, ShbinError> {
        let mut labels = Vec::new();
        for r in self.table(at, Part::Labels, 0x10)?.iter() {
            labels.push(Label {
                id: r.u16(0),
                unknown: r.u16(2),
                position: r.u32(4),
                size: Some(r.u32(8)).filter(|&s| s != NO_SIZE),
                name: self.name(&r, 0xC, Part::Labels, symbols)?,
            });
        }
        Ok(labels)
    }

    /// Uniforms and inputs, with names from `symbols`.
    pub(crate) fn uniforms(&mut self, at: TableLocation, symbols: &[u8]) -> Result<Vec<Uniform>, ShbinError> {
        let mut uniforms = Vec::new();
        for r in self.table(at, Part::Uniforms, 8)?.iter() {
            let name = self.name(&r, 0, Part::Uniforms, symbols)?;
            uniforms.push(Uniform { name, first: r.u16(4), last: r.u16(6) });
        }
        Ok(uniforms)
    }

    /// The name whose offset in `symbols` is at `field`. In a stripped file, without symbols, names
    /// are empty.
    fn name(&mut self, row: &Record<'_>, field: usize, part: Part, symbols: &[u8]) -> Result<String, ShbinError> {
        if symbols.is_empty() {
            return Ok(String::new());
        }
        let (offset, name) = (row.at(field), row.u32(field));
        let Some(bytes) = name_at(symbols, name) else {
            let kind = ShbinErrorKind::NameOutsideSymbols { name, symbols: symbols.len() };
            return Err(ShbinError { offset, kind });
        };
        self.charge(offset, part, bytes.len())?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The bytes at `offset` of a symbol table, up to a zero byte or the table's end; `None` for an
/// offset outside the table.
pub(crate) fn name_at(symbols: &[u8], offset: u32) -> Option<&[u8]> {
    let from = symbols.get(offset as usize..).filter(|s| !s.is_empty())?;
    Some(from.split(|&b| b == 0).next().expect("split yields at least one piece"))
}

fn constant(row: &Record<'_>) -> Result<Constant, ShbinError> {
    let register = row.u16(2);
    let constant = match row.u16(0) {
        0 => Constant::Bool { register, value: row.u8(4) & 1 != 0 },
        1 => Constant::Int { register, value: row.array(4) },
        2 => Constant::Float { register, value: [4, 8, 12, 16].map(|at| row.u32(at)) },
        found => return Err(ShbinError { offset: row.at(0), kind: ShbinErrorKind::ConstantType { found } }),
    };
    let (class, registers) = constant.class();
    if usize::from(register) >= registers {
        let kind = ShbinErrorKind::ConstantRegister { class, register };
        return Err(ShbinError { offset: row.at(2), kind });
    }
    Ok(constant)
}
