//! An unlinked shader object, DVOJ <-> [`Dvoj`]: one unit's code with the tables of its future entry
//! point.
//!
//! The format is known from documents alone: no public tool reads or writes it, and reader and writer
//! are untested on real files. The header follows the documents with one correction: the output mask is
//! at 0x0A, the only free field. The documents print 0x10, which belongs to the constant table.
//! Errors and tables are those of linked files ([`crate::container::shbin`]), and offsets count
//! from the start of the file.

mod write;

use crate::container::shbin::tables::{BudgetedReader, TableLocation, name_at};
use crate::container::shbin::{
    Constant, Dvle, GeometryMode, Label, Opdesc, Output, Part, Shbin, ShbinError, Uniform, constants_into, program,
    stage_of,
};
use crate::isa::{Pc, Stage};
use crate::program::{Entry, Program, ProgramError};
use crate::state::Uniforms;
use std::borrow::Cow;

const HEADER: usize = 0x58;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Dvoj {
    /// Version word.
    pub version: u16,
    /// Kind of unit.
    pub stage: Stage,
    /// Whether the geometry program's output map is merged with the vertex program's.
    pub merge_outmaps: bool,
    /// Declared input registers.
    pub input_mask: u16,
    /// Declared output registers.
    pub output_mask: u16,
    /// The word at 0x0C, usually 0xFFFFFFFF.
    pub unknown: u32,
    /// Values that binding the shader loads into uniforms.
    pub constants: Vec<Constant>,
    /// Debug labels.
    pub labels: Vec<Label>,
    /// Code words.
    pub code: Vec<u32>,
    /// Operand descriptors.
    pub opdescs: Vec<Opdesc>,
    /// Source line of each instruction.
    pub lines: Vec<SourceLine>,
    /// One row for each instruction with operands.
    pub notes: Vec<OperandNote>,
    /// Output table.
    pub outputs: Vec<Output>,
    /// Names of uniforms and inputs.
    pub uniforms: Vec<Uniform>,
    /// The symbol table, verbatim: [`SourceLine::file`] points into it.
    pub symbols: Vec<u8>,
}

/// A row of the first debug table. The documents guess the meaning of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SourceLine {
    /// File name, for [`Dvoj::symbol`].
    pub file: u32,
    /// Line number.
    pub line: u32,
}

/// A row of the second debug table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OperandNote {
    /// Address of the instruction, in words.
    pub instruction: u32,
    /// Fields of unknown meaning.
    pub unknown: [u32; 2],
}

impl Dvoj {
    /// Reads an object. As in linked files, versions are not checked, only bit 0 of the type byte
    /// counts, and names that are not UTF-8 get replacement characters. Code may be empty.
    pub fn parse(bytes: &[u8]) -> Result<Dvoj, ShbinError> {
        let mut reader = BudgetedReader::new(bytes);
        let header = reader.header(0, Part::ObjectHeader, 0, HEADER, b"DVOJ")?;
        let at = |field| TableLocation::pair(&header, field, 0);
        let symbols = reader.table(at(0x50), Part::Symbols, 1)?.bytes();
        let lines = reader.table(at(0x30), Part::SourceLines, 8)?;
        let notes = reader.table(at(0x38), Part::OperandNotes, 12)?;
        Ok(Dvoj {
            version: header.u16(4),
            stage: stage_of(header.u8(6)),
            merge_outmaps: header.u8(7) & 1 != 0,
            input_mask: header.u16(8),
            output_mask: header.u16(0xA),
            unknown: header.u32(0xC),
            constants: reader.constants(at(0x10))?,
            labels: reader.labels(at(0x18), symbols)?,
            code: reader.code(at(0x20))?,
            opdescs: reader.opdescs(at(0x28))?,
            lines: lines.iter().map(|r| SourceLine { file: r.u32(0), line: r.u32(4) }).collect(),
            notes: notes.iter().map(|r| OperandNote { instruction: r.u32(0), unknown: [r.u32(4), r.u32(8)] }).collect(),
            outputs: reader.outputs(at(0x40))?,
            uniforms: reader.uniforms(at(0x48), symbols)?,
            symbols: symbols.to_vec(),
        })
    }

    /// The code as a [`Program`], not linked: calls to other objects keep the addresses in their
    /// words.
    ///
    /// Fails only for a value that no reader returned: the reader rejects code longer than a
    /// program holds.
    pub fn program(&self) -> Result<Program, ProgramError> {
        program(&self.code, &self.opdescs)
    }

    /// The entry point: the label `main`, or the first word without one. This is a reading of the
    /// documents, which guess that it is the first word.
    pub fn entry(&self) -> Entry {
        Entry { pc: self.main().map_or(0, |label| label.position as Pc), stage: self.stage }
    }

