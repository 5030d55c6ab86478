//! Two kernels and one workload -> [`Report`]: on how many vertices they differ, and the first difference with the
//! registers of both side by side.
//!
//! Every vertex is run three times by the second kernel: through `run`, through `run_batch` in batches of mixed sizes,
//! and through `run_batch` with all vertices of a chunk. The first kernel runs once, vertex by vertex, which is what a
//! batch means. Equal are the same bits, or two NaN; everything counts: registers, both output banks, vertex slots,
//! addresses, flags, bank, `SETEMIT`'s parameters, copied outputs, triangles, exit. After a difference the second kernel
//! continues from the first one's state, so that each counts once. It must not know which kernels there are.

use crate::isa::numeric::same;
use crate::kernel::{Kernel, copy_registers};
use crate::state::{Batch, Emitter, Exit, Registers, Uniforms, Unit, Vec4};
use crate::text::value::{format_f32, format_vec4};
use std::fmt;

/// Vertices whose states are kept at a time.
const CHUNK: usize = 64;
/// Sizes of the mixed batches, around the lane widths that engines may have. One round of them is a chunk.
const BATCHES: [usize; 6] = [1, 3, 4, 5, 17, 34];
/// What outputs hold before a batch: nothing that a program computes by chance, so that what is left alone shows.
const UNTOUCHED: Registers = [[-12_345.678; 4]; 16];
/// Triangles of a vertex that are kept whole; of the others there is a hash.
const TRIANGLES_KEPT: usize = 4;
/// Lines of a difference that are shown.
const ROWS_SHOWN: usize = 40;

/// A kernel and the name it goes by in a report.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The name.
    pub name: &'a str,
    /// The kernel.
    pub kernel: &'a dyn Kernel,
}

/// What both kernels are given.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The uniforms.
    pub uniforms: &'a Uniforms,
    /// The unit before the first vertex.
    pub unit: &'a Unit,
    /// The vertices.
    pub inputs: &'a [Registers],
    /// Which `v` registers are taken from `inputs`; bit n is `vn`.
    pub input_mask: u16,
    /// Which `o` registers are copied away after each vertex of a batch.
    pub output_mask: u16,
}

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Vertices compared.
    pub vertices: u64,
    /// Vertices on which the kernels differ in at least one of the ways of running.
    pub differences: u64,
    /// The first of them.
    pub first: Option<Difference>,
}

impl Report {
    /// Adds another comparison's counts; its first difference stays only if there is none before it.
    pub fn add(&mut self, other: Report) {
        self.vertices += other.vertices;
        self.differences += other.differences;
        self.first = self.first.take().or(other.first);
    }
}

/// The way a vertex was run when it differed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Alone.
    Run,
    /// In a batch.
    Batch {
        /// Its first vertex.
        first: usize,
        /// How many there are.
        size: usize,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Run => f.write_str("through run"),
            How::Batch { first, size } => {
                write!(f, "through run_batch of {size} from vertex {first} on")
            }
        }
    }
}

/// A vertex on which two kernels differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The names of both.
    pub names: [String; 2],
    /// Which vertex, from 0. State that is seen only after a batch counts for its last vertex.
    pub vertex: usize,
    /// The way it was run.
    pub how: How,
    /// Its inputs: register number and value.
    pub inputs: Vec<(usize, Vec4)>,
    /// Every register, flag and so on that differs, with all components.
    pub rows: Vec<Row>,
}

/// One place in a [`Difference`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name: `r3.x`, `o0.w (bank 1)`, `exit`.
    pub place: String,
    /// What is there on the one side and on the other.
    pub values: [String; 2],
    /// False for components that are shown because another one of their register differs.
    pub differs: bool,
}

impl Difference {
    /// Counts vertices as if `vertices` others had come before these.
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
        let width = |column: fn(&Row) -> usize, title: usize| {
            self.rows.iter().take(ROWS_SHOWN).map(column).max().unwrap_or(0).max(title)
        };
        let place = width(|r| r.place.len(), 5);
        let want = width(|r| r.values[0].len(), self.names[0].len());
        let got = width(|r| r.values[1].len(), self.names[1].len());
        writeln!(f, "  {:place$}  {:want$}  {}", "", self.names[0], self.names[1])?;
        for Row { place: name, values: [a, b], differs } in self.rows.iter().take(ROWS_SHOWN) {
            match differs {
                true => writeln!(f, "  {name:place$}  {a:want$}  {b:got$}  <- differs")?,
                false => writeln!(f, "  {name:place$}  {a:want$}  {b}")?,
            }
        }
        match self.rows.len().saturating_sub(ROWS_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  ... and {more} lines more"),
        }
    }
}

