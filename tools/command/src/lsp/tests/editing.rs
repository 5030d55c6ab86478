//! Rename and layout on all sources: the words stay.

use super::super::document::Document;
use super::super::names::{self, RenameError};
use super::super::{hover, layout};
use super::sources::sources;
use super::{apply, at_bar, document, full};
use lsp_types::{FormattingOptions, Position, TextEdit};
use picajit::container::shbin::Shbin;
use picajit::internals::source::is_identifier;
use picajit::text::assemble;

fn four_spaces() -> FormattingOptions {
    FormattingOptions { tab_size: 4, insert_spaces: true, ..FormattingOptions::default() }
}

fn rename(document: &Document, position: Position, new: &str) -> Result<Vec<TextEdit>, RenameError> {
    let edits = names::rename(document, document.place_of(position), new)?;
    Ok(edits.into_iter().map(|(_, edit)| edit).collect())
}

/// Code, descriptors and entry points.
fn program(text: &str) -> (Vec<u32>, Vec<u32>, Vec<(u32, u32)>) {
    let Shbin { code, opdescs, dvles, .. } = assemble(text).unwrap_or_else(|e| panic!("{e}\n{text}")).shbin;
    (code, opdescs.iter().map(|d| d.word).collect(), dvles.iter().map(|d| (d.entry, d.end)).collect())
}

