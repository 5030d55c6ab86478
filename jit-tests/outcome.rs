//! Items -> initial state; a run -> its results; and two comparisons: with an expectation, and with
//! the reference.

use crate::items::{File, Item, Location, Value};
use picajit::internals::kernel::{Kernel, copy_registers};
use picajit::isa::numeric::same;
use picajit::state::{Batch, BatchExit, Emitter, Exit, Registers, Uniforms, Unit};

/// All results of a run.
#[derive(Clone)]
pub struct Outcome {
    pub exit: Exit,
    /// Vertices that ran.
    pub ran: usize,
    pub unit: Unit,
    /// One register file a vertex; empty for `run`.
    pub outputs: Vec<Registers>,
    pub triangles: Vec<Triangle>,
}

/// One emitted triangle.
#[derive(Clone)]
pub struct Triangle {
    pub vertices: [Registers; 3],
    pub winding: bool,
}

#[derive(Default)]
struct Collect(Vec<Triangle>);

impl Emitter for Collect {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.0.push(Triangle { vertices: vertices.map(|v| *v), winding });
    }
}

/// Output registers before a batch: a value that no program computes, so that an unwritten one
/// shows.
pub const UNTOUCHED: f32 = -77_777.0;

/// Runs once.
pub fn run(kernel: &dyn Kernel, uniforms: &Uniforms, unit: &Unit) -> Outcome {
    let (mut unit, mut emitter) = (unit.clone(), Collect::default());
    let exit = kernel.run(uniforms, &mut unit, &mut emitter);
    Outcome { exit, ran: 1, unit, outputs: Vec::new(), triangles: emitter.0 }
}

/// Runs a batch through the engine's own `run_batch`.
pub fn run_batch(
    kernel: &dyn Kernel,
    uniforms: &Uniforms,
    unit: &Unit,
    inputs: &[Registers],
    masks: (u16, u16),
    preserve_unit: bool,
) -> Outcome {
    let (mut unit, mut emitter) = (unit.clone(), Collect::default());
    let mut outputs = vec![[[UNTOUCHED; 4]; 16]; inputs.len()];
    let mut batch = Batch {
        inputs: inputs.into(),
        outputs: (&mut outputs).into(),
        input_mask: masks.0,
        output_mask: masks.1,
        preserve_unit,
    };
    let BatchExit { exit, ran } = kernel.run_batch(uniforms, &mut unit, &mut batch, &mut emitter);
    Outcome { exit, ran, unit, outputs, triangles: emitter.0 }
}

/// The meaning of a batch: load, run and copy out each vertex in sequence, up to one that runs out
/// of fuel.
pub fn run_sequentially(
    kernel: &dyn Kernel,
    uniforms: &Uniforms,
    unit: &Unit,
    inputs: &[Registers],
    masks: (u16, u16),
) -> Outcome {
    let (mut unit, mut emitter) = (unit.clone(), Collect::default());
    let mut outputs = vec![[[UNTOUCHED; 4]; 16]; inputs.len()];
    let (mut first_failure, mut ran) = (Exit::End, 0);
    for (input, output) in inputs.iter().zip(&mut outputs) {
        copy_registers(masks.0, input, &mut unit.v);
        let exit = kernel.run(uniforms, &mut unit, &mut emitter);
        copy_registers(masks.1, unit.outputs(), output);
        ran += 1;
        if exit == Exit::Fuel {
            first_failure = exit;
            break;
        }
        if first_failure == Exit::End {
            first_failure = exit;
        }
    }
    Outcome { exit: first_failure, ran, unit, outputs, triangles: emitter.0 }
}

