//! A Metal library -> JSON: header, sections, and every tag with its body. Modules, sources and
//! reflection are shown by their extents.

use super::record::{Field, Form, Record, Unusual, View, blob, magic, number, numbers, text};
use super::{FIELD, VALUE};
use picajit_containers::metallib::{Group, Metallib, Section, Tag};
use serde_json::{Map, Value, json};

const HEADER: Record = Record {
    at: 0,
    name: "header",
    fields: &[
        magic(),
        number(0x04, 2, "major", "major version; bit 15 for macOS", View::Always),
        number(0x06, 2, "minor", "minor version", View::Always),
        number(0x08, 2, "patch", "patch version", View::Always),
        number(0x0A, 1, "file_type", "file type; bit 7: stub", View::Always),
        number(0x0B, 1, "platform", "platform; bit 7: 64 bits", View::Always),
        number(0x0C, 2, "system_major", "version of the system", View::Always),
        number(0x0E, 1, "system_minor", "version of the system, minor", View::Always),
        number(0x0F, 1, "system_patch", "version of the system, patch", View::Always),
        number(0x10, 8, "file_size", "file size", View::Layout),
        number(0x18, 8, "functions_offset", "functions: offset", View::Layout),
        number(0x20, 8, "functions_size", "functions: size", View::Layout),
        number(0x28, 8, "public_offset", "public metadata: offset", View::Layout),
        number(0x30, 8, "public_size", "public metadata: size", View::Layout),
        number(0x38, 8, "private_offset", "private metadata: offset", View::Layout),
        number(0x40, 8, "private_size", "private metadata: size", View::Layout),
        number(0x48, 8, "modules_offset", "modules: offset", View::Layout),
        number(0x50, 8, "modules_size", "modules: size", View::Layout),
    ],
};
const TYPE: Record = Record { at: 0, name: "TYPE", fields: &[number(0, 1, "type", "type", View::Always)] };
const HASH: Record = Record {
    at: 0,
    name: "HASH",
    fields: &[Field { at: 0, form: Form::Hex(32), key: "sha256", name: "SHA-256 of the module", view: View::Always }],
};
const OFFT: Record = Record {
    at: 0,
    name: "OFFT",
    fields: &[numbers(0, (3, 8), "offsets", "offsets in public, private, modules", View::Always)],
};
const VERS: Record = Record {
    at: 0,
    name: "VERS",
    fields: &[
        number(0, 2, "air_major", "version of AIR", View::Always),
        numbers(2, (2, 1), "air_minor", "version of AIR, minor and patch", View::Always),
        number(4, 2, "metal_major", "version of the language", View::Always),
        numbers(6, (2, 1), "metal_minor", "version of the language, minor and patch", View::Always),
    ],
};
const MDSZ: Record =
    Record { at: 0, name: "MDSZ", fields: &[number(0, 8, "size", "size of the module", View::Always)] };
const SOFF: Record =
    Record { at: 0, name: "SOFF", fields: &[number(0, 8, "offset", "offset in the sources", View::Layout)] };
const RFLT: Record =
    Record { at: 0, name: "RFLT", fields: &[number(0, 8, "offset", "offset in the reflection", View::Layout)] };
const TESS: Record = Record {
    at: 0,
    name: "TESS",
    fields: &[number(0, 1, "tessellation", "patch type and control points", View::Always)],
};
const LAYR: Record =
    Record { at: 0, name: "LAYR", fields: &[number(0, 1, "layer_type", "type of the layer", View::Always)] };
const SECTION: Record = Record {
    at: 0,
    name: "HSRC, HSRD, RLST, HDYN, VLST, ILST, SLST",
    fields: &[
        number(0, 8, "offset", "offset of the section", View::Layout),
        number(8, 8, "size", "size of the section", View::Layout),
    ],
};
const UUID: Record = Record {
    at: 0,
    name: "UUID",
    fields: &[Field { at: 0, form: Form::Hex(16), key: "uuid", name: "16 bytes", view: View::Always }],
};

/// Every record of the format.
#[cfg(test)]
pub const RECORDS: [&Record; 12] =
    [&HEADER, &TYPE, &HASH, &OFFT, &VERS, &MDSZ, &SOFF, &RFLT, &TESS, &LAYR, &SECTION, &UUID];

fn record(tag: [u8; 4]) -> Option<&'static Record> {
    Some(match &tag {
        b"TYPE" => &TYPE,
        b"HASH" => &HASH,
        b"OFFT" => &OFFT,
        b"VERS" => &VERS,
        b"MDSZ" => &MDSZ,
        b"SOFF" => &SOFF,
        b"RFLT" => &RFLT,
        b"TESS" => &TESS,
        b"LAYR" => &LAYR,
        b"HSRC" | b"HSRD" | b"RLST" | b"HDYN" | b"VLST" | b"ILST" | b"SLST" => &SECTION,
        b"UUID" => &UUID,
        _ => return None,
    })
}