    fn main(&self) -> Option<&Label> {
        self.labels.iter().find(|label| label.name == "main" && label.position < self.code.len() as u32)
    }

    /// How a geometry program is fed. [`Dvoj::unknown`] stands where a linked file has the mode, after
    /// the masks: a mode there counts, and anything else is point mode.
    pub fn geometry(&self) -> GeometryMode {
        match GeometryMode::from_bytes(self.unknown.to_le_bytes()) {
            mode @ (GeometryMode::Variable { .. } | GeometryMode::Fixed { .. }) if self.stage == Stage::Geometry => {
                mode
            }
            _ => GeometryMode::Point,
        }
    }

    /// The object's entry point in a program that has the object's code from the word `base` on.
    pub fn linked_at(self, base: u32) -> Dvle {
        let (Entry { pc, stage }, geometry) = (self.entry(), self.geometry());
        let entry = base.saturating_add(pc.into());
        let label = self.main().or_else(|| self.labels.iter().find(|label| label.position == 0));
        let size = label.and_then(|label| label.size);
        let moved = |label: Label| Label { position: label.position.saturating_add(base), ..label };
        Dvle {
            version: self.version,
            stage,
            merge_outmaps: self.merge_outmaps,
            entry,
            end: size.map_or(0, |size| entry.saturating_add(size)),
            input_mask: self.input_mask,
            output_mask: self.output_mask,
            geometry,
            constants: self.constants,
            labels: self.labels.into_iter().map(moved).collect(),
            outputs: self.outputs,
            uniforms: self.uniforms,
        }
    }

    /// The object linked alone: a SHBIN with its only entry point.
    pub fn linked_alone(self) -> Shbin {
        let (code, opdescs) = (self.code.clone(), self.opdescs.clone());
        Shbin { version: 0, code, opdescs, dvles: vec![self.linked_at(0)], file_names: Vec::new() }
    }

    /// Loads the constants, as binding the shader does. See
    /// [`crate::container::shbin::Dvle::apply_constants`].
    pub fn apply_constants(&self, uniforms: &mut Uniforms) {
        constants_into(&self.constants, uniforms);
    }

