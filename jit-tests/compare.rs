//! [`Case`] x engines -> [`Outcome`], or the first [`Divergence`] from the interpreter, shrunk.
//!
//! Every engine runs the same vertices one after the other on one unit, alone through `run` and again through `run_batch`
//! at several sizes; after each call everything that the program can reach must be the interpreter's: registers, both
//! output banks, vertex slots, addresses, flags, copied outputs, triangles in order, exit. A NaN equals every NaN, nothing
//! else is forgiven. It must not know which engines there are.

use super::case::Case;
use picajit::interp::{Interp, Step};
use picajit::isa::numeric::same;
use picajit::kernel::{Backend, Kernel, Unsupported, copy_registers};
use picajit::program::Program;
use picajit::state::{Batch, Emitter, Exit, Registers, Unit, Vec4};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Batch sizes, around the lane widths that engines may have; the whole is tried as well.
const BATCHES: [usize; 5] = [1, 3, 4, 5, 17];

/// What output registers hold before: a number that no program computes by chance, to see what is left alone.
const UNTOUCHED: Registers = [[-12_345.678; 4]; 16];

/// An engine and the name it goes by in reports.
pub type Engine<'a> = (&'a str, &'a dyn Backend);

/// What a comparison without divergence saw.
pub struct Outcome {
    /// How each vertex ended.
    pub exits: Vec<Exit>,
    /// Triangles sent in all.
    pub triangles: usize,
    /// For every engine, what refused to compile, if it did.
    pub refused: Vec<Option<Unsupported>>,
}

/// An engine that did something else than the interpreter.
pub struct Divergence {
    /// The case, as small as it got.
    pub case: Case,
    /// The engine's name.
    pub engine: String,
    /// `run`, or `run_batch` and the size.
    pub how: String,
    /// Which vertex, counted from 0; for a batch, the last one it held.
    pub vertex: usize,
    /// What differs: a register, the exit, an output, a triangle.
    pub place: String,
    /// The interpreter's value.
    pub want: String,
    /// The engine's value.
    pub got: String,
    /// The divergence as it was before shrinking, which may have come upon another one.
    pub originally: Option<String>,
}

impl Divergence {
    /// Everything but the case, in a line.
    pub fn summary(&self) -> String {
        let Divergence { engine, how, vertex, place, want, got, .. } = self;
        format!("{engine} ({how}), vertex {vertex}: {place} is {got}, but on the interpreter {want}")
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        if let Some(originally) = &self.originally {
            writeln!(f, "before it was shrunk: {originally}")?;
        }
        write!(f, "{}", self.case)
    }
}

impl fmt::Debug for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place, and the two values there.
type Difference = (String, String, String);

fn difference(place: impl Into<String>, want: impl fmt::Debug, got: impl fmt::Debug) -> Difference {
    (place.into(), format!("{want:?}"), format!("{got:?}"))
}

/// A triangle that was sent. The registers are kept for the first few only; the hash is of all bits, NaN as one value.
struct Triangle {
    hash: u64,
    winding: bool,
    vertices: Option<Box<[Registers; 3]>>,
}

#[derive(Default)]
struct Triangles(Vec<Triangle>);

const TRIANGLES_KEPT: usize = 32;

