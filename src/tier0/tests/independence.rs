//! Whether vertices are independent and write the same components.

use super::*;
use crate::container::shbin::Shbin;
use crate::ir::analysis::{Dependence, RegisterUse};
use crate::ir::{Form, Func};
use crate::isa::Stage;
use crate::testing::third_party;

fn of_tier0(program: &Program, entry: Entry) -> bool {
    Tier0::default().kernel_of_entry(program, entry, &Config::default()).has_independent_vertices()
}

/// The same with the SSA form's answer whether vertices write the same components: it tells flags
/// that depend on uniforms alone from others.
fn with_values(program: &Program, entry: Entry) -> bool {
    let Ok(cfg) = Cfg::build(program, entry, Limits::default()) else { return false };
    let mut func = Func::build(&cfg, default_fuel(Stage::Vertex), Form::Ssa);
    func.simplify(Precision::F32);
    RegisterUse::new(&cfg).dependence.is_none() && func.kept_components().is_empty()
}

fn both(shbin: &Shbin) -> Vec<(bool, bool)> {
    let program = shbin.program().expect("short");
    let vertex = shbin.dvles.iter().map(|dvle| dvle.entry()).filter(|entry| entry.stage == Stage::Vertex);
    vertex.map(|entry| (of_tier0(&program, entry), with_values(&program, entry))).collect()
}

#[test]
fn both_answers_agree_where_shaders_are_usual() {
    let body = |body: &str| format!(".proc main\n{body}\n end\n.end");
    for (source, independent) in [
        (body(" mov o0, v0"), true),
        (body(" mov r0, v0\n add o0, r0, r0"), true),
        // Uniforms decide what is written, so all vertices write the same.
        (format!(".bool b\n{}", body(" ifu b\n mov r1, v0\n mov o1, v0\n .end\n mov o0, v0")), true),
        (format!(".ivec n\n{}", body(" mov o0, v0\n for n\n add r1, v0, v0\n mov o0, r1\n .end")), true),
        // A procedure before its caller: a backward transfer, which fuel could end.
        (".proc f\n mov r1, v0\n mov o1, v0\n.end\n.proc main\n call f\n mov o0, r1\n end\n.end".into(), true),
        (body(" cmp v0, lt, lt, v0\n ifc cmp.x\n mov o0, v0\n .else\n mov o0, v1\n .end"), true),
        // Fuel could end a run in its loop, before it writes.
        (
            format!(
                ".ivec n\n{}",
                body(" for n\n nop\n .end\n cmp v0, lt, lt, v0\n ifc cmp.x\n mov o0, v0\n .else\n mov o0, v1\n .end")
            ),
            true,
        ),
        // `r0.y` of an earlier vertex reaches `r1.y`, which nothing reads.
        (body(" mov r0.x, v0\n add r1.xy, r0, v0\n mov o0, r1.x\n mov r0, v0\n mov r1, v0"), true),
        // An earlier vertex's value.
        (body(" add r0, r0, v0\n mov o0, r0"), false),
        (body(" mov o0, r0\n mov r0, v0"), false),
        (body(" cmp v0, lt, lt, v0\n ifc cmp.x\n mov o0, v0\n .end"), false),
        (body(" ifc cmp.x\n mov o0, v0\n .else\n mov o0, v1\n .end\n cmp v0, lt, lt, v0"), false),
    ] {
        let shbin = assemble(&source).unwrap_or_else(|error| panic!("{error:?}: {source}")).shbin;
        assert_eq!(both(&shbin), [(independent, independent)], "{source}");
    }
}

#[test]
fn words_without_a_graph_depend_on_each_other() {
    let shbin = assemble(".proc main\n mov o0, v0\n end\n.end").expect("a good source").shbin;
    let (program, entry) = (shbin.program().expect("short"), shbin.dvles[0].entry());
    let kernel = Tier0::default().kernel(None, &program, entry, &Config::default());
    assert_eq!(kernel.code.usage.dependence, Some(Dependence::NoGraph));
}

/// Cases in which only values show that vertices write the same components.
#[test]
fn these_are_not_known() {
    let flags = " mov r0, c[0]\n cmp c[0], lt, lt, r0\n ifc cmp.x\n mov o1, v0\n .end\n mov o0, v0";
    let uniform = " ifu b\n mov o1, v0\n .end\n cmp v0, lt, lt, v0\n ifc cmp.x\n nop\n .end\n mov o0, v0";
    for (name, body) in [("flags of uniforms", flags), ("a uniform and a flag decide", uniform)] {
        let shbin =
            assemble(&format!(".fvec c[1]\n.bool b\n.proc main\n{body}\n end\n.end")).expect("a good source").shbin;
        assert_eq!(both(&shbin), [(false, true)], "{name}");
    }
}

#[test]
fn both_answers_agree_on_real_shaders() {
    for (name, bytes) in third_party::files("shbin") {
        let shbin = Shbin::parse(&bytes).expect("a real file");
        for (tier0, with_values) in both(&shbin) {
            assert_eq!(tier0, with_values, "{name}");
        }
    }
}

/// Random programs: where tier 0 knows that vertices write the same, values show it.
#[test]
fn it_knows_nothing_that_values_deny() {
    let mut known = 0;
    for seed in 0..crate::testing::miri_or(20, 4_000) {
        let case = crate::fuzz::generate::case_from_seed(seed, None, 1);
        if case.entry.stage == Stage::Vertex && of_tier0(&case.program, case.entry) {
            known += 1;
            assert!(with_values(&case.program, case.entry), "seed {seed}");
        }
    }
    assert!(known > 0);
}
