//! Chosen vertices on the oracle -> a log: for each step the registers that it changes.
//!
//! The log begins with all registers zero. A *row* is an address or, negative, the begin of run
//! `-1 - row`, followed by pairs of slot and new value. So a reader that applies rows has the
//! registers after each step, and one that also notes the old values can go back. Values are bits.
//!
//! Invariant: a log is complete up to its end, and says why it ends before the last step.

use super::graph;
use picajit::container::shbin::{Dvle, Output};
use picajit::internals::flow::Scopes;
use picajit::internals::interp::{Interp, Step};
use picajit::internals::kernel::Config;
use picajit::isa::{REGS, Stage};
use picajit::program::Program;
use picajit::state::{EmitState, Emitter, Exit, Registers, Uniforms, Unit};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Values of one register file.
const FILE: usize = 4 * REGS;
/// First slot of each part of a state; `r` and the two banks of `o` follow `v`.
const V: usize = 0;
const R: usize = V + FILE;
const O: usize = R + FILE;
const EMITTED: usize = O + 2 * FILE;
const A0: usize = EMITTED + 4 * FILE;
const AL: usize = A0 + 2;
const CMP: usize = AL + 1;
const BANK: usize = CMP + 2;
const SETEMIT: usize = BANK + 1;
/// Number of the open scopes' text in `scopes`.
const SCOPES: usize = SETEMIT + 3;
/// Iterations that the innermost loop has left, plus one; 0 outside of loops.
const LEFT: usize = SCOPES + 1;
/// Triangles of the run up to here.
const TRIANGLES: usize = LEFT + 1;
/// Number of slots.
pub const SLOTS: usize = TRIANGLES + 1;

/// The first slot of each part.
pub fn layout() -> Value {
    json!({
        "v": V, "r": R, "o": O, "emitted": EMITTED, "a0": A0, "aL": AL, "cmp": CMP, "bank": BANK, "setemit": SETEMIT,
        "scopes": SCOPES, "left": LEFT, "triangles": TRIANGLES, "count": SLOTS,
    })
}

/// Bounds of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Steps in the log.
    pub steps: usize,
    /// Bytes of the log as JSON, roughly.
    pub bytes: usize,
    /// Executed instructions of all runs, also of those that are not in the log.
    pub executed: u64,
    /// Points and triangles of the picture.
    pub points: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 20_000, bytes: 700_000, executed: 20_000_000, points: 2048 }
    }
}

/// Values to run a program on.
#[derive(Clone, Debug)]
pub struct Values {
    /// Uniforms of the first run. As on a console b15 is set after each run of a geometry program.
    pub uniforms: Uniforms,
    /// Inputs, one for each run.
    pub inputs: Vec<Registers>,
    /// Where they come from, for readers.
    pub origin: String,
}

/// Registers, as a log records them.
pub type State = [u32; SLOTS];

/// All registers of `unit`; `scopes` is the number of a text.
fn state(unit: &Unit, scopes: u32, left: Option<u8>, triangles: u32) -> State {
    let mut state = [0; SLOTS];
    let files = [&unit.v, &unit.r].into_iter().chain(&unit.o).chain(&unit.slots);
    let values = files.flatten().flatten().map(|x| x.to_bits());
    state.iter_mut().zip(values).for_each(|(to, bits)| *to = bits);
    state[A0] = unit.a0[0].cast_unsigned();
    state[A0 + 1] = unit.a0[1].cast_unsigned();
    state[AL] = unit.al.cast_unsigned();
    state[CMP] = unit.cmp[0].into();
    state[CMP + 1] = unit.cmp[1].into();
    state[BANK] = u32::from(unit.bank & 1);
    let EmitState { vertex, primitive, winding } = unit.setemit;
    state[SETEMIT..SETEMIT + 3].copy_from_slice(&[u32::from(vertex & 3), primitive.into(), winding.into()]);
    state[SCOPES] = scopes;
    state[LEFT] = left.map_or(0, |left| u32::from(left) + 1);
    state[TRIANGLES] = triangles;
    state
}

/// Differences of successive states.
struct Log {
    rows: Vec<Vec<i64>>,
    bytes: usize,
    last: State,
    texts: Vec<String>,
    numbers: HashMap<Scopes, u32>,
}

impl Log {
    fn new() -> Log {
        let numbers = HashMap::from([(Scopes::default(), 0)]);
        Log { rows: Vec::new(), bytes: 0, last: [0; SLOTS], texts: vec![String::new()], numbers }
    }

    fn scopes(&mut self, scopes: &Scopes) -> u32 {
        let (next, texts) = (self.texts.len() as u32, &mut self.texts);
        *self.numbers.entry(*scopes).or_insert_with(|| {
            texts.push(graph::scopes(scopes));
            next
        })
    }

    fn push(&mut self, first: i64, state: State) {
        let mut row = vec![first];
        for (slot, new) in state.iter().enumerate().filter(|&(slot, new)| self.last[slot] != *new) {
            row.extend([slot as i64, i64::from(*new)]);
            // Digits of a slot and of a value, and their commas.
            self.bytes += 16;
        }
        self.bytes += 8;
        self.last = state;
        self.rows.push(row);
    }
}

/// The register components of the position: slot offsets in a bank.
fn position(dvle: &Dvle) -> [usize; 4] {
    let mut at = [0, 1, 2, 3];
    let rows = dvle.outputs.iter().filter(|row| row.semantic == 0);
    for Output { register, mask, .. } in rows {
        (0..4).filter(|c| mask >> c & 1 != 0).for_each(|c| at[c] = 4 * (usize::from(*register) & 15) + c);
    }
    at
}

