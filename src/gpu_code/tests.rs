//! Scalar functions against their meaning, and control flow that random programs rarely have, on the CPU.

use super::code::Stmt;
use super::structure::Structure;
use super::{Control, Device, GpuCode, Interface, MOST_FUEL, NoGpuCode, Promise};
use crate::analysis::RegisterSet;
use crate::interp::Interp;
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Form, Func};
use crate::isa::Stage;
use crate::isa::numeric::{Precision, same};
use crate::kernel::{Config, Kernel};
use crate::program::{Entry, Program};
use crate::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use crate::testing::miri_or;
use std::sync::Arc;

fn program(body: &str) -> Arc<Program> {
    crate::text::assemble(&format!(".proc main\n{body}\n.end\n")).unwrap().shbin.program().unwrap().into()
}

fn code(program: &Program, precision: Precision) -> Result<GpuCode, NoGpuCode> {
    let config = Config { precision, ..Config::default() };
    GpuCode::new(program, Entry::vertex(0), &config, &Interface::compute(), &Device::PLAIN)
}

/// Arguments through the code, against the meaning. `PICAJIT_FULL=1` takes ten times as many, and every
/// significand. A test for each function, so they share the cores.
fn compare_function(op: &str, meaning: impl Fn(Precision, f32) -> f32) {
    let full = std::env::var_os("PICAJIT_FULL").is_some();
    // Zeros, infinities, NaN, the ends of subnormals, neighbours of 1. Last, arguments whose first quotient in LG2 is
    // three too large, and two too small, and whose logarithm differs if the last step of a correction is missing.
    let special = [
        0,
        1 << 31,
        1,
        0x7F_FFFF,
        0x80_0000,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0x3F7F_FF80,
        0x3F80_0080,
        0x3F57_81A5,
        0x3F64_5B7C,
    ];
    // Every significand, with an even and an odd exponent.
    let significands = if full { 0x3F00_0000..0x4000_0000 } else { 0..0 };
    let powers = (0..255).map(|exponent| exponent << 23);
    for precision in Precision::ALL {
        // In float24 every 128th number is one.
        let every = if precision == Precision::F32 { 1 } else { 128 };
        let step = if precision == Precision::F32 { 90_007 } else { 128 * 703 };
        let step = step * miri_or(10_000, if full { 1 } else { 10 });
        let arguments = (0..=u32::MAX).step_by(step).chain(special).chain(powers.clone());
        let code = code(&program(&format!("{op} o0, v0.x\nend")), precision).unwrap();
        let (uniforms, mut v) = (Uniforms::new(), Registers::default());
        for bits in arguments.chain(significands.clone().step_by(every)) {
            let x = f32::from_bits(bits);
            v[0][0] = x;
            let got = code.evaluate(&uniforms, &v).unwrap()[0][0];
            let want = meaning(precision, precision.operand(x));
            assert!(same(got, want), "{op} {precision} {x:e} ({bits:#X}): {got:e} instead of {want:e}");
        }
    }
}

#[test]
fn rcp_is_exact() {
    compare_function("rcp", |precision, x| precision.rcp(x));
}

#[test]
fn rsq_is_exact() {
    compare_function("rsq", |precision, x| precision.rsq(x));
}

#[test]
fn ex2_is_exact() {
    compare_function("ex2", |precision, x| precision.ex2(x));
}

#[test]
fn lg2_is_exact() {
    compare_function("lg2", |precision, x| precision.lg2(x));
}