/// Writes an item into the state before a run. [`crate::directive`] handles `fuel`.
pub fn set(item: &Item, uniforms: &mut Uniforms, unit: &mut Unit) -> Result<(), String> {
    let bank = usize::from(unit.bank & 1);
    match (&item.place, &item.value) {
        (Location::Vector { file, number, lanes }, Value::Floats(values)) => {
            let register = match file {
                File::V => &mut unit.v[*number],
                File::R => &mut unit.r[*number],
                File::C => &mut uniforms.c[*number],
                File::O => &mut unit.o[bank][*number],
                File::Bank(n) => &mut unit.o[*n][*number],
                File::Slot(n) => &mut unit.slots[*n][*number],
                File::Triangle { .. } => return Err(format!("`{}` can't be set", item.name)),
            };
            lanes.iter().zip(values).for_each(|(&lane, &value)| register[lane] = value);
        }
        (Location::Int(n), Value::Ints(v)) => {
            uniforms.i[*n] = std::array::from_fn(|lane| v.get(lane).map_or(0, |&b| b as u8));
        }
        (Location::Bool(n), Value::Bools(v)) => uniforms.b = uniforms.b & !(1 << n) | u16::from(v[0]) << n,
        (Location::Address(lanes), Value::Ints(v)) => {
            lanes.iter().zip(v).for_each(|(&lane, &n)| unit.a0[lane] = n as i32);
        }
        (Location::Flags(lanes), Value::Bools(v)) => lanes.iter().zip(v).for_each(|(&lane, &f)| unit.cmp[lane] = f),
        (Location::Loop, Value::Ints(v)) => unit.al = v[0] as i32,
        (Location::Bank, Value::Ints(v)) => unit.bank = v[0] as u8,
        (Location::Setemit, Value::Ints(v)) => {
            unit.setemit.vertex = v[0] as u8;
            unit.setemit.primitive = v[1] != 0;
            unit.setemit.winding = v[2] != 0;
        }
        (Location::Fuel, _) => {}
        _ => return Err(format!("`{}` can't be set", item.name)),
    }
    Ok(())
}

/// Compares results with an expectation, within `ulps` of float24. Returns one line per difference.
pub fn check(item: &Item, got: &Outcome, ulps: f64) -> Result<Vec<String>, String> {
    let unit = &got.unit;
    let bank = usize::from(unit.bank & 1);
    let mut wrong = Vec::new();
    let mut ints = |name: &str, want: i64, got: i64| {
        if want != got {
            wrong.push(format!("{name}: expected {want}, got {got}"));
        }
    };
    let triangle = |n: usize| {
        got.triangles
            .get(n)
            .ok_or_else(|| format!("{}: only {} triangles were emitted", item.name, got.triangles.len()))
    };
    match (&item.place, &item.value) {
        (Location::Vector { file, number, lanes }, Value::Floats(values)) => {
            let register = match file {
                File::V => &unit.v[*number],
                File::R => &unit.r[*number],
                File::O => &unit.o[bank][*number],
                File::Bank(n) => &unit.o[*n][*number],
                File::Slot(n) => &unit.slots[*n][*number],
                File::Triangle { triangle: n, vertex } => match triangle(*n) {
                    Ok(t) => &t.vertices[*vertex][*number],
                    Err(e) => return Ok(vec![e]),
                },
                File::C => return Err(format!("`{}` can't change", item.name)),
            };
            if lanes.iter().zip(values).any(|(&lane, &want)| !close(want, register[lane], ulps)) {
                let got: Vec<f32> = lanes.iter().map(|&lane| register[lane]).collect();
                wrong.push(format!("{}: expected {}, got {}", item.name, show(values), show(&got)));
            }
        }
        (Location::Address(lanes), Value::Ints(v)) => {
            lanes.iter().zip(v).for_each(|(&l, &n)| ints(["a0.x", "a0.y"][l], n, i64::from(unit.a0[l])));
        }
        (Location::Flags(lanes), Value::Bools(v)) => {
            lanes.iter().zip(v).for_each(|(&l, &f)| ints(["cmp.x", "cmp.y"][l], f.into(), unit.cmp[l].into()));
        }
        (Location::Loop, Value::Ints(v)) => ints("aL", v[0], unit.al.into()),
        (Location::Bank, Value::Ints(v)) => ints("bank", v[0], bank as i64),
        (Location::Setemit, Value::Ints(v)) => {
            let s = unit.setemit;
            let got = [i64::from(s.vertex), s.primitive.into(), s.winding.into()];
            v.iter().zip(got).for_each(|(&want, got)| ints("setemit", want, got));
        }
        (Location::Triangles, Value::Ints(v)) => ints("tris", v[0], got.triangles.len() as i64),
        (Location::Winding(n), Value::Bools(v)) => match triangle(*n) {
            Ok(t) => ints(&item.name, v[0].into(), t.winding.into()),
            Err(e) => return Ok(vec![e]),
        },
        (Location::Exit, Value::Exit(exit)) => {
            if *exit != got.exit {
                wrong.push(format!("exit: expected {exit:?}, got {:?}", got.exit));
            }
        }
        _ => return Err(format!("`{}` can't be expected", item.name)),
    }
    Ok(wrong)
}

