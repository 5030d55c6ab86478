//! [`Mbs`] -> [`Finding`]s. Offsets are those of the written file.

use super::write::{program_part, row};
use super::{Extra, Mbs, MbsProgram, MbsStage, NO_PARENT, ProgramPart, RootPart, Row, Symbol, Table, UNUSED};
use crate::finding::{Finding, Findings, quoted};

/// Bytes of a chunk before its body.
const HEADER: u64 = 8;
/// Bytes of an instruction of the geometry processor.
const GP_INSTRUCTION: usize = 16;
/// The largest address of a branch has 9 bits.
const MOST_GP_INSTRUCTIONS: usize = 512;
const STRUCT: u8 = 8;

impl Mbs {
    /// Checks every rule of the format beyond its grammar, which [`Mbs::parse`] checks.
    pub fn verify(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        let mut at = HEADER;
        let mut seen = [0usize; 2];
        for part in &self.parts {
            match part {
                RootPart::Program(program) => {
                    let n = &mut seen[usize::from(program.stage == MbsStage::Vertex)];
                    *n += 1;
                    if *n > 1 {
                        findings.error(at, format!("a second {} program", program.stage));
                    }
                    at = self::program(program, at, &mut findings);
                }
                RootPart::Unknown(chunk) => {
                    findings.warning(at, format!("unknown chunk {}", quoted(&chunk.tag)));
                    at += HEADER + chunk.body.len() as u64;
                }
            }
        }
        if seen == [0, 0] {
            findings.error(0, "neither a vertex nor a fragment program");
        }
        findings.into_vec()
    }
}

/// The program whose tag is at `at`. Returns the offset after it.
fn program(program: &MbsProgram, mut at: u64, findings: &mut Findings) -> u64 {
    if program.core_name().is_none() {
        findings.warning(at + HEADER, format!("unknown {} core {}", program.stage, program.core));
    }
    let code_len = program.code().map(<[u8]>::len);
    let codes = program.parts.iter().filter(|p| matches!(p, ProgramPart::Code(_))).count();
    match codes {
        0 => findings.error(at, format!("the {} program has no `DBIN`", program.stage)),
        1 if !matches!(program.parts.last(), Some(ProgramPart::Code(_))) => {
            findings.error(at, "`DBIN` is not the last chunk of its program");
        }
        1 => {}
        n => findings.error(at, format!("{n} chunks `DBIN` in one program")),
    }
    at += HEADER + 4;
    let mut tags: Vec<&str> = Vec::new();
    for part in &program.parts {
        let tag = tag(part);
        if let Some(tag) = tag.filter(|tag| *tag != "DBIN") {
            if tags.contains(&tag) {
                findings.error(at, format!("a second chunk `{tag}` in one program"));
            } else {
                tags.push(tag);
            }
        }
        self::part(program.stage, part, code_len, at, findings);
        at += written(|out| program_part(out, part));
    }
    at
}

/// Length of what `write` appends; the rest of a chunk too large to write is not checked.
fn written<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> u64 {
    let mut out = Vec::new();
    // The bytes are appended before the size fails.
    let _ = write(&mut out);
    out.len() as u64
}

fn tag(part: &ProgramPart) -> Option<&'static str> {
    Some(match part {
        ProgramPart::Stack { .. } => "FSTA",
        ProgramPart::Discard(_) => "FDIS",
        ProgramPart::Buffers(_) => "FBUU",
        ProgramPart::Instructions { .. } => "FINS",
        ProgramPart::Uniforms(_) => "SUNI",
        ProgramPart::Varyings(_) => "SVAR",
        ProgramPart::Attributes(_) => "SATT",
        ProgramPart::Code(_) => "DBIN",
        ProgramPart::Unknown(_) => return None,
    })
}

