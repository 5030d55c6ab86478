//! [`Metallib`] -> a library without sources, debug paths or reflection, in canonical layout.
//!
//! Modules never change, so their hashes stay valid. Every offset and size is computed anew.

use super::parse::{SECTIONS, pointer};
use super::tags::{Group, Tag, parse_groups, write_tags};
use super::write::{copy, put, write_groups, write_list};
use super::{HEADER, Metallib, Part, Section, read_at};
use crate::cursor::{Cursor, FormatError};
use std::collections::HashMap;
use std::io::{Read, Seek, Write};

/// The tag that gives the section of reflection.
const RLST: [u8; 4] = *b"RLST";

/// What to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Strip {
    /// Embedded sources, with the linker's options and the working directory.
    pub sources: bool,
    /// Paths and lines of sources.
    pub debug: bool,
    /// Reflection of arguments.
    pub reflection: bool,
}

impl Strip {
    /// Everything.
    pub const ALL: Strip = Strip { sources: true, debug: true, reflection: true };

    fn drops(self, tag: &[u8; 4]) -> bool {
        match tag {
            b"HSRC" | b"HSRD" | b"SOFF" => self.sources,
            b"DEBI" | b"DEPF" => self.debug,
            b"RLST" | b"RFLT" => self.reflection,
            _ => false,
        }
    }

    fn filter(self, tags: &mut Vec<Tag>) {
        tags.retain(|t| !self.drops(&t.name));
    }
}

/// Groups that moved: old offset in their section -> new one.
type Moved = HashMap<u64, u64>;

impl Metallib {
    /// Writes the library without the parts of `strip`. Bytes that no field of the file gives are
    /// left out as well.
    pub fn strip(
        &self,
        source: &mut (impl Read + Seek),
        strip: Strip,
        out: &mut impl Write,
    ) -> Result<(), FormatError> {
        let mut to = self.clone();
        to.parts
            .retain(|(part, _)| !matches!(part, Part::Gap) && !matches!(part, Part::Tagged(tag) if strip.drops(tag)));
        if let Some(extension) = &mut to.extension {
            strip.filter(extension);
        }
        for group in to.functions.iter_mut().chain(&mut to.public).chain(&mut to.private) {
            strip.filter(&mut group.tags);
        }
        let public = moved(&self.public, &to.public, self.header.public);
        let private = moved(&self.private, &to.private, self.header.private);

        // The sizes of all parts but reflection are known; reflection is padded for its place.
        let mut reflection = Vec::new();
        let mut reflected = Moved::new();
        let mut at = HEADER;
        let old = to.parts.clone();
        for (part, section) in &mut to.parts {
            section.size = match part {
                Part::Functions => 4 + to.functions.iter().map(Group::len).sum::<u64>(),
                Part::Extension => super::tags::tags_len(to.extension.as_deref().unwrap_or(&[])),
                Part::Public => to.public.iter().map(Group::len).sum(),
                Part::Private => to.private.iter().map(Group::len).sum(),
                Part::Tagged(RLST) => {
                    let bytes = read_at(source, *section)?;
                    reflected = padded(*section, &bytes, at, &mut reflection)?;
                    reflection.len() as u64
                }
                Part::Modules | Part::Tagged(_) | Part::Gap => section.size,
            };
            section.offset = at;
            at += section.size;
        }
        to.header.file_size = at;
        // An empty part is not in the list and stands where it would be.
        let mut here = HEADER;
        let place = |part: Part| to.parts.iter().find(|(p, _)| *p == part).map(|(_, s)| *s);
        let header = &mut to.header;
        header.functions = place(Part::Functions).unwrap_or_default();
        here += header.functions.size + place(Part::Extension).map_or(0, |s| s.size);
        header.functions.size -= 4;
        for (part, section) in [
            (Part::Public, &mut header.public),
            (Part::Private, &mut header.private),
            (Part::Modules, &mut header.modules),
        ] {
            *section = place(part).unwrap_or(Section { offset: here, size: 0 });
            here = section.offset + section.size;
        }
        for tag in to.extension.iter_mut().flatten().filter(|t| SECTIONS.contains(&t.name)) {
            // Two tags of one name give two sections.
            let from = pointer(tag).map(|section| (Part::Tagged(tag.name), section));
            let place = old.iter().position(|part| Some(*part) == from).map(|n| to.parts[n].1);
            // An empty section is no part of the file.
            let section = place.unwrap_or(Section { offset: at, size: 0 });
            tag.body = [section.offset.to_le_bytes(), section.size.to_le_bytes()].concat().into();
        }
        for group in &mut to.functions {
            relocate(group, &public, &private, &reflected, strip)?;
        }

        let mut bytes = Vec::new();
        to.header.write(&mut bytes);
        for ((part, _), (_, from)) in to.parts.iter().zip(&old) {
            match part {
                Part::Functions => write_list(&to.functions, &mut bytes)?,
                Part::Extension => write_tags(to.extension.as_deref().unwrap_or(&[]), &mut bytes)?,
                Part::Public => write_groups(&to.public, &mut bytes)?,
                Part::Private => write_groups(&to.private, &mut bytes)?,
                Part::Tagged(RLST) => bytes.append(&mut reflection),
                Part::Modules | Part::Tagged(_) | Part::Gap => {
                    put(out, &bytes)?;
                    bytes.clear();
                    copy(source, *from, out)?;
                }
            }
        }
        put(out, &bytes)
    }
}

