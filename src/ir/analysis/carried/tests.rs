//! Programs whose vertices are independent, or depend on each other.

use super::*;
use crate::ir::analysis::KeptComponents;
use crate::ir::cfg::Limits;
use crate::ir::{Form, Func, Mem, Node, Value};
use crate::isa::numeric::Precision;
use crate::isa::numeric::same;
use crate::kernel::copy_registers;
use crate::state::{NoEmitter, Registers, Unit};

fn cfg(source: &str) -> Cfg {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    Cfg::build(&shbin.program().expect("short"), shbin.dvles[0].entry(), Limits::default()).expect("small")
}

fn main(body: &str) -> Cfg {
    cfg(&format!(".proc main\n{body}\n end\n.end"))
}

fn simplified(cfg: &Cfg) -> Func {
    let mut func = Func::build(cfg, 100, Form::Ssa);
    func.simplify(Precision::F32);
    func
}

/// The registers of a program, if its vertices are independent.
fn of(body: &str) -> Result<RegisterUse, Dependence> {
    let registers = RegisterUse::new(&main(body));
    registers.dependence.map_or(Ok(registers), Err)
}

/// Components `mask` of temporary `n` carry.
fn r(n: u8, mask: u8) -> Dependence {
    Dependence::Carried(RegisterSet::of_temp(n, mask))
}

#[test]
fn vertices_that_write_before_they_read_are_independent() {
    let found = of(" mul r0, c0, v0\n add o0, r0, v1\n mov o2.xz, r0").expect("nothing is carried");
    assert_eq!([0, 1, 2].map(|n| found.written.output(n)), [0b1111, 0, 0b0101]);
    assert_eq!((found.read_first, found.kept), (RegisterSet::NONE, RegisterSet::NONE));
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
    let state = |state| Dependence::Carried(RegisterSet::state(state));
    assert_eq!(of(" mov o0, r0\n mov r0, v0").unwrap_err(), r(0, 0b1111));
    assert_eq!(of(" mov o0, r0.y\n mov r0, v0").unwrap_err(), r(0, 0b0010), "one component is read");
    assert_eq!(of(" add r0, r0, v0\n mov o0, v0").unwrap_err(), r(0, 0b1111), "r0 counts, too");
    assert_eq!(of(" mov r0.xyz, v0\n mov o0, r0\n mov r0.w, v0").unwrap_err(), r(0, 0b1000));
    assert_eq!(of(" mov o0, c0[a0.x]\n mova a0.x, v0").unwrap_err(), state(RegisterSet::A0_X));
    let flags = " ifc cmp.x\n mov o0, v0\n .else\n mov o0, v1\n .end\n mov r9, v1\n cmp v0.xy, gt, gt, r9.xy";
    assert_eq!(of(flags).unwrap_err(), state(RegisterSet::CMP_X));
    assert_eq!(
        of(&flags.replace("ifc cmp.x", "ifc cmp.x && cmp.y")).unwrap_err(),
        state(RegisterSet::CMP_X | RegisterSet::CMP_Y)
    );
    let counter = " mov o0, c0[aL]\n for i0\n nop\n .end";
    assert_eq!(of(counter).unwrap_err(), state(RegisterSet::A_L));
    // A copy carries: r1 takes r0's initial value.
    assert_eq!(of(" mov r1, r0\n mov r0, v0\n mov o0, v0").unwrap_err(), r(0, 0b1111));
    // What is read only for a value that no run leaves or shows is not.
    of(" mov r0.x, v0\n add r1.xy, r0, v0\n mov o0, r1.x\n mov r0, v0\n mov r1, v0").expect("r1.y is overwritten");
    // LITP: the flags need x and w, be the result dead.
    let litp = " litp r1, r0\n mov r0, v0\n mov r1, v0\n mov o0, v0";
    assert_eq!(of(litp).unwrap_err(), r(0, 0b1001));
    of(&format!("{litp}\n mov r9, v1\n cmp v0, lt, lt, r9")).expect("the flags are set again");
}