/// Runs `work` on both. `progress` is called with the number of vertices that have just been done.
pub fn compare(want: Side<'_>, got: Side<'_>, work: &Work<'_>, progress: &mut dyn FnMut(u64)) -> Report {
    let mut comparison = Comparison { sides: [want, got], work: *work, report: Report::default() };
    let mut unit = work.unit.clone();
    for (n, inputs) in work.inputs.chunks(CHUNK).enumerate() {
        unit = comparison.chunk(n * CHUNK, inputs, unit);
        progress(inputs.len() as u64);
    }
    comparison.report
}

/// What a kernel left behind after one vertex.
struct After {
    unit: Unit,
    outputs: Registers,
    exit: Exit,
    triangles: Triangles,
}

struct Comparison<'a> {
    sides: [Side<'a>; 2],
    work: Work<'a>,
    report: Report,
}

impl Comparison<'_> {
    /// Compares on `inputs`, of which the first is vertex `first`. Returns the unit after them.
    fn chunk(&mut self, first: usize, inputs: &[Registers], before: Unit) -> Unit {
        let reference = self.one_by_one(inputs, &before);
        let mut differs = vec![false; inputs.len()];
        self.alone(first, inputs, &before, &reference, &mut differs);
        self.batches(first, inputs, &before, &reference, &BATCHES, &mut differs);
        self.batches(first, inputs, &before, &reference, &[inputs.len()], &mut differs);
        self.report.vertices += inputs.len() as u64;
        self.report.differences += differs.iter().filter(|&&d| d).count() as u64;
        reference.last().map_or(before, |after| after.unit.clone())
    }

    fn one_by_one(&self, inputs: &[Registers], before: &Unit) -> Vec<After> {
        let mut unit = before.clone();
        inputs
            .iter()
            .map(|input| {
                let mut triangles = Triangles::default();
                copy_registers(self.work.input_mask, input, &mut unit.v);
                let exit = self.sides[0].kernel.run(self.work.uniforms, &mut unit, &mut triangles);
                let mut outputs = UNTOUCHED;
                copy_registers(self.work.output_mask, unit.outputs(), &mut outputs);
                After { unit: unit.clone(), outputs, exit, triangles }
            })
            .collect()
    }

    fn alone(&mut self, first: usize, inputs: &[Registers], before: &Unit, reference: &[After], differs: &mut [bool]) {
        let mut unit = before.clone();
        for (n, (input, want)) in inputs.iter().zip(reference).enumerate() {
            let mut triangles = Triangles::default();
            copy_registers(self.work.input_mask, input, &mut unit.v);
            let exit = self.sides[1].kernel.run(self.work.uniforms, &mut unit, &mut triangles);
            if exit == want.exit && same_unit(&want.unit, &unit) && want.triangles.same(&triangles) {
                continue;
            }
            differs[n] = true;
            if self.report.first.is_none() {
                let mut rows = exit_row(want.exit, exit);
                rows.extend(unit_rows(&want.unit, &unit));
                rows.extend(want.triangles.rows(&triangles));
                self.found(first + n, How::Run, input, rows);
            }
            unit = want.unit.clone();
        }
    }

    fn batches(
        &mut self,
        first: usize,
        inputs: &[Registers],
        before: &Unit,
        reference: &[After],
        sizes: &[usize],
        differs: &mut [bool],
    ) {
        let mut unit = before.clone();
        let mut start = 0;
        for &size in sizes.iter().cycle() {
            if start == inputs.len() {
                break;
            }
            let size = size.min(inputs.len() - start);
            let range = start..start + size;
            unit =
                self.batch(first + start, &inputs[range.clone()], unit, &reference[range.clone()], &mut differs[range]);
            start += size;
        }
    }

    /// One batch from `unit` on. Returns the unit that the first kernel has after it.
    fn batch(
        &mut self,
        first: usize,
        inputs: &[Registers],
        mut unit: Unit,
        reference: &[After],
        differs: &mut [bool],
    ) -> Unit {
        let Some(last) = reference.last() else { return unit };
        let how = How::Batch { first, size: inputs.len() };
        let mut triangles = Triangles::default();
        // One place more than there are vertices: it must be left alone.
        let mut outputs = vec![UNTOUCHED; inputs.len() + 1];
        let Work { input_mask, output_mask, .. } = self.work;
        let mut batch = Batch { inputs, outputs: &mut outputs, input_mask, output_mask };
        let exit = self.sides[1].kernel.run_batch(self.work.uniforms, &mut unit, &mut batch, &mut triangles);
        for (n, (want, got)) in reference.iter().zip(&outputs).enumerate() {
            if !same_registers(&want.outputs, got) {
                differs[n] = true;
                if self.report.first.is_none() {
                    let rows = register_rows(|r| format!("output o{r}"), &want.outputs, got);
                    self.found(first + n, how, &inputs[n], rows);
                }
            }
        }
        let end = inputs.len() - 1;
        let want_exit = reference.iter().map(|a| a.exit).find(|&e| e != Exit::End).unwrap_or(Exit::End);
        let mut want_triangles = Triangles::default();
        reference.iter().for_each(|a| want_triangles.append(&a.triangles));
        if exit != want_exit
            || !same_registers(&UNTOUCHED, &outputs[inputs.len()])
            || !same_unit(&last.unit, &unit)
            || !want_triangles.same(&triangles)
        {
            differs[end] = true;
            if self.report.first.is_none() {
                let mut rows = exit_row(want_exit, exit);
                rows.extend(register_rows(|r| format!("behind the batch: o{r}"), &UNTOUCHED, &outputs[inputs.len()]));
                rows.extend(unit_rows(&last.unit, &unit));
                rows.extend(want_triangles.rows(&triangles));
                self.found(first + end, how, &inputs[end], rows);
            }
        }
        last.unit.clone()
    }

    fn found(&mut self, vertex: usize, how: How, input: &Registers, rows: Vec<Row>) {
        let taken = |n: &usize| self.work.input_mask >> n & 1 != 0;
        let inputs = (0..input.len()).filter(taken).map(|n| (n, input[n])).collect();
        let names = self.sides.map(|s| s.name.to_string());
        self.report.first = Some(Difference { names, vertex, how, inputs, rows });
    }
}

