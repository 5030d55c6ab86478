//! [`Metallib`] -> [`Finding`]s. Reads modules, sources and reflection from the file.

use super::sources::{Sources, archive};
use super::tags::{Group, parse_groups};
use super::write::windows;
use super::{Function, Metallib, Part, Section, bitcode, read_at};
use crate::cursor::{Cursor, FormatError};
use crate::finding::{Finding, Findings, quoted};
use sha2::{Digest, Sha256};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

/// Hashed bytes may exceed the module section by this factor, for libraries that share modules.
const MOST_SHARING: u64 = 4;
/// The file type of a Core Image library.
const CORE_IMAGE: u8 = 1;
/// Bytes at both ends of a module that its checks look at.
const WRAPPER: u64 = 24;

impl Metallib {
    /// Checks every rule of the format beyond its grammar, hashes included.
    ///
    /// An error means that the file could not be read, not that a rule is broken.
    pub fn verify(&self, source: &mut (impl Read + Seek)) -> Result<Vec<Finding>, FormatError> {
        let mut findings = Findings::default();
        let f = &mut findings;
        self.verify_header(f);
        for (part, section) in &self.parts {
            if *part == Part::Gap {
                f.warning(section.offset, format!("{:#x} bytes belong to no part", section.size));
            }
        }
        let reflection = self.reflection_groups(source, f)?;
        let sources = self.source_groups(source, f)?;
        if let Some(Err(e)) = self.dynamic(source) {
            f.error(e.offset, e.message);
        }
        let mut names = HashSet::new();
        for function in self.functions() {
            self.verify_function(function, &reflection, &sources, f);
            if !names.insert(function.name()) {
                f.warning(function.group.offset, format!("a second function {}", quoted(function.name())));
            }
        }
        for group in self.functions.iter().chain(&self.public).chain(&self.private) {
            repeated(group, f);
        }
        // By group, not by function: functions may share one.
        self.public.iter().for_each(|group| verify_public(group, f));
        self.verify_modules(source, f)?;
        Ok(findings.into_vec())
    }

    fn verify_header(&self, f: &mut Findings) {
        let h = &self.header;
        if (h.major & 0x7FFF, h.minor) != (1, 2) || !(2..=9).contains(&h.patch) {
            f.warning(4, format!("unknown version {}", h.version()));
        }
        let len = self.parts.last().and_then(|(_, s)| s.end()).unwrap_or(super::HEADER);
        if h.file_size != len {
            f.error(16, format!("the header announces {:#x} bytes, the file has {len:#x}", h.file_size));
        }
        if h.file_type & 0x7F > 3 {
            f.warning(10, format!("unknown file type {}", h.file_type & 0x7F));
        }
        if h.platform & 0x7F > 12 {
            f.warning(11, format!("unknown platform {}", h.platform & 0x7F));
        }
    }

    /// Offsets of the groups of reflection in their section.
    fn reflection_groups(
        &self,
        source: &mut (impl Read + Seek),
        f: &mut Findings,
    ) -> Result<HashSet<u64>, FormatError> {
        let Some(section) = self.tagged_section(*b"RLST") else { return Ok(HashSet::new()) };
        let bytes = read_at(source, section)?;
        let mut c = Cursor::new(section.offset, &bytes);
        let groups = c.u32("the number of reflection groups").and_then(|count| Ok((count, parse_groups(c)?)));
        match groups {
            Err(e) => f.error(e.offset, e.message),
            Ok((count, groups)) => {
                if u64::from(count) != groups.len() as u64 {
                    f.error(
                        section.offset,
                        format!("{count} reflection groups announced, the section has {}", groups.len()),
                    );
                }
                return Ok(groups.iter().map(|g| g.offset - section.offset).collect());
            }
        }
        Ok(HashSet::new())
    }