fn of_component(mem: Mem, c: u8) -> RegisterSet {
    match mem {
        Mem::Temp(n) => RegisterSet::of_temp(n, 1 << c),
        Mem::Out { n, .. } => RegisterSet::of_output(n, 1 << c),
        Mem::Address(n) => RegisterSet::state(RegisterSet::A0_X << n),
        Mem::LoopCounter => RegisterSet::state(RegisterSet::A_L),
        Mem::Flag(n) => RegisterSet::state(RegisterSet::CMP_X << n),
        Mem::Bank => RegisterSet::NONE,
    }
}

/// The components of each set that some vertices keep, as text.
fn kept(body: &str) -> Vec<String> {
    of(body).expect("nothing is read before it is written");
    let kept = simplified(&main(body)).kept_components();
    let set = |kept: &KeptComponents| {
        kept.components.iter().fold(RegisterSet::NONE, |set, &(mem, c)| set | of_component(mem, c))
    };
    kept.iter().map(|kept| set(kept).to_string()).collect()
}

#[test]
fn a_component_that_only_some_vertices_write_is_kept() {
    let flags = " mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n mov o0, v0\n ifc cmp.x";
    let some = |register: &str| format!("{flags}\n mov {register}, v1\n .end");
    assert_eq!(kept(&some("o1.y")), ["o1.y"]);
    assert_eq!(kept(&some("r3")), ["r3.xyzw"]);
    assert!(kept(&some("o0")).is_empty(), "written before");
    // What is read is a dependence: by an operation, as the other part of a merge, or by a copy.
    let read = |body: &str| of(&format!("{}\n{body}", some("r3"))).map(|_| ());
    assert_eq!(read(" add o1, c1, r3"), Err(r(3, 0b1111)));
    assert_eq!(read(" mov o1.y, r3.zzzz"), Err(r(3, 0b0100)));
    assert_eq!(read(" mov r3.x, v0\n mov o1.x, r3"), Ok(()));
    // The same paths are one set: of several registers, through a loop, and after merges.
    assert_eq!(
        kept(&format!("{flags}\n mov r3.xy, v1\n mova a0.y, v2\n mov o1.w, v1\n .end\n mov r3.y, v0")),
        ["r3.x, o1.w, a0.y"]
    );
    assert_eq!(kept(&format!("{flags}\n mov r3.x, v1\n for i0\n mov r4.x, v1\n .end\n .end")), ["r3.x, r4.x, aL"]);
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
    of(body).expect("nothing is read before it is written");
    let mut func = simplified(&main(body));
    let kept: Vec<KeptComponents> = func.kept_components();
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
    let found = of(" mov o0, v0\n ifu b0\n mov o1.xy, v1\n mov r6, v1\n add o0, r6, v0\n .end").expect("b0 is uniform");
    assert_eq!((found.written.output(0), found.written.output(1)), (0b1111, 0b0011));
    assert_eq!(found.kept, RegisterSet::of_output(1, 0b0011) | RegisterSet::of_temp(6, 0b1111));
    assert!(found.writes_alike && found.read_first.is_empty());
    // Branches on uniforms and unwritten registers: in sequence, nested, and in a loop.
    of(" ifu b0\n mov r1, v0\n .end\n ifu b1\n mov r1.yz, v1\n mova a0.xy, v0\n .end\n mov o0, v0")
        .expect("one after the other");
    of(" ifu b0\n ifu b1\n mov r1, v0\n .else\n mov r2, v0\n .end\n .else\n mov r1, v1\n .end\n mov o0, v0")
        .expect("nested");
    of(" for i0\n ifu b0\n mov r1, v0\n breakc cmp.x\n .end\n .end\n mov o0, v0").expect("a flag that is as it was");
    of(" mov o0, v0\n cmp c0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov o1, v1\n .end").expect("a comparison of uniforms");
    // A kept component is read, copied, or permuted.
    let r1 = |components| Err(r(1, components));
    let read = |body: &str| of(&format!(" ifu b0\n mov r1.xy, v0\n .end\n{body}\n mov o1, v0")).map(|_| ());
    assert_eq!(read(" mov o0.x, r1.y"), r1(0b0010));
    assert_eq!(read(" mov o0, r1.zzzz"), Ok(()), "no run writes that component");
    assert_eq!(read(" ifu b1\n mov r2, r1\n .end"), r1(0b0011));
    assert_eq!(read(" ifu b1\n mov r1.xy, r1.yx\n .end"), r1(0b0011));
    assert_eq!(read(" ifu b1\n mov r2.x, r1.zzzz\n .end"), Ok(()));
    assert_eq!(read(" for i0\n add r1.x, r1.x, v0.x\n .end"), r1(0b0001));
    // A divergent branch elsewhere.
    let parts = " cmp v0.xy, gt, gt, r9.xy\n ifc cmp.x\n mov r3, v0\n .else\n mov r3, v1\n .end";
    assert_eq!(read(&format!("{parts}\n mov o0, r3")), Ok(()));
    assert_eq!(read(&format!("{parts}\n add o0, r3, r1")), r1(0b0011));
}

