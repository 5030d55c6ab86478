//! Programs with and without a proof of independence.

use super::*;
use crate::ir::cfg::{Cfg, Limits};
use crate::isa::numeric::Precision;

fn prove_source(source: &str) -> Result<Independence, Dependence> {
    prove(&simplified(source))
}

fn simplified(source: &str) -> Func {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    let program = shbin.program().expect("short");
    let cfg = Cfg::build(&program, shbin.dvles[0].entry(), Limits::default()).expect("small");
    let mut func = Func::build(&cfg, 100, Form::Ssa);
    func.simplify(Precision::F32);
    func
}

fn func(body: &str) -> Func {
    simplified(&format!(".proc main\n{body}\n end\n.end"))
}

fn of(body: &str) -> Result<Independence, Dependence> {
    prove_source(&format!(".proc main\n{body}\n end\n.end"))
}

#[test]
fn vertices_that_write_before_they_read_are_independent() {
    let proof = of(" mul r0, c0, v0\n add o0, r0, v1\n mov o2.xz, r0").expect("nothing is carried");
    assert_eq!((proof.written[0], proof.written[1], proof.written[2]), (0b1111, 0, 0b0101));
    assert!(proof.always_ends);
    // A register that is never written is loop-invariant.
    of(" mul o0, r5, v0\n mov o1, c3[a0.x]").expect("r5 and a0.x are never written");
    // Every path writes r0 and then reads it.
    let both =
        " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov r0, v0\n .else\n mov r0, v1\n .end\n mov o0, r0";
    of(both).expect("written on both paths");
    // A loop whose variable is initialised before it.
    of(" mov r0, c0\n for i0\n add r0, r0, v0\n .end\n mov o0, r0").expect("r0 is initialised");
}

#[test]
fn a_read_of_a_carried_component_is_a_dependence() {
    let (r0, x, w) = (Mem::Temp(0), 0, 3);
    assert_eq!(of(" mov o0, r0\n mov r0, v0").unwrap_err(), Dependence::Carried(r0, x));
    assert_eq!(of(" add r0, r0, v0\n mov o0, v0").unwrap_err(), Dependence::Carried(r0, x), "r0 counts, too");
    assert_eq!(of(" mov r0.xyz, v0\n mov o0, r0\n mov r0.w, v0").unwrap_err(), Dependence::Carried(r0, w));
    assert_eq!(of(" mov o0, c0[a0.x]\n mova a0.x, v0").unwrap_err(), Dependence::Carried(Mem::Address(0), 0));
    let flags = " ifc cmp.x\n mov o0, v0\n .else\n mov o0, v1\n .end\n mov r9, v1\n cmp v0.xy, gt, gt, r9.xy";
    assert_eq!(of(flags).unwrap_err(), Dependence::Carried(Mem::Flag(0), 0));
    let counter = " mov o0, c0[aL]\n for i0\n nop\n .end";
    assert_eq!(of(counter).unwrap_err(), Dependence::Carried(Mem::LoopCounter, 0));
    // A copy carries: r1 takes r0's initial value.
    assert_eq!(of(" mov r1, r0\n mov r0, v0\n mov o0, v0").unwrap_err(), Dependence::Carried(r0, x));
}

#[test]
fn a_component_that_only_some_vertices_write_is_a_dependence() {
    let some = |register: &str| {
        format!(" mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n mov o0, v0\n ifc cmp.x\n mov {register}, v1\n .end")
    };
    assert_eq!(of(&some("o1.y")).unwrap_err().to_string(), "o1.y may hold a value of an earlier vertex");
    assert_eq!(of(&some("r3")).unwrap_err(), Dependence::Carried(Mem::Temp(3), 0));
    // Two paths to the end, both after the write.
    of(&some("o0")).expect("written before");
}

