use super::*;

fn analysis(source: &str) -> Analysis {
    let shbin = crate::text::assemble(source).expect("a good source").shbin;
    Analysis::new(&shbin.program().expect("short"), shbin.dvles[0].entry()).expect("small")
}

#[test]
fn shapes() {
    let a = analysis(".proc main\n mov r0, v0\n mov o0, r0\n end\n.end");
    assert!(a.is_independent());
    assert_eq!((a.shortest_path, a.longest_path), (Some(3), Some(3)));
}