fn moved(old: &[Group], new: &[Group], section: Section) -> Moved {
    let mut at = 0;
    let place = |(old, new): (&Group, &Group)| {
        let here = at;
        at += new.len();
        (old.offset - section.offset, here)
    };
    old.iter().zip(new).map(place).collect()
}

/// Replaces the offsets of a function.
fn relocate(
    function: &mut Group,
    public: &Moved,
    private: &Moved,
    reflected: &Moved,
    strip: Strip,
) -> Result<(), FormatError> {
    let at = function.offset;
    let fail = |what: &str| FormatError::new(at, format!("the {what} of a function is at no group, so it can't move"));
    for tag in &mut function.tags {
        match (&tag.name, tag.body.len()) {
            (b"OFFT", 24) => {
                let (words, _) = tag.body.as_chunks::<8>();
                let new = |n: usize, moved: &Moved| moved.get(&u64::from_le_bytes(words[n])).copied();
                let public = new(0, public).ok_or_else(|| fail("public metadata"))?;
                let private = new(1, private).ok_or_else(|| fail("private metadata"))?;
                tag.body = [public.to_le_bytes(), private.to_le_bytes(), words[2]].concat().into();
            }
            (b"RFLT", 8) if !strip.reflection => {
                let old = u64::from_le_bytes((&*tag.body).try_into().expect("the body has eight bytes"));
                let new = reflected.get(&old).ok_or_else(|| fail("reflection"))?;
                tag.body = new.to_le_bytes().into();
            }
            _ => {}
        }
    }
    Ok(())
}

/// The reflection section for its new place: the buffer of each group starts at a multiple of 16 in
/// the file.
fn padded(section: Section, bytes: &[u8], at: u64, out: &mut Vec<u8>) -> Result<Moved, FormatError> {
    let mut c = Cursor::new(section.offset, bytes);
    let count = c.u32("the number of reflection groups")?;
    out.extend(count.to_le_bytes());
    let mut moved = Moved::new();
    for mut group in parse_groups(c)? {
        let here = out.len() as u64;
        moved.insert(group.offset - section.offset, here);
        if let [tag] = &mut group.tags[..]
            && tag.name == *b"RBUF"
            && let Some(start) = buffer_start(&tag.body)
        {
            // Size, name and length of the tag are before its body.
            let body = at + here + 12;
            let padding = (body.next_multiple_of(16) - body) as usize;
            tag.body = [&vec![0; padding], &tag.body[start..]].concat().into();
        }
        group.write(out)?;
    }
    Ok(moved)
}

/// Where a buffer starts after its padding. Its identifier is at its fifth byte.
fn buffer_start(body: &[u8]) -> Option<usize> {
    let start = (0..16).find(|&n| body.get(n + 4..n + 8) == Some(b"AIRR"))?;
    body[..start].iter().all(|&b| b == 0).then_some(start)
}