/// Runs a program on the code and on the oracle with all values of `b0-b3` and some inputs; the code and its structure.
fn compare_flow(body: &str) -> (GpuCode, Structure) {
    let program = program(body);
    let code = code(&program, Precision::F32).unwrap();
    let cfg = Cfg::build(&program, Entry::vertex(0), Limits::default()).unwrap();
    let mut func = Func::build(&cfg, MOST_FUEL, Form::Ssa);
    func.simplify(Precision::F32);
    let kernel = Interp.kernel(&program, Entry::vertex(0), &Config::default());
    let mut ended = 0;
    for b in 0..16 {
        for x in [-2.0, -1.0, 0.0, 1.0, 3.0, 5.0] {
            let mut uniforms = Uniforms::new();
            uniforms.b = b;
            uniforms.i = [[3, 0, 1, 0]; 4];
            uniforms.c.iter_mut().enumerate().for_each(|(n, c)| *c = [n as f32, 1.0, -1.0, 0.5]);
            let v = [[x, 1.0, 2.0, 3.0]; 16];
            let mut unit = Unit { v, ..Unit::new() };
            if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
                assert!(code.evaluate(&uniforms, &v).is_some(), "the code ends");
                continue;
            }
            ended += 1;
            let outputs = code.evaluate(&uniforms, &v).unwrap();
            assert_eq!(outputs[0], unit.outputs()[0], "b {b:#06b}, x {x}");
        }
    }
    assert!(ended > 10, "{ended} runs ended");
    (code, Structure::new(&func.outputs_only(Precision::F32)))
}

fn guards(code: &GpuCode) -> usize {
    // A guard reads the variable of targets, then compares it.
    let is_guard = |pair: &[Stmt]| matches!(pair, [Stmt::Def(_), Stmt::If(_)]);
    code.code.body.windows(2).filter(|pair| is_guard(pair)).count()
}

#[test]
fn branches_nest_and_joins_follow() {
    let (_, structure) = compare_flow(
        "mov r0, v0\nifu b0\nadd r0, r0, v0\nifu b1\nmul r0, r0, v0\n.else\nadd r0, r0, r0\n.end\n.else\nmov r0, -r0\n.end\nmov o0, r0\nend",
    );
    assert!(!structure.flat && !structure.has_targets());
}

#[test]
fn a_path_that_skips_a_block_names_its_target() {
    let (code, structure) = compare_flow(
        "mov r0, v0\nmov r1, v0\ncmp r0.xx, gt, gt, v0.yy\njmpu b0, second\njmpc cmp.x, third\nfirst:\nadd r0, r0, v0\njmpu b1, third\nsecond:\nmul r0, r0, r0\nthird:\nmov o0, r0\nend",
    );
    assert!(!structure.flat && guards(&code) > 0);
}

/// An earlier iteration went to the guarded block, a later one passes it.
#[test]
fn a_path_past_a_guarded_block_names_its_target_anew() {
    let (code, structure) = compare_flow(
        "mov r0, v0\nmov r1, v0\ntop:\nadd r0, r0, v0.y\ncmp c5.xx, gt, lt, r0.xx\njmpc cmp.x, second\njmpc cmp.y, third\nadd r1, r1, v0.y\nsecond:\nadd r1, r1, r1\nthird:\nadd r1, r1, v0.y\ncmp c9.xx, gt, gt, r0.xx\njmpc cmp.x, top\nmov o0, r1\nend",
    );
    assert!(!structure.flat && guards(&code) > 0);
}

#[test]
fn loops_end_by_count_and_break() {
    compare_flow(
        "mov r0, v0\nmov r1, v0\nfor i0\nadd r0, r0, v0\ncmp r0.xx, gt, gt, v0.ww\nbreakc cmp.x\nmul r0, r0, v0.y\n.end\nmov o0, r0\nend",
    );
    compare_flow(
        "mov r0, v0\nfor i0\nfor i1\nadd r0, r0, v0\ncmp r0.xx, gt, gt, v0.ww\nbreakc cmp.x\n.end\nifu b0\nadd r0, c3[aL], r0\n.end\n.end\nmov o0, r0\nend",
    );
}

#[test]
fn a_path_out_of_two_loops_passes_neither() {
    compare_flow(
        "mov r0, v0\nouter:\nadd r0, r0, v0.y\ninner:\nadd r0, r0, v0.y\ncmp c9.xx, lt, lt, r0.xx\njmpc cmp.x, done\njmpu b0, inner\njmpu b1, outer\nmul r0, r0, v0\ndone:\nmov o0, r0\nend",
    );
}

#[test]
fn a_loop_with_two_entries_becomes_guards() {
    let (_, structure) = compare_flow(
        "mov r0, v0\njmpu b0, middle\ntop:\nadd r0, r0, v0.y\nmiddle:\nadd r0, r0, v0.y\ncmp c9.xx, gt, gt, r0.xx\njmpc cmp.x, top\nmov o0, r0\nend",
    );
    assert!(structure.flat);
}

