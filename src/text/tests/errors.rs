//! Bad sources and their error messages.

use super::super::{AsmErrorKind, assemble};
use super::lines;

/// (source, line, column, message)
const BAD: &[(&str, u32, u32, &str)] = &[
    (".proc main / foo r0, r1", 2, 1, "unknown instruction `foo`"),
    (".proc main /   mov! r0, r1", 2, 3, "unknown instruction `mov!`"),
    (".uniform x", 1, 1, "unknown directive `.uniform`"),
    ("mov r0, r1", 1, 1, "instruction outside of a block: expected `.proc NAME` before it"),
    (".proc main / jmpc cmp.x, away / .end", 2, 13, "undefined label `away`"),
    (".proc main / call away / .end", 2, 6, "undefined procedure `away`"),
    (".entry go / .proc main / end / .end", 1, 8, "undefined entry procedure `go`"),
    (".proc a / end / .end", 1, 1, "undefined entry procedure `main`"),
    (".proc main / mov r0, thing", 2, 9, "undefined register or alias `thing`"),
    (".proc main / add r0, r1, c1", 2, 13, "source 2 is `c1`: expected a v or r register without index here"),
    (
        ".proc main / add r0, c1, c2",
        2,
        13,
        "two uniforms in one instruction: expected at most one, in the wide operand",
    ),
    (".proc main / mad r0, c1, r1, r2", 2, 9, "source 1 is `c1`: expected a v or r register without index here"),
    (".proc main / add r0, v1, v2", 2, 13, "two different v registers in one instruction: expected at most one"),
    (".proc main / mov c0.x, r1", 2, 5, "`c0.x` can't be written: expected an o or r register"),
    (".proc main / mov r16, r1", 2, 5, "register `r16` does not exist: expected a number from 0 to 15"),
    (".proc main / mov r0, c96", 2, 9, "register `c96` does not exist: expected a number from 0 to 95"),
    (".proc main / mov r0.xyk, r1", 2, 8, "bad components `xyk`: expected one to four letters of xyzw, rgba or stpq"),
    (".proc main / mov r0, r1[a0.x]", 2, 9, "`r1` can't be indexed here: expected no index register"),
    (".proc main / mov r0, c1[a9+1]", 2, 12, "unknown index register `a9`: expected a0.x, a0.y or aL"),
    (".proc main / mov r0, c1[-1]", 2, 12, "negative offset `-1`: expected 0 or more"),
    (".proc main / mov r0, c1[1", 2, 13, "expected `]`, found the end of the line"),
    (".proc main / mov r0", 2, 7, "expected a source, found the end of the line"),
    (".proc main / mov r0, r1, r2", 2, 13, "expected no more arguments, found `r2`"),
    (".proc main / nop", 2, 1, "the block opened in line 1 is not closed: expected `.end`"),
    (".end", 1, 1, "`.end` without an open block"),
    (".proc main / .else", 2, 1, "`.else` without an open `ifc` or `ifu`"),
    (".proc main / ifu b0 / .else / .else", 4, 1, "second `.else` in one block"),
    ("a: / a:", 2, 1, "label `a` is already defined"),
    (".alias a r0 / .alias a r1", 2, 8, "alias `a` is already defined"),
    (".proc main / .end / .proc main", 3, 7, "procedure `main` is already defined"),
    (".alias a r0._", 1, 10, "bad components `_`: expected one to four letters of xyzw, rgba or stpq"),
    (".alias r5x r0", 1, 8, "`r5x` can't be an alias: it reads like a register"),
    (".proc main / ifc cmp.x && cmp.x", 2, 14, "the same flag twice: expected cmp.x and cmp.y"),
    (".proc main / ifc b0", 2, 5, "unknown flag `b0`: expected cmp.x or cmp.y"),
    (".proc main / ifu !b0", 2, 5, "`!` is not possible here: expected a boolean (only jmpu can test for false)"),
    (".proc main / cmp r0, is, eq, r1", 2, 9, "unknown comparison `is`: expected eq, ne, lt, le, gt or ge"),
    (".proc main / for b0", 2, 5, "`b0` does not fit here: expected an i register"),
    (".proc main / setemit 4", 2, 9, "vertex slot 4: expected 0 to 3"),
    (".fvec a[97]", 1, 9, "size 97: expected 1 to 96"),
    (".fvec a[96], b", 1, 14, "no room left for this float uniform or constant"),
    (".consti a(1, 2, 3)", 1, 11, "expected four values, found `1, 2, 3`"),
    (".out p pos / .out q color o0", 2, 8, "components of `o0` are already assigned to another output"),
    (".out p pos o7", 1, 8, "`o7` can only be a dummy: expected o0 to o6 for this property"),
    (".in a / .gsh point c4", 2, 1, "`.gsh` must come once, before uniforms, constants, inputs and outputs"),
    (".alias a r0", 1, 1, "no file has an entry point"),
    ("9: nop", 1, 1, "`9` is not a name: expected a letter, `_` or `$`, then letters, digits, `_` or `$`"),
];

#[test]
fn bad_sources_give_the_expected_error() {
    for &(source, line, column, message) in BAD {
        let e = assemble(&lines(source)).map(|a| a.shbin).expect_err(source);
        assert_eq!((e.line, e.column, e.kind.to_string().as_str()), (line, column, message), "{source}");
    }
}

#[test]
fn an_error_shows_its_line() {
    let e = assemble(".proc main\n\tmov r0, é1 ; no\n").expect_err("é1 is nothing");
    let shown = "input:2:10: error: undefined register or alias `é1`\n2 |  mov r0, é1 ; no\n  |          ^\n\
                 help: declare it first, with `.in`, `.fvec`, `.constf` or `.alias`";
    assert_eq!(e.to_string(), shown);
    // Far to the right: the excerpt shifts with the column.
    let e = assemble(&format!("{}foo", " ".repeat(5000))).expect_err("foo is nothing");
    assert_eq!(e.column, 5001);
    assert!(e.to_string().lines().all(|l| l.len() < 400));
}

#[test]
fn tables_that_overflow() {
    let mut source = String::from(".proc main\n");
    for n in 0..129 {
        let l = |k: u32| ["x", "y", "z", "w"][n >> (2 * k) & 3];
        source += &format!("mov r0, r1.{}{}{}{}\n", l(0), l(1), l(2), l(3));
    }
    let e = assemble(&source).expect_err("129 descriptors");
    assert_eq!((e.line, e.kind), (130, AsmErrorKind::TooManyOpdescs));

    let program = |n: usize| format!(".proc main\n{}.end\n", "nop\n".repeat(n));
    assert!(assemble(&program(513)).is_ok());
    let e = assemble(&program(514)).expect_err("too long for a vertex unit");
    assert_eq!((e.line, e.kind), (515, AsmErrorKind::ProgramTooLong { limit: 512 }));
    if !cfg!(miri) {
        assert!(assemble(&format!(".gsh\n{}", program(4096))).is_ok());
        let e = assemble(&format!(".gsh\n{}", program(4097))).expect_err("too long for any unit");
        assert_eq!(e.kind, AsmErrorKind::ProgramTooLong { limit: 4096 });
    }

    let deep = format!(".proc main\n{}", "ifu b0\n".repeat(32));
    assert_eq!(assemble(&deep).expect_err("33 blocks").kind, AsmErrorKind::NestingTooDeep);
}