/// Triangles in the order they were sent.
#[derive(Default)]
struct Triangles {
    count: u32,
    kept: Vec<(Box<[Registers; 3]>, bool)>,
    /// A polynomial in [`BASE`] with one coefficient a triangle, so that sequences can be put together.
    hash: u64,
}

const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        if self.kept.len() < TRIANGLES_KEPT {
            self.kept.push((Box::new(vertices.map(|v| *v)), winding));
        }
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let components = vertices.iter().flat_map(|v| v.as_flattened()).map(bits);
        let coefficient = components.chain([u32::from(winding)]).fold(0, |h: u64, word| {
            let h = (h ^ u64::from(word)).wrapping_mul(0x0000_0100_0000_01B3);
            // Multiplying alone never brings upper bits down.
            h ^ h >> 32
        });
        self.hash = self.hash.wrapping_mul(BASE).wrapping_add(coefficient);
        self.count += 1;
    }
}

impl Triangles {
    /// Puts `later` behind these.
    fn append(&mut self, later: &Triangles) {
        let room = TRIANGLES_KEPT - self.kept.len();
        // Those that were not kept on the way must not be skipped over.
        if self.count as usize == self.kept.len() {
            self.kept.extend(later.kept.iter().take(room).cloned());
        }
        self.hash = self.hash.wrapping_mul(BASE.wrapping_pow(later.count)).wrapping_add(later.hash);
        self.count += later.count;
    }

    fn same(&self, other: &Triangles) -> bool {
        self.count == other.count && self.hash == other.hash
    }

    fn rows(&self, other: &Triangles) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.same(other) {
            return rows;
        }
        if self.count != other.count {
            rows.push(Row::new("triangles", self.count, other.count));
        }
        for (n, ((a, a_winding), (b, b_winding))) in self.kept.iter().zip(&other.kept).enumerate() {
            if a_winding != b_winding {
                rows.push(Row::new(format!("triangle {n}: inverted"), a_winding, b_winding));
            }
            for (v, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                rows.extend(register_rows(|r| format!("triangle {n}, vertex {v}: o{r}"), a, b));
            }
        }
        if rows.is_empty() {
            rows.push(Row::new(format!("triangles from {} on", self.kept.len()), "some", "others"));
        }
        rows
    }
}

impl Row {
    fn new(place: impl Into<String>, want: impl fmt::Display, got: impl fmt::Display) -> Row {
        Row { place: place.into(), values: [want.to_string(), got.to_string()], differs: true }
    }
}

fn exit_row(want: Exit, got: Exit) -> Vec<Row> {
    if want == got { Vec::new() } else { vec![Row::new("exit", format!("{want:?}"), format!("{got:?}"))] }
}

/// The register files of a unit and what to call their registers.
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

