//! A file -> [`Metallib`], in windows: header, function list, extension, metadata.

use super::tags::{Group, Tag, parse_groups, parse_tags};
use super::{HEADER, Header, Metallib, Part, Section, read_at};
use crate::cursor::{Cursor, FormatError};
use std::io::{Cursor as Bytes, Read, Seek, SeekFrom};

/// Tags of the extension that give a section.
pub(super) const SECTIONS: [[u8; 4]; 7] = [*b"HSRC", *b"HSRD", *b"HDYN", *b"VLST", *b"ILST", *b"RLST", *b"SLST"];

impl Metallib {
    /// Reads a whole library in memory.
    pub fn parse(bytes: &[u8]) -> Result<Metallib, FormatError> {
        Metallib::open(&mut Bytes::new(bytes))
    }

    /// Reads everything but modules, sources and reflection.
    ///
    /// Fails where sections leave the file or overlap, or where groups don't fill their section
    /// exactly. All other oddities are findings of [`Metallib::verify`].
    pub fn open(source: &mut (impl Read + Seek)) -> Result<Metallib, FormatError> {
        let len =
            source.seek(SeekFrom::End(0)).map_err(|e| FormatError::new(0, format!("the file can't be read: {e}")))?;
        let bytes = read_at(source, Section { offset: 0, size: HEADER.min(len) })?;
        let header = header(&mut Cursor::new(0, &bytes))?;
        let list = Section { offset: header.functions.offset, size: header.functions.size.saturating_add(4) };
        let fields = [
            (24, list, "the function list"),
            (40, header.public, "the public metadata"),
            (56, header.private, "the private metadata"),
            (72, header.modules, "the modules"),
        ];
        for (field, section, name) in fields {
            if section.offset < HEADER || section.end().is_none_or(|end| end > len) {
                return Err(outside(field, section, name, len));
            }
        }
        let list_end = list.offset + list.size;
        let sections = [header.public, header.private, header.modules].into_iter();
        let next = sections.map(|s| s.offset).filter(|&o| o >= list_end).min().unwrap_or(len);

        let functions = functions(source, list)?;
        let extent = Section { offset: list_end, size: next - list_end };
        let extension = extension(source, extent)?;
        let window = |source: &mut _, section: Section| {
            let bytes = read_at(source, section)?;
            parse_groups(Cursor::new(section.offset, &bytes))
        };
        let public = window(source, header.public)?;
        let private = window(source, header.private)?;

        let mut parts = vec![
            (Part::Functions, list),
            (Part::Public, header.public),
            (Part::Private, header.private),
            (Part::Modules, header.modules),
        ];
        parts.extend(extension.as_ref().map(|_| (Part::Extension, extent)));
        for tag in extension.iter().flatten().filter(|t| SECTIONS.contains(&t.name)) {
            let section = pointer(tag).filter(|s| s.end().is_some_and(|end| s.offset >= HEADER && end <= len));
            let name = format!("the section of the tag `{}`", tag.name.escape_ascii());
            let section = section.ok_or_else(|| outside(list_end, pointer(tag).unwrap_or_default(), &name, len))?;
            parts.push((Part::Tagged(tag.name), section));
        }
        let parts = in_order(parts, len)?;
        let mut library = Metallib { header, functions, extension, public, private, parts, module_starts: Vec::new() };
        let mut starts: Vec<u64> = library.functions().filter_map(|f| f.offsets()).map(|o| o[2]).collect();
        starts.sort_unstable();
        starts.dedup();
        library.module_starts = starts;
        Ok(library)
    }
}

fn outside(field: u64, section: Section, name: &str, len: u64) -> FormatError {
    let Section { offset, size } = section;
    FormatError::new(
        field,
        format!("{name}, {size:#x} bytes at {offset:#x}, is outside of the file, which has {len:#x}"),
    )
}

fn header(c: &mut Cursor<'_>) -> Result<Header, FormatError> {
    let part = "the header";
    let magic = c.array::<4>(part)?;
    if magic != *b"MTLB" {
        let message = format!("the file should begin with \"MTLB\", not \"{}\"", magic.escape_ascii());
        return Err(FormatError::new(0, message));
    }
    let [major, minor, patch] = [c.u16(part)?, c.u16(part)?, c.u16(part)?];
    let [file_type, platform] = c.array(part)?;
    let system = (c.u16(part)?, c.u8(part)?, c.u8(part)?);
    let file_size = c.u64(part)?;
    let mut section = || Ok::<_, FormatError>(Section { offset: c.u64(part)?, size: c.u64(part)? });
    let [functions, public, private, modules] = [section()?, section()?, section()?, section()?];
    Ok(Header { major, minor, patch, file_type, platform, system, file_size, functions, public, private, modules })
}

fn functions(source: &mut (impl Read + Seek), list: Section) -> Result<Vec<Group>, FormatError> {
    let bytes = read_at(source, list)?;
    let mut cursor = Cursor::new(list.offset, &bytes);
    let count = cursor.u32("the number of functions")?;
    let groups = parse_groups(cursor)?;
    if groups.len() as u64 != u64::from(count) {
        let message = format!("{count} functions announced, the list has {}", groups.len());
        return Err(FormatError::new(list.offset, message));
    }
    Ok(groups)
}

/// The bytes between function list and the next section: tags that fill them, or nothing.
fn extension(source: &mut (impl Read + Seek), extent: Section) -> Result<Option<Vec<Tag>>, FormatError> {
    if extent.size == 0 {
        return Ok(None);
    }
    let bytes = read_at(source, extent)?;
    let mut cursor = Cursor::new(extent.offset, &bytes);
    let tags = parse_tags(&mut cursor)?;
    if !cursor.is_at_end() {
        let message = format!("{:#x} bytes are left after the header extension", cursor.rest().len());
        return Err(FormatError::new(cursor.offset(), message));
    }
    Ok(Some(tags))
}

/// Offset and size in the body of a tag.
pub(super) fn pointer(tag: &Tag) -> Option<Section> {
    let body: &[u8; 16] = (&*tag.body).try_into().ok()?;
    let (words, _) = body.as_chunks::<8>();
    Some(Section { offset: u64::from_le_bytes(words[0]), size: u64::from_le_bytes(words[1]) })
}

/// The parts in the order of their offsets, with gaps between them. Empty ones are left out.
fn in_order(mut parts: Vec<(Part, Section)>, len: u64) -> Result<Vec<(Part, Section)>, FormatError> {
    parts.retain(|(_, section)| section.size > 0);
    parts.sort_by_key(|(_, section)| section.offset);
    let mut all = Vec::new();
    let mut at = HEADER;
    for (part, section) in parts {
        if section.offset < at {
            return Err(FormatError::new(section.offset, format!("{} overlaps the part before it", part.name())));
        }
        if section.offset > at {
            all.push((Part::Gap, Section { offset: at, size: section.offset - at }));
        }
        at = section.offset + section.size;
        all.push((part, section));
    }
    if at < len {
        all.push((Part::Gap, Section { offset: at, size: len - at }));
    }
    Ok(all)
}

impl Part {
    pub(super) fn name(self) -> String {
        match self {
            Part::Functions => "the function list".into(),
            Part::Extension => "the header extension".into(),
            Part::Public => "the public metadata".into(),
            Part::Private => "the private metadata".into(),
            Part::Modules => "the module section".into(),
            Part::Tagged(name) => format!("the section of the tag `{}`", name.escape_ascii()),
            Part::Gap => "a gap".into(),
        }
    }
}