impl Emitter for Triangles {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        let components = vertices.iter().flat_map(|v| v.as_flattened());
        let hash = components.fold(0xCBF2_9CE4_8422_2325u64, |h, x| {
            let bits = if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            (h ^ u64::from(bits)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        let vertices = (self.0.len() < TRIANGLES_KEPT).then(|| Box::new(vertices.map(|v| *v)));
        self.0.push(Triangle { hash, winding, vertices });
    }
}

/// What the interpreter left behind after each vertex.
struct Reference {
    after: Vec<Unit>,
    outputs: Vec<Registers>,
    exits: Vec<Exit>,
    triangles: Vec<Triangles>,
}

impl Reference {
    fn new(case: &Case) -> Reference {
        let kernel = Interp.kernel(&case.program, case.entry, &case.config);
        let mut unit = case.unit.clone();
        let mut reference =
            Reference { after: Vec::new(), outputs: Vec::new(), exits: Vec::new(), triangles: Vec::new() };
        for input in &case.inputs {
            let mut triangles = Triangles::default();
            copy_registers(case.input_mask, input, &mut unit.v);
            reference.exits.push(kernel.run(&case.uniforms, &mut unit, &mut triangles));
            let mut output = UNTOUCHED;
            copy_registers(case.output_mask, unit.outputs(), &mut output);
            reference.outputs.push(output);
            reference.after.push(unit.clone());
            reference.triangles.push(triangles);
        }
        reference
    }
}

/// Calls `hook` for every instruction that the interpreter executes for the first vertex of `case`.
pub fn trace(case: &Case, hook: &mut dyn FnMut(Step<'_>)) -> Exit {
    let mut unit = case.unit.clone();
    copy_registers(case.input_mask, &case.inputs[0], &mut unit.v);
    let kernel = Interp.kernel(&case.program, case.entry, &case.config);
    kernel.run_traced(&case.uniforms, &mut unit, &mut Triangles::default(), hook)
}

/// Whether `case`'s first vertex writes outputs, and the same ones whatever the unit held before: what engines that run
/// several vertices at once need.
pub fn is_independent(case: &Case) -> bool {
    let [units, befores] = {
        let other = Unit { v: case.unit.v, bank: case.unit.bank, ..Unit::new() };
        let befores = [case.unit.clone(), other];
        let kernel = Interp.kernel(&case.program, case.entry, &case.config);
        let mut units = befores.clone();
        for unit in &mut units {
            copy_registers(case.input_mask, &case.inputs[0], &mut unit.v);
            kernel.run(&case.uniforms, unit, &mut Triangles::default());
        }
        [units, befores]
    };
    let components = |unit: &Unit| unit.outputs().as_flattened().to_vec();
    let ([a, b], [before_a, before_b]) = (units.map(|u| components(&u)), befores.map(|u| components(&u)));
    let untouched = |n: usize| same(a[n], before_a[n]) && same(b[n], before_b[n]);
    let written: Vec<usize> = (0..a.len()).filter(|&n| !untouched(n)).collect();
    !written.is_empty() && written.iter().all(|&n| same(a[n], b[n]))
}

/// Runs `case` on the interpreter and on every engine. An engine that refuses the program is noted, not blamed. The
/// divergence is reported as it was found; see [`shrink`].
pub fn compare(case: &Case, engines: &[Engine<'_>]) -> Result<Outcome, Box<Divergence>> {
    let reference = Reference::new(case);
    let mut refused = Vec::new();
    for &(name, backend) in engines {
        let mut at = At { how: "compile".to_string(), vertex: 0 };
        let checked = catch_unwind(AssertUnwindSafe(|| check(case, &reference, backend, &mut at)));
        let outcome = checked.unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(("what it does".into(), "no panic".into(), format!("a panic: {}", message.unwrap_or_default())))
        });
        match outcome {
            Ok(unsupported) => refused.push(unsupported),
            Err((place, want, got)) => {
                let (case, engine) = (case.clone(), name.to_string());
                let At { how, vertex } = at;
                let divergence = Divergence { case, engine, how, vertex, place, want, got, originally: None };
                return Err(Box::new(divergence));
            }
        }
    }
    let triangles = reference.triangles.iter().map(|t| t.0.len()).sum();
    Ok(Outcome { exits: reference.exits, triangles, refused })
}

/// Where a check stands.
struct At {
    how: String,
    vertex: usize,
}

fn check(
    case: &Case,
    reference: &Reference,
    backend: &dyn Backend,
    at: &mut At,
) -> Result<Option<Unsupported>, Difference> {
    let kernel = match backend.compile(&case.program, case.entry, &case.config) {
        Ok(kernel) => kernel,
        Err(unsupported) => return Ok(Some(unsupported)),
    };
    at.how = "run".to_string();
    let mut unit = case.unit.clone();
    for (n, input) in case.inputs.iter().enumerate() {
        at.vertex = n;
        let mut triangles = Triangles::default();
        copy_registers(case.input_mask, input, &mut unit.v);
        let exit = kernel.run(&case.uniforms, &mut unit, &mut triangles);
        same_exit(reference.exits[n], exit)?;
        same_unit(&reference.after[n], &unit)?;
        same_triangles(&reference.triangles[n..=n], &triangles)?;
    }
    let whole = case.inputs.len();
    for size in BATCHES.into_iter().filter(|&size| size < whole).chain([whole]) {
        at.how = format!("run_batch of {size}");
        check_batches(case, reference, &*kernel, size, at)?;
    }
    Ok(None)
}

fn check_batches(
    case: &Case,
    reference: &Reference,
    kernel: &dyn Kernel,
    size: usize,
    at: &mut At,
) -> Result<(), Difference> {
    let mut unit = case.unit.clone();
    for (chunk, inputs) in case.inputs.chunks(size).enumerate() {
        let (first, end) = (chunk * size, chunk * size + inputs.len());
        at.vertex = end - 1;
        let mut triangles = Triangles::default();
        // One place more than there are vertices: it must be left alone.
        let mut outputs = vec![UNTOUCHED; inputs.len() + 1];
        let mut batch =
            Batch { inputs, outputs: &mut outputs, input_mask: case.input_mask, output_mask: case.output_mask };
        let exit = kernel.run_batch(&case.uniforms, &mut unit, &mut batch, &mut triangles);
        let exits = &reference.exits[first..end];
        same_exit(exits.iter().copied().find(|&e| e != Exit::End).unwrap_or(Exit::End), exit)?;
        for (n, output) in outputs.iter().enumerate() {
            let want = if n < inputs.len() { &reference.outputs[first + n] } else { &UNTOUCHED };
            same_registers(|r| format!("output o{r} of vertex {}", first + n), want, output)?;
        }
        same_unit(&reference.after[end - 1], &unit)?;
        same_triangles(&reference.triangles[first..end], &triangles)?;
    }
    Ok(())
}

fn same_exit(want: Exit, got: Exit) -> Result<(), Difference> {
    if want == got { Ok(()) } else { Err(difference("the exit", want, got)) }
}

fn same_registers(name: impl Fn(usize) -> String, want: &Registers, got: &Registers) -> Result<(), Difference> {
    let differs = |(w, g): (&Vec4, &Vec4)| w.iter().zip(g).any(|(&w, &g)| !same(w, g));
    match want.iter().zip(got).position(differs) {
        None => Ok(()),
        Some(n) => Err(difference(name(n), want[n], got[n])),
    }
}

fn same_value<T: PartialEq + fmt::Debug>(name: &str, want: T, got: T) -> Result<(), Difference> {
    if want == got { Ok(()) } else { Err(difference(name, want, got)) }
}

fn same_unit(want: &Unit, got: &Unit) -> Result<(), Difference> {
    same_registers(|n| format!("v{n}"), &want.v, &got.v)?;
    same_registers(|n| format!("r{n}"), &want.r, &got.r)?;
    for bank in 0..2 {
        same_registers(|n| format!("o{n} of bank {bank}"), &want.o[bank], &got.o[bank])?;
    }
    for slot in 0..4 {
        same_registers(|n| format!("o{n} in slot {slot}"), &want.slots[slot], &got.slots[slot])?;
    }
    same_value("a0", want.a0, got.a0)?;
    same_value("aL", want.al, got.al)?;
    same_value("cmp", want.cmp, got.cmp)?;
    same_value("the bank", want.bank, got.bank)?;
    same_value("the emit state", want.setemit, got.setemit)
}

fn same_triangles(want: &[Triangles], got: &Triangles) -> Result<(), Difference> {
    let all: Vec<&Triangle> = want.iter().flat_map(|t| &t.0).collect();
    for (n, (w, g)) in all.iter().zip(&got.0).enumerate() {
        if let (Some(w), Some(g)) = (&w.vertices, &g.vertices) {
            for (corner, (w, g)) in w.iter().zip(g.iter()).enumerate() {
                same_registers(|r| format!("o{r} of vertex {corner} of triangle {n}"), w, g)?;
            }
        }
        same_value(&format!("the winding of triangle {n}"), w.winding, g.winding)?;
        same_value(&format!("the bits of triangle {n}"), w.hash, g.hash)?;
    }
    same_value("the number of triangles", all.len(), got.0.len())
}

/// A smaller case on which `engine` still diverges: fewer vertices, fewer words, simpler state. What diverges may change
/// on the way; that it does stays. Compares at most a few times as often as the program has words.
pub fn shrink(found: Box<Divergence>, engine: Engine<'_>) -> Box<Divergence> {
    let mut best = found;
    let attempt = |best: &mut Box<Divergence>, change: &dyn Fn(&mut Case)| {
        let mut case = best.case.clone();
        change(&mut case);
        match compare(&case, &[engine]) {
            Err(smaller) => {
                *best = smaller;
                true
            }
            Ok(_) => false,
        }
    };
    let originally = best.summary();
    let vertex = best.vertex;
    attempt(&mut best, &|case| case.inputs.truncate(vertex + 1));
    while best.case.inputs.len() > 1 && attempt(&mut best, &|case| case.inputs = case.inputs.split_off(1)) {}
    attempt(&mut best, &|case| (case.input_mask, case.output_mask) = (0xFFFF, 0xFFFF));
    // NOPs for words, twice since one word can be needed by another only; then what is unused at the end.
    for _ in 0..2 {
        for at in 0..best.case.program.code().len() {
            if best.case.program.code()[at] != NOP {
                attempt(&mut best, &|case| with_code(case, |code| code[at] = NOP));
            }
        }
    }
    while best.case.program.code().len() > 1
        && attempt(&mut best, &|case| with_code(case, |code| code.truncate(code.len() - 1)))
    {}
    attempt(&mut best, &|case| case.unit = Unit::new());
    best.originally = Some(originally);
    best
}

const NOP: u32 = 0x21 << 26;

fn with_code(case: &mut Case, change: impl Fn(&mut Vec<u32>)) {
    let mut code = case.program.code().to_vec();
    change(&mut code);
    let program = Program::from_words(&code, case.program.opdescs()).expect("it got no longer");
    case.program = Arc::new(program);
}
