//! Bytes -> [`Vbc`]: each dialect's layout, and the choice of a dialect.

use super::{Base, Binding, Dialect, Interface, Member, SubpassInput, Uniform, ValueType, Vbc, rank_name, texel_name};
use crate::cursor::{Cursor, FormatError};
use crate::finding::quoted;

/// The first word of SPIR-V.
const SPIRV_MAGIC: [u8; 4] = 0x0723_0203u32.to_le_bytes();
/// A stage size is stored modulo this number of words.
const WRAP: u64 = 1 << 16;
/// Sizes of a subpass record: the right one, and objects of two C++ libraries.
const SUBPASS_RECORDS: [u64; 3] = [4, 48, 40];

impl Vbc {
    /// Reads a file of the first dialect that fits all of it.
    pub fn parse(bytes: &[u8]) -> Result<Vbc, FormatError> {
        let mut best: Option<(Dialect, bool, FormatError)> = None;
        for dialect in Dialect::ALL {
            let read = Vbc::parse_as(bytes, dialect);
            let is_whole = read.is_ok();
            let error = match read.map(|vbc| (vbc.misfit(), vbc)) {
                Ok((None, vbc)) => return Ok(vbc),
                Ok((Some(error), _)) | Err(error) => error,
            };
            // The most probable dialect fills the file exactly, or else fits its longest part.
            if best.as_ref().is_none_or(|(_, whole, b)| (is_whole, error.offset) > (*whole, b.offset)) {
                best = Some((dialect, is_whole, error));
            }
        }
        let (dialect, _, error) = best.expect("there are dialects");
        Err(FormatError::new(error.offset, format!("no dialect fits; {dialect} fits best: {}", error.message)))
    }

    /// Reads a file as one dialect. Odd values are findings of [`Vbc::verify`].
    pub fn parse_as(bytes: &[u8], dialect: Dialect) -> Result<Vbc, FormatError> {
        let mut file = Cursor::new(0, bytes);
        let Head { shader_type, sizes, tables, inputs, outputs, bindings, uniform } = Head::read(&mut file, dialect)?;
        let (subpass_inputs, lens) = subpass_inputs(&mut file, dialect, sizes)?;
        let mut modules: [Vec<u8>; 5] = Default::default();
        for (module, len) in modules.iter_mut().zip(lens) {
            *module = file.take(len, "the SPIR-V of a stage")?.to_vec();
        }
        if !file.is_at_end() {
            let message = format!("{:#x} bytes are left after the last stage", file.rest().len());
            return Err(FormatError::new(file.offset(), message));
        }
        Ok(Vbc { dialect, shader_type, tables, inputs, outputs, bindings, uniform, subpass_inputs, modules })
    }

    /// Bytes of the file that begins where `bytes` begin, whatever follows it; `None` without one, and
    /// for a file with a stage of 65,536 words and more, whose sizes do not tell where it ends.
    pub fn size(bytes: &[u8]) -> Option<usize> {
        let forms = Dialect::ALL.into_iter().flat_map(|dialect| SUBPASS_RECORDS.map(|record| (dialect, record)));
        forms.into_iter().find_map(|(dialect, record)| {
            let mut file = Cursor::new(0, bytes);
            let head = Head::read(&mut file, dialect).ok()?;
            let records = u64::from(file.u32("the number of subpass inputs").ok()?).checked_mul(record)?;
            let words: u64 = head.sizes.iter().map(|&size| u64::from(size)).sum();
            let end = file.offset().checked_add(records)?.checked_add(4 * words)?;
            let end = usize::try_from(end).ok()?;
            Vbc::parse(bytes.get(..end)?).is_ok().then_some(end)
        })
    }

