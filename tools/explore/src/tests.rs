//! Pages of built-in programs: fields, graphs, logs; and requests of the playground.

use super::playground::answer;
use super::trace::{Bounds, SLOTS, Values, states, trace};
use super::{Subject, entry, graph, page, values, words};
use picajit::internals::generator;
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::kernel::Config;
use picajit::isa::Inst;
use picajit::text::{Assembly, assemble};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A loop, a call, a branch and a conditional break.
const SOURCE: &str = "\
.fvec matrix[4]
.in position v1
.out place position
.out tint color
.proc shade
    mul tint, matrix[1], position
.end
.proc main
    mov r0, position
    cmp position.xy, gt, lt, position.zw
    for i0
        add r0, position, r0
        breakc cmp.x
    .end
    call shade
    ifu b1
        mov place, r0
    .else
        mov place, matrix[0]
    .end
    end
.end
";

fn page_of(source: &str) -> (Assembly, Value) {
    let assembly = assemble(source).unwrap();
    let program = assembly.shbin.program().unwrap();
    let source = Some((source, &assembly.lines[..]));
    let subject = Subject { name: "a\u{202E}b", kind: "x", shbin: &assembly.shbin, program: &program, source };
    let entries = (0..assembly.shbin.dvles.len()).map(|n| entry(&subject, n)).collect();
    let page = page(&subject, entries);
    (assembly, page)
}

#[test]
fn fields_cover_every_bit_of_every_opcode() {
    for opcode in 0..64u32 {
        let word = opcode << 26 | 0x0155_5555;
        let inst = Inst::decode(word, 0x1234_5678);
        let shown = words::word(word, &inst, None);
        let mut next = 31i64;
        for field in shown["fields"].as_array().unwrap() {
            let (first, last) = (field[0].as_i64().unwrap(), field[1].as_i64().unwrap());
            assert!(first == next && last <= first, "{shown}");
            next = last - 1;
        }
        assert_eq!(next, -1, "{shown}");
    }
}

#[test]
fn fields_have_the_meaning_of_their_instruction() {
    let (_, page) = page_of(".proc main\nmul r3, c5[a0.x], -v2.wzyx\nend\n.end\n");
    let word = &page["words"][0];
    let meaning = |name: &str| {
        let field = word["fields"].as_array().unwrap().iter().find(|f| f[2] == name);
        field.unwrap_or_else(|| panic!("no field {name} in {word}"))[3].clone()
    };
    assert_eq!(meaning("destination"), "r3");
    assert_eq!(meaning("index register"), "a0.x");
    assert_eq!(meaning("source 1"), "c5");
    assert_eq!(meaning("source 2"), "v2");
    assert_eq!(word["src"], json!([["c", 5, [0, 1, 2, 3], false, "a0.x"], ["v", 2, [3, 2, 1, 0], true, null]]));
    assert_eq!(word["dst"], json!(["r", 3, "xyzw"]));
    let descriptor = &page["descriptors"][word["descriptor"].as_u64().unwrap() as usize];
    let named = |name: &str| descriptor["fields"].as_array().unwrap().iter().find(|f| f[2] == name).unwrap()[3].clone();
    assert_eq!([named("sign 1"), named("sign 2"), named("selector 2")], ["as it is", "negated", "wzyx"]);
    assert_eq!(page["name"], "a\\u{202e}b", "text of files is visible");
}

#[test]
fn each_reachable_word_is_in_a_block_and_edges_lead_to_its_successors() {
    let (assembly, page) = page_of(SOURCE);
    let program = assembly.shbin.program().unwrap();
    let cfg = Cfg::build(&program, assembly.shbin.dvles[0].entry(), Limits::default()).unwrap();
    let shown = graph::graph(&program, &cfg);
    assert_eq!(shown, page["entries"][0]["graph"]);
    let blocks = shown["blocks"].as_array().unwrap();
    let pcs: Vec<u64> =
        blocks.iter().flat_map(|b| b["pcs"].as_array().unwrap()).map(|pc| pc.as_u64().unwrap()).collect();
    let distinct: BTreeSet<u64> = pcs.iter().copied().collect();
    assert_eq!(
        distinct.iter().copied().collect::<Vec<_>>(),
        cfg.reachable.iter().map(|&pc| pc.into()).collect::<Vec<u64>>()
    );
    assert_eq!(pcs.len(), distinct.len(), "no word twice, for no procedure has two callers: {pcs:?}");
    // A block's first instruction follows the last one of a predecessor, or its scope's end.
    let edges: usize = blocks.iter().map(|b| b["edges"].as_array().unwrap().len()).sum();
    assert!(edges >= blocks.len(), "{shown}");
}

/// Applies a log's rows as a reader does.
fn replay(trace: &Value) -> Vec<[u32; SLOTS]> {
    let mut state = [0; SLOTS];
    let rows = trace["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        for change in row.as_array().unwrap()[1..].chunks(2) {
            state[change[0].as_u64().unwrap() as usize] = change[1].as_u64().unwrap() as u32;
        }
        state
    })
    .collect()
}

