//! `picajit explore`: the data of a page, and errors.

use super::{Folder, GEOMETRY, VERTEX, arguments};
use serde_json::Value;
#[cfg(feature = "jit")]
use std::collections::BTreeSet;
use std::path::Path;

/// The data in a page.
fn data(folder: &Folder) -> Value {
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_has_source_stages_and_traces() {
    let folder = Folder::new("explore");
    folder.file("a.pica", VERTEX).file("values.txt", "pos = 1, 2, 3, 4\nb1 = true\n2: pos = 5, 6, 7, 8\n");
    let said = folder.good("explore a.pica -o page.html --vertices 3 --trace 0,2 --values values.txt");
    assert_eq!(said, format!("page.html: {} bytes\n", folder.read("page.html").len()));
    let page = data(&folder);
    assert_eq!(page["source"].as_array().unwrap().len(), VERTEX.lines().count());
    let entry = &page["entries"][0];
    assert_eq!(entry["trace"]["runs"].as_array().unwrap().len(), 3);
    assert_eq!(entry["trace"]["cut"], Value::Null);
    // v0 of the first row: the values of the file.
    let first = entry["trace"]["rows"][0].as_array().unwrap();
    assert_eq!(first[..3], [Value::from(-1), Value::from(0), Value::from(1f32.to_bits())]);
}

#[cfg(feature = "jit")]
#[test]
fn machine_code_of_both_cpus_belongs_to_instructions() {
    let folder = Folder::new("explore-code");
    folder.file("a.pica", VERTEX);
    folder.good("explore a.pica -o page.html");
    let page = data(&folder);
    let entry = &page["entries"][0];
    let pcs = |stage: &str| -> BTreeSet<u64> {
        let lines = entry[stage].as_array().unwrap_or_else(|| panic!("{stage}: {}", entry[stage]));
        lines.iter().filter_map(|line| line[0].as_u64()).collect()
    };
    let computes = |pc: &u64| !page["words"][*pc as usize]["dst"].is_null();
    let expected: BTreeSet<u64> = pcs("ssa").into_iter().filter(computes).collect();
    assert!(expected.len() >= 8);
    for stage in ["clif", "x86-64", "aarch64"] {
        let found = pcs(stage);
        // The constant moves are shared and have no place of their own.
        assert!(expected.difference(&found).count() <= 2, "{stage}: {expected:?}, {found:?}");
        let (texts, bytes): (Vec<&str>, usize) = match stage {
            "clif" => continue,
            _ => {
                let lines = entry[stage].as_array().unwrap();
                (
                    lines.iter().map(|l| l[3].as_str().unwrap()).collect(),
                    lines.iter().map(|l| l[2].as_str().unwrap().len() / 2).sum(),
                )
            }
        };
        let last = entry[stage].as_array().unwrap().last().unwrap();
        assert_eq!(last[1].as_u64().unwrap() as usize + last[2].as_str().unwrap().len() / 2, bytes, "no gap");
        assert!(texts.iter().filter(|t| t.starts_with("ret")).count() >= 1, "{texts:?}");
        assert!(!texts.iter().any(|t| t.contains("(bad)") || t.starts_with(".inst")), "{texts:?}");
    }
}

#[test]
fn triangles_of_a_geometry_program_are_in_the_picture() {
    let folder = Folder::new("explore-geometry");
    folder.file("g.pica", GEOMETRY);
    folder.good("explore g.pica -o page.html --vertices 3");
    let trace = &data(&folder)["entries"][0]["trace"];
    // One triangle, then two with b15 set.
    let runs: Vec<u64> = trace["shapes"].as_array().unwrap().iter().map(|s| s[0].as_u64().unwrap()).collect();
    assert_eq!(runs, [0, 1, 1, 2, 2]);
    assert!(trace["shapes"].as_array().unwrap().iter().all(|s| s.as_array().unwrap().len() == 13));
}

#[test]
fn a_recorded_draw_gives_uniforms_and_vertices() {
    let folder = Folder::new("explore-recording");
    let scene = Path::new(crate::command::REPOSITORY).join("examples/scene");
    let recording = scene.join("scene.txt");
    // The knot draws twice: its shadow first. The floor is another program.
    for (args, draws) in [("--draw 0", true), ("--draw 1", true), ("--draw 2", false)] {
        let command = arguments("explore -o page.html --vertices 9").value(scene.join("knot.v.pica"));
        let command = command.and("--recording").value(&recording).and(args);
        if draws {
            folder.good(command);
            let trace = &data(&folder)["entries"][0]["trace"];
            assert_eq!(trace["runs"].as_array().unwrap().len(), 9);
            assert!(trace["origin"].as_str().unwrap().ends_with(&format!("draw {} of this entry", &args[7..])));
            // Positions of the picture are in front of the camera.
            let w = |shape: &Value| f32::from_bits(shape[4].as_u64().unwrap() as u32);
            assert!(trace["shapes"].as_array().unwrap().iter().all(|shape| w(shape) > 0.0), "{trace}");
        } else {
            assert!(folder.bad(command).contains("2 draws run this entry"));
        }
    }
    folder.file("a.pica", VERTEX).file("bad.txt", "picajit recording 9\n").file("g.pica", GEOMETRY);
    for (args, text) in [
        (arguments("explore a.pica --recording").value(&recording), "no draw of arrays or indices runs this entry"),
        (arguments("explore a.pica --recording bad.txt"), "bad.txt: line 1: another version of the format"),
        (arguments("explore g.pica --recording").value(&recording), "vertex entries only"),
    ] {
        let said = folder.bad(args.and("-o no.html"));
        assert!(said.contains(text), "{said}");
    }
}

#[test]
fn errors_leave_no_page() {
    let folder = Folder::new("explore-errors");
    folder.file("a.pica", VERTEX).file("values.txt", "c96 = 1");
    for (args, text) in [
        ("explore a.pica -o a.pica", "a.pica"),
        ("explore a.pica -o page.html --trace 3-1", "expected numbers and ranges"),
        ("explore a.pica -o page.html --vertices 0", "expected a number from 1 to 1024"),
        ("explore a.pica -o page.html --values values.txt", "values.txt: line 1: `c96` is no input or uniform"),
        ("explore a.pica -o page.html --entry 1", "has no entry 1"),
        ("explore a.pica -o no/page.html", "no/page.html: can't be written"),
        ("explore a.pica", "--output"),
    ] {
        let said = folder.bad(args);
        assert!(said.contains(text), "{args}: {said}");
        assert!(!folder.0.join("page.html").exists(), "{args}");
    }
    assert_eq!(folder.read("a.pica"), VERTEX.as_bytes());
}