#[test]
fn deep_nesting_is_refused() {
    let body = "jmpu b0, done\nadd r0, r0, v0.y\n".repeat(120);
    let program = program(&format!("mov r0, v0\n{body}done:\nmov o0, r0\nend"));
    assert!(matches!(code(&program, Precision::F32), Err(NoGpuCode::Unstructured(_))));
}

#[test]
fn refusals_name_their_reason() {
    let carried = code(&program("add o0, r0, v0\nmov r0, v0\nend"), Precision::F32).unwrap_err();
    assert_eq!(carried, NoGpuCode::Carried(RegisterSet::of_temp(0, 0xF)));
    // Where the flag is false, the output has an earlier vertex's value.
    let kept = code(&program("cmp v0.xx, gt, gt, v0.yy\njmpc cmp.x, done\nmov o0, v0\ndone:\nend"), Precision::F32);
    assert_eq!(kept.unwrap_err(), NoGpuCode::Carried(RegisterSet::of_output(0, 0xF)));
    let plain = program("mov o0, v0\nend");
    let with = |device: &Device, entry| {
        GpuCode::new(&plain, entry, &Config::default(), &Interface::vertex(), device).map(|code| code.promise())
    };
    assert_eq!(with(&Device::PLAIN, Entry { pc: 0, stage: Stage::Geometry }), Err(NoGpuCode::Geometry));
    let device = Device { special_values: Control::Unknown, ..Device::PLAIN };
    assert_eq!(with(&device, Entry::vertex(0)), Err(NoGpuCode::SpecialValues));
    let device = Device { rounding: Control::Unknown, ..Device::PLAIN };
    assert_eq!(with(&device, Entry::vertex(0)), Err(NoGpuCode::Rounding));
    assert_eq!(with(&Device::PLAIN, Entry::vertex(0)), Ok(Promise::EqualButSubnormals));
    let device = Device { subnormals: Control::Declared, ..Device::PLAIN };
    assert_eq!(with(&device, Entry::vertex(0)), Ok(Promise::EqualBits));
}

#[test]
fn registers_that_no_run_writes_are_zero() {
    let code = code(&program("add o0.xy, v0, r3\nend"), Precision::F32).unwrap();
    let mut assumed = RegisterSet::of_temp(3, 0b0011);
    assumed.outputs = RegisterSet::of_output(0, 0b1100).outputs;
    assert_eq!(code.assumed_zero(), assumed);
}

#[test]
fn products_of_a_zero_register_and_infinity_are_zero() {
    for precision in Precision::ALL {
        let code = code(&program("mul o0, r3, v0\nend"), precision).unwrap();
        let outputs = code.evaluate(&Uniforms::new(), &[[f32::INFINITY; 4]; 16]).unwrap();
        assert_eq!(outputs[0], [0.0; 4], "{precision}");
    }
}

#[test]
fn a_uniform_block_says_what_changed() {
    let code = code(&program("add o0, c1, v0\nend"), Precision::F32).unwrap();
    let mut uniforms = Uniforms::new();
    let mut block = vec![0xFF; 1700];
    assert_eq!(code.update_uniform_block(&uniforms, &mut block), Some(0..1616));
    assert_eq!(block[1616], 0xFF, "nothing after the block");
    assert_eq!(code.update_uniform_block(&uniforms, &mut block), Some(0..0));
    // Vector 1 is at 80 + 16; integers are at 16.
    uniforms.c[1][2] = 1.0;
    uniforms.c[3][0] = 2.0;
    assert_eq!(code.update_uniform_block(&uniforms, &mut block), Some(104..132));
    uniforms.i[2][1] = 7;
    assert_eq!(code.update_uniform_block(&uniforms, &mut block), Some(52..56));
    let whole = code.uniform_block(&uniforms);
    assert!(block[..4] == whole[..4] && block[16..1616] == whole[16..], "bytes 4 to 15 belong to no member");
    assert_eq!(code.update_uniform_block(&uniforms, &mut block[..1615]), None);
}