#[test]
fn runs_that_end_otherwise() {
    let past_end = cfg(".proc main\n mov o0, v0\n.end\n");
    let found = RegisterUse::new(&past_end);
    assert_eq!((found.dependence, found.writes_alike), (None, false));
    assert!(!simplified(&past_end).reaches_end());
    // A write missing on the path to a stray BREAK is allowed; a change on that path is a
    // dependence.
    let stray = |body: &str| format!(" mov r9, v1\n cmp v0.xy, gt, gt, r9.xy\n {body}\n breakc cmp.x\n mov o0, v0");
    assert!(!of(&stray("nop")).expect("o0 is written by all that end").writes_alike);
    let read = format!(" mov o1, r0\n{}", stray("nop\n ifc cmp.x\n mov r0, v0\n .end"));
    assert_eq!(of(&read).unwrap_err(), r(0, 0b1111), "r0 is read and changes");
    // A run without fuel ends in the loop, and leaves r1 with what it read of r0.
    let fuel = of(" for i0\n mov r1, r0\n .end\n mov r1, v0\n mov r0, v0\n mov o0, v0").expect("no run with fuel");
    assert_eq!(fuel.read_first, RegisterSet::of_temp(0, 0b1111));
    assert_eq!((fuel.kept.temp(0), fuel.kept.temp(1), fuel.kept.output(0)), (0b1111, 0, 0b1111));
    assert!(fuel.writes_alike, "all runs that end write them");
}

#[test]
fn a_program_that_emits_is_sequential() {
    let source = |body: &str| format!(".gsh\n.entry main\n.proc main\n{body}\n end\n.end");
    for body in [" mov o0, v0\n emit", " mov o0, v0\n setemit 1"] {
        assert_eq!(RegisterUse::new(&cfg(&source(body))).dependence, Some(Dependence::Emits), "{body}");
    }
    assert_eq!(RegisterUse::new(&cfg(&source(" mov o0, v0"))).dependence, None, "no EMIT");
    // No run reaches it.
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
    assert_eq!(RegisterUse::new(&cfg(never)).dependence, Some(Dependence::Emits));
}