fn part(stage: MbsStage, part: &ProgramPart, code: Option<usize>, at: u64, findings: &mut Findings) {
    let body = at + HEADER;
    let foreign = match part {
        ProgramPart::Stack { .. } | ProgramPart::Discard(_) | ProgramPart::Buffers(_) => stage == MbsStage::Vertex,
        ProgramPart::Instructions { .. } | ProgramPart::Attributes(_) => stage == MbsStage::Fragment,
        _ => false,
    };
    if let Some(tag) = tag(part).filter(|_| foreign) {
        findings.warning(at, format!("`{tag}` in a {stage} program"));
    }
    match part {
        ProgramPart::Stack { size, offset } if (*size, *offset) != (1, 1) => {
            findings.warning(body, format!("stack size {size} and offset {offset}, 1 and 1 in known files"));
        }
        ProgramPart::Discard(flag) if *flag > 1 => {
            findings.warning(body, format!("the discard flag is {flag:#x}, neither 0 nor 1"));
        }
        ProgramPart::Buffers(b) if b[..6].iter().any(|&b| b > 1) || b[6..] != [0, 0] => {
            findings.warning(body, format!("`FBUU` has other bytes than six flags and two zeros: {b:02x?}"));
        }
        ProgramPart::Instructions { zero, count, attribute_prefetch } => {
            if *zero != 0 {
                findings.warning(body, format!("the first field of `FINS` is {zero:#x}, not 0"));
            }
            let real = code.unwrap_or(0) / GP_INSTRUCTION;
            if u64::from(*count) != real as u64 {
                findings.warning(body + 4, format!("{count} instructions announced, the code has {real}"));
            }
            if attribute_prefetch > count {
                let message = format!("attributes are read up to instruction {attribute_prefetch} of {count}");
                findings.error(body + 8, message);
            }
        }
        ProgramPart::Uniforms(t) => table(t, Kind::Uniform, at, findings),
        ProgramPart::Varyings(t) => table(t, Kind::Varying, at, findings),
        ProgramPart::Attributes(t) => table(t, Kind::Attribute, at, findings),
        ProgramPart::Code(code) if stage == MbsStage::Vertex => gp_code(code, body, findings),
        ProgramPart::Code(code) => pp_code(code, body, findings),
        ProgramPart::Unknown(chunk) if [*b"FSTA", *b"FDIS", *b"FBUU", *b"FINS"].contains(&chunk.tag) => {
            findings.error(at, format!("{} has an unexpected size, {:#x}", quoted(&chunk.tag), chunk.body.len()));
        }
        ProgramPart::Unknown(chunk) => findings.warning(at, format!("unknown chunk {}", quoted(&chunk.tag))),
        _ => {}
    }
}

fn gp_code(code: &[u8], at: u64, findings: &mut Findings) {
    if !code.len().is_multiple_of(GP_INSTRUCTION) {
        findings.error(at, format!("{:#x} bytes of code are no multiple of {GP_INSTRUCTION}", code.len()));
    }
    let n = code.len() / GP_INSTRUCTION;
    if n > MOST_GP_INSTRUCTIONS {
        findings.error(at, format!("{n} instructions, and a branch reaches {MOST_GP_INSTRUCTIONS}"));
    }
}