/// Positions for the picture.
struct Picture {
    at: [usize; 4],
    bound: usize,
    shapes: Vec<Value>,
    left_out: usize,
    triangles: u32,
}

impl Picture {
    fn position(&self, outputs: &Registers) -> [u32; 4] {
        self.at.map(|n| outputs[n / 4][n % 4].to_bits())
    }

    fn add(&mut self, run: usize, corners: &[[u32; 4]]) {
        if self.shapes.len() < self.bound {
            let mut shape = vec![run as u32];
            shape.extend(corners.iter().flatten());
            self.shapes.push(json!(shape));
        } else {
            self.left_out += 1;
        }
    }
}

/// Adds the triangles of a run to the picture.
struct Sink<'a> {
    run: usize,
    picture: &'a RefCell<Picture>,
}

impl Emitter for Sink<'_> {
    fn triangle(&mut self, vertices: [&Registers; 3], _: bool) {
        let mut picture = self.picture.borrow_mut();
        let corners = vertices.map(|v| picture.position(v));
        picture.triangles += 1;
        picture.add(self.run, &corners);
    }
}

/// Runs entry `dvle` on all of `values`, in sequence on one unit. The runs whose numbers are in
/// `chosen` are logged. Runs stop at the bound of executed instructions; the log may end earlier.
pub fn trace(
    program: &Program,
    dvle: &Dvle,
    values: &Values,
    chosen: &[usize],
    config: Config,
    bounds: Bounds,
) -> Value {
    let entry = dvle.entry();
    let kernel = Interp.kernel(program, entry, &config);
    let mut uniforms = values.uniforms.clone();
    let mut unit = Unit::new();
    let mut log = Log::new();
    let picture = RefCell::new(Picture {
        at: position(dvle),
        bound: bounds.points,
        shapes: Vec::new(),
        left_out: 0,
        triangles: 0,
    });
    let mut runs = Vec::new();
    let (mut executed, mut complete, mut cut) = (0u64, true, None);
    for (n, inputs) in values.inputs.iter().enumerate() {
        unit.v = *inputs;
        picture.borrow_mut().triangles = 0;
        let is_logged = complete && chosen.contains(&n);
        let first = log.rows.len();
        if is_logged {
            log.push(-1 - n as i64, state(&unit, 0, None, 0));
        }
        let before = executed;
        let hook = |step: Step<'_>| {
            executed += 1;
            if is_logged && complete {
                if log.rows.len() >= bounds.steps || log.bytes >= bounds.bytes {
                    complete = false;
                    cut = Some(format!("the log ends in run {n}, after {} rows", log.rows.len()));
                } else {
                    let scopes = log.scopes(step.scopes);
                    let triangles = picture.borrow().triangles;
                    log.push(step.pc.into(), state(step.unit, scopes, step.iterations_left, triangles));
                }
            }
            if executed < bounds.executed { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let exit = kernel.run_hooked(&uniforms, &mut unit, &mut Sink { run: n, picture: &picture }, hook);
        runs.push(json!([exit.map_or("stopped", exit_name), executed - before, is_logged.then_some(first)]));
        let Some(_) = exit else {
            cut = Some(format!("run {n} stops after {} instructions of all runs", bounds.executed));
            break;
        };
        match entry.stage {
            Stage::Vertex => {
                let position = picture.borrow().position(unit.outputs());
                picture.borrow_mut().add(n, &[position]);
            }
            Stage::Geometry => uniforms.b |= 1 << 15,
        }
    }
    let Picture { shapes, left_out, at, .. } = picture.into_inner();
    let c: Vec<[u32; 4]> = values.uniforms.c.iter().map(|c| c.map(f32::to_bits)).collect();
    json!({
        "origin": values.origin,
        "uniforms": { "c": c, "i": values.uniforms.i, "b": values.uniforms.b },
        "runs": runs,
        "rows": log.rows,
        "scopes": log.texts,
        "cut": cut,
        "position": at,
        "shapes": shapes,
        "shapes_left_out": left_out,
    })
}

/// How a run ends, for readers.
pub fn exit_name(exit: Exit) -> &'static str {
    match exit {
        Exit::End => "end",
        Exit::Fuel => "out of fuel",
        Exit::BreakOutsideLoop => "break outside of a loop",
        Exit::PastEnd => "past the last word",
        Exit::Cancelled => "cancelled",
    }
}

/// The states after each row of the log of `chosen` runs, found without the log: each from the
/// oracle's registers. For tests of readers.
pub fn states(program: &Program, dvle: &Dvle, values: &Values, chosen: &[usize], config: Config) -> Vec<State> {
    let entry = dvle.entry();
    let kernel = Interp.kernel(program, entry, &config);
    let mut uniforms = values.uniforms.clone();
    let (mut unit, mut log, mut states) = (Unit::new(), Log::new(), Vec::new());
    for (n, inputs) in values.inputs.iter().enumerate() {
        unit.v = *inputs;
        let is_logged = chosen.contains(&n);
        if is_logged {
            states.push(state(&unit, 0, None, 0));
        }
        let triangles = RefCell::new(0);
        struct Count<'a>(&'a RefCell<u32>);
        impl Emitter for Count<'_> {
            fn triangle(&mut self, _: [&Registers; 3], _: bool) {
                *self.0.borrow_mut() += 1;
            }
        }
        let hook = |step: Step<'_>| {
            if is_logged {
                states.push(state(step.unit, log.scopes(step.scopes), step.iterations_left, *triangles.borrow()));
            }
            ControlFlow::Continue(())
        };
        kernel.run_hooked(&uniforms, &mut unit, &mut Count(&triangles), hook);
        if entry.stage == Stage::Geometry {
            uniforms.b |= 1 << 15;
        }
    }
    states
}
