//! Raw little-endian `f32` files <-> uniforms and register files. Errors state the expected size.

use crate::display::path_name;
use crate::load::{self, LoadError};
use crate::pipe;
use picajit::isa::{FLOAT_UNIFORMS, REGS};
use picajit::state::{Registers, Vec4};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Most vertices of a run: 256 MiB of inputs.
pub const MAX_VERTICES: usize = 1 << 20;
/// Bytes of one register file, which is one vertex.
pub const VERTEX_BYTES: usize = REGS * 16;
/// Bytes of the float uniforms.
pub const UNIFORM_BYTES: usize = FLOAT_UNIFORMS * 16;

/// A file of the wrong size.
#[derive(Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Not the float uniforms.
    Uniforms { name: String, found: u64 },
    /// Not the inputs of the requested number of vertices.
    Inputs { name: String, found: u64, vertices: usize },
    /// Not a whole number of vertices.
    Ragged { name: String, found: u64 },
    /// More than [`MAX_VERTICES`].
    TooMany { name: String },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::Uniforms { name, found } => {
                write!(
                    f,
                    "{name}: has {found} bytes; uniforms are {UNIFORM_BYTES} (c0-c95, x y z w, little-endian f32)"
                )
            }
            SizeError::Inputs { name, found, vertices } => write!(
                f,
                "{name}: has {found} bytes; inputs of {} are {} ({VERTEX_BYTES} each: v0-v15, x y z w, little-endian \
                 f32)",
                crate::display::count(*vertices, "vertex"),
                vertices * VERTEX_BYTES
            ),
            SizeError::Ragged { name, found } => write!(
                f,
                "{name}: has {found} bytes; inputs are a multiple of {VERTEX_BYTES}, at least one (each vertex is \
                 v0-v15, x y z w, little-endian f32)"
            ),
            SizeError::TooMany { name } => {
                write!(f, "{name}: has more than {MAX_VERTICES} vertices\nhelp: run it in parts")
            }
        }
    }
}

impl std::error::Error for SizeError {}

/// The float uniforms in a file.
pub fn read_uniforms(path: &Path) -> Result<[Vec4; FLOAT_UNIFORMS], Box<dyn std::error::Error>> {
    let (bytes, found) = read(path, UNIFORM_BYTES)?;
    if found != UNIFORM_BYTES as u64 {
        return Err(SizeError::Uniforms { name: path_name(path), found }.into());
    }
    let mut uniforms = [[0.0; 4]; FLOAT_UNIFORMS];
    fill(&mut uniforms, &bytes);
    Ok(uniforms)
}

/// The vertices in a file; exactly `count` if that is given.
pub fn read_inputs(path: &Path, count: Option<usize>) -> Result<Vec<Registers>, Box<dyn std::error::Error>> {
    let name = || path_name(path);
    let (bytes, found) = read(path, count.unwrap_or(MAX_VERTICES) * VERTEX_BYTES)?;
    if let Some(vertices) = count
        && found != (vertices * VERTEX_BYTES) as u64
    {
        return Err(SizeError::Inputs { name: name(), found, vertices }.into());
    }
    if found > (MAX_VERTICES * VERTEX_BYTES) as u64 {
        return Err(SizeError::TooMany { name: name() }.into());
    }
    if bytes.is_empty() || bytes.len() % VERTEX_BYTES != 0 {
        return Err(SizeError::Ragged { name: name(), found }.into());
    }
    let vertex = |bytes: &[u8]| {
        let mut vertex = [[0.0; 4]; REGS];
        fill(&mut vertex, bytes);
        vertex
    };
    Ok(bytes.chunks_exact(VERTEX_BYTES).map(vertex).collect())
}

/// At most `limit` bytes, and the size of the file. For a longer stream of unknown size, one more
/// than was read.
fn read(path: &Path, limit: usize) -> Result<(Vec<u8>, u64), LoadError> {
    if pipe::is_pipe(path) {
        let bytes = load::piped(u64::MAX)?;
        return Ok((bytes[..bytes.len().min(limit + 1)].to_vec(), bytes.len() as u64));
    }
    let io = |error| LoadError::Io { name: path_name(path), error };
    let file = File::open(path).map_err(io)?;
    let told = file.metadata().map_or(0, |m| m.len());
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let found = if bytes.len() > limit { told.max(bytes.len() as u64) } else { bytes.len() as u64 };
    Ok((bytes, found))
}

fn fill(registers: &mut [Vec4], bytes: &[u8]) {
    let floats = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("chunks have four bytes")));
    registers.iter_mut().flatten().zip(floats).for_each(|(to, from)| *to = from);
}

/// Writes one register file.
pub fn write(registers: &Registers, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = [0; VERTEX_BYTES];
    for (to, value) in bytes.chunks_exact_mut(4).zip(registers.iter().flatten()) {
        to.copy_from_slice(&value.to_le_bytes());
    }
    out.write_all(&bytes)
}
