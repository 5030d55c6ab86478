//! Tags of the metadata groups -> values.

use super::tags::Group;
use crate::cursor::Cursor;

/// A function constant, of `CNST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name.
    pub name: Vec<u8>,
    /// Its type, a value of `MTLDataType`.
    pub data_type: u8,
    /// Its index.
    pub index: u16,
    /// Whether the function uses it.
    pub active: bool,
}

/// A vertex attribute, of `VATT` and `VATY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexAttribute {
    /// Its name.
    pub name: Vec<u8>,
    /// Its index.
    pub index: u16,
    /// 0 for a vertex, 1 to 3 for patches and control points.
    pub usage: u8,
    /// Whether the function uses it.
    pub active: bool,
    /// Its type, a value of `MTLDataType`, if the file stores one.
    pub data_type: Option<u8>,
}

impl Group {
    /// The function constants; `None` if there are none, or if the tag is damaged.
    pub fn constants(&self) -> Option<Vec<Constant>> {
        list(self.tag(b"CNST")?, |c, name| {
            let [data_type, i0, i1, active] = c.array("a constant").ok()?;
            Some(Constant { name, data_type, index: u16::from_le_bytes([i0, i1]), active: active != 0 })
        })
    }

    /// The vertex attributes; `None` if there are none, or if a tag is damaged.
    pub fn vertex_attributes(&self) -> Option<Vec<VertexAttribute>> {
        let mut attributes = list(self.tag(b"VATT")?, |c, name| {
            let bits = c.u16("an attribute").ok()?;
            let usage = (bits >> 13 & 3) as u8;
            Some(VertexAttribute { name, index: bits & 0x1FFF, usage, active: bits >> 15 != 0, data_type: None })
        })?;
        if let Some([_, _, types @ ..]) = self.tag(b"VATY") {
            attributes.iter_mut().zip(types).for_each(|(a, &ty)| a.data_type = Some(ty));
        }
        Some(attributes)
    }

    /// Line and path of the source, of `DEBI`.
    pub fn debug_line(&self) -> Option<(u32, &[u8])> {
        let (line, path) = self.tag(b"DEBI")?.split_first_chunk()?;
        Some((u32::from_le_bytes(*line), path.strip_suffix(&[0]).unwrap_or(path)))
    }
}

/// A count of 16 bits, then names with fields that fill the body.
fn list<T>(body: &[u8], mut fields: impl FnMut(&mut Cursor<'_>, Vec<u8>) -> Option<T>) -> Option<Vec<T>> {
    let mut c = Cursor::new(0, body);
    let count = c.u16("a count").ok()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let len = c.rest().iter().position(|&b| b == 0)?;
        let name = c.take(len as u64, "a name").ok()?.to_vec();
        c.u8("a zero byte").ok()?;
        all.push(fields(&mut c, name)?);
    }
    c.is_at_end().then_some(all)
}

/// The name of a `MTLDataType` value; a number if it is not among the usual ones.
pub fn data_type_name(n: u8) -> String {
    const VECTORS: [(u8, &str); 10] = [
        (3, "float"),
        (16, "half"),
        (29, "int"),
        (33, "uint"),
        (37, "short"),
        (41, "ushort"),
        (45, "char"),
        (49, "uchar"),
        (53, "bool"),
        (81, "long"),
    ];
    let vector = VECTORS.iter().find(|(first, _)| (*first..first + 4).contains(&n));
    match vector {
        Some((first, name)) if *first == n => (*name).into(),
        Some((first, name)) => format!("{name}{}", n - first + 1),
        None => format!("type {n}"),
    }
}
