//! Analyses: what an editor is told about good, bad and half-typed sources.

use super::super::analysis::{Analysis, analyze};
use super::super::symbols::{Place, Symbol, SymbolKind};
use super::super::{AsmErrorKind, Options, assemble};
use super::snippets::{BODIES, FILES, body};
use super::{Rng, lines};
use crate::testing::miri_or;

fn of(text: &str) -> Analysis {
    analyze(text, Options::default())
}

/// The lines of errors, from 1, and their texts.
fn errors(text: &str) -> Vec<(u32, String)> {
    of(text).errors().map(|(place, kind)| (place.line + 1, kind.to_string())).collect()
}

fn symbol<'a>(analysis: &'a Analysis, name: &str) -> &'a Symbol {
    let mut found = analysis.symbols.iter().filter(|s| s.name == name);
    let symbol = found.next().unwrap_or_else(|| panic!("no symbol {name}"));
    assert!(found.next().is_none(), "{name} twice");
    symbol
}

/// Places as (line from 1, first byte, last byte + 1).
fn places(places: &[Place]) -> Vec<(u32, u32, u32)> {
    places.iter().map(|p| (p.line + 1, p.start, p.end)).collect()
}

#[test]
fn a_correct_source_has_the_assembly_and_no_error() {
    let bodies = BODIES.iter().map(|(_, source, ..)| body(source));
    for source in bodies.chain(FILES.iter().map(|(_, source, ..)| lines(source))) {
        let (analysis, assembly) = (of(&source), assemble(&source).expect("a snippet of picasso"));
        assert!(analysis.is_correct(), "{source}");
        assert_eq!(analysis.assembly.shbin, assembly.shbin, "{source}");
        assert_eq!(analysis.assembly.lines, assembly.lines, "{source}");
        assert_eq!(analysis.diagnostics.len(), assembly.warnings.len(), "{source}");
    }
}

#[test]
fn the_first_error_is_the_assemblers() {
    for source in [
        "mov r0, r1\n.proc main\nend\n.end\n",
        ".proc main\n  mov r0, q1\n  mvo r0, r1\n.end\n",
        ".proc main\ncall sub\n.end\n",
        ".proc main\njmpc cmp.x, out\n.end\n",
        ".proc main\n",
        ".alias r0 r1\n.proc main\n.end",
        "; nothing\n",
        "9: nop",
    ] {
        let error = assemble(source).expect_err("a bad source");
        let analysis = of(source);
        let (place, kind) = analysis.errors().next().expect("an error");
        assert_eq!((place.line + 1, kind), (error.line, &error.kind), "{source}");
    }
}

#[test]
fn an_error_has_no_consequences_in_other_lines() {
    // Each faulty line, with lines that depend on it.
    for (source, line) in [
        (".proc main\nifc cmp.q\nnop\n.else\nnop\n.end\nend\n.end\n", 2),
        (".proc main\nfor r0\nnop\n.end\nend\n.end\n", 2),
        (".proc main\nifu\nnop\n.end\nend\n.end\n", 2),
        (".proc main\nifc cmp.x\nnop\n.end x\nend\n.end\n", 4),
        (".out pos positoin\n.proc main\nmov pos, v0\nend\n.end\n", 1),
        (".out pos\n.proc main\nmov pos.xy, v0\nend\n.end\n", 1),
        (".in\n.proc main\nmov o0, v0\nend\n.end\n", 1),
        (".in a v16\n.proc main\nmov o0, a\nend\n.end\n", 1),
        (".alias a\n.proc main\nmov o0, a\nend\n.end\n", 1),
        (".fvec a[, b\n.proc main\nmov r0, a\nmov r0, b\nend\n.end\n", 1),
        (".fvec a[200], b\n.proc main\nmov r0, a\nmov r0, b\nend\n.end\n", 1),
        (".bool a[\n.proc main\nifu a\nnop\n.end\nend\n.end\n", 1),
        (".ivec a[0]\n.proc main\nfor a\nnop\n.end\nend\n.end\n", 1),
        (".constf k(1, 2\n.proc main\nmov r0, k.x\nend\n.end\n", 1),
        (".constfa k[\n.constfa (1, 2, 3, 4)\n.end\n.proc main\nmov r0, k[1]\nend\n.end\n", 1),
        (".constfa k[]\n.end\n.proc main\nmov r0, k\nend\n.end\n", 2),
        (".proc main\n.proc\nnop\n.end\nend\n.end\n", 2),
        (".gsh point c4\n.proc main\nsetemit 7\nemit\nend\n.end\n", 3),
        (".proc main\nmvo r0\nend\n.end\n", 2),
    ] {
        let found = errors(source);
        assert!(found.iter().all(|(at, _)| *at == line) && found.len() == 1, "{source}{found:?}");
    }
}

#[test]
fn several_errors_are_several() {
    let source = ".proc main\nmov r0, q\ncall a\njmpc cmp.x, b\nmov q, r0\n.end\n.proc main\nend\n.end\n.entry none\n";
    let found: Vec<_> = errors(source).into_iter().map(|(line, _)| line).collect();
    assert_eq!(found, [2, 3, 4, 5, 7, 10]);
    let long = format!(".proc main\n{}.end\n", "nop\n".repeat(600));
    let found: Vec<_> = of(&long).errors().map(|(_, kind)| kind.clone()).collect();
    assert_eq!(found, [AsmErrorKind::ProgramTooLong { limit: 512 }]);
    // A library without an entry point belongs to other files.
    assert_eq!(errors(".nodvle\n.proc sub\nnop\n.end\n"), []);
}