    /// Offsets of the tags `SARC` in the section of sources.
    fn source_groups(&self, source: &mut (impl Read + Seek), f: &mut Findings) -> Result<HashSet<u64>, FormatError> {
        let Some((section, has_directory)) = self.source_section() else { return Ok(HashSet::new()) };
        let bytes = read_at(source, section)?;
        match Sources::parse(section.offset, &bytes, has_directory) {
            Err(e) => f.error(e.offset, e.message),
            Ok(sources) => {
                for group in &sources.archives {
                    if !archive(group).is_some_and(|(_, packed)| packed.starts_with(b"BZh")) {
                        f.error(group.offset, "an archive of sources is not compressed by bzip2");
                    }
                }
                return Ok(sources.archives.iter().map(|g| g.offset + 4 - section.offset).collect());
            }
        }
        Ok(HashSet::new())
    }

    fn verify_function(
        &self,
        function: Function<'_>,
        reflection: &HashSet<u64>,
        sources: &HashSet<u64>,
        f: &mut Findings,
    ) {
        let group = function.group;
        let at = group.offset;
        let name = quoted(function.name());
        let stored = group.tag(b"NAME").unwrap_or(&[]);
        if stored.iter().position(|&b| b == 0) != stored.len().checked_sub(1) {
            f.error(at, format!("the name {name} does not have one zero byte, at its end"));
        }
        for (tag, len) in [
            (b"TYPE", 1),
            (b"HASH", 32),
            (b"OFFT", 24),
            (b"VERS", 8),
            (b"MDSZ", 8),
            (b"SOFF", 8),
            (b"RFLT", 8),
            (b"TESS", 1),
            (b"LAYR", 1),
        ] {
            match group.tag(tag) {
                Some(body) if body.len() != len => {
                    f.error(at, format!("{name}: {} has {} bytes, not {len}", quoted(tag), body.len()));
                }
                None if matches!(tag, b"HASH" | b"OFFT" | b"VERS") => {
                    f.error(at, format!("{name} has no {}", quoted(tag)))
                }
                None if tag == b"TYPE" => f.warning(at, format!("{name} has no type")),
                _ => {}
            }
        }
        const KNOWN: [&[u8; 4]; 10] =
            [b"NAME", b"TYPE", b"HASH", b"OFFT", b"VERS", b"MDSZ", b"SOFF", b"RFLT", b"TESS", b"LAYR"];
        for tag in group.tags.iter().filter(|t| !KNOWN.contains(&&t.name)) {
            f.warning(at, format!("{name}: unknown tag {}", quoted(&tag.name)));
        }
        if let Some(&[n]) = group.tag(b"TYPE")
            && n > 8
        {
            f.warning(at, format!("{name} has the unknown type {n}"));
        }
        if function.offsets().is_some() {
            for (is_public, what) in [(true, "public"), (false, "private")] {
                if self.metadata(function, is_public).is_none() {
                    f.error(at, format!("the {what} metadata of {name} are at no group"));
                }
            }
        }
        for (tag, groups) in [(b"RFLT", reflection), (b"SOFF", sources)] {
            if let Some(offset) = group.u64(tag).filter(|o| !groups.contains(o)) {
                f.error(at, format!("{name}: {} gives {offset:#x}, where no group is", quoted(tag)));
            }
        }
    }

