//! Metal libraries, MTLB <-> [`Metallib`]: functions with metadata, and one bitcode module each.
//!
//! [`Metallib::open`] reads header, function list and metadata. Modules, sources and reflection stay
//! in the file until a call needs them, so a library of hundreds of MiB opens at once. The model
//! keeps every tag in order. Bytes that it does not interpret are extents of the file.

pub mod bitcode;
mod bits;
mod ident;
mod metadata;
mod parse;
pub mod sources;
mod strip;
mod tags;
mod verify;
mod write;

#[cfg(test)]
mod handmade;
#[cfg(test)]
mod tests;

pub use metadata::{Constant, VertexAttribute, data_type_name};
pub use strip::Strip;
pub use tags::{Group, Tag};

use crate::cursor::{Cursor, FormatError};
use sources::Sources;
use std::io::{Read, Seek, SeekFrom};

/// Bytes of the header.
const HEADER: u64 = 88;

/// An extent: a section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Section {
    /// Absolute offset.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl Section {
    /// The offset after it; `None` if that has more than 64 bits.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Container major version in bits 0-14; bit 15 is set for macOS and Catalyst.
    pub major: u16,
    /// Container minor version, 2.
    pub minor: u16,
    /// Container patch version.
    pub patch: u16,
    /// File type in bits 0-6, see [`Header::file_type_name`]; bit 7 marks a stub.
    pub file_type: u8,
    /// Platform in bits 0-6, see [`Header::platform_name`]; bit 7 marks 64 bits. 0 before 1.2.6.
    pub platform: u8,
    /// Version of the system: major, minor, patch. 0 before 1.2.6.
    pub system: (u16, u8, u8),
    /// Size of the file.
    pub file_size: u64,
    /// Function list. Its size excludes the count at its start.
    pub functions: Section,
    /// Public metadata.
    pub public: Section,
    /// Private metadata.
    pub private: Section,
    /// Modules.
    pub modules: Section,
}

impl Header {
    /// The version of the container: `1.2.7`.
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.major & 0x7FFF, self.minor, self.patch)
    }

    /// The file type by name.
    pub fn file_type_name(&self) -> String {
        let name = match self.file_type & 0x7F {
            0 => "executable",
            1 => "Core Image",
            2 => "dynamic",
            3 => "symbol companion",
            n => return format!("type {n}"),
        };
        if self.file_type & 0x80 != 0 { format!("{name}, stub") } else { name.into() }
    }

    /// The platform by name; before 1.2.6 only the family is stored.
    pub fn platform_name(&self) -> String {
        let name = match self.platform & 0x7F {
            0 if self.major & 0x8000 != 0 => "macOS or Catalyst",
            0 => "iOS, tvOS, watchOS or a simulator",
            1 => "macOS",
            2 => "iOS",
            3 => "tvOS",
            4 => "watchOS",
            5 => "bridgeOS",
            6 => "macCatalyst",
            7 => "iOS simulator",
            8 => "tvOS simulator",
            9 => "watchOS simulator",
            10 => "DriverKit",
            11 => "visionOS",
            12 => "visionOS simulator",
            n => return format!("platform {n}"),
        };
        match self.system {
            (0, 0, 0) => name.into(),
            (major, minor, 0) => format!("{name} {major}.{minor}"),
            (major, minor, patch) => format!("{name} {major}.{minor}.{patch}"),
        }
    }
}

/// What a part of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Functions,
    Extension,
    Public,
    Private,
    Modules,
    /// A section that the extension's tag of this name gives.
    Tagged([u8; 4]),
    /// Bytes that no field gives.
    Gap,
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metallib {
    /// Its header.
    pub header: Header,
    functions: Vec<Group>,
    extension: Option<Vec<Tag>>,
    public: Vec<Group>,
    private: Vec<Group>,
    /// The whole file after the header, in the order of offsets.
    parts: Vec<(Part, Section)>,
    /// Distinct offsets of modules, ascending.
    module_starts: Vec<u64>,
}

/// A function of a library.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    group: &'a Group,
}