    /// The name at `offset` of the symbol table; `None` outside of it.
    pub fn symbol(&self, offset: u32) -> Option<Cow<'_, str>> {
        name_at(&self.symbols, offset).map(String::from_utf8_lossy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::miri_or;

    /// An object with a row in every table, written by hand from the documents.
    fn object() -> Vec<u8> {
        let mut b = b"DVOJ".to_vec();
        let mut body = Vec::new();
        let mut words = |w: &[u32]| w.iter().for_each(|w| b.extend(w.to_le_bytes()));
        words(&[0x0101_1002, 0x0003_0005, u32::MAX]);
        // Field order of the header; the tables are laid out in the same order from 0x58.
        let tables: [(u32, &[u32]); 8] = [
            (2, &[0x0005_0002, 0x3F0000, 0xBE0000, 0x3B9999, 0, 0x0001_0001, 0x04030201, 0, 0, 0]),
            (1, &[0x0001_0007, 1, u32::MAX, 0]),
            (2, &[0x4E00_0000, 0x8800_0000]),
            (1, &[0x36F, 0xF]),
            (2, &[5, 12, 5, 13]),
            (1, &[0, 0xAAAA, 0xBBBB]),
            (1, &[0x0001_0002, 0xF]),
            (1, &[5, 0x0013_0010]),
        ];
        for (count, rows) in tables {
            words(&[(HEADER + body.len()) as u32, count]);
            rows.iter().for_each(|w| body.extend(w.to_le_bytes()));
        }
        words(&[(HEADER + body.len()) as u32, 13]);
        b.extend(body);
        b.extend(b"main\0proj.vsh");
        b
    }

    #[test]
    fn every_table_of_an_object_is_read() {
        let dvoj = Dvoj::parse(&object()).unwrap();
        let expected = Dvoj {
            version: 0x1002,
            stage: Stage::Geometry,
            merge_outmaps: true,
            input_mask: 5,
            output_mask: 3,
            unknown: u32::MAX,
            constants: vec![
                Constant::Float { register: 5, value: [0x3F0000, 0xBE0000, 0x3B9999, 0] },
                Constant::Int { register: 1, value: [1, 2, 3, 4] },
            ],
            labels: vec![Label { id: 7, unknown: 1, position: 1, size: None, name: "main".into() }],
            code: vec![0x4E000000, 0x88000000],
            opdescs: vec![Opdesc { word: 0x36F, extra: 0xF }],
            lines: vec![SourceLine { file: 5, line: 12 }, SourceLine { file: 5, line: 13 }],
            notes: vec![OperandNote { instruction: 0, unknown: [0xAAAA, 0xBBBB] }],
            outputs: vec![Output { semantic: 2, register: 1, mask: 0xF, unknown: 0 }],
            uniforms: vec![Uniform { name: "proj.vsh".into(), first: 0x10, last: 0x13 }],
            symbols: b"main\0proj.vsh".to_vec(),
        };
        assert_eq!(dvoj, expected);
        assert_eq!(dvoj.entry(), Entry::geometry(1), "the label `main`");
        assert_eq!(Dvoj { labels: Vec::new(), ..dvoj.clone() }.entry(), Entry::geometry(0));
        assert_eq!(dvoj.geometry(), GeometryMode::Point);
        let mode = GeometryMode::Fixed { start: 8, vertices: 3 };
        let fixed = Dvoj { unknown: u32::from_le_bytes(mode.to_bytes()), ..dvoj.clone() };
        assert_eq!((fixed.geometry(), fixed.clone().linked_at(7).geometry, fixed.linked_at(7).entry), (mode, mode, 8));
        assert_eq!(dvoj.program().unwrap(), Program::from_words(&[0x4E000000, 0x88000000], &[0x36F]).unwrap());
        assert_eq!(dvoj.symbol(dvoj.lines[0].file).as_deref(), Some("proj.vsh"));
        assert_eq!(dvoj.symbol(13), None);
        let mut uniforms = Uniforms::new();
        dvoj.apply_constants(&mut uniforms);
        assert_eq!((uniforms.c[5][1], uniforms.i[1]), (-0.5, [1, 2, 3, 4]));
    }

    #[test]
    fn an_object_is_written_back() {
        let bytes = object();
        let read = Dvoj::parse(&bytes).unwrap();
        assert_eq!(read.write().unwrap(), bytes);
        // Names that the symbols lack are appended, once.
        let named = |name: &str| Label { name: name.into(), ..Label::default() };
        let grown = Dvoj { labels: vec![named("one"), named("main"), named("one"), named("")], ..read.clone() };
        let written = grown.write().unwrap();
        let again = Dvoj::parse(&written).unwrap();
        assert_eq!(again.symbols, b"main\0proj.vsh\0one\0\0");
        assert_eq!(again.labels, grown.labels);
        assert_eq!(again.write().unwrap(), written);
        let empty = Dvoj::default().write().unwrap();
        assert_eq!((empty.len(), Dvoj::parse(&empty)), (HEADER, Ok(Dvoj::default())));
        let fails = |object: Dvoj| object.write().unwrap_err().to_string();
        assert!(fails(Dvoj { labels: vec![named("a\0b")], ..read.clone() }).contains("zero byte"));
        assert!(fails(Dvoj { code: vec![0; 4097], ..read }).contains("4097"));
    }

    #[test]
    fn a_bad_object_gives_the_expected_error() {
        let text = |at: usize, bytes: &[u8]| {
            let mut b = object();
            b[at..at + bytes.len()].copy_from_slice(bytes);
            Dvoj::parse(&b).unwrap_err().to_string()
        };
        assert_eq!(text(0, b"DVLB"), r#"at 0x0: the DVOJ header should begin with "DVOJ", not "DVLB""#);
        assert_eq!(
            text(0x3C, &[0, 1]),
            "at 0x38: the table of operand notes (256 entries of 12 bytes at 0xb0) reaches past the end of the file \
             (0xd9 bytes)"
        );
        assert_eq!(text(0x26, &[1]), "at 0x24: 65538 words of code, but the largest unit holds 4096");
        assert_eq!(
            Dvoj::parse(b"DVOJ").unwrap_err().to_string(),
            "at 0x0: the DVOJ header (0x58 bytes at 0x0) reaches past the end of the file (0x4 bytes)"
        );
    }

    #[test]
    fn no_corruption_makes_the_reader_panic() {
        let good = object();
        for len in (0..good.len()).step_by(miri_or(31, 1)) {
            assert!(Dvoj::parse(&good[..len]).is_err(), "{len}");
        }
        for at in (0..good.len()).step_by(miri_or(13, 1)) {
            for change in [|_| 0, |_| 0xFF, |b: u8| b ^ 1, |b: u8| b ^ 0x80] {
                let mut bad = good.clone();
                bad[at] = change(bad[at]);
                if let Ok(dvoj) = Dvoj::parse(&bad) {
                    let written = dvoj.write().unwrap();
                    assert_eq!(Dvoj::parse(&written).map(|again| again.write().unwrap()), Ok(written));
                    dvoj.apply_constants(&mut Uniforms::new());
                    assert!(dvoj.program().is_ok());
                }
            }
        }
    }
}