    fn verify_modules(&self, source: &mut (impl Read + Seek), f: &mut Findings) -> Result<(), FormatError> {
        let section = self.header.modules;
        let mut hashes: HashMap<(u64, u64), [u8; 32]> = HashMap::new();
        let mut budget = section.size.saturating_mul(MOST_SHARING);
        for function in self.functions() {
            let (at, name) = (function.group.offset, quoted(function.name()));
            let Some(extent) = self.module_extent(function) else {
                f.error(at, format!("the module of {name} is outside of the module section"));
                continue;
            };
            let key = (extent.offset, extent.size);
            if let Entry::Vacant(entry) = hashes.entry(key) {
                let Some(left) = budget.checked_sub(extent.size) else {
                    f.error(at, format!("modules overlap to more than {MOST_SHARING} times their section"));
                    return Ok(());
                };
                budget = left;
                entry.insert(hash(source, extent)?);
                verify_wrapper(source, extent, &name, f)?;
            }
            if function.hash().is_some_and(|h| h != hashes[&key]) {
                let message = format!("the hash of the module of {name} is wrong");
                if self.header.file_type & 0x7F == CORE_IMAGE {
                    f.warning(at, format!("{message}; what Core Image libraries hash is not known"));
                } else {
                    f.error(at, message);
                }
            }
        }
        let distinct: HashSet<u64> = hashes.keys().map(|k| k.0).collect();
        let used: u64 = hashes.keys().map(|k| k.1).fold(0, u64::saturating_add);
        if distinct.len() == hashes.len() && used != section.size {
            f.warning(section.offset, format!("modules have {used:#x} bytes, their section has {:#x}", section.size));
        }
        Ok(())
    }
}

fn verify_public(group: &Group, f: &mut Findings) {
    let (attributes, constants) = (group.vertex_attributes(), group.constants());
    for (tag, is_damaged) in [(b"CNST", constants.is_none()), (b"VATT", attributes.is_none())] {
        if group.tag(tag).is_some() && is_damaged {
            f.error(group.offset, format!("the tag {} is damaged", quoted(tag)));
        }
    }
    if let (Some(attributes), Some(types)) = (attributes, group.tag(b"VATY"))
        && types.len() != 2 + attributes.len()
    {
        f.error(group.offset, format!("{} attributes, `VATY` has {} bytes", attributes.len(), types.len()));
    }
}

fn repeated(group: &Group, f: &mut Findings) {
    let mut names = HashSet::new();
    for tag in &group.tags {
        if !names.insert(tag.name) {
            f.warning(group.offset, format!("a second tag {} in a group", quoted(&tag.name)));
        }
    }
}

fn hash(source: &mut (impl Read + Seek), extent: Section) -> Result<[u8; 32], FormatError> {
    let mut sha = Sha256::new();
    windows(source, extent, |bytes| {
        sha.update(bytes);
        Ok(())
    })?;
    Ok(sha.finalize().into())
}

/// The wrapper around a module's bitcode and the padding after it.
fn verify_wrapper(
    source: &mut (impl Read + Seek),
    extent: Section,
    name: &str,
    f: &mut Findings,
) -> Result<(), FormatError> {
    let head = read_at(source, Section { size: extent.size.min(WRAPPER), ..extent })?;
    let word = |n: usize| head.get(4 * n..).and_then(|b| b.first_chunk()).map_or(0, |w| u32::from_le_bytes(*w));
    let end = 20 + u64::from(word(3));
    let padding = extent.size.saturating_sub(end);
    if head.starts_with(b"BC\xC0\xDE") {
        f.warning(extent.offset, format!("the module of {name} has no wrapper"));
    } else if padding > 15 || end > extent.size {
        f.error(
            extent.offset + 12,
            format!("the module of {name} has {:#x} bytes, its wrapper announces {end:#x}", extent.size),
        );
    } else {
        // Without the bitcode itself, wrapper and padding are a module of their own.
        let tail = read_at(source, Section { offset: extent.offset + end, size: padding })?;
        let mut short = head.clone();
        short.truncate(24);
        if short.len() == 24 {
            short[12..16].copy_from_slice(&4u32.to_le_bytes());
        }
        short.extend(tail);
        if let Err(e) = bitcode::unwrapped(&short) {
            f.error(extent.offset + e.offset, format!("the module of {name}: {}", e.message));
        } else if word(4) != u32::MAX {
            f.warning(extent.offset + 16, format!("the module of {name} has the CPU type {:#x}", word(4)));
        }
    }
    if !extent.size.is_multiple_of(16) {
        f.warning(extent.offset, format!("the module of {name} has {:#x} bytes, no multiple of 16", extent.size));
    }
    Ok(())
}
