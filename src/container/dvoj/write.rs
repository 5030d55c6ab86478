//! [`Dvoj`] -> bytes: the header, then the tables in the order of its fields, without padding.
//!
//! A name takes the first place where the symbols have it; a name that they lack is appended. So a
//! value that was written and read is written as the same bytes.

use super::{Dvoj, HEADER};
use crate::container::shbin::tables::NO_SIZE;
use crate::container::shbin::{Constant, ShbinWriteError};
use crate::isa::{MAX_CODE_WORDS, Stage};
use std::collections::HashMap;

impl Dvoj {
    /// The file. Values, rows and names are written unchanged and in order.
    ///
    /// Fails if there are more than 4096 code words, a name has a zero byte, or offsets don't fit.
    pub fn write(&self) -> Result<Vec<u8>, ShbinWriteError> {
        if self.code.len() > MAX_CODE_WORDS {
            return Err(ShbinWriteError::CodeTooLong { words: self.code.len() });
        }
        let mut symbols = Symbols::new(&self.symbols);
        let mut labels = Vec::new();
        for label in &self.labels {
            let name = symbols.offset(&label.name)?;
            labels.extend(halves(&[label.id, label.unknown]));
            labels.extend(words(&[label.position, label.size.unwrap_or(NO_SIZE), name]));
        }
        let mut uniforms = Vec::new();
        for uniform in &self.uniforms {
            uniforms.extend(words(&[symbols.offset(&uniform.name)?]));
            uniforms.extend(halves(&[uniform.first, uniform.last]));
        }
        let symbols = symbols.bytes;
        let constants: Vec<u8> = self.constants.iter().flat_map(constant).collect();
        let opdescs: Vec<u8> = self.opdescs.iter().flat_map(|o| words(&[o.word, o.extra])).collect();
        let lines: Vec<u8> = self.lines.iter().flat_map(|row| words(&[row.file, row.line])).collect();
        let note = |row: &super::OperandNote| words(&[row.instruction, row.unknown[0], row.unknown[1]]);
        let notes: Vec<u8> = self.notes.iter().flat_map(note).collect();
        let output = |o: &crate::container::shbin::Output| halves(&[o.semantic, o.register, o.mask, o.unknown]);
        let outputs: Vec<u8> = self.outputs.iter().flat_map(output).collect();

        let mut out = b"DVOJ".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend([u8::from(self.stage == Stage::Geometry), u8::from(self.merge_outmaps)]);
        out.extend(halves(&[self.input_mask, self.output_mask]));
        out.extend(words(&[self.unknown]));
        let code = words(&self.code);
        let tables = [
            (&constants, self.constants.len()),
            (&labels, self.labels.len()),
            (&code, self.code.len()),
            (&opdescs, self.opdescs.len()),
            (&lines, self.lines.len()),
            (&notes, self.notes.len()),
            (&outputs, self.outputs.len()),
            (&uniforms, self.uniforms.len()),
            (&symbols, symbols.len()),
        ];
        let mut at = HEADER;
        for (table, count) in tables {
            let fields = [at, count].map(u32::try_from);
            let [Ok(offset), Ok(count)] = fields else { return Err(ShbinWriteError::TooLarge) };
            out.extend(words(&[offset, count]));
            at += table.len();
        }
        tables.into_iter().for_each(|(table, _)| out.extend(table));
        Ok(out)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn halves(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|h| h.to_le_bytes()).collect()
}

fn constant(constant: &Constant) -> Vec<u8> {
    let (kind, value) = match *constant {
        Constant::Bool { value, .. } => (0, [u32::from(value), 0, 0, 0]),
        Constant::Int { value, .. } => (1, [u32::from_le_bytes(value), 0, 0, 0]),
        Constant::Float { value, .. } => (2, value),
    };
    [halves(&[kind, constant.register()]), words(&value)].concat()
}

/// The symbol table, and where each of its names begins.
struct Symbols {
    bytes: Vec<u8>,
    places: HashMap<Vec<u8>, u32>,
}

impl Symbols {
    fn new(bytes: &[u8]) -> Symbols {
        let mut places = HashMap::new();
        let mut at = 0;
        for name in bytes.split_inclusive(|&b| b == 0) {
            let text = name.strip_suffix(&[0]).unwrap_or(name);
            places.entry(text.to_vec()).or_insert(at as u32);
            at += name.len();
        }
        Symbols { bytes: bytes.to_vec(), places }
    }

    fn offset(&mut self, name: &str) -> Result<u32, ShbinWriteError> {
        if name.contains('\0') {
            return Err(ShbinWriteError::NameHasNul { name: name.into() });
        }
        if let Some(&at) = self.places.get(name.as_bytes()) {
            return Ok(at);
        }
        // The last name may lack its zero byte.
        if self.bytes.last().is_some_and(|&b| b != 0) {
            self.bytes.push(0);
        }
        let at = u32::try_from(self.bytes.len()).map_err(|_| ShbinWriteError::TooLarge)?;
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.places.insert(name.as_bytes().to_vec(), at);
        Ok(at)
    }
}