#[test]
fn a_rename_keeps_the_words() {
    // Of the repository's sources, and of third-party shaders.
    let (mut renames, mut files) = ([0, 0], [0, 0]);
    let (mut mains, mut refused) = (0, Vec::new());
    for (n, (name, text)) in sources().into_iter().enumerate() {
        let origin = usize::from(name.ends_with(".shbin"));
        files[origin] += 1;
        let before = program(&text);
        let document = document(&text);
        let symbols = &document.analysis().symbols;
        // The short form takes a part of the names, another one in each source.
        let every = if full() { 1 } else { 4 };
        for symbol in symbols.iter().skip(n % every).step_by(every) {
            if !is_identifier(&symbol.name) {
                continue;
            }
            let Some(&place) = symbol.definitions.first() else { panic!("{name}: no definition") };
            let position = document.range(place).start;
            // `_` hides a uniform from the table, so it stays.
            let hidden = if symbol.name.starts_with('_') { "_" } else { "" };
            let new = format!("{hidden}fresh${}_", symbol.name.len());
            match rename(&document, position, &new) {
                Ok(edits) => {
                    let changed = apply(&text, &edits);
                    assert_eq!(edits.len(), symbol.definitions.len() + symbol.uses.len(), "{name}");
                    assert_ne!(changed, text, "{name}: {}", symbol.name);
                    assert_eq!(program(&changed), before, "{name}: {}", symbol.name);
                    renames[origin] += 1;
                }
                // The entry has this name unless `.entry` gives another.
                Err(RenameError::Error { .. }) if symbol.name == "main" => mains += 1,
                Err(error) => refused.push(format!("{name}: {} {:?}: {error}", symbol.name, symbol.kind)),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    let minimum = if full() { [650, 3 * files[1]] } else { [150, files[1] / 2] };
    assert!(renames[0] > minimum[0] && renames[1] >= minimum[1], "{renames:?} renames in {files:?}, {mains} of `main`");
}

#[test]
fn a_rename_to_a_name_that_exists_fails() {
    let source = ".alias a r1\n.alias b r2\n.fvec c\n.proc ma|in\nmov r3, a\nl: call sub\n.end\n.proc sub\nend\n.end\n";
    let (main, at) = at_bar(source);
    assert!(matches!(rename(&main, at, "start"), Err(RenameError::Error { .. })));
    let at = |text: &str| {
        let row = (0..main.rows()).find(|&row| main.row(row).contains(text)).expect("a row");
        Position { line: row, character: main.row(row).find(text).expect("it is there") as u32 }
    };
    assert!(matches!(rename(&main, at("a r1"), "b"), Err(RenameError::Error { .. })));
    assert!(matches!(rename(&main, at("sub"), "main"), Err(RenameError::Error { .. })));
    assert!(matches!(rename(&main, at("a r1"), "r7"), Err(RenameError::Register(_))));
    assert!(matches!(rename(&main, at("a r1"), "a-b"), Err(RenameError::NotAName(_))));
    assert_eq!(rename(&main, at("r1"), "q"), Err(RenameError::NoName));
    assert_eq!(rename(&main, at("a r1"), "a").map(|edits| edits.len()), Ok(0));
    assert_eq!(rename(&main, at("l: "), "sub").map(|edits| edits.len()), Ok(1), "labels are a space of their own");
    // `_` would take the uniform out of the table.
    let uniform = Position { line: 2, character: 6 };
    assert!(matches!(rename(&main, uniform, "_c"), Err(RenameError::Taken(_))));
    // In a text with an error the new name must not become its correction.
    let (broken, position) = at_bar(".alias a| r1\n.proc main\nmov r0, b\nmov r2, a\nend\n.end\n");
    assert!(matches!(rename(&broken, position, "b"), Err(RenameError::Taken(_))));
}

#[test]
fn layout_keeps_the_words_and_happens_once() {
    let mut changed = 0;
    for (name, text) in sources() {
        let once = apply(&text, &layout::edits(&document(&text), &four_spaces()));
        assert_eq!(program(&once), program(&text), "{name}");
        let words = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(words(&once), words(&text), "{name}: only blanks change");
        assert_eq!(layout::edits(&document(&once), &four_spaces()), [], "{name}:\n{once}");
        changed += usize::from(once != text);
        // From other blanks it gives the same text; line markers keep theirs.
        if text.contains(['\0', '\r']) || text.lines().any(|line| line.trim_start().starts_with('#')) {
            continue;
        }
        let mangled: Vec<String> = text.lines().map(|line| format!("\t  {}  ", line.trim())).collect();
        let mangled = mangled.join("\r\n");
        let again = apply(&mangled, &layout::edits(&document(&mangled), &four_spaces()));
        assert_eq!(again.replace("\r\n", "\n").trim_end(), once.trim_end(), "{name}");
    }
    assert!(changed > 50, "{changed} texts change");
}

#[test]
fn layout_of_an_example() {
    let text = "\
; A comment.
.fvec   m[4],t
.out  p  position ; where
.out col color;tint
  .proc   main
dp4 p.x,m[0] , v0   ; one
    mov p.yzw,v0;two
 ifc cmp.x&&cmp.y
 ; inside
mov r0,r1
  .else
l: mov r0 ,r2
 again_and_again: nop
out:
.end
	end
.end";
    let expected = "\
; A comment.
.fvec m[4], t
.out p position  ; where
.out col color   ;tint
.proc main
    dp4 p.x, m[0], v0  ; one
    mov p.yzw, v0      ;two
    ifc cmp.x&&cmp.y
        ; inside
        mov r0, r1
    .else
l:      mov r0, r2
again_and_again: nop
out:
    .end
    end
.end";
    assert_eq!(apply(text, &layout::edits(&document(text), &four_spaces())), expected);
}

#[test]
fn layout_leaves_other_bytes_alone() {
    for text in ["# 1 \"a  b\"\n", "9bad:   nop\n", "  .proc main\n nop\0   x\n  y", "mov\u{B}r0,  r1\n", "a\rb\n"] {
        let after = apply(text, &layout::edits(&document(text), &four_spaces()));
        let rest = |text: &str| text.split(['#', '\0', '9', '\r']).nth(1).map(str::to_string);
        assert_eq!(rest(&after), rest(text), "{text:?}");
    }
    let (document, position) = at_bar("  |nop");
    assert!(hover::hover(&document, position).is_some());
}