#[test]
fn a_log_gives_the_oracles_registers_after_every_step() {
    let (assembly, _) = page_of(SOURCE);
    let (program, dvle) = (assembly.shbin.program().unwrap(), &assembly.shbin.dvles[0]);
    let values = values::read("b1 = true\n2: position = 9, 1, 2, 3", dvle, 4).unwrap();
    let traced = trace(&program, dvle, &values, &[0, 2], Config::default(), Bounds::default());
    let expected = states(&program, dvle, &values, &[0, 2], Config::default());
    assert!(expected.len() > 20 && replay(&traced) == expected);
    assert_eq!(traced["cut"], Value::Null);
    assert_eq!(traced["runs"].as_array().unwrap().len(), 4);
    assert_eq!(traced["runs"][1][2], Value::Null, "not logged");
    assert_eq!(traced["rows"][traced["runs"][2][2].as_u64().unwrap() as usize][0], -3);
    assert_eq!(traced["shapes"].as_array().unwrap().len(), 4, "a point for each vertex");
    assert!(traced["scopes"].as_array().unwrap().iter().any(|s| s.as_str().unwrap().starts_with("loop ")));
}

#[test]
fn a_long_run_is_cut_and_the_log_says_so() {
    let source = ".proc main\nagain:\nadd r0, v0, r0\njmpu b0, again\nend\n.end\n";
    let (assembly, _) = page_of(source);
    let (program, dvle) = (assembly.shbin.program().unwrap(), &assembly.shbin.dvles[0]);
    let values = values::read("b0 = true", dvle, 3).unwrap();
    let bounds = Bounds { steps: 50, executed: 1000, ..Bounds::default() };
    let traced = trace(&program, dvle, &values, &[0, 1, 2], Config::default(), bounds);
    assert_eq!(traced["rows"].as_array().unwrap().len(), 50);
    assert_eq!(traced["runs"], json!([["stopped", 1000, 0]]));
    assert_eq!(traced["cut"], "run 0 stops after 1000 instructions of all runs");
    // The row that begins a run has all inputs, so it alone takes about 1000 bytes.
    let bounds = Bounds { bytes: 2000, ..Bounds::default() };
    let traced = trace(&program, dvle, &values, &[0], Config { fuel: 200, ..Config::default() }, bounds);
    assert!((5..40).contains(&traced["rows"].as_array().unwrap().len()), "{}", traced["rows"]);
    assert!(traced["rows"].to_string().len() < 2100);
    assert_eq!(traced["runs"][0], json!(["out of fuel", 202, 0]));
    assert!(traced["cut"].as_str().unwrap().starts_with("the log ends in run 0"));
}

#[test]
fn values_are_named_by_number_or_as_declared() {
    let (assembly, _) = page_of(SOURCE);
    let dvle = &assembly.shbin.dvles[0];
    let text =
        "matrix[2] = 1, 2, 3 ; a comment\nc9 = (4)\ni1 = 1, 2, 3\nb3 = true\nposition = inf, nan, -0, 1\n1: v0 = 7";
    let Values { uniforms, inputs, .. } = values::read(text, dvle, 2).unwrap();
    let first = usize::from(dvle.uniforms.iter().find(|u| u.name == "matrix").unwrap().first - 0x10);
    assert_eq!((uniforms.c[first + 2], uniforms.c[9], uniforms.i[1]), ([1.0, 2.0, 3.0, 1.0], [4.0; 4], [1, 2, 3, 0]));
    assert_eq!(uniforms.b, 8);
    assert_eq!((inputs[0][1][0], inputs[1][0], inputs[0][0]), (f32::INFINITY, [7.0; 4], generator::inputs(1)[0][0]));
    for (text, message) in [
        ("\nc96 = 1", "line 2: `c96` is no input or uniform"),
        ("matrix[4] = 1", "line 1: `matrix[4]` is no input"),
        ("x", "line 1: expected `REGISTER = VALUE`"),
        ("2: v0 = 1", "line 1: expected the number of a vertex"),
        ("0: c0 = 1", "line 1: expected the number of a vertex"),
        ("v0 = 1, 2", "line 1: expected one, three or four numbers"),
        ("i0 = 1, 2, 256", "line 1: expected three numbers"),
        ("b0 = 2", "line 1: expected `true`"),
    ] {
        let error = values::read(text, dvle, 2).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn the_playground_answers_with_a_page_or_with_the_place_of_an_error() {
    let ask = |request: Value| serde_json::from_str::<Value>(&answer(&request.to_string())).unwrap();
    let good = ask(json!({ "source": SOURCE, "values": "b1 = true", "vertices": 3, "chosen": [1] }));
    let entry = &good["page"]["entries"][0];
    assert_eq!(entry["trace"]["runs"].as_array().unwrap().len(), 3);
    assert!(entry["ssa"].as_array().unwrap().len() > 10);
    assert_eq!(good["errors"], json!([]));
    // All errors of a source, with what the assembler advises.
    let bad = ask(json!({ "source": ".proc main\nmuls r0, v0\nadd r0, c0, c1\nmov r0, v0\nend\n.end\n" }));
    let errors = bad["errors"].as_array().unwrap();
    let places: Vec<_> = errors.iter().map(|e| (&e["in"], e["line"].as_u64(), e["help"].is_string())).collect();
    assert_eq!(places, [(&json!("source"), Some(2), true), (&json!("source"), Some(3), true)], "{bad}");
    assert_eq!((errors[0]["column"].as_u64(), bad["page"].is_null()), (Some(1), true));
    let bad = ask(json!({ "source": SOURCE, "values": "\nq = 1" }));
    assert_eq!((&bad["errors"][0]["in"], &bad["errors"][0]["line"]), (&json!("values"), &json!(2)), "{bad}");
    let page = ask(json!({ "source": SOURCE }))["page"].take();
    assert!(page["words"].is_array() && bad["page"] == page, "the page has generated values");
    assert!(answer("{").contains("\"in\":\"request\""));
}