#[test]
fn names_have_all_their_places() {
    let source = "\
.fvec matrix[4], tint
.alias first matrix[0].wzyx
.in position
.out place position
.constfa table[]
.constfa (1, 2, 3, 4)
.end
.entry start
.proc start
again: dp4 place.x, matrix[1], position
    mov r0, -first
    add r0, table[aL], r0
    jmpc cmp.x, again
    rjmpu b0, again+1
    call sub
    end
.end
.proc sub
    mov place, tint
.end
";
    let a = of(source);
    assert!(a.is_correct(), "{:?}", a.diagnostics);
    let matrix = symbol(&a, "matrix");
    assert_eq!((matrix.kind, matrix.size), (SymbolKind::Uniform, 4));
    assert_eq!(places(&matrix.definitions), [(1, 6, 12)]);
    assert_eq!(places(&matrix.uses), [(2, 13, 19), (10, 20, 26)]);
    let first = symbol(&a, "first");
    assert_eq!((first.components, first.negate), ([3, 2, 1, 0], false));
    assert_eq!(places(&first.uses), [(11, 13, 18)]);
    assert_eq!(places(&symbol(&a, "table").definitions), [(5, 9, 14)]);
    assert_eq!(places(&symbol(&a, "table").uses), [(12, 12, 17)]);
    assert_eq!(places(&symbol(&a, "again").uses), [(13, 16, 21), (14, 14, 19)]);
    assert_eq!(places(&symbol(&a, "start").uses), [(8, 7, 12)]);
    let sub = symbol(&a, "sub");
    assert_eq!((places(&sub.uses), sub.address, sub.size), (vec![(15, 9, 12)], 7, 1));
    let operand = a.operands.iter().find(|o| o.place.line == 10 && !o.written).expect("the source of mov");
    assert_eq!((operand.components, operand.negate), ([3, 2, 1, 0], true));
    assert_eq!(a.words(9), 0..1);
    assert_eq!(a.words(0), 0..0);
    assert_eq!(a.symbol_at(9, 21).map(|(s, _)| s.name.as_str()), Some("matrix"));
}

#[test]
fn parts_share_uniforms_and_nothing_else() {
    let part = ".fvec m\n.alias a m\n.proc P\nl: mov o0, a\njmpc cmp.x, l\nend\n.end\n.entry P\n";
    let source = format!("{}.file\n{}", part.replace('P', "main"), part.replace('P', "other"));
    let a = of(&source);
    assert!(a.is_correct(), "{:?}", a.diagnostics);
    assert_eq!(places(&symbol(&a, "m").definitions), [(1, 6, 7), (10, 6, 7)]);
    assert_eq!(places(&symbol(&a, "m").uses), [(2, 9, 10), (11, 9, 10)]);
    assert_eq!(a.symbols.iter().filter(|s| s.name == "a").count(), 2);
    assert_eq!(a.symbols.iter().filter(|s| s.name == "l").count(), 2);
    assert_eq!(a.part(3).1, 0..8);
    assert_eq!(a.part(12).1.start, 8);
}

#[test]
fn names_in_faulty_lines_are_uses() {
    let source = ".alias a r1\n.proc main\nadd r0, a, q\njmpc cmp.q, l\nl: call main x\nend\n.end\n";
    let a = of(source);
    assert_eq!(places(&symbol(&a, "a").uses), [(3, 8, 9)]);
    assert_eq!(places(&symbol(&a, "l").uses), [(4, 12, 13)]);
}

#[test]
fn prefixes_and_mutations_of_sources_are_analyzed() {
    let source: String = FILES.iter().map(|(_, source, ..)| lines(source) + "\n.file\n").collect();
    let pieces = [";", ":", "[", ".", "\n", "é", "\0", ".end\n", "ifc ", ".proc ", ",", "\t", ".file\n", "#"];
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    for _ in 0..miri_or(20, 2000) {
        let mut text = source.clone();
        text.truncate(rng.below(text.len()));
        for _ in 0..rng.below(4) {
            let at = (0..=rng.below(text.len() + 1)).rev().find(|&n| text.is_char_boundary(n)).expect("0 is one");
            text.insert_str(at, pieces[rng.below(pieces.len())]);
        }
        let a = of(&text);
        let rows: Vec<&str> = text.split('\n').collect();
        let places = a.diagnostics.iter().map(|d| d.place).chain(a.operands.iter().map(|o| o.place));
        for place in places.chain(a.symbols.iter().flat_map(|s| s.definitions.iter().chain(&s.uses).copied())) {
            let row = rows[place.line as usize];
            assert!(row.get(place.start as usize..place.end as usize).is_some(), "{place:?} {row:?}");
        }
        // It assembles exactly where it has no error.
        if !text.contains(".nodvle") {
            assert_eq!(a.is_correct(), assemble(&text).is_ok(), "{text}");
        }
    }
}
