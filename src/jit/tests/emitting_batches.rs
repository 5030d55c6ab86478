//! Batches of programs that emit: vertices in order, and the unit, bit for bit those of invocations
//! that run singly.

use super::batches::numbers;
use crate::jit::tests::*;
use crate::kernel::{Kernel, NoNextKernel};
use crate::layout::{HostEmitter, HostMemory};
use crate::state::{BatchExit, EmitState, EmittedVertex, VerticesMut, copy_registers};
use std::cell::Cell;

/// Every EMIT and every triangle.
#[derive(Default, PartialEq, Debug)]
struct Received {
    vertices: Vec<([[u32; 4]; 16], EmitState)>,
    triangles: Vec<([[[u32; 4]; 16]; 3], bool)>,
}

fn bits(registers: &Registers) -> [[u32; 4]; 16] {
    registers.map(|v| v.map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }))
}

impl Emitter for Received {
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        self.vertices.push((bits(outputs), how));
    }

    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.triangles.push((vertices.map(bits), winding));
    }
}

/// A native kernel and the oracle.
struct Pair {
    native: NativeKernel,
    oracle: Arc<dyn Kernel>,
}

impl Pair {
    fn new(body: &str, fuel: u32) -> Pair {
        let settings = Settings { batch_threshold: 0, count_bailouts: true, ..Settings::default() };
        let jit = Jit::with(Variant::Batch, settings).expect("tests run where there is native code");
        let (program, entry) = program(&format!(".gsh point c0\n.proc main\n{body}\n end\n.end"));
        let config = Config { fuel, ..Config::default() };
        let native = jit.compile_native(&program, entry, &config).expect("native");
        Pair { native, oracle: Interp.compile(&program, entry, &config).expect("an oracle") }
    }

    /// A batch of these inputs, compared with single runs.
    fn compare(&self, uniforms: &Uniforms, unit: &Unit, inputs: &[Registers]) -> BatchExit {
        let (mut want, mut wanted) = (unit.clone(), Received::default());
        let mut ended = BatchExit::NONE;
        for input in inputs {
            want.v = *input;
            if !ended.count(self.oracle.run(uniforms, &mut want, &mut wanted)) {
                break;
            }
        }
        let (mut unit, mut received) = (unit.clone(), Received::default());
        let mut batch = Batch {
            inputs: inputs.into(),
            outputs: VerticesMut::none(inputs.len()),
            input_mask: 0xFFFF,
            output_mask: 0,
            preserve_unit: false,
        };
        let exit = self.native.run_batch(uniforms, &mut unit, &mut batch, &mut received);
        let size = inputs.len();
        assert_eq!(exit, ended, "of {size}");
        assert_eq!(received, wanted, "of {size}");
        assert_eq!(unit.o.map(|o| bits(&o)), want.o.map(|o| bits(&o)), "of {size}");
        assert_eq!(unit.slots.map(|o| bits(&o)), want.slots.map(|o| bits(&o)), "of {size}");
        assert_eq!((bits(&unit.r), unit.bank, unit.setemit), (bits(&want.r), want.bank, want.setemit), "of {size}");
        exit
    }

    fn groups(&self) -> u32 {
        self.native.stats().groups
    }

    fn bailouts(&self, reason: &str) -> u32 {
        let reasons = self.native.stats().bailout_reasons;
        reasons.into_iter().find(|(name, _)| *name == reason).expect("a reason").1
    }
}

/// A unit whose banks have different bits everywhere.
fn unit() -> Unit {
    let mut unit = Unit::new();
    for (bank, o) in unit.o.iter_mut().enumerate() {
        *o = std::array::from_fn(|n| [0.5 + n as f32 + 100.0 * bank as f32; 4]);
    }
    unit
}

fn inputs(count: usize) -> Vec<Registers> {
    (0..count).map(numbers).collect()
}

