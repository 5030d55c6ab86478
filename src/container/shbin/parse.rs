//! Bytes -> [`Shbin`], for the file layouts of all producers.
//!
//! The program header follows the table of DVLE offsets; all other parts may be anywhere. Two free
//! tools write a program header of 0x1C bytes, and place an entry point before the code.

use super::error::{Part, ShbinError, ShbinErrorKind};
use super::tables::{BudgetedReader, TableLocation};
use super::{Dvle, GeometryMode, Shbin, stage_of};

/// Length of the program header that every producer writes.
const SHORT_PROGRAM_HEADER: usize = 0x1C;
/// Length of the full program header. The bytes after the short header belong to it only if no
/// other part uses them.
const PROGRAM_HEADER: usize = 0x28;
const DVLE_HEADER: usize = 0x40;

impl Shbin {
    /// Reads a linked shader file.
    ///
    /// Versions are not checked. Only bit 0 of the type byte counts. Names that are not UTF-8 get
    /// replacement characters. One tool is known to write the offset of the entry point's name
    /// instead of its address; its entry point is the label `main`.
    pub fn parse(bytes: &[u8]) -> Result<Shbin, ShbinError> {
        let mut reader = BudgetedReader::new(bytes);
        let file = reader.header(0, Part::FileHeader, 0, 8, b"DVLB")?;
        let offsets = reader.table_at(4, Part::DvleOffsets, (8, file.u32(4)), 4)?;

        let base = 8 + offsets.bytes().len() as u64;
        let header = reader.header(4, Part::ProgramHeader, base, SHORT_PROGRAM_HEADER, b"DVLP")?;
        let (code_at, opdescs_at) = (TableLocation::pair(&header, 0x8, base), TableLocation::pair(&header, 0x10, base));
        let code = reader.code(code_at)?;
        let opdescs = reader.opdescs(opdescs_at)?;

        let mut dvles = Vec::new();
        for offset in offsets.iter() {
            let mut dvle = dvle(&mut reader, offset.at(0), u64::from(offset.u32(0)))?;
            // The signature of the tool that writes a symbol offset instead of the entry point.
            let misplaced = header.u32(4) == 0 && header.u32(8) != PROGRAM_HEADER as u32 && dvle.version == 0;
            if let Some(main) = dvle.labels.iter().find(|l| misplaced && l.name == "main") {
                dvle.entry = main.position;
            }
            if dvle.entry as usize >= code.len() {
                let kind = ShbinErrorKind::EntryOutsideCode { entry: dvle.entry, words: code.len() };
                return Err(ShbinError { offset: offset.u32(0) as usize + 8, kind });
            }
            dvles.push(dvle);
        }

        let inside_header = |start: u64| (base..base + PROGRAM_HEADER as u64).contains(&start);
        let is_short = [code_at, opdescs_at].iter().any(|at| !at.is_empty() && inside_header(at.start()))
            || offsets.iter().any(|o| inside_header(u64::from(o.u32(0))));
        let file_names = if is_short { Vec::new() } else { file_names(&mut reader, base)? };

        Ok(Shbin { version: header.u32(4), code, opdescs, dvles, file_names })
    }
}

/// The names of source files, from the fields that only the full header has.
fn file_names(reader: &mut BudgetedReader<'_>, base: u64) -> Result<Vec<String>, ShbinError> {
    let header = reader.header(4, Part::ProgramHeader, base, PROGRAM_HEADER, b"DVLP")?;
    let names = reader.table(TableLocation::pair(&header, 0x20, base), Part::FileNames, 1)?.bytes();
    // The last name's zero byte is a terminator, not a separator.
    let names = names.strip_suffix(&[0]).unwrap_or(names);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    Ok(names.split(|&b| b == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// The DVLE at `base`; the field at `field` holds its offset.
fn dvle(reader: &mut BudgetedReader<'_>, field: usize, base: u64) -> Result<Dvle, ShbinError> {
    let header = reader.header(field, Part::DvleHeader, base, DVLE_HEADER, b"DVLE")?;
    let symbols = reader.table(TableLocation::pair(&header, 0x38, base), Part::Symbols, 1)?.bytes();
    Ok(Dvle {
        version: header.u16(4),
        stage: stage_of(header.u8(6)),
        merge_outmaps: header.u8(7) & 1 != 0,
        entry: header.u32(8),
        end: header.u32(0xC),
        input_mask: header.u16(0x10),
        output_mask: header.u16(0x12),
        geometry: GeometryMode::from_bytes(header.array(0x14)),
        constants: reader.constants(TableLocation::pair(&header, 0x18, base))?,
        labels: reader.labels(TableLocation::pair(&header, 0x20, base), symbols)?,
        outputs: reader.outputs(TableLocation::pair(&header, 0x28, base))?,
        uniforms: reader.uniforms(TableLocation::pair(&header, 0x30, base), symbols)?,
    })
}

impl GeometryMode {
    /// From the four bytes at DVLE+0x14: mode, first register (fixed), vertices (variable),
    /// vertices (fixed). A nonzero byte that the mode does not use gives [`GeometryMode::Unknown`].
    pub const fn from_bytes(bytes: [u8; 4]) -> GeometryMode {
        match bytes {
            [0, 0, 0, 0] => GeometryMode::Point,
            [1, 0, main_vertices, 0] => GeometryMode::Variable { main_vertices },
            [2, start, 0, vertices] => GeometryMode::Fixed { start, vertices },
            bytes => GeometryMode::Unknown { bytes },
        }
    }

    /// The inverse of [`GeometryMode::from_bytes`].
    pub const fn to_bytes(self) -> [u8; 4] {
        match self {
            GeometryMode::Point => [0; 4],
            GeometryMode::Variable { main_vertices } => [1, 0, main_vertices, 0],
            GeometryMode::Fixed { start, vertices } => [2, start, 0, vertices],
            GeometryMode::Unknown { bytes } => bytes,
        }
    }
}