#[test]
fn what_invocations_carry() {
    let of = |body: &str| RegisterUse::new(&cfg(&format!(".gsh\n.entry main\n.proc main\n{body}\n end\n.end"))).carried;
    let (none, o0) = (RegisterSet::NONE, RegisterSet::of_output(0, 0b1111));
    let setemit = RegisterSet::state(RegisterSet::SETEMIT);
    assert_eq!(of(" setemit 1\n mov o0, v0\n mov o2.xz, v1\n emit"), none);
    // Both branches of a uniform condition, and a loop.
    assert_eq!(of(" setemit 1\n ifu b0\n mov o0, v0\n .else\n mov o0, v1\n .end\n emit"), none);
    assert_eq!(of(" setemit 2\n for i0\n mov o0, v0\n emit\n .end"), none);
    // The second vertex has what the invocation before left in the other bank.
    assert_eq!(of(" setemit 0\n mov o0, v0\n emit\n emit"), o0);
    assert_eq!(of(" setemit 0\n emit\n mov o0, v0"), o0);
    // A third vertex has what this one wrote, but the second has not.
    assert_eq!(of(" setemit 0\n mov o0, v0\n emit\n emit\n emit"), o0);
    assert_eq!(of(" setemit 0\n mov o0, v0\n emit\n mov o0, v1\n emit\n emit"), none);
    assert_eq!(of(" setemit 0\n add r0, r0, v0\n mov o0, r0\n emit"), RegisterSet::of_temp(0, 0b1111));
    assert_eq!(of(" setemit 0\n add r0, r1, v0\n mov o0, r0\n emit"), none, "r1 never changes");
    // Parameters: without any SETEMIT none change.
    assert_eq!(of(" mov o0, v0\n emit"), none);
    assert_eq!(of(" mov o0, v0\n emit\n setemit 1"), setemit);
    assert_eq!(of(" mov o0, v0\n ifu b0\n setemit 1\n .end\n emit"), setemit);
    assert_eq!(of(" mov o0, v0\n ifu b0\n setemit 1\n .else\n setemit 2\n .end\n emit"), none);
}

#[test]
fn what_shows_of_the_contents_at_the_start() {
    let of = |graph: &Cfg| shown_at_start(graph, OUTPUTS);
    // A component that is only left shows where a later run reads it.
    let r = |n| RegisterSet::of_temp(n, 0b1111);
    let left = of(&main(" mov o0, r0\n mov r0, r1\n mov r1, r2"));
    assert_eq!((left & r(0), left & r(1), left & r(2)), (r(0), r(1), r(2)));
    assert_eq!(left & r(3), RegisterSet::NONE);
    let read = of(&main(" mov o0, v0\n mov r0, r1"));
    assert_eq!(read & r(1), RegisterSet::NONE, "no run reads r0");
    // The first vertex has o0 of the bank that a run begins with, the second that of the other one;
    // the next run begins with the other bank.
    let geometry = |body: &str| cfg(&format!(".gsh\n.entry main\n.proc main\n{body}\n end\n.end"));
    let o0 = |graph: &Cfg| of(graph).output(0);
    assert_eq!(o0(&geometry(" setemit 0\n mov o0, v0\n emit")), 0);
    assert_eq!(o0(&geometry(" setemit 0\n mov o0.xy, v0\n emit")), 0b1100);
    assert_eq!(o0(&geometry(" setemit 0\n mov o0.xy, v0\n emit\n emit")), 0b1111);
    assert_eq!(o0(&geometry(" setemit 0\n mov o0.xyz, v0\n emit\n mov o0.yzw, v0\n emit")), 0b1001);
}

#[test]
fn integers_and_flags_that_differ_between_vertices() {
    let source = " mova a0.xy, c0\n mova a0.x, v0\n cmp c0.xy, gt, gt, r9.xy\n mov o0, c2[a0.x]\n mov o1, c2[a0.y]";
    let func = Func::build(&main(source), 100, Form::Ssa);
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
    assert_eq!(told(r(3, 0b0010)), "r3.y may hold values of an earlier vertex");
    assert_eq!(told(Dependence::Emits), "it emits");
    assert_eq!(told(Dependence::EmitsOnPaths), "it emits, and a branch is divergent");
    assert_eq!(told(Dependence::NeverEnds), "no run reaches an END");
    assert_eq!(told(Dependence::NoGraph), "control flow exceeds the limits of a graph");
}

/// Components of a unit, as words.
fn differing(a: &Unit, b: &Unit) -> RegisterSet {
    let vectors = |a: &Registers, b: &Registers| -> u64 {
        let differs = |k: &usize| !same(a[k / 4][k % 4], b[k / 4][k % 4]);
        (0..64).filter(differs).fold(0, |set, k| set | 1 << k)
    };
    let state = [a.a0[0] != b.a0[0], a.a0[1] != b.a0[1], a.al != b.al, a.cmp[0] != b.cmp[0], a.cmp[1] != b.cmp[1]];
    RegisterSet {
        temps: vectors(&a.r, &b.r),
        outputs: vectors(a.outputs(), b.outputs()),
        state: (0..).zip(state).fold(0, |set, (n, differs)| set | u8::from(differs) << n),
    }
}