#[test]
fn an_invocation_emits_as_often_as_a_uniform_says() {
    let pair = Pair::new(" mov r0, v0\n for i0\n setemit 2, prim\n add r0, v1, r0\n mov o0, r0\n emit\n .end", 1 << 20);
    let mut uniforms = Uniforms::new();
    for emits in [3, 1, 2, 9, 7, 100, 255, 2] {
        uniforms.i[0] = [emits - 1, 0, 1, 0];
        // The first of seven groups learns the number.
        let before = pair.groups();
        pair.compare(&uniforms, &unit(), &inputs(33));
        assert!(pair.groups() >= before + 6, "{emits} EMITs");
        for size in [8, 9, 16, 33, 70] {
            let before = pair.groups();
            pair.compare(&uniforms, &unit(), &inputs(size));
            assert!(pair.groups() > before, "{emits} EMITs, a batch of {size}");
        }
    }
    assert!(pair.bailouts("another number of EMITs") > 0);
    assert_eq!(pair.native.stats().bailouts, 0, "they are no bailouts that count");
}

#[test]
fn an_invocation_with_too_many_emits_for_a_group_runs_singly() {
    let pair = Pair::new(" for i0\n for i0\n setemit 1\n mov o0, v0\n emit\n .end\n .end", 1 << 20);
    let mut uniforms = Uniforms::new();
    uniforms.i[0] = [20, 0, 1, 0];
    pair.compare(&uniforms, &unit(), &inputs(9));
    assert_eq!(pair.groups(), 0);
    uniforms.i[0] = [4, 0, 1, 0];
    pair.compare(&uniforms, &unit(), &inputs(9));
}

#[test]
fn values_of_an_earlier_emit_have_guards() {
    // The product is in no output at the end.
    let pair =
        Pair::new(" mov r0, v0\n setemit 0\n mul o0, r0, v1\n emit\n setemit 1, prim\n mov o0, v2\n emit", 1 << 20);
    for zero in 0..24 {
        let mut inputs = inputs(24);
        (inputs[zero][0], inputs[zero][1]) = ([0.0; 4], [f32::INFINITY; 4]);
        pair.compare(&Uniforms::new(), &unit(), &inputs);
    }
    assert!(pair.groups() > 0 && pair.native.stats().bailouts > 0, "{:?}", pair.native.stats());
}

#[test]
fn a_value_that_is_emitted_again_is_the_same_in_every_record() {
    let bodies = [
        // To other registers of the same record and of later ones.
        " mov r0, v0\n mul r0, r0, v1\n setemit 0\n mov o0, r0\n mov o1, v2\n mov o3, r0\n emit\n setemit 1, prim\n mov o0, v2\n \
         mov o1, r0\n mov o3, v2\n emit\n setemit 2\n mov o0, r0\n mov o1, r0\n mov o3, v1\n emit",
        // By one arm of a branch, and after both.
        " mov r0, v0\n mul r0, r0, v1\n ifu b0\n setemit 0\n mov o0, r0\n emit\n .else\n setemit 1\n mov o0, v2\n emit\n mov o0, v3\n \
         emit\n .end\n setemit 2, prim\n mov o0, r0\n emit\n mov o0, v2\n emit",
        // Before a loop, in it, and after it.
        " mov r0, v0\n mul r0, r0, v1\n setemit 0\n mov o0, r0\n emit\n for i0\n setemit 1, prim\n mov o0, v2\n emit\n mov o0, r0\n \
         emit\n .end\n setemit 2\n mov o0, v2\n emit\n mov o0, r0\n emit",
    ];
    let mut uniforms = Uniforms::new();
    uniforms.i[0] = [2, 0, 1, 0];
    for body in bodies {
        let pair = Pair::new(body, 1 << 20);
        for b0 in [true, false] {
            uniforms.b = u16::from(b0);
            for size in [8, 9, 33] {
                pair.compare(&uniforms, &unit(), &inputs(size));
            }
            for zero in 0..16 {
                let mut inputs = inputs(16);
                (inputs[zero][0], inputs[zero][1]) = ([0.0; 4], [f32::INFINITY; 4]);
                pair.compare(&uniforms, &unit(), &inputs);
            }
        }
        assert!(pair.groups() > 20 && pair.native.stats().bailouts > 0, "{body}: {:?}", pair.native.stats());
    }
}