impl Metallib {
    /// The functions in file order.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Function<'_>> {
        self.functions.iter().map(|group| Function { group })
    }

    /// Tags of the header extension, in file order; `None` if the file has no extension.
    pub fn extension(&self) -> Option<&[Tag]> {
        self.extension.as_deref()
    }

    /// The section that the extension's tag `name` gives.
    pub fn tagged_section(&self, name: [u8; 4]) -> Option<Section> {
        self.parts.iter().find(|(part, _)| *part == Part::Tagged(name)).map(|(_, section)| *section)
    }

    /// The section of embedded sources, and whether it names the working directory.
    pub fn source_section(&self) -> Option<(Section, bool)> {
        let tagged = |name| self.tagged_section(name);
        tagged(*b"HSRC").map(|s| (s, false)).or_else(|| tagged(*b"HSRD").map(|s| (s, true)))
    }

    /// The embedded sources; `None` if the library has none.
    pub fn sources(&self, source: &mut (impl Read + Seek)) -> Option<Result<Sources, FormatError>> {
        let (section, has_directory) = self.source_section()?;
        let bytes = read_at(source, section);
        Some(bytes.and_then(|bytes| Sources::parse(section.offset, &bytes, has_directory)))
    }

    /// Names in the section of the tag `HDYN`: `NAME` is the library's own, `DYNL` those it is linked
    /// to. `None` if there is no such section.
    pub fn dynamic(&self, source: &mut (impl Read + Seek)) -> Option<Result<Vec<Tag>, FormatError>> {
        let section = self.tagged_section(*b"HDYN")?;
        let tags = |bytes: Vec<u8>| tags::parse_tags(&mut Cursor::new(section.offset, &bytes));
        Some(read_at(source, section).and_then(tags))
    }

    /// Public or private metadata of a function.
    pub fn metadata(&self, function: Function<'_>, is_public: bool) -> Option<&Group> {
        let (groups, section, n) = match is_public {
            true => (&self.public, self.header.public, 0),
            false => (&self.private, self.header.private, 1),
        };
        let offset = section.offset.checked_add(function.offsets()?[n])?;
        // Groups are in the order of their offsets.
        groups.binary_search_by_key(&offset, |g| g.offset).ok().map(|n| &groups[n])
    }

    /// The extent of a function's module in the file. Where the file stores no size, the module ends
    /// where the next one begins.
    pub fn module_extent(&self, function: Function<'_>) -> Option<Section> {
        let start = function.offsets()?[2];
        let rest = self.header.modules.size.checked_sub(start)?;
        let size = match function.group.u64(b"MDSZ") {
            Some(size) => size,
            None => {
                let next = self.module_starts.partition_point(|&s| s <= start);
                self.module_starts.get(next).map_or(rest, |next| next - start)
            }
        };
        (size <= rest).then_some(Section { offset: self.header.modules.offset + start, size })
    }

    /// The bytes of a function's module: bitcode with its wrapper.
    pub fn module(&self, source: &mut (impl Read + Seek), function: Function<'_>) -> Result<Vec<u8>, FormatError> {
        let extent = self.module_extent(function);
        let extent =
            extent.ok_or_else(|| FormatError::new(function.group.offset, "the module is outside of its section"))?;
        read_at(source, extent)
    }
}

impl<'a> Function<'a> {
    /// All tags.
    pub fn group(&self) -> &'a Group {
        self.group
    }

    /// The name without its zero byte.
    pub fn name(&self) -> &'a [u8] {
        let body = self.group.tag(b"NAME").unwrap_or(&[]);
        body.strip_suffix(&[0]).unwrap_or(body)
    }

    /// The type by name: `vertex`, `kernel`.
    pub fn type_name(&self) -> String {
        const NAMES: [&str; 9] =
            ["vertex", "fragment", "kernel", "unqualified", "visible", "extern", "intersection", "mesh", "object"];
        match self.group.tag(b"TYPE") {
            Some(&[n]) => NAMES.get(usize::from(n)).map_or_else(|| format!("type {n}"), |name| (*name).into()),
            _ => "unknown".into(),
        }
    }

    /// The hash of the module.
    pub fn hash(&self) -> Option<[u8; 32]> {
        self.group.tag(b"HASH")?.try_into().ok()
    }

    /// Offsets in public metadata, private metadata and modules.
    pub fn offsets(&self) -> Option<[u64; 3]> {
        let body: &[u8; 24] = self.group.tag(b"OFFT")?.try_into().ok()?;
        let (words, _) = body.as_chunks::<8>();
        Some([0, 1, 2].map(|n| u64::from_le_bytes(words[n])))
    }

    /// Versions of AIR and of the Metal language: `2.5` or `2.5.1`.
    pub fn versions(&self) -> Option<[String; 2]> {
        let &[a0, a1, a2, a3, m0, m1, m2, m3] = self.group.tag(b"VERS")? else { return None };
        let version = |major: [u8; 2], minor, patch| match patch {
            0 => format!("{}.{minor}", u16::from_le_bytes(major)),
            _ => format!("{}.{minor}.{patch}", u16::from_le_bytes(major)),
        };
        Some([version([a0, a1], a2, a3), version([m0, m1], m2, m3)])
    }

    /// Tessellation: patch type (1 triangle, 2 quad) and control points.
    pub fn tessellation(&self) -> Option<(u8, u8)> {
        if let Some(&[n]) = self.group.tag(b"TESS") { Some((n & 3, n >> 2)) } else { None }
    }
}

/// Bytes of an extent of the file. A file that is shorter than it was is an error.
pub(crate) fn read_at(source: &mut (impl Read + Seek), extent: Section) -> Result<Vec<u8>, FormatError> {
    let fail = |error: std::io::Error| FormatError::new(extent.offset, format!("the file can't be read: {error}"));
    let len = source.seek(SeekFrom::End(0)).map_err(fail)?;
    let cut =
        |at| FormatError::new(at, format!("the file is cut off at {at:#x}, {:#x} bytes were to be read", extent.size));
    if extent.end().is_none_or(|end| end > len) {
        return Err(cut(len));
    }
    source.seek(SeekFrom::Start(extent.offset)).map_err(fail)?;
    let mut bytes = Vec::with_capacity(extent.size as usize);
    source.by_ref().take(extent.size).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 != extent.size {
        return Err(cut(extent.offset + bytes.len() as u64));
    }
    Ok(bytes)
}