/// A unit with other values in these components.
fn scrambled(unit: &Unit, set: RegisterSet) -> Unit {
    let mut unit = unit.clone();
    let bank = usize::from(unit.bank & 1);
    for (file, set) in [(&mut unit.r, set.temps), (&mut unit.o[bank], set.outputs)] {
        for k in (0..64).filter(|k| set >> k & 1 != 0) {
            let old: &mut f32 = &mut file[k / 4][k % 4];
            *old = if *old == 1.5 { -3.0 } else { 1.5 };
        }
    }
    let has = |bit: u8| set.state & bit != 0;
    unit.a0[0] ^= i32::from(has(RegisterSet::A0_X));
    unit.a0[1] ^= i32::from(has(RegisterSet::A0_Y));
    unit.al ^= i32::from(has(RegisterSet::A_L));
    unit.cmp[0] ^= has(RegisterSet::CMP_X);
    unit.cmp[1] ^= has(RegisterSet::CMP_Y);
    unit
}

/// Random vertex programs on the oracle: what is found of them holds for their runs.
#[test]
fn random_runs_do_what_is_found() {
    let (mut independent, mut dependent, mut alike, mut matters) = (0, 0, 0, 0);
    for seed in 0..crate::testing::miri_or(10, 20_000) {
        let case = crate::fuzz::generate::case_from_seed(seed, None, 3);
        let Ok(cfg) = Cfg::build(&case.program, case.entry, Limits::default()) else { continue };
        if case.entry.stage != Stage::Vertex {
            continue;
        }
        let (kernel, found) = (case.interp(), RegisterUse::new(&cfg));
        let run = |unit: &Unit, input: usize| {
            let (mut unit, mut wrote) = (unit.clone(), RegisterSet::NONE);
            copy_registers(case.input_mask, &case.inputs[input], &mut unit.v);
            let exit = kernel
                .run_traced(&case.uniforms, &mut unit, &mut NoEmitter, &mut |step| wrote = wrote | writes(step.inst));
            wrote.state &= !RegisterSet::SETEMIT;
            (exit, wrote, unit)
        };
        let (exit, wrote, left) = run(&case.unit, 0);
        assert_eq!(wrote & !found.written, RegisterSet::NONE, "seed {seed}: written");
        assert_eq!(found.written & !wrote & !found.kept, RegisterSet::NONE, "seed {seed}: kept");
        let same_from = |unit: &Unit| {
            let (again, wrote_again, left_again) = run(unit, 0);
            (exit, wrote) == (again, wrote_again) && (differing(&left, &left_again) & wrote).is_empty()
        };
        // What no run reads first has no effect, however the run ends.
        assert!(same_from(&scrambled(&case.unit, !found.read_first)), "seed {seed}: read first");
        let fuel = exit == Exit::Fuel;
        match found.dependence {
            None => {
                independent += 1;
                assert!(fuel || same_from(&scrambled(&case.unit, found.written)), "seed {seed}: independent");
            }
            Some(Dependence::Carried(carried)) => {
                dependent += 1;
                matters += u32::from(!same_from(&scrambled(&case.unit, carried)));
            }
            Some(_) => {}
        }
        if found.writes_alike && found.dependence.is_none() {
            alike += 1;
            let (other_exit, other_wrote, _) = run(&case.unit, case.inputs.len() - 1);
            assert!((exit, other_exit) != (Exit::End, Exit::End) || wrote == other_wrote, "seed {seed}: alike");
        }
    }
    println!("{independent} independent, {alike} alike, {dependent} dependent, {matters} of them in this run");
    assert!(cfg!(miri) || [independent, alike, dependent, matters].iter().all(|&n| n > 1000));
}
