//! Random edits and requests: the server answers each, and its text is the editor's.

use super::client::Client;
use super::{Rng, apply, document, full, unit};
use crate::builtin::BUILTINS;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent, TextEdit};
use serde_json::{Value, json};

/// Texts that editors insert: keys, words, pasted lines, and characters of every width.
const PIECES: &[&str] = &[
    "",
    "",
    " ",
    "\n",
    "\r\n",
    "\r",
    "\t",
    ",",
    ";",
    ":",
    ".",
    "[",
    "]",
    "(",
    ")",
    "-",
    "!",
    "#",
    "\0",
    "é",
    "日",
    "😀",
    "\u{FEFF}",
    "r0",
    "o1",
    "c95",
    "v15",
    "a0.x",
    "aL",
    "main",
    "mov ",
    "mad ",
    "cmp ",
    "ifc cmp.x\n",
    "ifu b0\n",
    "for i0\n",
    ".else\n",
    ".end\n",
    ".proc x\n",
    ".file\n",
    ".raw\n",
    ".nodvle\n",
    ".gsh point c4\n",
    ".fvec m[4]\n",
    ".out p pos\n",
    ".constfa k[]\n",
    ".constfa (1, 2, 3, 4)\n",
    ".alias a r0\n",
    "call main\n",
    "jmpc cmp.x, l\n",
    "l: ",
    "setemit 1, prim\n",
    "emit\n",
    "0x",
    "99999999999999999999",
    "rcall ",
    "@5",
    "# 5 \"x\"\n",
];

/// A position in or somewhat beyond a text.
fn position(rng: &mut Rng, text: &str) -> Position {
    let line = rng.below(text.matches(['\n', '\r']).count() + 2) as u32;
    Position { line, character: rng.below(50) as u32 }
}

/// A replacement of a short range, sometimes of several lines.
fn random_edit(rng: &mut Rng, text: &str) -> TextEdit {
    let start = position(rng, text);
    let end = match rng.below(4) {
        0 => Position { line: start.line, character: start.character + rng.below(8) as u32 },
        1 => Position {
            line: start.line + rng.below(3) as u32,
            character: rng.below(20).max(start.character as usize) as u32,
        },
        _ => start,
    };
    TextEdit { range: Range { start, end }, new_text: rng.pick(PIECES).into() }
}

/// Requests about a position.
const METHODS: [&str; 8] = [
    "hover",
    "definition",
    "references",
    "completion",
    "prepareRename",
    "rename",
    "signatureHelp",
    "documentHighlight",
];

/// Steps of a random session.
fn steps() -> usize {
    if full() { 10_000 } else { 1_000 }
}

#[test]
fn edits_give_the_editors_text() {
    let mut rng = Rng(0x1234_5678_9ABC_DEF1);
    let mut text = BUILTINS[1].source.to_string();
    let mut document = document(&text);
    for step in 0..steps() {
        let edit = random_edit(&mut rng, &text);
        let change =
            TextDocumentContentChangeEvent { range: Some(edit.range), range_length: None, text: edit.new_text.clone() };
        document.edit(&change);
        text = apply(&text, &[edit]);
        let rows: Vec<&str> = text.split('\n').collect();
        assert_eq!(document.rows() as usize, rows.len(), "step {step}");
        let row = rng.below(rows.len());
        let cr = if row + 1 < rows.len() { rows[row].strip_suffix('\r').unwrap_or(rows[row]) } else { rows[row] };
        assert_eq!(document.row(row as u32), cr, "step {step}");
        // A position and the place that it denotes are one byte.
        let position = position(&mut rng, &text);
        let (line, byte) = document.place_of(position);
        let start: usize = rows[..line as usize].iter().map(|row| row.len() + 1).sum();
        let units: Vec<u16> = text.encode_utf16().collect();
        let before = String::from_utf16(&units[..unit(&units, position)]).expect("a character boundary");
        assert_eq!(start + byte as usize, before.len(), "step {step}: {position:?}");
        if text.len() > 8_000 {
            text = BUILTINS[step % BUILTINS.len()].source.into();
            document = super::document(&text);
        }
    }
}