#[test]
fn one_invocation_settles_what_the_others_read() {
    let settled = [
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n mov r4, c5",
        // As mGBA does: some components, as factors.
        " mov r4.xy, v1\n mov r1, v0\n dp4 r1.x, r1, r4\n setemit 0, prim\n mov o0, r1\n emit\n mov r4.zw, c5.zyyy",
        // The first invocation emits more vertices, or fewer.
        " cmp c6.xx, gt, gt, r4.xx\n ifc cmp.x\n setemit 0\n mov o0, v0\n emit\n .end\n setemit 1, prim\n mov o0, v1\n \
         emit\n mov r4, c5\n add r4, r4, r4",
        " cmp c6.xx, lt, lt, r4.xx\n ifc cmp.x\n setemit 0\n mov o0, v0\n emit\n .end\n setemit 1, prim\n mov o0, v1\n \
         emit\n mov r4, c5\n add r4, r4, r4",
    ];
    let others = [
        // Each leaves another value,
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n mov r4, v1",
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n add r4, c5, r4",
        // one of two, or that of before.
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n ifu b0\n mov r4, c5\n .else\n mov r4, c6\n .end",
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n ifu b1\n mov r4, c5\n .end",
        // They take turns.
        " add r1, r4, v0\n setemit 0, prim\n mov o0, r1\n emit\n cmp c6.xx, gt, gt, r4.xx\n ifc cmp.x\n mov r4, c7\n end\n \
         .end\n mov r4, c5",
        // The parameters of SETEMIT.
        " mov o0, v0\n emit\n setemit 1, prim",
    ];
    let mut uniforms = Uniforms::new();
    (uniforms.c[5], uniforms.c[6], uniforms.c[7]) = ([-2.5, 3.0, 0.25, 7.0], [1.0; 4], [9.0; 4]);
    uniforms.b = 1;
    for (n, body) in settled.into_iter().chain(others).enumerate() {
        let pair = Pair::new(body, 1 << 20);
        for first in [9.0, f32::INFINITY, -1.0] {
            let mut unit = unit();
            unit.r[4] = [first; 4];
            for size in [8, 9, 12, 33, 70] {
                pair.compare(&uniforms, &unit, &inputs(size));
            }
        }
        assert_eq!(pair.groups() > 0, n < settled.len(), "{body}: {:?}", pair.native.stats());
    }
}

#[test]
fn registers_that_no_invocation_writes_come_from_the_current_bank() {
    // One and two EMITs; whole registers, and components.
    let bodies = [
        " setemit 0, prim\n mov o0, v0\n emit",
        " setemit 0, prim\n mov o0, v0\n emit\n setemit 1\n mov o0, v1\n emit",
        " setemit 0, prim\n mov o0.xz, v0\n emit",
        " setemit 0, prim\n mov o0.xz, v0\n emit\n setemit 1\n mov o0.xz, v1\n emit",
    ];
    for body in bodies {
        let pair = Pair::new(body, 1 << 20);
        for bank in [0, 1] {
            for size in 1..40 {
                let unit = Unit { bank, ..unit() };
                let before = pair.groups();
                pair.compare(&Uniforms::new(), &unit, &inputs(size));
                assert!(size < 8 || pair.groups() > before, "{body}, a batch of {size}");
            }
        }
    }
}

#[test]
fn without_fuel_no_group_runs() {
    let pair = Pair::new(" setemit 0, prim\n mov o0, v0\n emit\n for i0\n mov r1, v1\n .end", 8);
    let mut uniforms = Uniforms::new();
    for (laps, ends) in [(1, true), (40, false)] {
        uniforms.i[0] = [laps, 0, 1, 0];
        let before = pair.groups();
        let exit = pair.compare(&uniforms, &unit(), &inputs(20));
        assert_eq!((exit.exit == Exit::End, exit.ran, pair.groups() > before), (ends, if ends { 20 } else { 1 }, ends));
    }
}

#[test]
fn dependent_invocations_run_singly() {
    let bodies = [
        " add r0, r0, v0\n setemit 0\n mov o0, r0\n emit",
        " mov o0, v0\n emit\n setemit 1, prim",
        " setemit 0, prim\n mov o0, v0\n emit\n emit",
        " setemit 0, prim\n mov r0, v1\n mov o0, v0\n cmp v0.xy, gt, gt, r0.xy\n ifc cmp.x\n emit\n .end",
    ];
    for body in bodies {
        let pair = Pair::new(body, 1 << 20);
        pair.compare(&Uniforms::new(), &unit(), &inputs(21));
        assert_eq!(pair.groups(), 0, "{body}");
        assert!(pair.native.stats().sequential_reason.is_some(), "{body}");
    }
}

