//! Groups of tags, the building block of every part of a library.

use crate::cursor::{Cursor, FormatError};

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its name.
    pub name: [u8; 4],
    /// Its bytes.
    pub body: Box<[u8]>,
}

/// Tags between a size and `ENDT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Absolute offset of the size.
    pub offset: u64,
    /// Whether the size counts its own four bytes. Linkers differ.
    pub counts_itself: bool,
    /// Tags in file order.
    pub tags: Vec<Tag>,
}

const END: [u8; 4] = *b"ENDT";

impl Group {
    /// The body of the first tag of this name.
    pub fn tag(&self, name: &[u8; 4]) -> Option<&[u8]> {
        self.tags.iter().find(|t| t.name == *name).map(|t| &*t.body)
    }

    /// The body of a tag of eight bytes.
    pub fn u64(&self, name: &[u8; 4]) -> Option<u64> {
        self.tag(name)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        4 + tags_len(&self.tags)
    }

    /// Whether there is no tag.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// The group at the cursor.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Group, FormatError> {
        let offset = cursor.offset();
        let size = u64::from(cursor.u32("the size of a group")?);
        let tags = parse_tags(cursor)?;
        let len = cursor.offset() - offset;
        if size != len && size != len - 4 {
            let message = format!("a group announces {size:#x} bytes, its tags end after {len:#x}");
            return Err(FormatError::new(offset, message));
        }
        Ok(Group { offset, counts_itself: size == len, tags })
    }

    /// Appends the group. Fails if it has 4 GiB or more.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let size = self.len() - if self.counts_itself { 0 } else { 4 };
        let size = u32::try_from(size).map_err(|_| FormatError::new(self.offset, "a group of 4 GiB or more"))?;
        out.extend(size.to_le_bytes());
        write_tags(&self.tags, out)
    }
}

/// Groups that fill the rest of the cursor.
pub(super) fn parse_groups(mut cursor: Cursor<'_>) -> Result<Vec<Group>, FormatError> {
    let mut groups = Vec::new();
    while !cursor.is_at_end() {
        groups.push(Group::parse(&mut cursor)?);
    }
    Ok(groups)
}

/// Whether the length of this tag has 32 bits.
fn is_long(name: [u8; 4]) -> bool {
    matches!(&name, b"RBUF" | b"RBUZ" | b"SBUF" | b"SARC")
}

/// Tags up to `ENDT`, which has no length.
pub(super) fn parse_tags(cursor: &mut Cursor<'_>) -> Result<Vec<Tag>, FormatError> {
    let mut tags = Vec::new();
    loop {
        let name = cursor.array::<4>("the name of a tag")?;
        if name == END {
            return Ok(tags);
        }
        let part = "the length of a tag";
        let len = if is_long(name) { cursor.u32(part)? } else { cursor.u16(part)?.into() };
        let body = cursor.take(len.into(), &format!("the tag `{}`", name.escape_ascii()))?;
        tags.push(Tag { name, body: body.into() });
    }
}

/// Bytes of tags in the file, `ENDT` included.
pub(super) fn tags_len(tags: &[Tag]) -> u64 {
    tags.iter().map(|t| if is_long(t.name) { 8 } else { 6 } + t.body.len() as u64).sum::<u64>() + 4
}

/// Appends tags and `ENDT`. Fails for a body that its length can't express.
pub(super) fn write_tags(tags: &[Tag], out: &mut Vec<u8>) -> Result<(), FormatError> {
    for tag in tags {
        out.extend(tag.name);
        let long = || FormatError::new(0, format!("the tag `{}` is too long", tag.name.escape_ascii()));
        if is_long(tag.name) {
            out.extend(u32::try_from(tag.body.len()).map_err(|_| long())?.to_le_bytes());
        } else {
            out.extend(u16::try_from(tag.body.len()).map_err(|_| long())?.to_le_bytes());
        }
        out.extend(&tag.body);
    }
    out.extend(END);
    Ok(())
}