/// Follows the lengths in the control words. Each also announces the next one's length.
fn pp_code(code: &[u8], at: u64, findings: &mut Findings) {
    let (words, rest) = code.as_chunks::<4>();
    if !rest.is_empty() {
        findings.error(at, format!("{:#x} bytes of code are no multiple of 4", code.len()));
    }
    let (mut n, mut announced, mut stops) = (0, None, false);
    while n < words.len() {
        let here = at + 4 * n as u64;
        let word = u32::from_le_bytes(words[n]);
        let len = word & 31;
        if len == 0 {
            findings.error(here, "an instruction of length 0");
            return;
        }
        if let Some(announced) = announced.filter(|&a| a != len) {
            let message = format!("an instruction of {len} words, its predecessor announces {announced}");
            findings.error(here, message);
        }
        announced = Some(word >> 19 & 63);
        stops |= word >> 5 & 1 != 0;
        n += len as usize;
    }
    let end = at + 4 * words.len() as u64;
    if n > words.len() {
        findings.error(end, format!("the last instruction ends {} words after the code", n - words.len()));
    } else if let Some(next) = announced.filter(|&a| a != 0) {
        findings.error(end, format!("the last instruction announces another of {next} words"));
    }
    if !stops {
        findings.error(at, "no instruction has the stop bit");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uniform,
    Varying,
    Attribute,
}

fn table(table: &Table, kind: Kind, at: u64, findings: &mut Findings) {
    let symbols: Vec<&Symbol> = table.symbols().collect();
    if u64::from(table.count) != symbols.len() as u64 {
        let message = format!("{} symbols announced, the table has {}", table.count, symbols.len());
        findings.error(at + HEADER, message);
    }
    let tag = match kind {
        Kind::Uniform => b"VUNI",
        Kind::Varying => b"VVAR",
        Kind::Attribute => b"VATT",
    };
    let mut row_at = at + HEADER + if kind == Kind::Uniform { 8 } else { 4 };
    let mut extent = 0;
    for r in &table.rows {
        match r {
            Row::Unknown(chunk) => findings.warning(row_at, format!("unknown chunk {}", quoted(&chunk.tag))),
            Row::Symbol(symbol) => {
                self::symbol(symbol, kind, &symbols, row_at, findings);
                let entries = u64::from(symbol.entry_count.max(1));
                let last = u64::from(symbol.offset) + (entries - 1) * u64::from(symbol.src_stride);
                // Constants that the compiler makes are not counted in the space.
                if symbol.kind != STRUCT && symbol.initial().is_none() {
                    extent = extent.max(last + u64::from(symbol.component_size));
                }
            }
        }
        row_at += written(|out| row(out, tag, r));
    }
    if kind == Kind::Uniform && extent > u64::from(table.space) {
        findings.warning(at + HEADER + 4, format!("uniforms reach slot {extent}, beyond the space of {}", table.space));
    }
}

fn symbol(symbol: &Symbol, kind: Kind, all: &[&Symbol], at: u64, findings: &mut Findings) {
    let name = quoted(symbol.name());
    let padded = &symbol.padded_name;
    let record = at + 2 * HEADER + padded.len() as u64;
    if !padded.contains(&0) {
        findings.error(at + HEADER, format!("the name {name} has no zero byte at its end"));
    } else if padded[symbol.name().len()..].iter().any(|&b| b != 0) {
        findings.error(at + HEADER, format!("the padding of the name {name} is not zero"));
    }
    if !padded.len().is_multiple_of(4) {
        findings.error(at + HEADER, format!("the name {name} has {:#x} bytes, no multiple of 4", padded.len()));
    }
    if symbol.name().iter().any(|b| !(0x20..0x7F).contains(b)) {
        findings.warning(at + 2 * HEADER, format!("the name {name} is not printable ASCII"));
    }
    if symbol.zero != 0 {
        findings.warning(record, format!("the first byte of the record of {name} is {:#x}, not 0", symbol.zero));
    }
    if !matches!(symbol.kind, 1..=6 | 8 | 9) {
        findings.warning(record + 1, format!("{name} has the unknown type {}", symbol.kind));
    }
    if !(1..=3).contains(&symbol.precision) && symbol.kind != STRUCT {
        findings.warning(record + 11, format!("{name} has the unknown precision {}", symbol.precision));
    }
    if symbol.invariant > u32::from(kind != Kind::Attribute) {
        findings.warning(record + 12, format!("the field at +12 of {name} is {:#x}", symbol.invariant));
    }
    if kind != Kind::Attribute && symbol.parent != NO_PARENT {
        match all.get(usize::from(symbol.parent)) {
            None => findings.error(record + 18, format!("{name} has parent {}, beyond the table", symbol.parent)),
            // Compilers are known to number parents wrongly.
            Some(parent) if parent.kind != STRUCT => {
                findings.warning(record + 18, format!("the parent of {name}, {}, is no struct", quoted(parent.name())));
            }
            Some(_) => {}
        }
    }
    if symbol.offset == UNUSED && kind != Kind::Varying {
        findings.warning(record + 16, format!("{name} is no varying and has the offset of an unused one"));
    }
    for extra in &symbol.extras {
        match extra {
            Extra::Initial(values) => {
                let columns = if symbol.kind == 4 { symbol.component_count } else { 1 };
                let n = u64::from(symbol.component_count) * u64::from(columns) * u64::from(symbol.entry_count.max(1));
                if values.len() as u64 != n {
                    findings.warning(record, format!("{name} has {} initial values and {n} components", values.len()));
                }
            }
            Extra::Index(_) => {}
            Extra::Unknown(chunk) if [*b"VINI", *b"VIDX"].contains(&chunk.tag) => {
                findings.error(record, format!("{} of {name} does not have its announced size", quoted(&chunk.tag)));
            }
            Extra::Unknown(chunk) => findings.warning(record, format!("{name}: unknown chunk {}", quoted(&chunk.tag))),
        }
    }
}
