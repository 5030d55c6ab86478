//! Which outputs the plan computes in AoS form.

use super::*;
use crate::ir::Form;
use crate::ir::cfg::{Cfg, Limits};
use crate::jit::batch::matrix_product::matrix_product;

fn plan(body: &str) -> BatchPlan {
    let shbin = crate::text::assemble(&format!(".proc main\n{body}\n end\n.end")).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let cfg = Cfg::build(&program, shbin.dvles[0].entry(), Limits::default()).expect("small");
    let mut func = Func::build(&cfg, 100, Form::Ssa);
    func.simplify(Precision::F32);
    BatchPlan::new(&func, &RegisterUse::new(&cfg), Precision::F32).expect("nothing is carried")
}

#[test]
fn outputs_are_aos_where_that_costs_less() {
    for (body, whole) in [
        (" mov o0, v0", true),
        (" mov o0, c3", true),
        (" mul o0, c1.zzzz, v0.xyyy", true),
        (" mul r0.xyz, c1.wwww, v0.xyzz\n mov r0.w, c1.yyyy\n mov o0, r0", true),
        (" mov r5, v1\n max o0, v0, r5", true),
        (" dp4 o0.x, c0, v0\n dp4 o0.y, c1, v0\n dp4 o0.z, c2, v0\n dp4 o0.w, c3, v0", true),
        (
            " mov r0.xyz, v0\n mov r0.w, c9.y\n dp4 o0.x, c0, r0\n dp4 o0.y, c1, r0\n dp4 o0.z, c2, r0\n dp4 o0.w, c3, r0",
            true,
        ),
        (" dph o0.x, v0, c0\n dph o0.y, v0, -c1\n dph o0.z, v0, c2.wzyx\n dph o0.w, v0, c3", true),
        (" dp3 o0.x, c0, v0\n dp3 o0.y, c1, v0\n dp3 o0.z, c2, v0\n dp3 o0.w, c3, v0", true),
        (
            " mov r0.x, v0\n mov r0.yzw, c9\n dp4 o0.x, c0, r0\n dp4 o0.y, c1, r0\n dp4 o0.w, c2, r0\n mov o0.z, c3",
            true,
        ),
        // No matrix product: three components only, two vectors, two kinds of dot product, two
        // swizzles, or a computed vector.
        (" dp3 o0.x, c0, v0\n dp3 o0.y, c1, v0\n dp3 o0.z, c2, v0\n mov o0.w, c3", false),
        (" dp4 o0.x, c0, v0\n dp4 o0.y, c1, v0\n dp4 o0.z, c2, v1\n dp4 o0.w, c3, v1", false),
        (" dp4 o0.x, c0, v0\n dp3 o0.y, c1, v0\n dp4 o0.z, c2, v0\n dp3 o0.w, c3, v0", false),
        (" dp4 o0.x, c0, v0\n dp4 o0.y, c1, v0.wzyx\n dp4 o0.z, c2, v0\n dp4 o0.w, c3, v0.wzyx", false),
        (" add r0, c9, v0\n dp4 o0.x, c0, r0\n dp4 o0.y, c1, r0\n dp4 o0.z, c2, r0\n dp4 o0.w, c3, r0", false),
        // Components depend on each other, or on more than inputs and uniforms.
        (" dp4 o0, c0, v0", false),
        (" rcp o0, v0", false),
        (" mov o0, c0[a0.x]", false),
        (" mul o0, r5, v0", false),
        // MAX swallows a NaN, so its operand needs a guard.
        (" mov r5, v1\n mul r0, v0, r5\n max o0, c0, r0", false),
        // Three shuffles and two merges a vertex cost more than two transposes.
        (" mul r0.xy, c0, v0.wzyx\n mul r0.z, c1, v0.xxxx\n mul r0.w, c2, v0.yyyy\n mov o0, r0", false),
        // A register of which only some components are written.
        (" mul o0.xyz, c0, v0", false),
    ] {
        let plan = plan(body);
        assert_eq!(plan.aos_values().next().is_some(), whole, "{body}");
        let live = plan.live.iter().any(|l| *l != 0);
        assert_eq!(live, !whole, "{body}");
    }
    // One input in both forms.
    let plan = plan(" mul o0, c0, v0\n dp4 o1, c1, v0");
    assert!(plan.is_aos_output(0, plan.aos_values().next().expect("o0")));
    assert!(plan.live.contains(&XYZW));
}

/// Whether some value of the plan is a matrix product in AoS form.
pub(in crate::jit) fn has_aos_matrix_product(func: &Func, registers: &RegisterUse) -> bool {
    let plan = BatchPlan::new(func, registers, Precision::F32).expect("nothing is carried");
    plan.aos_values().any(|value| matrix_product(func, value, XYZW).is_some())
}

#[test]
fn random_programs_have_aos_outputs_and_matrix_products() {
    use crate::fuzz::generate::{Tier, case_from_seed};
    let (mut aos, mut matrices) = (0, 0);
    for seed in 0..crate::testing::miri_or(3, 2000) {
        let case = case_from_seed(seed, Some(Tier::Programs), 1);
        let Ok(cfg) = Cfg::build(&case.program, case.entry, Limits::default()) else { continue };
        let mut func = Func::build(&cfg, case.config.fuel, Form::Ssa);
        func.simplify(Precision::F32);
        let Ok(plan) = BatchPlan::new(&func, &RegisterUse::new(&cfg), Precision::F32) else { continue };
        aos += u32::from(plan.aos_values().next().is_some());
        matrices += u32::from(has_aos_matrix_product(&func, &RegisterUse::new(&cfg)));
    }
    assert!(cfg!(miri) || aos > 400 && matrices > 200, "{aos}, {matrices}");
}
