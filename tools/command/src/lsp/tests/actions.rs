//! Code actions: each one removes the diagnostic that it belongs to, and changes nothing else.

use super::super::document::Document;
use super::super::text::Encoding;
use super::super::{actions, diagnostics};
use super::{apply, uri};
use lsp_types::{CodeAction, NumberOrString, Range};
use picajit::text::Options;

fn open(text: &str, no_nop: bool) -> Document {
    Document::new(uri(), 1, text.into(), Encoding::Utf16, Options { no_nop })
}

/// The codes and lines of all diagnostics.
fn codes(document: &Document) -> Vec<String> {
    document.findings();
    let code = |d: &lsp_types::Diagnostic| match &d.code {
        Some(NumberOrString::String(code)) => format!("{code} {}", d.range.start.line),
        other => panic!("{other:?}"),
    };
    diagnostics::diagnostics(document).iter().map(|(_, d)| code(d)).collect()
}

/// All actions of a text, and the text after each.
fn all(document: &Document, text: &str) -> Vec<(CodeAction, String)> {
    document.findings();
    let whole = Range { end: lsp_types::Position { line: document.rows(), character: 0 }, ..Range::default() };
    let after = |action: CodeAction| {
        let edits = action.edit.as_ref().and_then(|edit| edit.changes.as_ref()?.get(&uri())).expect("edits");
        let after = apply(text, edits);
        (action, after)
    };
    actions::actions(document, whole).into_iter().map(after).collect()
}

#[test]
fn an_action_removes_its_diagnostic() {
    const BEGIN: &str = ".fvec tint, base[4]\n.in pos\n.out place position\n.proc main\n    mov place, pos\n";
    let text = |line: &str| format!("{BEGIN}{line}\n    end\n.end\n");
    for (line, title, fixed) in [
        ("    mull place, tint, pos", "write `mul`", "    mul place, tint, pos"),
        ("    mov place, -poss.x", "write `pos`", "    mov place, -pos.x"),
        ("    mov place, ttint", "write `tint`", "    mov place, tint"),
        ("    add place, pos, base[1] ; sum", "exchange the operands", "    add place, base[1], pos ; sum"),
        ("    cmp r0, >, lt, r0", "write `gt`", "    cmp r0, gt, lt, r0"),
        ("    rsqrt place, pos.w", "write `rsq`", "    rsq place, pos.w"),
        ("    call mainn", "write `main`", "    call main"),
    ] {
        let text_before = text(line);
        let document = open(&text_before, false);
        let found = all(&document, &text_before);
        let [(action, after)] = &found[..] else { panic!("{line}: {found:?}") };
        assert_eq!((action.title.as_str(), after), (title, &text(fixed)));
        let of = action.diagnostics.as_ref().expect("a diagnostic");
        assert_eq!(of[0].range.start.line, 5);
        let errors = |document: &Document| document.analysis().errors().count();
        assert_eq!((errors(&document), errors(&open(after, false))), (1, 0), "{after}");
    }
}

#[test]
fn a_nop_is_inserted_where_one_is_missing() {
    let mova = ".fvec m[9]\n.in p\n.out o position\n.proc main\n    mova a0.x, p.x\n    mova a0.y, p.y\n    mul r0, m[a0.x], p\n    add o, m[a0.y], r0\n    end\n.end\n";
    let document = open(mova, false);
    assert!(codes(&document).contains(&"adjacent-mova 4".into()), "{:?}", codes(&document));
    let [(action, after)] = &all(&document, mova)[..] else { panic!("one action") };
    assert_eq!((action.title.as_str(), after.lines().nth(5)), ("insert `nop`", Some("    nop")));
    assert_eq!(codes(&open(after, false)), Vec::<String>::new());

    let ends = ".in p\n.out o position\n.proc main\n    mov o, p\n    ifc cmp.x\n        call half\n    .end\n    end\n.end\n.proc half\n    mov r0, p\n    nop\n.end\n";
    let document = open(ends, true);
    let found = all(&document, ends);
    let (_, after) = found.iter().find(|(action, _)| action.title == "insert `nop`").expect("an action");
    assert_eq!(after.lines().nth(6), Some("        nop"), "{after}");
    assert!(!codes(&open(after, true)).contains(&"missing-nop 6".into()));
}

#[test]
fn a_missing_component_is_added_to_the_one_write() {
    let text = ".in p\n.out o position\n.proc main\n    mov o.xyz, p\n    end\n.end\n";
    let document = open(text, false);
    assert_eq!(codes(&document), ["unwritten-output 1"]);
    let [(action, after)] = &all(&document, text)[..] else { panic!("one action") };
    assert_eq!((action.title.as_str(), after.lines().nth(3)), ("write `.w` too in line 4", Some("    mov o.xyzw, p")));
    assert_eq!(codes(&open(after, false)), Vec::<String>::new());
    // With several writes none is likelier than another.
    let several = text.replace("    end", "    mov o.x, p.y\n    end");
    assert_eq!(all(&open(&several, false), &several).len(), 0);
}