/// The fields of a library of `size` bytes whose first ones are `header`. Functions may share
/// metadata, so those after the memory's end are left out.
pub fn fields(library: &Metallib, header: &[u8], size: u64) -> (Map<String, Value>, Vec<Unusual>) {
    let mut unusual = Vec::new();
    let mut map = Map::from_iter([("format".into(), json!("MTLB"))]);
    map.extend(HEADER.read(header, 0, &mut unusual).unwrap_or_default());
    let h = &library.header;
    let row = |name: &str, s: Section| json!({ "section": name, "offset": s.offset, "size": s.size });
    let mut sections = vec![
        row("functions", h.functions),
        row("public metadata", h.public),
        row("private metadata", h.private),
        row("modules", h.modules),
    ];
    for tag in library.extension().unwrap_or_default() {
        if let Some(section) = library.tagged_section(tag.name) {
            sections.push(row(&tag.name.escape_ascii().to_string(), section));
        }
    }
    map.insert("sections".into(), sections.into());
    let extension = library.extension().filter(|tags| memory_of(tags) <= super::memory(size));
    map.insert("extension".into(), extension.map(tags).into());
    let left = super::memory(size).checked_sub(extension.map_or(0, memory_of));
    let (mut left, mut all) = (left.unwrap_or(0), Vec::new());
    for function in library.functions() {
        let metadata = [true, false].map(|is_public| library.metadata(function, is_public));
        let groups = metadata.iter().flatten().map(|group| memory_of(&group.tags));
        let Some(rest) = left.checked_sub(memory_of(&function.group().tags) + groups.sum::<usize>()) else { break };
        left = rest;
        let [public, private] = metadata.map(|g| g.map(group));
        let mut json = group(function.group());
        json["public"] = public.into();
        json["private"] = private.into();
        all.push(json);
    }
    map.insert("functions".into(), all.into());
    (map, unusual)
}

/// Memory of the JSON of a group. Arrays and objects grow by doubling.
fn memory_of(tags: &[Tag]) -> usize {
    let record = |tag: &Tag| record(tag.name).map_or(0, |record| 2 * record.memory());
    // A row of a list has two bytes at least, those of types one.
    let rows = |tag: &Tag| match &tag.name {
        b"CNST" | b"VATT" => tag.body.len() / 2 * (VALUE + 5 * FIELD),
        b"VATY" => tag.body.len() * 2 * VALUE,
        _ => 0,
    };
    let tag = |tag: &Tag| 3 * VALUE + 8 * FIELD + 4 * tag.body.len() + record(tag) + rows(tag);
    3 * VALUE + 6 * FIELD + tags.iter().map(tag).sum::<usize>()
}

fn group(group: &Group) -> Value {
    json!({ "at": group.offset, "counts_itself": group.counts_itself, "tags": tags(&group.tags) })
}

fn tags(tags: &[Tag]) -> Value {
    tags.iter().map(tag).collect()
}

pub(super) fn tag(tag: &Tag) -> Value {
    let mut map = Map::from_iter([("tag".into(), text(&tag.name))]);
    match record(tag.name).filter(|record| record.size() == tag.body.len()) {
        Some(record) => map.extend(record.read(&tag.body, 0, &mut Vec::new()).unwrap_or_default()),
        None if matches!(&tag.name, b"NAME" | b"DEPF" | b"DYNL") => drop(map.insert("text".into(), text(&tag.body))),
        None => match listed(tag) {
            Some(fields) => map.extend(fields),
            None => drop(map.insert("body".into(), blob(&tag.body))),
        },
    }
    map.into()
}

/// The fields of a tag whose size depends on names; `None` if they don't fill its body.
fn listed(tag: &Tag) -> Option<Map<String, Value>> {
    let mut body = Body(&tag.body);
    let (key, value) = match &tag.name {
        b"CNST" => (
            "constants",
            body.rows(|body| {
                let name = body.name()?;
                let [data_type, index, active] = [body.number(1)?, body.number(2)?, body.number(1)?];
                Some(json!({ "name": name, "type": data_type, "index": index, "active": active }))
            })?,
        ),
        b"VATT" => (
            "attributes",
            body.rows(|body| {
                let (name, bits) = (body.name()?, body.number(2)?);
                Some(json!({ "name": name, "index": bits & 0x1FFF, "usage": bits >> 13 & 3, "active": bits >> 15 }))
            })?,
        ),
        b"VATY" => ("types", body.rows(|body| Some(json!(body.number(1)?)))?),
        b"DEBI" => ("source", json!({ "line": body.number(4)?, "path": body.name()? })),
        _ => return None,
    };
    body.0.is_empty().then(|| Map::from_iter([(key.into(), value)]))
}

/// What is left of a tag's body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn number(&mut self, size: usize) -> Option<u64> {
        let (bytes, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    /// A name, without its zero.
    fn name(&mut self) -> Option<Value> {
        let end = self.0.iter().position(|&b| b == 0)?;
        let name = text(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Some(name)
    }

    /// Rows after their number.
    fn rows(&mut self, row: impl Fn(&mut Self) -> Option<Value>) -> Option<Value> {
        let count = self.number(2)?;
        (0..count).map(|_| row(self)).collect()
    }
}
