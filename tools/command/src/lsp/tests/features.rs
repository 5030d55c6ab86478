//! Hover, definitions, completion, symbols, diagnostics, positions, and the protocol around them.

use super::super::{completion, diagnostics, hover, names, outline};
use super::client::Client;
use super::{at_bar, document};
use lsp_types::{Hover, HoverContents, NumberOrString, Position};
use serde_json::json;

fn hover_text(source: &str) -> String {
    let (document, position) = at_bar(source);
    match hover::hover(&document, position) {
        Some(Hover { contents: HoverContents::Markup(markup), .. }) => markup.value,
        other => panic!("{source}: {other:?}"),
    }
}

const SHADER: &str = "\
.fvec matrix[4]
.constf misc(0, 0.5, 2, -1)
.alias half misc.yyyy
.in position v0
.out place position
.proc main
    dp4 r0.x, matrix[1], position
    mul r0, -half, r0
    mov place.xy, r0.yx
    end
.end
";

/// The shader with a cursor before the first `before` in line `line` (from 1).
fn cursor(line: usize, before: &str) -> String {
    let with_bar = |(n, text): (usize, &str)| {
        if n + 1 == line { text.replacen(before, &format!("|{before}"), 1) } else { text.to_string() }
    };
    SHADER.lines().enumerate().map(with_bar).collect::<Vec<_>>().join("\n")
}

#[test]
fn hover_explains_instructions_and_their_words() {
    let text = hover_text(&cursor(7, "dp4"));
    for part in
        ["dp4 dst, src1, src2", "Dot product", "Word 0: `0A021000`", "descriptor 0: `0006C368`", "dp4 r0.x, c1, v0"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(hover_text(&cursor(6, ".proc")).contains("Begins a procedure"));
    // No word of a line with an error.
    assert!(!hover_text(".proc main\n|mov r0, q\nend\n.end\n").contains("Word"));
}

#[test]
fn hover_explains_operands() {
    for (line, name, parts) in [
        (7, "matrix", &["Reads `c1`", "float uniform `matrix`: c0 to c3", "element 1 of"] as &[&str]),
        (7, "position", &["Reads `v0`", "input `position`"]),
        (
            8,
            "half",
            &["Reads `-c95.yyyy`", "The operand is (-0.5, -0.5, -0.5, -0.5).", "(0, 0.5, 2, -1)", "alias `half`"],
        ),
        (8, "r0,", &["Writes `r0`", "Written in line 7"]),
        (9, "r0", &["Reads `r0.yxxx`", "Written in line 8: `mul r0, -half, r0`"]),
        (9, "place", &["Writes `o0.xy`", "output `position`", "No line above writes o0."]),
        (2, "misc", &["float constant `misc`: c95", "(0, 0.5, 2, -1)"]),
        (5, "place", &["output `place`: o0, position"]),
        (6, "main", &["procedure `main`: 4 words from word 0"]),
    ] {
        let text = hover_text(&cursor(line, name));
        for part in parts {
            assert!(text.contains(part), "line {line}, {name}: {part} in {text}");
        }
    }
    let (document, position) = at_bar("nop ; |comment");
    assert!(hover::hover(&document, position).is_none());
}

#[test]
fn definitions_and_references() {
    let (document, position) = at_bar(&cursor(7, "matrix"));
    let lines = |list: Vec<lsp_types::Location>| list.iter().map(|l| l.range.start.line).collect::<Vec<_>>();
    assert_eq!(lines(names::definitions(&document, position)), [0]);
    assert_eq!(lines(names::references(&document, document.place_of(position), true)), [0, 6]);
    assert_eq!(lines(names::references(&document, document.place_of(position), false)), [6]);
    let (range, name) = names::renameable(&document, position).expect("a name");
    assert_eq!((name.as_str(), range.start.character, range.end.character), ("matrix", 14, 20));
    let (document, position) = at_bar(&cursor(7, "r0"));
    assert!(names::definitions(&document, position).is_empty());
}

#[test]
fn completion_fits_the_position() {
    let labels = |source: &str| {
        let (document, position) = at_bar(source);
        completion::completions(&document, position).into_iter().map(|item| item.label).collect::<Vec<_>>()
    };
    let in_main = |line: &str| labels(&SHADER.replace("    end\n", &format!("l: {line}\n    end\n")));
    for (line, inside, outside) in [
        ("|", "mad", "r0"),
        ("m|", "mad", "r0"),
        (".|", ".alias", "mov"),
        ("mov |", "place", "matrix"),
        ("mov r|", "r15", "c0"),
        ("mov r0, |", "matrix", "place"),
        ("mov r0, -|", "half", "b0"),
        ("mov r0, matrix[|", "aL", "r0"),
        ("add r0, matrix[aL+1], |", "position", "aL"),
        ("add r0, matrix[1], |", "r5", "matrix"),
        ("add r0, v1, |", "v1", "v0"),
        ("add r0, v1, |", "r1", "position"),
        ("dph r0, r1, |", "matrix", "place"),
        ("dph! r0, r1, |", "r2", "c0"),
        ("dph r0, c1, |", "r2", "c1"),
        ("mad r0, |", "r3", "matrix"),
        ("mad r0, r1, |", "matrix", "place"),
        ("mad r0, r1, half, |", "position", "matrix"),
        ("cmp |", "half", "ge"),
        ("cmp half, ge, le, |", "r0", "c5"),
        ("cmp r0, |", "ge", "r0"),
        ("cmp r0, ge, l|", "lt", "r0"),
        ("cmp r0, ge, lt, |", "r0", "ge"),
        ("ifc |", "cmp.x", "b0"),
        ("ifc cmp.x && |", "cmp.y", "b0"),
        ("ifu |", "b0", "i0"),
        ("for |", "i3", "b0"),
        ("call |", "main", "l"),
        ("jmpc cmp.x, |", "l", "main"),
        ("jmpu !|", "b0", "l"),
        ("mova |", "a0.xy", "r0"),
        ("setemit 0, |", "prim", "r0"),
        (".out q |", "texcoord0w", "o0"),
        (".out q position |", "o0", "v0"),
        (".in q |", "v0", "o0"),
        (".alias q |", "matrix", "main"),
        (".entry |", "main", "l"),
        (".setb b0 |", "true", "b0"),
    ] {
        let labels = in_main(line);
        assert!(labels.iter().any(|l| l == inside), "{line}: {inside} in {labels:?}");
        assert!(!labels.iter().any(|l| l == outside), "{line}: {outside} in {labels:?}");
    }
    assert!(in_main("mov r0, r1, |").is_empty() && in_main("rcp r0, r1, |").is_empty());
    assert!(in_main("nop ; m|").is_empty());
    assert!(in_main(".proc m|").is_empty());
    let (document, position) = at_bar("  .al|");
    let items = completion::completions(&document, position);
    let Some(lsp_types::CompletionTextEdit::Edit(edit)) = &items[0].text_edit else { panic!("an edit") };
    assert_eq!((edit.range.start.character, edit.range.end.character), (2, 5));
}

#[test]
fn the_outline_nests_labels_in_procedures() {
    let document = document(".fvec m\n.proc main\nl: nop\nifc cmp.x\nk: nop\n.end\nend\n.end\n.proc sub\nnop\n.end\n");
    let symbols = outline::outline(&document);
    let names: Vec<_> = symbols.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["m", "main", "sub"]);
    assert_eq!((symbols[1].range.start.line, symbols[1].range.end.line), (1, 7));
    let labels: Vec<_> = symbols[1].children.iter().flatten().map(|s| s.name.as_str()).collect();
    assert_eq!(labels, ["l", "k"]);
}