/// Everything in a unit that is no register, with only the bits that count.
fn scalars(unit: &Unit) -> [(&'static str, i64); 9] {
    let set = unit.setemit;
    [
        ("a0.x", unit.a0[0].into()),
        ("a0.y", unit.a0[1].into()),
        ("aL", unit.al.into()),
        ("cmp.x", unit.cmp[0].into()),
        ("cmp.y", unit.cmp[1].into()),
        ("bank", (unit.bank & 1).into()),
        ("setemit: vertex", (set.vertex & 3).into()),
        ("setemit: primitive", set.primitive.into()),
        ("setemit: inverted", set.winding.into()),
    ]
}

fn same_registers(want: &Registers, got: &Registers) -> bool {
    want.as_flattened().iter().zip(got.as_flattened()).all(|(&a, &b)| same(a, b))
}

fn same_unit(want: &Unit, got: &Unit) -> bool {
    scalars(want) == scalars(got)
        && files(want).iter().zip(files(got)).all(|((.., want), (.., got))| same_registers(want, got))
}

fn unit_rows(want: &Unit, got: &Unit) -> Vec<Row> {
    let mut rows = Vec::new();
    // Outputs first: they are what a caller sees.
    for n in [2, 3, 1, 0, 4, 5, 6, 7] {
        let ((letter, suffix, a), (.., b)) = (files(want)[n], files(got)[n]);
        rows.extend(register_rows(|r| format!("{letter}{r}{suffix}"), a, b));
    }
    let scalars = scalars(want).into_iter().zip(scalars(got));
    rows.extend(scalars.filter(|(a, b)| a != b).map(|((name, a), (_, b))| Row::new(name, a, b)));
    rows
}

fn register_rows(name: impl Fn(usize) -> String, want: &Registers, got: &Registers) -> Vec<Row> {
    let mut rows = Vec::new();
    for (n, (a, b)) in want.iter().zip(got).enumerate() {
        if a.iter().zip(b).all(|(&a, &b)| same(a, b)) {
            continue;
        }
        for (lane, letter) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let show = |x: f32| format!("{:<14} [{:08x}]", format_f32(x), x.to_bits());
            let place = match name(n).split_once(' ') {
                // `o0 (bank 1)`: the component belongs to the register.
                Some((register, rest)) if rest.starts_with('(') => format!("{register}.{letter} {rest}"),
                _ => format!("{}.{letter}", name(n)),
            };
            let values = [show(a[lane]), show(b[lane])];
            rows.push(Row { place, values, differs: !same(a[lane], b[lane]) });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Interp;
    use crate::isa::Stage;
    use crate::kernel::Config;
    use crate::program::Entry;
    use crate::text::assemble;
    use std::sync::Mutex;

    fn kernel(body: &str, stage: Stage) -> impl Kernel {
        let program = assemble(&format!(".raw\n.proc main\n{body}\nend\n.end\n")).unwrap().shbin.program().unwrap();
        Interp.kernel(&program, Entry { pc: 0, stage }, &Config::default())
    }

    fn inputs(count: usize) -> Vec<Registers> {
        (0..count).map(|n| [[n as f32, 1.0, -0.0, 2.5]; 16]).collect()
    }

    fn diff(want: &dyn Kernel, got: &dyn Kernel, count: usize) -> Report {
        let (uniforms, unit, inputs) = (Uniforms::new(), Unit::new(), inputs(count));
        let work = Work { uniforms: &uniforms, unit: &unit, inputs: &inputs, input_mask: 0b11, output_mask: 0xFF };
        let mut seen = 0;
        let report = compare(Side { name: "one", kernel: want }, Side { name: "two", kernel: got }, &work, &mut |n| {
            seen += n;
        });
        assert_eq!(seen, count as u64);
        assert_eq!(report.vertices, count as u64);
        report
    }

    fn differs(want: &str, got: &str, stage: Stage) -> Option<Difference> {
        diff(&kernel(want, stage), &kernel(got, stage), 3).first
    }

    #[test]
    fn a_kernel_equals_itself_over_any_number_of_vertices() {
        let k = kernel("add r0, r0, v0\nmov o0, r0\nsetemit 2, prim\nemit", Stage::Geometry);
        for count in [0, 1, 2, 63, 64, 65, 200] {
            let report = diff(&k, &k, count);
            assert_eq!(report.differences, 0, "{}", report.first.unwrap());
        }
    }

    #[test]
    fn every_part_of_the_state_is_looked_at() {
        let vertex = [
            ("mov o1.y, v0", "nop", "o1.y (bank 0)"),
            ("mov r7.w, v0", "nop", "r7.w"),
            ("mova a0.y, v0.yyyy", "nop", "a0.y"),
            ("cmp v0, eq, ne, v0", "nop", "cmp.x"),
        ];
        let geometry = [
            ("setemit 1", "nop", "setemit: vertex"),
            ("setemit 0, inv", "setemit 0", "setemit: inverted"),
            ("setemit 1\nemit\nsetemit 0", "setemit 0\nemit", "bank 0"),
            ("emit", "nop", "bank"),
            ("setemit 0, prim\nemit\nsetemit 0", "setemit 0\nemit", "triangles"),
            ("setemit 0, prim inv\nemit\nsetemit 0", "setemit 0, prim\nemit\nsetemit 0", "triangle 0: inverted"),
        ];
        let cases = vertex.map(|c| (c, Stage::Vertex)).into_iter().chain(geometry.map(|c| (c, Stage::Geometry)));
        for ((want, got, place), stage) in cases {
            if place == "bank 0" {
                // Both leave the same slots, all zero, and the same bank.
                assert!(differs(want, got, stage).is_none());
                continue;
            }
            let found = differs(want, got, stage).unwrap_or_else(|| panic!("{want} equals {got}"));
            assert!(found.rows.iter().any(|r| r.place == place && r.differs), "{place} isn't in\n{found}");
            assert_eq!(found.how, How::Run);
        }
        assert!(differs("break", "nop", Stage::Vertex).unwrap().rows.iter().any(|r| r.place == "exit"));
    }

    #[test]
    fn zeros_differ_by_sign_and_nans_not_at_all() {
        // c0 is zero: its reciprocal is infinite, and infinity less infinity is NaN, of another sign when negated.
        let nan = "rcp r1, c0\nadd r1, r1, -r1\nmov o0, r1";
        assert!(differs(nan, &nan.replace("mov o0, r1", "mov o0, -r1\nmov r1, -r1"), Stage::Vertex).is_none());
        let found = differs("mov o0, c0", "mov o0, -c0", Stage::Vertex).unwrap();
        let text = found.to_string();
        assert!(text.contains("[00000000]") && text.contains("[80000000]  <- differs"), "{text}");
    }

    #[test]
    fn each_difference_counts_once() {
        // r0 counts vertices in the second kernel only; without starting anew every later vertex would differ by it.
        let uses_old = kernel("mov o0, r0\nadd r0, r0, v0.yyyy", Stage::Vertex);
        let forgets = kernel("mov o0, r0\nadd r0, r0, v0.yyyy\nmul r1, v0.xxxx, v0.xxxx", Stage::Vertex);
        // Vertex 0 multiplies zeros, which changes nothing; the others differ in r1.
        assert_eq!(diff(&uses_old, &forgets, 10).differences, 9);
    }

    /// A kernel whose `run` is right and whose `run_batch` changes the outputs of one vertex.
    struct BadBatch<K>(K, Mutex<usize>);

    impl<K: Kernel> Kernel for BadBatch<K> {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            self.0.run(uniforms, unit, emitter)
        }
        fn run_batch(&self, u: &Uniforms, unit: &mut Unit, batch: &mut Batch<'_>, e: &mut dyn Emitter) -> Exit {
            let exit = self.0.run_batch(u, unit, batch, e);
            let mut done = self.1.lock().unwrap();
            if (*done..*done + batch.inputs.len()).contains(&11) {
                batch.outputs[11 - *done][0][3] += 1.0;
            }
            *done += batch.inputs.len();
            exit
        }
    }

    #[test]
    fn batches_are_compared_vertex_by_vertex() {
        let good = kernel("mov o0, v0", Stage::Vertex);
        let bad = BadBatch(kernel("mov o0, v0", Stage::Vertex), Mutex::new(0));
        let report = diff(&good, &bad, 64);
        assert_eq!(report.differences, 1);
        let first = report.first.unwrap();
        // 1 + 3 + 4 come before: vertex 11 is the fourth of the batch of five.
        assert_eq!((first.vertex, first.how), (11, How::Batch { first: 8, size: 5 }));
        assert_eq!(first.inputs[0], (0, [11.0, 1.0, -0.0, 2.5]));
        let text = first.to_string();
        assert!(
            text.starts_with("vertex 11, through run_batch of 5 from vertex 8 on\n  v0 = (11, 1, -0, 2.5)\n"),
            "{text}"
        );
        assert!(
            text.contains("output o0.w  2.5            [40200000]  3.5            [40600000]  <- differs"),
            "{text}"
        );
    }
}
