//! Two states of a unit -> the values in which they differ; and the text of a difference.
//!
//! Two values are equal if they have the same bits or are both NaN.

use crate::isa::numeric::same;
use crate::state::{Exit, Registers, Unit, Vec4};
use crate::text::literal::{format_f32, format_vec4};
use std::fmt;

/// Lines of a difference that are shown.
const ROWS_SHOWN: usize = 40;

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Vertices compared.
    pub vertices: u64,
    /// Vertices on which at least one kind of run differs.
    pub differences: u64,
    /// The first difference.
    pub first: Option<Difference>,
}

impl Report {
    /// Adds another comparison's counts. An earlier first difference stays.
    pub fn add(&mut self, other: Report) {
        self.vertices += other.vertices;
        self.differences += other.differences;
        self.first = self.first.take().or(other.first);
    }
}

/// The kind of run in which a vertex differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Through `run`.
    Run,
    /// Through `run_batch`.
    Batch {
        /// The batch's first vertex.
        first: usize,
        /// Its number of vertices.
        size: usize,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            How::Run => f.write_str("through run"),
            How::Batch { first, size } => write!(f, "through run_batch of {size} from vertex {first} on"),
        }
    }
}

/// A vertex on which two kernels differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The names of both.
    pub names: [String; 2],
    /// Index of the vertex. State that is visible only after a batch counts for its last vertex.
    pub vertex: usize,
    /// The kind of run.
    pub how: How,
    /// Its inputs: register number and value.
    pub inputs: Vec<(usize, Vec4)>,
    /// Every register, flag or other value that differs; a register with all components.
    pub rows: Vec<ComparedValue>,
}

/// One value in a [`Difference`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedValue {
    /// Its name: `r3.x`, `o0.w (bank 1)`, `exit`.
    pub location: String,
    /// The first kernel's value and the second kernel's.
    pub values: [String; 2],
    /// False for a component that is shown only because another component of its register differs.
    pub differs: bool,
}

impl Difference {
    /// Adds `vertices` to all vertex indices.
    pub fn move_by(&mut self, vertices: usize) {
        self.vertex += vertices;
        if let How::Batch { first, .. } = &mut self.how {
            *first += vertices;
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "vertex {}, {}", self.vertex, self.how)?;
        for (n, value) in &self.inputs {
            writeln!(f, "  v{n} = {}", format_vec4(*value))?;
        }
        let width = |column: fn(&ComparedValue) -> usize, title: usize| {
            self.rows.iter().take(ROWS_SHOWN).map(column).max().unwrap_or(0).max(title)
        };
        let location = width(|r| r.location.len(), 5);
        let want = width(|r| r.values[0].len(), self.names[0].len());
        let got = width(|r| r.values[1].len(), self.names[1].len());
        writeln!(f, "  {:location$}  {:want$}  {}", "", self.names[0], self.names[1])?;
        for ComparedValue { location: name, values: [a, b], differs } in self.rows.iter().take(ROWS_SHOWN) {
            match differs {
                true => writeln!(f, "  {name:location$}  {a:want$}  {b:got$}  <- differs")?,
                false => writeln!(f, "  {name:location$}  {a:want$}  {b}")?,
            }
        }
        match self.rows.len().saturating_sub(ROWS_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  ... and {more} lines more"),
        }
    }
}

impl ComparedValue {
    pub(super) fn new(location: impl Into<String>, want: impl fmt::Display, got: impl fmt::Display) -> ComparedValue {
        ComparedValue { location: location.into(), values: [want.to_string(), got.to_string()], differs: true }
    }
}

pub(super) fn exit_row(want: Exit, got: Exit) -> Vec<ComparedValue> {
    if want == got { Vec::new() } else { vec![ComparedValue::new("exit", format!("{want:?}"), format!("{got:?}"))] }
}

/// The vertices that a batch ran.
pub(super) fn ran_row(want: usize, got: usize) -> Vec<ComparedValue> {
    if want == got { Vec::new() } else { vec![ComparedValue::new("vertices", want.to_string(), got.to_string())] }
}

/// The register files of a unit, with the letter and suffix of their registers' names.
fn files(unit: &Unit) -> [(&'static str, &'static str, &Registers); 8] {
    let [b0, b1] = &unit.o;
    let [s0, s1, s2, s3] = &unit.slots;
    [
        ("v", "", &unit.v),
        ("r", "", &unit.r),
        ("o", " (bank 0)", b0),
        ("o", " (bank 1)", b1),
        ("o", " (slot 0)", s0),
        ("o", " (slot 1)", s1),
        ("o", " (slot 2)", s2),
        ("o", " (slot 3)", s3),
    ]
}

/// All of a unit except register files. Values are unmasked: unused bits must survive.
fn scalars(unit: &Unit) -> [(&'static str, i64); 9] {
    let set = unit.setemit;
    [
        ("a0.x", unit.a0[0].into()),
        ("a0.y", unit.a0[1].into()),
        ("aL", unit.al.into()),
        ("cmp.x", unit.cmp[0].into()),
        ("cmp.y", unit.cmp[1].into()),
        ("bank", unit.bank.into()),
        ("setemit: vertex", set.vertex.into()),
        ("setemit: primitive", set.primitive.into()),
        ("setemit: inverted", set.winding.into()),
    ]
}

pub(super) fn same_registers(want: &Registers, got: &Registers) -> bool {
    want.as_flattened().iter().zip(got.as_flattened()).all(|(&a, &b)| same(a, b))
}

pub(super) fn same_unit(want: &Unit, got: &Unit) -> bool {
    scalars(want) == scalars(got)
        && files(want).iter().zip(files(got)).all(|((.., want), (.., got))| same_registers(want, got))
}

pub(super) fn unit_rows(want: &Unit, got: &Unit) -> Vec<ComparedValue> {
    let mut rows = Vec::new();
    // Outputs first: they are the visible result.
    for n in [2, 3, 1, 0, 4, 5, 6, 7] {
        let ((letter, suffix, a), (.., b)) = (files(want)[n], files(got)[n]);
        rows.extend(register_rows(|r| format!("{letter}{r}{suffix}"), a, b));
    }
    let scalars = scalars(want).into_iter().zip(scalars(got));
    rows.extend(scalars.filter(|(a, b)| a != b).map(|((name, a), (_, b))| ComparedValue::new(name, a, b)));
    rows
}

pub(super) fn register_rows(name: impl Fn(usize) -> String, want: &Registers, got: &Registers) -> Vec<ComparedValue> {
    let mut rows = Vec::new();
    for (n, (a, b)) in want.iter().zip(got).enumerate() {
        if a.iter().zip(b).all(|(&a, &b)| same(a, b)) {
            continue;
        }
        for (component, letter) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let show = |x: f32| format!("{:<14} [{:08x}]", format_f32(x), x.to_bits());
            let location = match name(n).split_once(' ') {
                // `o0 (bank 1)`: the component belongs to the register.
                Some((register, rest)) if rest.starts_with('(') => format!("{register}.{letter} {rest}"),
                _ => format!("{}.{letter}", name(n)),
            };
            let values = [show(a[component]), show(b[component])];
            rows.push(ComparedValue { location, values, differs: !same(a[component], b[component]) });
        }
    }
    rows
}