#[test]
fn a_component_that_all_write_or_all_keep_is_no_dependence() {
    let func = func(" mov o0, v0\n ifu b0\n mov o1.xy, v1\n mov r6, v1\n add o0, r6, v0\n .end");
    let proof = prove(&func).expect("b0 is uniform");
    assert_eq!((proof.written[0], proof.written[1]), (0b1111, 0b0011));
    let live = func.live_from(proof.outputs.iter().map(|store| (store.value, store.components)).collect());
    let reads = |mem: fn(&Mem) -> bool| -> Vec<Components> {
        func.nodes.iter().zip(&live).filter(|(n, _)| matches!(n, Node::Load(m) if mem(m))).map(|(_, &l)| l).collect()
    };
    assert_eq!(reads(|mem| *mem == Mem::Temp(6)), [0], "r6 is not loaded");
    assert_eq!(reads(|mem| matches!(mem, Mem::Out { n: 1, .. })), [0b0011], "the kept components are stored again");
    // Branches on uniforms and unwritten registers: in sequence, nested, and in a loop.
    of(" ifu b0\n mov r1, v0\n .end\n ifu b1\n mov r1.yz, v1\n mova a0.xy, v0\n .end\n mov o0, v0")
        .expect("one after the other");
    of(" ifu b0\n ifu b1\n mov r1, v0\n .else\n mov r2, v0\n .end\n .else\n mov r1, v1\n .end\n mov o0, v0")
        .expect("nested");
    of(" for i0\n ifu b0\n mov r1, v0\n breakc cmp.x\n .end\n .end\n mov o0, v0").expect("a flag that is as it was");
    of(" mov o0, v0\n cmp c0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov o1, v1\n .end").expect("a comparison of uniforms");
    // A kept component is read, copied, or permuted.
    let r1 = |c| Err(Dependence::Carried(Mem::Temp(1), c));
    let read = |body: &str| of(&format!(" ifu b0\n mov r1.xy, v0\n .end\n{body}\n mov o1, v0")).map(|_| ());
    assert_eq!(read(" mov o0.x, r1.y"), r1(1));
    assert_eq!(read(" mov o0, r1.zzzz"), Ok(()), "no run writes that component");
    assert_eq!(read(" ifu b1\n mov r2, r1\n .end"), r1(0));
    assert_eq!(read(" ifu b1\n mov r1.xy, r1.yx\n .end"), r1(0));
    assert_eq!(read(" ifu b1\n mov r2.x, r1.zzzz\n .end"), Ok(()));
    assert_eq!(read(" for i0\n add r1.x, r1.x, v0.x\n .end"), r1(0));
    // A divergent branch elsewhere.
    let parts = " cmp v0.xy, gt, gt, c0.xy\n ifc cmp.x\n mov r3, v0\n .else\n mov r3, v1\n .end";
    assert_eq!(read(&format!("{parts}\n mov o0, r3").replace("c0.xy", "r9.xy")), r1(0));
}

#[test]
fn the_proof_excludes_runs_that_do_not_end() {
    let proof = of(" mov o0, v0\n for i0\n nop\n .end").expect("fuel may run out, which is not an end");
    assert!(!proof.always_ends);
    assert_eq!(prove_source(".proc main\n mov o0, v0\n.end\n").unwrap_err(), Dependence::NeverEnds);
    // A write missing on the path to a stray BREAK is allowed; a change on that path is a
    // dependence.
    let stray = |body: &str| format!(" mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n {body}\n breakc cmp.x\n mov o0, v0");
    let proof = of(&stray("nop")).expect("o0 is written by all that end");
    assert!(!proof.always_ends);
    let read = format!(" mov o1, r0\n{}", stray("nop\n ifc cmp.x\n mov r0, v0\n .end"));
    assert_eq!(of(&read).unwrap_err(), Dependence::Carried(Mem::Temp(0), 0), "r0 is read and changes");
}

#[test]
fn a_program_that_emits_is_sequential() {
    let source = |body: &str| format!(".gsh\n.entry main\n.proc main\n{body}\n end\n.end");
    for body in [" mov o0, v0\n emit", " mov o0, v0\n setemit 1"] {
        assert_eq!(prove_source(&source(body)).unwrap_err(), Dependence::Emits, "{body}");
    }
    prove_source(&source(" mov o0, v0")).expect("no EMIT");
    // Unreachable, but its change of banks stays in the function.
    let never = ".raw
        .opdesc 0x0006C36F
        .opdesc 0x0006C360
        .gsh
        .entry main
        .proc main
            sge o0, v0, v0
            cmp v0, true6, true7, v0 @1
            ifc !cmp.x || !cmp.y
                emit
            .end
            end
        .end";
    assert_eq!(prove_source(never).unwrap_err(), Dependence::Emits);
}

#[test]
fn integers_and_flags_that_differ_between_vertices() {
    let source = " mova a0.xy, c0\n mova a0.x, v0\n cmp c0.xy, gt, gt, r9.xy\n mov o0, c2[a0.x]\n mov o1, c2[a0.y]";
    let shbin = crate::text::assemble(&format!(".proc main\n{source}\n end\n.end")).expect("good").shbin;
    let program = shbin.program().expect("short");
    let cfg = Cfg::build(&program, shbin.dvles[0].entry(), Limits::default()).expect("small");
    let func = Func::build(&cfg, 100, Form::Ssa);
    let divergent = func.is_divergent();
    let of = |want: fn(&Node) -> bool| -> Vec<bool> {
        func.nodes.iter().zip(&divergent).filter(|(n, _)| want(n)).map(|(_, v)| *v).collect()
    };
    assert_eq!(of(|n| matches!(n, Node::ToAddress(_))), [false, false, true]);
    assert_eq!(of(|n| matches!(n, Node::Offset(_))), [true, false]);
    assert_eq!(of(|n| matches!(n, Node::Compare { .. })), [false, false]);
}

#[test]
fn each_dependence_has_its_text() {
    let told = |s: Dependence| s.to_string();
    assert_eq!(told(Dependence::Carried(Mem::Temp(3), 1)), "r3.y may hold a value of an earlier vertex");
    let partly = Dependence::PartlyWritten(Mem::Flag(0), 0);
    assert_eq!(told(partly), "cmp.x is written by some vertices and kept by others");
    assert_eq!(told(Dependence::Emits), "it emits");
    assert_eq!(told(Dependence::NeverEnds), "no run reaches an END");
}
