//! `bench --frames` from the command line.

use super::Folder;
use serde_json::Value;

#[test]
fn the_bench_measures_frames() {
    let folder = Folder::new("bench-frames");
    folder.file("four.recording", include_str!("frames/four-draws.recording"));
    folder.file("words.txt", "picajit recording 1\nlist\n; the frame\n1 000F0228\n1 000F02ZZ\n");
    folder.file("no-draw.txt", "picajit recording 1\nlist\n1 000F0228\n");
    // A debug build warns.
    let ended = folder.run("bench --quick --frames four.recording");
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.out.contains("\nfour: draws 4, vertices of a draw 4 (median), register writes 107\n"),
        "{}",
        ended.out
    );
    assert!(ended.out.lines().all(|line| line.chars().count() <= 100), "{}", ended.out);
    let ended = folder.run("bench --quick --json --frames words.txt four.recording no-draw.txt none.txt");
    assert_eq!(ended.code, 2);
    let object: Value = serde_json::from_str(&ended.out).expect("one object");
    assert_eq!((&object["frame"], &object["draws"]), (&Value::from("four"), &Value::from(4)), "{object}");
    for (state, way) in [("hot", "picajit"), ("hot", "lean"), ("cold", "picajit"), ("cold", "lean")] {
        assert!(object[state][way]["draws_us"].as_f64() > Some(0.0), "{object}");
    }
    for error in [
        "error: words.txt: line 5: expected words of at most eight hexadecimal digits\n",
        "error: no-draw.txt: the frame has no draw\n",
        "error: none.txt: no such file\n",
    ] {
        assert!(ended.err.contains(error), "{}", ended.err);
    }
    assert!(folder.bad("bench --draws --frames four.recording").contains("--frames"));
}
