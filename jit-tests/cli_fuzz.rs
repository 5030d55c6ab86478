//! The `fuzz` verb and `diff --shrink` from the command line. The verbs' unit tests cover
//! differences, since they can substitute a faulty engine.

use super::{Args, Folder, arguments};
use crate::command::slowness;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Standard output of a run without difference. Standard error may have a warning without native
/// code, and progress on a slow machine, but nothing else.
#[track_caller]
fn fine(folder: &Folder, args: impl Into<Args>) -> String {
    let args = args.into();
    let ended = folder.run(args.clone());
    assert_eq!(ended.code, 0, "{args:?}: {}{}", ended.out, ended.err);
    let expected = |line: &str| {
        line.is_empty() || line.contains(" programs (") || !cfg!(feature = "jit") && line.starts_with("warning: only")
    };
    assert!(ended.err.lines().all(expected), "{}", ended.err);
    ended.out
}

#[test]
fn the_same_seed_is_the_same_run_on_any_number_of_threads() {
    let folder = Folder::new("fuzz-threads");
    let run = |seed: u64, threads: u32| {
        let args = arguments("fuzz --programs 70 --json --seed").value(seed.to_string());
        let out = fine(&folder, args.and("--threads").value(threads.to_string()));
        let mut json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["threads"], threads);
        for varies in ["threads", "seconds"] {
            json.as_object_mut().unwrap().remove(varies);
        }
        json
    };
    let one = run(5, 1);
    assert_eq!(one, run(5, 3));
    assert_ne!(one, run(6, 1));
    assert_eq!((&one["programs"], &one["differences"], &one["filetest"]), (&70.into(), &0.into(), &Value::Null));
    let formats = one["precisions"].as_array().unwrap().len() as u64;
    assert_eq!(one["comparisons"], 70 * formats);
    let engines: Vec<&str> = one["engines"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(engines, if cfg!(feature = "jit") { vec!["tier0", "unoptimised", "batch"] } else { vec!["tier0"] });
    let sum = |key: &str| one[key].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(one["vertices"], sum("exits"));
    assert!(sum("executed") > 1000 && one["executed"].as_object().unwrap().len() == 39);
}

#[test]
fn a_seed_reproduces_its_program() {
    let folder = Folder::new("fuzz-again");
    let triangles = |args: &'static str| -> u64 {
        let json: Value = serde_json::from_str(&fine(&folder, arguments("fuzz --json").and(args))).unwrap();
        json["triangles"].as_u64().unwrap() + json["vertices"].as_u64().unwrap()
    };
    let both = triangles("--seed 20 --programs 2");
    assert_eq!(both, triangles("--seed 20 --programs 1") + triangles("--seed 21 --programs 1"));
}

#[test]
fn the_summary_is_a_table_and_a_verdict() {
    let folder = Folder::new("fuzz-summary");
    for tier in ["words", "insts", "programs", "all"] {
        let out = fine(&folder, arguments("fuzz --programs 20 --precision f32 --tier").and(tier));
        assert!(out.contains("executed for the first vertices: "), "{out}");
        assert!(
            out.contains(" % of the vertices end: end\n") && out.contains(" % of the programs have a loop\n"),
            "{out}"
        );
        assert!(out.contains(&format!("seed 1, tier {tier}, f32: 20 programs, 20 comparisons of ")), "{out}");
        assert!(out.contains(" with interp, no difference\n"), "{out}");
    }
}

#[test]
fn time_ends_a_run() {
    let folder = Folder::new("fuzz-seconds");
    let start = Instant::now();
    let json: Value = serde_json::from_str(&fine(&folder, "fuzz --seconds 1 --json")).unwrap();
    assert!(json["programs"].as_u64().unwrap() > 0);
    assert!(start.elapsed() < slowness() * Duration::from_secs(60));
}

#[test]
fn wrong_arguments_are_errors() {
    let folder = Folder::new("fuzz-usage");
    for args in
        ["--tier sentences", "--precision f16", "--programs 0", "--threads 0", "--seconds 0", "--seed x", "FILE"]
    {
        let err = folder.bad(arguments("fuzz").and(args));
        assert!(err.starts_with("error: "), "{args}: {err}");
    }
}

#[test]
fn shrinking_changes_nothing_where_nothing_differs() {
    let folder = Folder::new("diff-shrink");
    folder.file("a.pica", ".proc main\nmul o0, v0, r1\nend\n.end\n");
    let out = fine(&folder, "diff a.pica --vertices 100 --shrink --special");
    let plain = fine(&folder, "diff a.pica --vertices 100 --special");
    assert_eq!(out, plain);
}

#[test]
fn engines_and_cpus_print_the_same_lines() {
    let folder = Folder::new("fuzz-print");
    let print = |rest: &'static str| folder.good(arguments("fuzz --programs 40 --seed 9 --print").and(rest));
    let interp = print("interp --threads 1");
    assert_eq!(interp, print("interp --threads 3"));
    // One line for each program and number format: seed, format, hash, triangles, exits.
    let formats = picajit::isa::numeric::Precision::ALL.len();
    assert_eq!(interp.lines().count(), 40 * formats);
    let first: Vec<&str> = interp.lines().next().unwrap().split(' ').collect();
    assert!(first[..2] == ["9", "f32"] && first[2].len() == 16 && first[3].starts_with("triangles="), "{first:?}");
    assert_eq!(interp, folder.good("fuzz --programs 40 --seed 9 --print interp --cpu baseline"));
    if cfg!(feature = "jit") {
        for engine in ["batch", "unoptimised"] {
            let native = print(engine);
            assert_eq!(
                native,
                folder.good(arguments("fuzz --programs 40 --seed 9 --cpu baseline --print").and(engine))
            );
            for (native, interp) in native.lines().zip(interp.lines()) {
                assert!(native == interp || native.contains(" refused: "), "{engine}: {native}, not {interp}");
            }
        }
    } else {
        let err = folder.bad("fuzz --print vec4");
        assert!(err.starts_with("error: engine vec4 is not available: "), "{err}");
    }
    for args in ["--print vec5", "--print interp --json", "--print interp --seconds 1", "--cpu mips"] {
        assert!(folder.bad(arguments("fuzz").and(args)).starts_with("error: "), "{args}");
    }
}
