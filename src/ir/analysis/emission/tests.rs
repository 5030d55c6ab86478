//! Geometry programs with and without a proof of independent invocations.

use super::*;
use crate::ir::cfg::{Cfg, Limits};
use crate::isa::numeric::Precision;

/// The proof of a geometry program with this body.
fn of(body: &str) -> Result<IndependentInvocations, Dependence> {
    let source = format!(".gsh\n.entry main\n.proc main\n{body}\n end\n.end");
    let shbin = crate::text::assemble(&source).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let cfg = Cfg::build(&program, shbin.dvles[0].entry(), Limits::default()).expect("small");
    let mut func = Func::build(&cfg, 100, Form::Ssa);
    func.simplify(Precision::F32);
    prove_invocations(&func)
}

fn refused(body: &str) -> Dependence {
    of(body).expect_err("a dependence")
}

#[test]
fn invocations_that_write_what_they_emit_are_independent() {
    let proof = of(" setemit 1\n mov o0, v0\n mov o2.xz, v1\n emit").expect("nothing is carried");
    assert_eq!((proof.changed[0], proof.changed[1], proof.changed[2]), (0b1111, 0, 0b0101));
    let parameters = Setemit { vertex: 1, primitive: false, winding: false };
    assert_eq!(proof.parameters.concat(), [parameters]);
    assert!(proof.always_ends);
    // Both branches of a uniform condition, and a loop.
    of(" setemit 1\n ifu b0\n mov o0, v0\n .else\n mov o0, v1\n .end\n emit").expect("written on both paths");
    let looped = of(" setemit 2\n for i0\n mov o0, v0\n emit\n .end").expect("all emit as often");
    assert!(!looped.always_ends, "fuel may run out");
}

#[test]
fn what_an_emit_reads_may_be_carried() {
    let o0 = |dependence| matches!(dependence, Dependence::Carried(Mem::Out { n: 0, .. }, 0));
    // The second vertex has what the first one before the last left in the other bank.
    assert!(o0(refused(" setemit 0\n mov o0, v0\n emit\n emit")));
    assert!(o0(refused(" setemit 0\n emit\n mov o0, v0")));
    // With a third vertex it has what this invocation wrote, but the second one hasn't.
    assert!(o0(refused(" setemit 0\n mov o0, v0\n emit\n emit\n emit")));
    let both = " setemit 0\n mov o0, v0\n emit\n mov o0, v1\n emit\n emit";
    of(both).expect("both banks are written before the third EMIT");
    assert!(matches!(refused(" setemit 0\n add r0, r0, v0\n mov o0, r0\n emit"), Dependence::Carried(Mem::Temp(0), 0)));
    of(" setemit 0\n add r0, r1, v0\n mov o0, r0\n emit").expect("r1 never changes");
}

#[test]
fn all_invocations_take_the_same_path_around_emission() {
    let skip = |body: &str| {
        format!(" setemit 0\n mov r0, v1\n mov o0, v0\n cmp v0.xy, gt, gt, r0.xy\n ifc cmp.x\n {body}\n .end")
    };
    for body in ["emit", "setemit 1", "nop\n .end\n ifc cmp.y\n emit"] {
        assert_eq!(refused(&skip(body)), Dependence::EmitsOnPaths, "{body}");
    }
    of(&format!("{}\n emit", skip("mov o0, r0"))).expect("the paths join before the EMIT");
    assert_eq!(refused(&format!("{}\n emit", skip("mov r1, r0"))), Dependence::EmitsOnPaths, "some keep r1");
    let looped =
        " setemit 0\n mov r0, v1\n mov o0, v0\n for i0\n cmp v0.xy, gt, gt, r0.xy\n breakc cmp.x\n .end\n emit";
    assert_eq!(refused(looped), Dependence::EmitsOnPaths, "a divergent loop");
    of(" setemit 0\n mov o0, v0\n ifu b1\n emit\n .end").expect("uniforms decide");
}

#[test]
fn the_parameters_of_each_emit_are_known() {
    assert_eq!(refused(" mov o0, v0\n emit"), Dependence::CarriedParameters);
    assert_eq!(refused(" mov o0, v0\n ifu b0\n setemit 1\n .end\n emit"), Dependence::CarriedParameters);
    let both = of(" mov o0, v0\n ifu b0\n setemit 1\n .else\n setemit 1\n .end\n emit").expect("equal on both");
    assert_eq!(both.parameters.concat().len(), 1);
    let differ = " mov o0, v0\n ifu b0\n setemit 1\n .else\n setemit 2\n .end\n emit";
    assert_eq!(refused(differ), Dependence::CarriedParameters);
    // The back edge brings other parameters than the entry.
    assert_eq!(
        refused(" mov o0, v0\n setemit 1\n for i0\n emit\n mov o0, v0\n setemit 2\n .end"),
        Dependence::CarriedParameters
    );
}

#[test]
fn a_program_that_never_ends_proves_nothing() {
    let source = ".gsh\n.entry main\n.proc main\n setemit 0\n mov o0, v0\n emit\n.end\n";
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    let cfg = Cfg::build(&shbin.program().expect("short"), shbin.dvles[0].entry(), Limits::default()).expect("small");
    assert_eq!(prove_invocations(&Func::build(&cfg, 100, Form::Ssa)).unwrap_err(), Dependence::NeverEnds);
}