    /// Why the values don't fit the dialect, as far as detection looks.
    fn misfit(&self) -> Option<FormatError> {
        let dialect = self.dialect;
        let mut at = if dialect == Dialect::A0 { 24 } else { 25 };
        let head = if dialect == Dialect::A0 { 1 } else { 4 };
        let error = |at, message: &str| Some(FormatError::new(at, message));
        if self.shader_type != 1 {
            return error(4, &format!("the shader type is {}, not 1", self.shader_type));
        }
        for (list, most, part) in [(&self.inputs, 16, "inputs"), (&self.outputs, 8, "outputs")] {
            if list.len() > most {
                return error(at, &format!("{} {part}, at most {most} are possible", list.len()));
            }
            at += head;
            for row in list {
                if let Some(n) = row.reserved.iter().position(|&b| b != 0) {
                    return error(at + 5 + n as u64, &format!("a reserved byte is {:#x}, not 0", row.reserved[n]));
                }
                if !Base::of(dialect, row.ty.base).is_some_and(Base::is_numeric) {
                    return error(at + 1, &format!("base type {} in the {part}", row.ty.base));
                }
                at += 8;
            }
        }
        if self.bindings.len() > 32 {
            return error(at, &format!("{} bindings, at most 32 are possible", self.bindings.len()));
        }
        at += head;
        for row in &self.bindings {
            let Some(base) = Base::of(dialect, row.base).filter(|b| b.table().is_some() || *b == Base::SubpassInput)
            else {
                return error(at + 1, &format!("base type {} in the bindings", row.base));
            };
            if let Some(n) = (2..4).find(|&n| base.is_buffer() && row.detail[n] != 0) {
                return error(at + 4 + n as u64, &format!("a reserved byte is {:#x}, not 0", row.detail[n]));
            }
            let [rank, texel, ..] = row.detail;
            if base.table().is_some()
                && !base.is_buffer()
                && let Some(wrong) = [
                    (4, rank_name(dialect, rank).is_none(), format!("rank {rank}")),
                    (5, texel_name(dialect, texel).is_none(), format!("texel type {texel}")),
                ]
                .into_iter()
                .find(|(_, is_wrong, _)| *is_wrong)
            {
                return error(at + wrong.0, &format!("{} in the bindings", wrong.2));
            }
            at += 8;
        }
        // Size, stage mask and number of members.
        let size = if dialect == Dialect::C { 2 } else { 4 };
        at += size + if self.uniform.is_some() { 6 } else { 0 };
        for member in self.uniform.iter().flat_map(|u| &u.members) {
            let name = &member.name;
            // Where its name begins, and its type.
            let (name_at, type_at) = match dialect {
                Dialect::C => (at + 1, at + 1 + name.len() as u64 + 2),
                Dialect::A2 => (at + 12, at + 4),
                _ => (at + 8, at),
            };
            let first = name.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
            if !first || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                let is_letter = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                let wrong = if first { name.iter().position(|b| !is_letter(b)).unwrap_or(0) } else { 0 };
                return error(
                    name_at + wrong as u64,
                    &format!("the name {} of a member is no identifier", quoted(name)),
                );
            }
            if member.ty.is_some_and(|ty| {
                !matches!(Base::of(dialect, ty.base), Some(Base::Boolean | Base::Signed | Base::Unsigned | Base::Float))
            }) {
                return error(type_at, &format!("the type of the member {} is no number", quoted(name)));
            }
            at += name.len() as u64
                + match dialect {
                    Dialect::C => 7,
                    Dialect::A2 => 12,
                    _ => 8,
                };
        }
        if self.subpass_inputs.len() > 4 {
            return error(at, &format!("{} subpass inputs, at most 4 are possible", self.subpass_inputs.len()));
        }
        at += 4;
        for input in &self.subpass_inputs {
            match input {
                SubpassInput::Plain { texel, .. } if texel_name(dialect, *texel).is_none() => {
                    return error(at, &format!("texel type {texel} of a subpass input"));
                }
                SubpassInput::Plain { reserved, .. } if *reserved != 0 => {
                    return error(at + 2, &format!("a reserved number is {reserved:#x}, not 0"));
                }
                SubpassInput::Plain { .. } => at += 4,
                SubpassInput::Dumped(bytes) => at += bytes.len() as u64,
            }
        }
        let offsets = self.module_offsets();
        let wrong = self.modules.iter().zip(offsets).find(|(m, _)| !m.is_empty() && !m.starts_with(&SPIRV_MAGIC));
        wrong.and_then(|(_, at)| error(at, "a stage does not begin with the magic of SPIR-V"))
    }
}

/// What precedes the subpass inputs.
struct Head {
    shader_type: u8,
    sizes: [u16; 5],
    tables: [u16; 5],
    inputs: Vec<Interface>,
    outputs: Vec<Interface>,
    bindings: Vec<Binding>,
    uniform: Option<Uniform>,
}

impl Head {
    fn read(file: &mut Cursor<'_>, dialect: Dialect) -> Result<Head, FormatError> {
        let magic = file.array::<4>("the magic")?;
        if magic != *b"VBC\x01" {
            let message = format!("the file should begin with \"VBC\\x01\", not \"{}\"", magic.escape_ascii());
            return Err(FormatError::new(0, message));
        }
        let shader_type = if dialect == Dialect::A0 { 1 } else { file.u8("the shader type")? };
        let mut sizes = [0; 5];
        for size in &mut sizes {
            *size = file.u16("the stage sizes")?;
        }
        let mut tables = [0; 5];
        for table in &mut tables {
            *table = file.u16("the binding table sizes")?;
        }
        Ok(Head {
            shader_type,
            sizes,
            tables,
            inputs: records(file, dialect, "the inputs", interface)?,
            outputs: records(file, dialect, "the outputs", interface)?,
            bindings: records(file, dialect, "the bindings", binding)?,
            uniform: uniform(file, dialect)?,
        })
    }
}

/// A table: its count, then eight bytes a record.
fn records<T>(
    file: &mut Cursor<'_>,
    dialect: Dialect,
    part: &str,
    record: impl Fn([u8; 8]) -> T,
) -> Result<Vec<T>, FormatError> {
    let count = if dialect == Dialect::A0 { file.u8(part)?.into() } else { file.u32(part)? };
    let bytes = file.take(u64::from(count) * 8, part)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|r| record(*r)).collect())
}

