//! Signature help, semantic tokens, folding, highlights.

use super::super::{folding, names, signature, tokens};
use super::{at_bar, document};

#[test]
fn signature_help_follows_the_cursor() {
    for (line, label, active) in [
        ("mad |", "mad dst, src1, src2, src3", "dst"),
        ("    mad r0, c0, |", "mad dst, src1, src2, src3", "src2"),
        ("l: cmp r0, ge,|", "cmp src1, opx, opy, src2", "opy"),
        (".out place |", ".out NAME PROPERTY[.mask] [REGISTER[.mask]]", "PROPERTY[.mask]"),
        (".out place pos|", ".out NAME PROPERTY[.mask] [REGISTER[.mask]]", "PROPERTY[.mask]"),
        (".setf c0|", ".setf REGISTER(x, y, z, w)", "REGISTER(x"),
        ("rcp r0, r1, r2, |", "rcp dst, src", "src"),
    ] {
        let (document, position) = at_bar(line);
        let help = signature::help(&document, position).unwrap_or_else(|| panic!("{line}: no help"));
        let signature = &help.signatures[0];
        let parameters = signature.parameters.as_ref().expect("parameters");
        let lsp_types::ParameterLabel::LabelOffsets([start, end]) =
            parameters[help.active_parameter.expect("one") as usize].label
        else {
            panic!("offsets")
        };
        let shown = &signature.label[start as usize..end as usize];
        assert_eq!((signature.label.as_str(), shown), (label, active), "{line}");
    }
    for line in ["mad|", "nop |", "mad r0 ; |", "unknown |", "|"] {
        let (document, position) = at_bar(line);
        assert_eq!(signature::help(&document, position), None, "{line}");
    }
}

#[test]
fn tokens_have_the_kind_of_each_word() {
    let text = "; é\n.alias a r1 ; x\n.in pos\n.proc main\nl: mov a.x, -pos\nadd r0, r0, a\njmpc cmp.x, l\nend\n.end\n";
    let document = document(text);
    let legend = tokens::legend();
    let (mut line, mut column, mut found) = (0, 0, Vec::new());
    for token in tokens::tokens(&document) {
        line += token.delta_line;
        column = if token.delta_line == 0 { column + token.delta_start } else { token.delta_start };
        let units: Vec<u16> = document.row(line).encode_utf16().collect();
        let word = String::from_utf16(&units[column as usize..(column + token.length) as usize]).expect("a word");
        let kind = legend.token_types[token.token_type as usize].as_str().to_string();
        found.push(format!("{word} {kind}{}", if token.token_modifiers_bitset == 1 { "!" } else { "" }));
    }
    let expected = [
        "; é comment",
        ".alias macro",
        "a variable!",
        "r1 variable",
        "; x comment",
        ".in macro",
        "pos parameter!",
        ".proc macro",
        "main function!",
        "l label!",
        "mov keyword",
        "a variable",
        "pos parameter",
        "add keyword",
        "r0 variable",
        "r0 variable",
        "a variable",
        "jmpc keyword",
        "l label",
        "end keyword",
        ".end macro",
    ];
    assert_eq!(found, expected);
}

#[test]
fn blocks_and_comments_fold() {
    let text = "; a\n; b\n.proc main\nifc cmp.x\nnop\nnop\n.else\nnop\n.end\nend\n.end\n; c\n";
    let ranges = folding::ranges(&document(text));
    let lines: Vec<_> = ranges.iter().map(|range| (range.start_line, range.end_line)).collect();
    assert_eq!(lines, [(0, 1), (2, 9), (3, 5), (6, 7)]);
    // A lone CR ends a line of the editor, not a row.
    let ranges = folding::ranges(&document(".proc main\nnop ; a\r b\n.end\n"));
    assert_eq!((ranges[0].start_line, ranges[0].end_line), (0, 2));
}

#[test]
fn highlights_say_which_places_write() {
    let source =
        ".alias a r1\n.proc main\nmov |, r0\nadd r0, a, r0\nend\n.end\n.file\n.proc b\nmov r0, v0\nend\n.end\n";
    let found = |bar: &str| {
        let (document, position) = at_bar(&source.replacen('|', bar, 1));
        let kind = |h: lsp_types::DocumentHighlight| {
            let is_write = h.kind == Some(lsp_types::DocumentHighlightKind::WRITE);
            (h.range.start.line, h.range.start.character, is_write)
        };
        names::highlights(&document, position).into_iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(found("|a"), [(0, 7, true), (2, 4, true), (3, 8, false)]);
    // A register of one part of the text.
    assert_eq!(found("a, |r0\nmov r0"), [(2, 7, false), (3, 4, true), (3, 8, false), (4, 4, true), (4, 11, false)]);
}
