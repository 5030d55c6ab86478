//! The metadata block of a module -> the text of `!llvm.ident`, the compiler's name and version.
//!
//! Metadata are numbered in the order of their records, strings first. Three passes find the named
//! node, the node, and the string, so that nothing is kept.

use super::bits::{Bits, Record};
use crate::cursor::FormatError;

const METADATA_BLOCK: u64 = 15;
/// Codes of records.
const STRING_OLD: u64 = 1;
const NODE: u64 = 3;
const NAME: u64 = 4;
const OLD_NODE: u64 = 8;
const NAMED_NODE: u64 = 10;
const STRINGS: u64 = 35;
/// Codes of records that define no metadata: name, kind, named node, strings, attachment of a
/// global, offset of an index, index, arguments.
const UNNUMBERED: [u64; 8] = [NAME, 6, NAMED_NODE, STRINGS, 36, 38, 39, 46];
/// Longest text that is taken.
const MOST: u64 = 1024;

/// Reads from the start of a module block's records.
pub(super) fn ident(bits: &mut Bits<'_>, width: u32, end: u64) -> Result<Option<String>, FormatError> {
    let Some((width, end)) = bits.find_block(width, end, METADATA_BLOCK)? else { return Ok(None) };
    let start = bits.at;
    let (mut is_next, mut node) = (false, None);
    bits.records(width, end, |record| {
        if is_next && record.code == NAMED_NODE {
            node = record.operands.first().copied();
            return true;
        }
        is_next = record.code == NAME && record.text() == "llvm.ident";
        false
    })?;
    let Some(node) = node else { return Ok(None) };
    let mut string = None;
    numbered(bits, start, (width, end), |number, record| {
        if number == node {
            string = match (record.code, &record.operands[..]) {
                // Operands are numbers from 1; 0 is none.
                (NODE, [n, ..]) => n.checked_sub(1),
                // Operands are pairs of a type and a number.
                (OLD_NODE, [_, n, ..]) => Some(*n),
                _ => None,
            };
        }
        number >= node
    })?;
    let Some(string) = string else { return Ok(None) };
    let (mut text, mut place) = (None, None);
    numbered(bits, start, (width, end), |number, record| {
        if let (STRINGS, [count, offset, ..], Some(blob)) = (record.code, &record.operands[..], record.blob)
            && let Some(index) = string.checked_sub(number).filter(|index| index < count)
        {
            place = Some((index, *offset, blob));
        } else if record.code == STRING_OLD && number == string {
            text = Some(record.text());
        }
        number >= string || place.is_some()
    })?;
    match place {
        Some((index, offset, blob)) => string_at(bits, index, offset, blob),
        None => Ok(text),
    }
}

/// Calls `found` with each record and the number of the metadata that it defines, until it returns
/// true.
fn numbered(
    bits: &mut Bits<'_>,
    start: u64,
    (width, end): (u32, u64),
    mut found: impl FnMut(u64, &Record) -> bool,
) -> Result<(), FormatError> {
    bits.at = start;
    let mut number = 0u64;
    bits.records(width, end, |record| {
        let is_last = match record.code {
            STRINGS => found(number, record),
            code if UNNUMBERED.contains(&code) => return false,
            _ => found(number, record),
        };
        let count = if record.code == STRINGS { record.operands.first().copied().unwrap_or(0) } else { 1 };
        number = number.saturating_add(count);
        is_last
    })
}

/// A string of a blob: the lengths, then from `offset` on the characters.
fn string_at(
    bits: &Bits<'_>,
    index: u64,
    offset: u64,
    (start, len): (u64, u64),
) -> Result<Option<String>, FormatError> {
    let mut lengths = bits.at_byte(start);
    let mut at = offset;
    for _ in 0..index {
        at = at.saturating_add(lengths.vbr(6)?);
    }
    let size = lengths.vbr(6)?.min(MOST);
    let (Some(from), true) = (start.checked_add(at), at.saturating_add(size) <= len) else { return Ok(None) };
    let bytes = bits.bytes.get(from as usize..(from + size) as usize);
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