#[test]
fn a_random_session_gets_all_answers() {
    let mut rng = Rng(0x0F1E_2D3C_4B5A_6978);
    let mut text = BUILTINS[0].source.to_string();
    let mut client = Client::new(&text, json!({}));
    let mut renamed = 0;
    for step in 0..steps() {
        if step % 200 == 0 {
            text = BUILTINS[step / 200 % BUILTINS.len()].source.into();
            client.edit(vec![json!({ "text": text })]);
        }
        let count = 1 + rng.below(2);
        let mut changes = Vec::new();
        for _ in 0..count {
            let edit = random_edit(&mut rng, &text);
            changes.push(json!({ "range": edit.range, "text": edit.new_text }));
            text = apply(&text, &[edit]);
        }
        client.edit(changes);
        let Position { line, character } = position(&mut rng, &text);
        let method = rng.pick(&METHODS);
        let more =
            json!({ "context": { "includeDeclaration": true }, "newName": rng.pick(&["fresh", "main", "r0", "9"]) });
        let more = if matches!(method, "completion" | "signatureHelp") { json!({}) } else { more };
        let answer = client.ask(&format!("textDocument/{method}"), line, character, more);
        match &answer {
            Ok(answer) => {
                check_ranges(answer, &text, step);
                renamed += usize::from(method == "rename" && !answer.is_null());
            }
            Err(error) => assert_eq!(method, "rename", "step {step}: {error}"),
        }
        if step % 5 == 0 {
            let whole = json!({ "textDocument": { "uri": super::uri() } });
            let symbols = client.request("textDocument/documentSymbol", whole.clone()).expect("symbols");
            check_ranges(&symbols, &text, step);
            let folds = client.request("textDocument/foldingRange", whole.clone()).expect("ranges");
            let last = editor_lines(&text) - 1;
            for fold in folds.as_array().expect("a list") {
                let line = |key| fold[key].as_u64().expect("a line");
                assert!(line("startLine") < line("endLine") && line("endLine") <= last, "step {step}: {fold}");
            }
            let tokens = client.request("textDocument/semanticTokens/full", whole.clone()).expect("tokens");
            assert!(tokens["data"].as_array().is_some_and(|data| data.len() % 5 == 0));
            let mut range = whole.clone();
            range["range"] = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": line, "character": 0 } });
            range["context"] = json!({ "diagnostics": [] });
            let actions = client.request("textDocument/codeAction", range).expect("actions");
            check_ranges(&actions, &text, step);
            let mut params = whole;
            params["options"] = json!({ "tabSize": 4, "insertSpaces": true });
            let edits = client.request("textDocument/formatting", params).expect("edits");
            check_ranges(&edits, &text, step);
        }
        if step % 3 == 0 {
            let diagnostics = client.published();
            check_ranges(&diagnostics, &text, step);
        }
    }
    assert!(renamed > steps() / 1000, "{renamed} renames");
    client.end();
}

/// The lines of a text as an editor counts them: LF, CR LF, or CR ends one.
fn editor_lines(text: &str) -> u64 {
    text.replace("\r\n", "\n").split(['\n', '\r']).count() as u64
}

/// Every range in an answer lies in the text, and its end doesn't precede its start.
fn check_ranges(answer: &Value, text: &str, step: usize) {
    match answer {
        Value::Array(list) => list.iter().for_each(|item| check_ranges(item, text, step)),
        Value::Object(object) => {
            for (key, value) in object {
                if let Ok(range) = serde_json::from_value::<Range>(value.clone())
                    && (key == "range" || key == "selectionRange")
                {
                    assert!(range.start <= range.end, "step {step}: {range:?}");
                    let units: Vec<u16> = text.encode_utf16().collect();
                    for end in [range.start, range.end] {
                        let at = unit(&units, end);
                        let before = String::from_utf16(&units[..at]).expect("a character boundary");
                        let line = editor_lines(&before) - 1;
                        let column = before.rsplit(['\n', '\r']).next().unwrap_or("").encode_utf16().count();
                        let exact = Position { line: line as u32, character: column as u32 };
                        assert_eq!(end, exact, "step {step}: beyond the text");
                    }
                } else {
                    check_ranges(value, text, step);
                }
            }
        }
        _ => {}
    }
}
