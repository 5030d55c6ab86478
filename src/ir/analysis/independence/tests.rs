//! Programs with and without a proof of independence.

use super::*;
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::print::Component;
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

/// The components of each set that some vertices keep, as text.
fn kept(body: &str) -> Vec<String> {
    let text = |&(mem, c): &(Mem, u8)| Component(mem, c).to_string();
    let kept = of(body).expect("nothing is read before it is written").kept;
    kept.iter().map(|kept| kept.components.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_component_that_only_some_vertices_write_is_kept() {
    let flags = " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n mov o0, v0\n ifc cmp.x";
    let some = |register: &str| format!("{flags}\n mov {register}, v1\n .end");
    assert_eq!(kept(&some("o1.y")), ["o1.y"]);
    assert_eq!(kept(&some("r3")), ["r3.x r3.y r3.z r3.w"]);
    assert!(kept(&some("o0")).is_empty(), "written before");
    // What is read is a dependence: by an operation, as the other part of a merge, or by a copy.
    let read = |body: &str| of(&format!("{}\n{body}", some("r3"))).map(|_| ());
    assert_eq!(read(" add o1, c1, r3"), Err(Dependence::Carried(Mem::Temp(3), 0)));
    assert_eq!(read(" mov o1.y, r3.zzzz"), Err(Dependence::Carried(Mem::Temp(3), 2)));
    assert_eq!(read(" mov r3.x, v0\n mov o1.x, r3"), Ok(()));
    // The same paths are one set: of several registers, through a loop, and after merges.
    assert_eq!(
        kept(&format!("{flags}\n mov r3.xy, v1\n mova a0.y, v2\n mov o1.w, v1\n .end\n mov r3.y, v0")),
        ["r3.x o1.w a0.y"]
    );
    assert_eq!(kept(&format!("{flags}\n mov r3.x, v1\n for i0\n mov r4.x, v1\n .end\n .end")), ["r3.x r4.x aL"]);
    // Other paths: the other side, a nested branch, and both sides with a nested branch.
    assert_eq!(kept(&format!("{flags}\n mov r3.x, v1\n .else\n mov r4.x, v1\n .end")), ["r3.x", "r4.x"]);
    assert_eq!(kept(&format!("{flags}\n mov r3.x, v1\n ifc cmp.y\n mov r4.x, v1\n .end\n .end")), ["r3.x", "r4.x"]);
    // Uniforms decide in one place, vertices in another.
    let both = |outer: &str, inner: &str| {
        let flags = flags.replace("ifc cmp.x", outer);
        kept(&format!("{flags}\n {inner}\n mov r3.x, v1\n .end\n .end"))
    };
    assert_eq!((both("ifu b0", "ifc cmp.x"), both("ifc cmp.x", "ifu b0")), (vec!["r3.x".into()], vec!["r3.x".into()]));
    assert!(both("ifu b0", "ifu b1").is_empty());
    assert!(kept(&format!("{flags}\n mov o0, v1\n .end\n ifu b0\n mov r3, v1\n .end")).is_empty());
    assert!(kept(&format!("{flags}\n ifu b0\n mov o0, v1\n .end\n .end\n ifu b1\n mov r3, v1\n .end")).is_empty());
    // A flag that differs between vertices, although each side sets it from uniforms.
    let sides = " cmp c0.xy, gt, gt, r9.xy\n .else\n cmp c0.yx, lt, lt, r8.xy\n .end\n ifc cmp.x\n mov r3.x, v1\n .end";
    assert_eq!(kept(&format!("{}\n{sides}", flags.replace("mov r9, v1", "mov r7, v1").replace("r9", "r7"))), ["r3.x"]);
    // A loop that vertices leave after different numbers of rounds.
    let rounds = " for i0\n cmp v0.xy, gt, gt, r9.xy\n breakc cmp.x\n mov r3.x, v1\n .end";
    assert_eq!(kept(&format!(" mov r9, v1\n mov o0, v0\n{rounds}")), ["r3.x"]);
}

#[test]
fn written_masks_are_set_where_the_components_are_written() {
    let body = " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n mov o0, v0\n ifc cmp.x\n mov r3, v1\n ifc cmp.y\n mov o1.x, v0
        .end\n .else\n jmpu b0, over\n mov r3, v2\n over:\n mov r4, v2\n .end";
    let mut func = func(body);
    let kept = prove(&func).expect("nothing is read before it is written").kept;
    let sets: Vec<usize> = kept.iter().map(|kept| kept.components.len()).collect();
    assert_eq!(sets, [4, 4, 1], "r3, r4, o1.x");
    let masks = func.add_written_masks(&kept);
    func.verify().expect("well made");
    assert!(masks.len() == 3 && masks.iter().all(|&mask| *func.node(mask) == Node::Param(crate::ir::Type::Vec4)));
    // A mask merges like the values that it is about: set for a written one, clear for a kept one.
    let bits = |v: Value| if let Node::Const(bits) = *func.node(v) { Some(bits) } else { None };
    let incoming = func.incoming();
    for (kept, mask) in kept.iter().zip(masks) {
        let args: Vec<Value> = incoming[mask.0 as usize].clone();
        assert!(args.len() > 1 && args.iter().any(|&arg| bits(arg) != Some([!0; 4])), "{kept:?}");
        assert!(args.iter().all(|&arg| bits(arg).is_none_or(|bits| bits == [0; 4] || bits == [!0; 4])));
    }
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
    let parts = " cmp v0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov r3, v0\n .else\n mov r3, v1\n .end";
    assert_eq!(read(&format!("{parts}\n mov o0, r3")), Ok(()));
    assert_eq!(read(&format!("{parts}\n add o0, r3, r1")), r1(0));
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
    assert_eq!(told(Dependence::Emits), "it emits");
    assert_eq!(told(Dependence::NeverEnds), "no run reaches an END");
}
