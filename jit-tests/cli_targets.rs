//! Machine code of CPUs other than the host's: `disasm --target` and `bench --static`.

use super::{Folder, arguments};
use serde_json::Value;

#[test]
fn machine_code_of_other_cpus_can_be_read_and_counted() {
    let folder = Folder::new("targets");
    folder.file("a.pica", ".proc main\nmul r0, v0, v0\nflr o0, r0\nend\n.end\n");
    for (target, floor) in [("x86-64", "roundps"), ("x86-64-v3", "vroundps"), ("aarch64", "frintm")] {
        let code = folder.good(arguments("disasm a.pica --stage host --target").and(target));
        assert!(code.contains(&format!(" {floor} ")), "{target}: {code}");
    }
    assert!(folder.bad("disasm a.pica --stage host --target mips").contains("x86-64-v3, aarch64"));
    // Batch code is a loop over groups, if vertices are independent.
    let alone = folder.good("disasm a.pica --stage clif --target aarch64");
    let batch = folder.good("disasm a.pica --stage clif --target aarch64 --shape batch");
    assert!(batch.matches(" fmul ").count() == 4 * alone.matches(" fmul ").count(), "{batch}");
    folder.file("b.pica", ".proc main\nmov o0, r0\nmov r0, v0\nend\n.end\n");
    let why = folder.bad("disasm b.pica --stage host --shape batch");
    assert!(why.contains("batches run in sequence: r0.xyzw ") && why.contains("\nhelp: --shape vec4 "), "{why}");
    let table = folder.good("bench --static a.pica");
    assert!(table.contains("\na.pica                   3 | ") && table.contains("\nall "), "{table}");
    let json = folder.good("bench --static a.pica --json");
    let objects: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(objects.len(), 12);
    assert!(objects.iter().all(|o| o["bytes"].as_u64() > o["instructions"].as_u64()), "{json}");
}

/// The figures depend on no machine, so the page has those of the present code. `BLESS=1` rewrites it.
#[test]
fn the_page_has_the_table_of_the_builtin_shaders() {
    let printed = Folder::new("static").good("bench --static");
    let lines: String = printed.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let path = std::path::Path::new(crate::command::REPOSITORY).join("docs/performance.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find("instructions               |").expect("the table");
    let length = page[start..].find("```").expect("its end");
    if page[start..][..length] == lines {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, [&page[..start], &lines, &page[start + length..]].concat()).unwrap();
        return;
    }
    panic!("docs/performance.md is not what `picajit bench --static` prints; BLESS=1 rewrites it:\n{lines}");
}