#[test]
fn diagnostics_have_ranges_and_names() {
    let document = document(".proc main\nmov r0, 😀é, q\nmov r0.yx, r1\nmad r0, r1\n.end\n");
    let found: Vec<_> = diagnostics::diagnostics(&document)
        .into_iter()
        .map(|(_, d)| {
            let Some(NumberOrString::String(code)) = d.code else { panic!("a code") };
            (d.range.start.line, d.range.start.character, d.range.end.character, code)
        })
        .collect();
    let expected = [
        (1, 8, 11, "undefined"),
        (2, 4, 9, "mask-order"),
        // At the end of the line the last character shows it.
        (3, 9, 10, "expected"),
    ];
    assert_eq!(found, expected.map(|(line, start, end, code)| (line, start, end, code.to_string())));
}

#[test]
fn positions_count_what_was_negotiated() {
    let source = ".proc main\n; 😀\nmov r0, r1 ; é\nnop 😀 q\nend\n.end\n";
    for (capabilities, encoding, column) in
        [(json!({}), "utf-16", 4), (json!({ "general": { "positionEncodings": ["utf-16", "utf-8"] } }), "utf-8", 4)]
    {
        let mut client = Client::new(source, capabilities);
        let found = client.published();
        let end = if encoding == "utf-8" { column + 6 } else { column + 4 };
        assert_eq!(found[0]["code"], "too-many-arguments");
        assert_eq!(found[0]["range"]["start"], json!({ "line": 3, "character": column }), "{encoding}");
        assert_eq!(found[0]["range"]["end"], json!({ "line": 3, "character": end }), "{encoding}");
        // Replaces the word after the emoji.
        let start = json!({ "line": 3, "character": 3 });
        client.edit(vec![json!({ "range": { "start": start, "end": { "line": 3, "character": end } }, "text": "" })]);
        let left = client.published();
        let errors = left.as_array().expect("a list").iter().filter(|d| d["code"] == "too-many-arguments");
        assert_eq!(errors.count(), 0, "{encoding}: {left}");
        client.end();
    }
}

#[test]
fn requests_without_meaning_get_errors() {
    let mut client = Client::new("nop", json!({}));
    assert!(client.request("textDocument/nonsense", json!({})).is_err_and(|e| e.contains("nonsense")));
    assert!(client.request("textDocument/hover", json!({ "position": 3 })).is_err());
    client.notify("textDocument/didChange", json!({ "nonsense": true }));
    client.notify("$/setTrace", json!({ "value": "off" }));
    let elsewhere = json!({ "textDocument": { "uri": "file:///other" }, "position": { "line": 0, "character": 0 } });
    assert_eq!(client.request("textDocument/hover", elsewhere), Ok(json!(null)));
    let close = json!({ "textDocument": { "uri": super::uri() } });
    client.notify("textDocument/didClose", close);
    assert_eq!(client.ask("textDocument/hover", 0, 1, json!({})), Ok(json!(null)));
    assert_eq!(client.diagnostics["diagnostics"], json!([]));
    client.end();
}

#[test]
fn a_place_beyond_the_text_is_its_end() {
    let document = document("nop\r\nend");
    assert_eq!(document.place_of(Position { line: 9, character: 9 }), (1, 3));
    assert_eq!(document.place_of(Position { line: 0, character: 9 }), (0, 3));
}
