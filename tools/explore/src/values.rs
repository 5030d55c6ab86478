//! Lines such as `matrix[0] = (1, 0, 0, 0)` -> uniforms and inputs.
//!
//! ```text
//! ; a comment
//! c4 = (1, 2, 3, 4)
//! matrix[1] = 0, 1, 0, 0
//! i0 = 3, 0, 1
//! b2 = true
//! v0 = 1, 2, 3, 1
//! 1: position = 0, 1, 0, 1
//! ```
//!
//! A register is named by its number or as the entry declares it. Inputs hold for every vertex,
//! or for the one whose number stands before the colon. Other values are generated.

use super::names::visible;
use super::trace::Values;
use picajit::container::shbin::Dvle;
use picajit::internals::generator;
use picajit::internals::literal::parse_f32;
use picajit::isa::{BOOL_UNIFORMS, FLOAT_UNIFORMS, INT_UNIFORMS, REGS};
use picajit::state::{Uniforms, Vec4};
use std::fmt;

/// A line that gives no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ValuesErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuesErrorKind {
    /// There is no `=`.
    NoAssignment,
    /// No register has this name.
    UnknownRegister(String),
    /// The value is not of the register's kind.
    BadValue(&'static str),
    /// The number before the colon is no vertex.
    BadVertex,
}

impl fmt::Display for ValuesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

impl fmt::Display for ValuesErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValuesErrorKind::NoAssignment => f.write_str("expected `REGISTER = VALUE`, such as `v0 = 1, 2, 3, 1`"),
            ValuesErrorKind::UnknownRegister(name) => {
                write!(
                    f,
                    "`{}` is no input or uniform\nhelp: v0-v15, c0-c95, i0-i3, b0-b15, or a declared name",
                    visible(name)
                )
            }
            ValuesErrorKind::BadValue(wanted) => write!(f, "expected {wanted}"),
            ValuesErrorKind::BadVertex => f.write_str("expected the number of a vertex before `:`"),
        }
    }
}

impl std::error::Error for ValuesError {}

/// An input or a uniform.
#[derive(Clone, Copy)]
enum Register {
    Input(usize),
    Float(usize),
    Int(usize),
    Bool(usize),
}

impl Register {
    /// By the number in uniform tables.
    fn unified(number: u16) -> Option<Register> {
        let n = usize::from(number);
        match number {
            0x00..=0x0F => Some(Register::Input(n)),
            0x10..=0x6F => Some(Register::Float(n - 0x10)),
            0x70..=0x73 => Some(Register::Int(n - 0x70)),
            0x78..=0x87 => Some(Register::Bool(n - 0x78)),
            _ => None,
        }
    }

    fn named(name: &str, dvle: &Dvle) -> Option<Register> {
        let (base, index) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((base, index)) => (base.trim(), index.trim().parse().ok()?),
            None => (name, 0u16),
        };
        if let Some(row) = dvle.uniforms.iter().find(|row| row.name == base) {
            let number = row.first.checked_add(index).filter(|n| *n <= row.last)?;
            return Register::unified(number);
        }
        let (class, digits) = base.split_at_checked(1)?;
        let n =
            digits.parse::<usize>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))? + usize::from(index);
        match class {
            "v" if n < REGS => Some(Register::Input(n)),
            "c" if n < FLOAT_UNIFORMS => Some(Register::Float(n)),
            "i" if n < INT_UNIFORMS => Some(Register::Int(n)),
            "b" if n < BOOL_UNIFORMS => Some(Register::Bool(n)),
            _ => None,
        }
    }
}

fn vec4(text: &str) -> Option<Vec4> {
    let text = text.strip_prefix('(').map_or(Some(text), |rest| rest.strip_suffix(')'))?;
    let values: Vec<f32> = text.split(',').map(|v| parse_f32(v).ok()).collect::<Option<_>>()?;
    match values[..] {
        [x] => Some([x; 4]),
        [x, y, z] => Some([x, y, z, 1.0]),
        [x, y, z, w] => Some([x, y, z, w]),
        _ => None,
    }
}

fn int(text: &str) -> Option<[u8; 4]> {
    let text = text.strip_prefix('(').map_or(Some(text), |rest| rest.strip_suffix(')'))?;
    let values: Vec<u8> = text.split(',').map(|v| v.trim().parse().ok()).collect::<Option<_>>()?;
    match values[..] {
        [x, y, z] => Some([x, y, z, 0]),
        [x, y, z, w] => Some([x, y, z, w]),
        _ => None,
    }
}

/// Generated values and the entry's constants for `vertices` vertices, then those of `text`.
pub fn read(text: &str, dvle: &Dvle, vertices: usize) -> Result<Values, ValuesError> {
    let mut values = Values {
        uniforms: generator::uniforms(dvle),
        inputs: generator::inputs(vertices),
        origin: "generated, in [-1, 1), equal on every machine".into(),
    };
    assign_all(text, dvle, &mut values)?;
    Ok(values)
}

/// Vertices up to the last one that `text` names by its number.
pub fn vertices(text: &str) -> usize {
    let number = |line: &str| {
        let target = line.split([';', '=']).next()?;
        target.split_once(':')?.0.trim().parse::<usize>().ok()
    };
    text.lines().filter_map(number).max().map_or(0, |last| last.saturating_add(1))
}

/// Sets the registers that `text` names.
pub fn assign_all(text: &str, dvle: &Dvle, values: &mut Values) -> Result<(), ValuesError> {
    for (n, line) in text.lines().enumerate() {
        let code = line.split(';').next().unwrap_or("").trim();
        if !code.is_empty() {
            assign(code, dvle, values).map_err(|kind| ValuesError { line: n + 1, kind })?;
            values.origin = "partly given as text; the rest is generated or from files".into();
        }
    }
    Ok(())
}

fn assign(code: &str, dvle: &Dvle, values: &mut Values) -> Result<(), ValuesErrorKind> {
    let (target, value) = code.split_once('=').ok_or(ValuesErrorKind::NoAssignment)?;
    let (vertex, name) = match target.split_once(':') {
        Some((vertex, name)) => {
            let vertex = vertex.trim().parse::<usize>().ok().filter(|n| *n < values.inputs.len());
            (Some(vertex.ok_or(ValuesErrorKind::BadVertex)?), name.trim())
        }
        None => (None, target.trim()),
    };
    let unknown = || ValuesErrorKind::UnknownRegister(name.into());
    let register = Register::named(name, dvle).ok_or_else(unknown)?;
    let value = value.trim();
    let vector = || vec4(value).ok_or(ValuesErrorKind::BadValue("one, three or four numbers, such as `1, 2, 3, 1`"));
    let Values { uniforms: Uniforms { c, i, b }, inputs, .. } = values;
    match (register, vertex) {
        (Register::Input(n), None) => {
            let vector = vector()?;
            inputs.iter_mut().for_each(|vertex| vertex[n] = vector);
        }
        (Register::Input(n), Some(vertex)) => inputs[vertex][n] = vector()?,
        (_, Some(_)) => return Err(ValuesErrorKind::BadVertex),
        (Register::Float(n), None) => c[n] = vector()?,
        (Register::Int(n), None) => {
            i[n] = int(value).ok_or(ValuesErrorKind::BadValue("three numbers from 0 to 255, such as `3, 0, 1`"))?;
        }
        (Register::Bool(n), None) => match value {
            "true" | "1" => *b |= 1 << n,
            "false" | "0" => *b &= !(1 << n),
            _ => return Err(ValuesErrorKind::BadValue("`true` or `false`")),
        },
    }
    Ok(())
}