/// Whether two floats have the same bits (any NaN equals any NaN), or are within `ulps` units in
/// the last place of float24.
fn close(want: f32, got: f32, ulps: f64) -> bool {
    if same(want, got) {
        return true;
    }
    if ulps == 0.0 || !want.is_finite() || !got.is_finite() || want == 0.0 {
        return false;
    }
    let unit = (f64::from(want).abs().log2().floor() - 16.0).exp2();
    (f64::from(want) - f64::from(got)).abs() <= ulps * unit
}

/// Values with their bits, since decimal text could hide a difference.
fn show(values: &[f32]) -> String {
    let parts: Vec<String> = values.iter().map(|v| format!("{v:?} [{:08x}]", v.to_bits())).collect();
    format!("({})", parts.join(", "))
}

/// The differences between two outcomes over the complete state, in at most twenty lines.
pub fn differences(want: &Outcome, got: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    if want.exit != got.exit {
        out.push(format!("exit: reference {:?}, got {:?}", want.exit, got.exit));
    }
    if want.ran != got.ran {
        out.push(format!("vertices that ran: reference {}, got {}", want.ran, got.ran));
    }
    let (w, g) = (&want.unit, &got.unit);
    registers("v", &w.v, &g.v, &mut out);
    registers("r", &w.r, &g.r, &mut out);
    for n in 0..w.o.len() {
        registers(&format!("bank{n}.o"), &w.o[n], &g.o[n], &mut out);
    }
    for n in 0..w.slots.len() {
        registers(&format!("slot{n}.o"), &w.slots[n], &g.slots[n], &mut out);
    }
    let state = |u: &Unit| format!("a0 {:?}, aL {}, cmp {:?}, bank {}, {:?}", u.a0, u.al, u.cmp, u.bank & 1, u.setemit);
    if state(w) != state(g) {
        out.push(format!("reference {}", state(w)));
        out.push(format!("      got {}", state(g)));
    }
    for (n, (w, g)) in want.outputs.iter().zip(&got.outputs).enumerate() {
        registers(&format!("vertex {n}: o"), w, g, &mut out);
    }
    if want.triangles.len() != got.triangles.len() {
        out.push(format!("triangles: reference {}, got {}", want.triangles.len(), got.triangles.len()));
    }
    for (n, (w, g)) in want.triangles.iter().zip(&got.triangles).enumerate() {
        if w.winding != g.winding {
            out.push(format!("tri[{n}].winding: reference {}, got {}", w.winding, g.winding));
        }
        for v in 0..3 {
            registers(&format!("tri[{n}].v{v}.o"), &w.vertices[v], &g.vertices[v], &mut out);
        }
    }
    if out.len() > 20 {
        let more = out.len() - 20;
        out.truncate(20);
        out.push(format!("... and {more} more"));
    }
    out
}

fn registers(name: &str, want: &Registers, got: &Registers, out: &mut Vec<String>) {
    for (n, (w, g)) in want.iter().zip(got).enumerate() {
        if w.iter().zip(g).any(|(&w, &g)| !same(w, g)) {
            out.push(format!("{name}{n}: reference {}, got {}", show(w), show(g)));
        }
    }
}