#[test]
fn parameters_of_an_earlier_program_stay_in_force() {
    // No run has a SETEMIT.
    let pair = Pair::new(" mov o0, v0\n emit", 1 << 20);
    let setemit = EmitState { vertex: 2, primitive: true, winding: true };
    pair.compare(&Uniforms::new(), &Unit { setemit, ..unit() }, &inputs(17));
    // Those of the group before are not those of the next.
    let both = Pair::new(" setemit 1\n mov o0, v0\n emit\n setemit 2, prim inv\n mov o0, v1\n emit", 1 << 20);
    both.compare(&Uniforms::new(), &unit(), &inputs(17));
    assert!(pair.groups() > 0 && both.groups() > 0);
}

/// A host that lends its memory and takes the outputs in a mask.
struct Lender<'a> {
    memory: &'a [Cell<EmittedVertex>],
    mask: u16,
    count: usize,
    received: Vec<EmittedVertex>,
}

/// What the host's memory holds before a vertex arrives.
const OLD: EmittedVertex = EmittedVertex { outputs: [[-1.0; 4]; 16], vertex: 9, primitive: 9, winding: 9, reserved: 9 };

impl Lender<'_> {
    fn flush(&mut self) {
        self.received.extend(self.memory[..self.count].iter().map(|cell| cell.replace(OLD)));
        self.count = 0;
    }
}

impl HostEmitter for Lender<'_> {
    fn emit(&mut self, outputs: &Registers, how: EmitState) {
        if self.count == self.memory.len() {
            self.flush();
        }
        let mut vertex = EmittedVertex::new(&OLD.outputs, how);
        copy_registers(self.mask, outputs, &mut vertex.outputs);
        self.memory[self.count].set(vertex);
        self.count += 1;
    }

    fn outputs(&self) -> u16 {
        self.mask
    }

    fn buffer(&mut self) -> Option<&[Cell<EmittedVertex>]> {
        Some(&self.memory[self.count..])
    }

    fn stored(&mut self, count: usize, full: bool) {
        self.count += count;
        if full {
            self.flush();
        }
    }
}

#[test]
fn a_host_receives_the_outputs_that_it_takes() {
    // Writes o1, and two components of o2.
    let body =
        " setemit 1, prim\n mul o1, c1, v0\n mov o2.xz, v1\n emit\n setemit 0\n mov o1, v1\n mov o2.xz, v0\n emit";
    for (emits, body) in [(2, body.to_string()), (1, body[..body.find(" setemit 0").expect("two")].to_string())] {
        let pair = Pair::new(&body, 1 << 20);
        let mut uniforms = Uniforms::new();
        uniforms.c[1] = [2.0; 4];
        let inputs = inputs(45);
        for mask in [0xFFFF, 6, 2, 0x8006, 0x8002] {
            for capacity in [1, 4 * emits, 4 * emits + 1, 23, 45 * emits] {
                let [want, got] = [None, Some(&pair.native)].map(|native| {
                    let mut memory = vec![OLD; capacity];
                    let memory = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
                    let mut host = Lender { memory, mask, count: 0, received: Vec::new() };
                    let mut unit = Unit { bank: 1, ..unit() };
                    let on = HostMemory::of(&uniforms, &mut unit);
                    match native {
                        None => inputs.iter().for_each(|input| {
                            on.take_inputs(0xFFFF, input);
                            assert_eq!(pair.oracle.run_on(&on, &mut host), Some(Exit::End));
                        }),
                        Some(native) => {
                            let (inputs, outputs) = ((&inputs).into(), VerticesMut::none(inputs.len()));
                            let (input_mask, output_mask, preserve_unit) = (0xFFFF, 0, false);
                            let mut batch = Batch { inputs, outputs, input_mask, output_mask, preserve_unit };
                            let exit = native.run_batch_on(&on, &mut batch, &mut host, &NoNextKernel);
                            assert_eq!((exit.exit, exit.ran), (Exit::End, 45));
                        }
                    }
                    host.flush();
                    host.received
                });
                assert_eq!(want, got, "{emits} EMITs, mask {mask:x}, a buffer of {capacity}");
            }
        }
        assert!(pair.groups() > 200);
    }
}