fn value_type([base, rows, columns, array]: [u8; 4]) -> ValueType {
    ValueType { base, rows, columns, array }
}

fn interface([location, base, rows, columns, array, r0, r1, r2]: [u8; 8]) -> Interface {
    Interface { location, ty: value_type([base, rows, columns, array]), reserved: [r0, r1, r2] }
}

fn binding([slot, base, mask0, mask1, d0, d1, d2, d3]: [u8; 8]) -> Binding {
    Binding { slot, base, stages: u16::from_le_bytes([mask0, mask1]), detail: [d0, d1, d2, d3] }
}

fn uniform(file: &mut Cursor<'_>, dialect: Dialect) -> Result<Option<Uniform>, FormatError> {
    let part = "the uniform block";
    let size = if dialect == Dialect::C { file.u16(part)?.into() } else { file.u32(part)? };
    if size == 0 {
        return Ok(None);
    }
    let stages = file.u16(part)?;
    let count = file.u32(part)?;
    // The shortest member has seven bytes.
    if u64::from(count) * 7 > file.rest().len() as u64 {
        let left = file.rest().len();
        return Err(FormatError::new(
            file.offset() - 4,
            format!("{count} members in the {left:#x} bytes that are left"),
        ));
    }
    let member = |_| member(file, dialect);
    Ok(Some(Uniform { size, stages, members: (0..count).map(member).collect::<Result<_, _>>()? }))
}

fn member(file: &mut Cursor<'_>, dialect: Dialect) -> Result<Member, FormatError> {
    let part = "a member of the uniform block";
    if dialect == Dialect::C {
        let len = file.u8(part)?;
        let name = file.take(len.into(), part)?.to_vec();
        let offset = file.u16(part)?.into();
        return Ok(Member { name, offset, ty: Some(value_type(file.array(part)?)) });
    }
    let offset = file.u32(part)?;
    let ty = if dialect == Dialect::A2 { Some(value_type(file.array(part)?)) } else { None };
    let len = file.u32(part)?;
    Ok(Member { name: file.take(len.into(), part)?.to_vec(), offset, ty })
}

type SubpassInputs = (Vec<SubpassInput>, [u64; 5]);

/// The subpass inputs, and the lengths of the stages. Together they determine the size of a record.
fn subpass_inputs(file: &mut Cursor<'_>, dialect: Dialect, sizes: [u16; 5]) -> Result<SubpassInputs, FormatError> {
    let at = file.offset();
    let count = file.u32("the number of subpass inputs")?;
    // Later compilers than those of A1 and A2 dump objects.
    let possible = if dialect == Dialect::C && count > 0 { &SUBPASS_RECORDS[..] } else { &SUBPASS_RECORDS[..1] };
    for &size in possible {
        let Some(bytes) = u64::from(count).checked_mul(size).filter(|&n| n <= file.rest().len() as u64) else {
            continue;
        };
        let Some(lens) = stage_lengths(&file.rest()[bytes as usize..], sizes) else { continue };
        let table = file.take(bytes, "the subpass inputs")?;
        let record = |r: &[u8]| match *r {
            [texel, count, a, b] => SubpassInput::Plain { texel, count, reserved: u16::from_le_bytes([a, b]) },
            _ => SubpassInput::Dumped(r.to_vec()),
        };
        return Ok((table.chunks_exact(size as usize).map(record).collect(), lens));
    }
    let words: u64 = sizes.iter().map(|&s| u64::from(s)).sum();
    let left = file.rest().len();
    let message =
        format!("{count} subpass inputs and stages of {words} words don't fill the {left:#x} bytes that are left");
    Err(FormatError::new(at, message))
}

/// The byte lengths of stages that fill `rest` exactly and have these sizes modulo [`WRAP`].
///
/// With wrapped sizes each stage ends as early as the next one can begin with the magic of SPIR-V.
/// Later ends leave less for the other stages, so the search needs no second attempt.
fn stage_lengths(rest: &[u8], sizes: [u16; 5]) -> Option<[u64; 5]> {
    let total: u64 = sizes.iter().map(|&s| u64::from(s)).sum();
    let missing = (rest.len() as u64).checked_sub(4 * total)?;
    if !missing.is_multiple_of(4 * WRAP) {
        return None;
    }
    let mut wraps = missing / (4 * WRAP);
    let mut lens = sizes.map(|s| 4 * u64::from(s));
    let present = |&n: &usize| sizes[n] != 0;
    let Some(last) = (0..5).rev().find(present) else { return (wraps == 0).then_some(lens) };
    let mut start = 0;
    for n in (0..last).filter(present) {
        let begins = |end: u64| rest.get(end as usize..).is_some_and(|r| r.starts_with(&SPIRV_MAGIC));
        // Without missing words the sizes are right, whatever the stages hold.
        let more = if wraps == 0 { 0 } else { (0..=wraps).find(|k| begins(start + lens[n] + 4 * WRAP * k))? };
        wraps -= more;
        lens[n] += 4 * WRAP * more;
        start += lens[n];
    }
    lens[last] += 4 * WRAP * wraps;
    Some(lens)
}
