//! Batches of programs that emit: vertices in order, and the unit, bit for bit those of invocations
//! that run singly.

use super::batches::numbers;
use crate::jit::tests::*;
use crate::kernel::Kernel;
use crate::state::{BatchExit, EmitState, VerticesMut};

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
        let jit = Jit::with(Variant::Batch, settings, Arc::new(Interp)).expect("tests run where there is native code");
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
            layout: VertexLayout::Aos,
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
        for size in [4, 5, 16, 33, 70] {
            let before = pair.groups();
            pair.compare(&uniforms, &unit(), &inputs(size));
            assert!(pair.groups() > before, "{emits} EMITs, a batch of {size}");
        }
    }
    assert!(pair.bailouts("more EMITs than before") > 0 && pair.bailouts("fewer EMITs than before") > 0);
}

#[test]
fn an_invocation_with_too_many_emits_for_a_group_runs_in_order() {
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
    let pair = Pair::new(" setemit 0\n mul o0, v0, v1\n emit\n setemit 1, prim\n mov o0, v2\n emit", 1 << 20);
    for zero in 0..24 {
        let mut inputs = inputs(24);
        (inputs[zero][0], inputs[zero][1]) = ([0.0; 4], [f32::INFINITY; 4]);
        pair.compare(&Uniforms::new(), &unit(), &inputs);
    }
    assert!(pair.groups() > 0);
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
                let mut unit = Unit { bank, ..unit() };
                pair.compare(&Uniforms::new(), &unit, &inputs(size));
                // Banks that agree in what code stores a part of.
                unit.o[1][0] = unit.o[0][0];
                let before = pair.groups();
                pair.compare(&Uniforms::new(), &unit, &inputs(size));
                assert!(size < 4 || pair.groups() > before, "{body}, a batch of {size}");
            }
        }
    }
}

#[test]
fn a_batch_ends_at_the_first_invocation_without_fuel() {
    // The longer path exceeds the fuel.
    let body =
        " setemit 0, prim\n mov o0, v0\n emit\n cmp c0, eq, eq, v0\n ifc cmp.x\n nop\n nop\n nop\n .end\n mov r1, v1";
    let pair = Pair::new(body, 8);
    for long in 0..21 {
        for size in [20, 21] {
            let mut inputs = inputs(size);
            inputs.iter_mut().for_each(|v| v[0][0] = 1.0);
            if let Some(input) = inputs.get_mut(long) {
                input[0][0] = 0.0;
            }
            let exit = pair.compare(&Uniforms::new(), &unit(), &inputs);
            assert_eq!(exit.exit == Exit::Fuel, long < size);
            assert_eq!(exit.ran, size.min(long + 1));
        }
    }
}
