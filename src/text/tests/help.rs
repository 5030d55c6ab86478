//! Errors whose mistake can be told: the message, its column, and what to do.

use crate::text::{Options, assemble, errors};

/// Declarations of the table's statements.
const NAMES: &str = ".fvec proj[4], tint\n.bool flag\n.consti cnt(3, 0, 1, 0)\n.constf k(0, 1, 2, 0.5)\n.in pos\n.in nrm\n.out opos position\n";

/// Column, message and help of the first error of `statement` in a procedure.
fn told(statement: &str) -> String {
    let source = format!("{NAMES}.proc main\n{statement}\nend\n.end\n");
    let error = assemble(&source).expect_err(statement);
    format!("{} {} | {}", error.column, error.kind, error.help.unwrap_or_default())
}

#[test]
fn statements() {
    for (statement, expected) in [
        ("mull r0, pos, tint", "1 unknown instruction `mull` | did you mean `mul`?"),
        ("sub r0, pos, pos", "1 unknown instruction `sub` | negate the source: `add r0, a, -b`"),
        ("mov opso, pos", "5 undefined register or alias `opso` | did you mean `opos`?"),
        (
            "mov r0, colour",
            "9 undefined register or alias `colour` | declare it first, with `.in`, `.fvec`, `.constf` or `.alias`",
        ),
        (
            "mov oclr, pos",
            "5 undefined register or alias `oclr` | declare it first: `.out oclr PROPERTY`, or `.alias oclr rN`",
        ),
        ("mov ppos, pos", "5 undefined register or alias `ppos` | did you mean `opos`?"),
        ("mov r0, ppos", "9 undefined register or alias `ppos` | did you mean `pos`?"),
        ("mov r0, Tint", "9 undefined register or alias `Tint` | did you mean `tint`?"),
        ("mul r0 pos, tint", "8 expected `,` before `pos` | "),
        ("mul r0, pos tint", "13 expected `,` before `tint` | "),
        ("add r0, pos", "12 expected a source, found the end of the line | "),
        (
            "mul r0, pos, 2.0",
            "14 `2.0` is a number, and an operand is a register | declare a constant, \
             `.constf NAME(2.0, 2.0, 2.0, 2.0)`, and name it",
        ),
        (
            "mov r1.w, -1",
            "12 `1` is a number, and an operand is a register | declare a constant, `.constf NAME(1, 1, 1, 1)`, and name it",
        ),
        (
            "for 4",
            "5 `4` is a number, and an operand is a register | declare `.consti count(N, 0, 1, 0)`, where N is the \
             iterations less one, and write `for count`",
        ),
        (".in colour 2", "12 `2` is a number, and an operand is a register | write `v2`"),
        (".setb 2 true", "7 `2` is a number, and an operand is a register | write `b2`"),
        (".alias eye 2", "12 `2` is a number, and an operand is a register | write a register, such as `c2`"),
        ("ifc flag", "5 unknown flag `flag`: expected cmp.x or cmp.y | `ifu flag` tests a boolean uniform"),
        ("callc flag, main", "7 unknown flag `flag`: expected cmp.x or cmp.y | `callu flag` tests a boolean uniform"),
        ("breakc flag", "8 unknown flag `flag`: expected cmp.x or cmp.y | "),
        ("ifu cmp.x", "5 undefined register or alias `cmp` | `ifc cmp.x` tests the flags"),
        ("cmp tint, gt, >, pos", "15 unknown comparison `>`: expected eq, ne, lt, le, gt or ge | write `gt`"),
        (
            "mul r0, pos, tint",
            "14 source 2 is `tint`: expected a v or r register without index here | exchange the operands: \
             `mul r0, tint, pos`",
        ),
        (
            "mad r0, tint, pos, -r1.x",
            "9 source 1 is `tint`: expected a v or r register without index here | exchange the operands: \
             `mad r0, pos, tint, -r1.x`",
        ),
        (
            "cmp pos, lt, GE, tint.x",
            "18 source 2 is `tint.x`: expected a v or r register without index here | exchange the operands: \
             `cmp tint.x, gt, le, pos`",
        ),
        (
            "add r0, tint, k",
            "15 two uniforms in one instruction: expected at most one, in the wide operand | copy it to a temporary \
             first: `mov TEMP, k`",
        ),
        (
            "mad r0, pos, proj[a0.x], tint",
            "26 two uniforms in one instruction: expected at most one, in the wide operand | copy it to a temporary \
             first: `mov TEMP, tint`",
        ),
        (
            "add r0, pos, nrm",
            "14 two different v registers in one instruction: expected at most one | copy it to a temporary first: \
             `mov TEMP, nrm`",
        ),
        ("jmpu flag, dnoe\ndone: nop", "12 undefined label `dnoe` | did you mean `done`?"),
        ("call mian", "6 undefined procedure `mian` | did you mean `main`?"),
        ("call scale", "6 undefined procedure `scale` | define it, or give the file that has it as well"),
    ] {
        assert_eq!(told(statement), expected, "{statement}");
    }
}

#[test]
fn files() {
    for (source, expected) in [
        (".out p postion\n", "1:8 did you mean `position`?"),
        (".fvce a\n", "1:1 did you mean `.fvec`?"),
        (
            ".include \"x\"\n",
            "1:1 the language has no includes: give `asm` several files, or run a preprocessor before it",
        ),
        (".proc start\nend\n.end\n", "1:1 `.entry start` names the entry procedure"),
        (
            ".proc main\nend\n.end\n.proc main\nend\n.end\n",
            "4:7 give each procedure of all files another name; `.entry NAME` names the entry of a file",
        ),
        (
            ".nodvle\n.proc part\nnop\n.end\n",
            "4:1 a file with `.nodvle` is a library: give the file with the entry procedure as well",
        ),
        (
            ".vsh vmain\n.uniform 0x10, 4, foo\n",
            "1:1 the file looks like aemstro's dialect: picajit reads picasso's language (docs/language.md)",
        ),
        (
            "// words\n.alias one c32 as (1.0, 1.0, 1.0, 1.0)\n",
            "1:1 the file looks like nihstro's dialect: picajit reads picasso's language (docs/language.md)",
        ),
        (
            "uniform mat4 m;\nvoid main() {}\n",
            "1:1 the file looks like GLSL: picajit reads picasso's language (docs/language.md)",
        ),
    ] {
        let error = assemble(source).expect_err(source);
        assert_eq!(format!("{}:{} {}", error.line, error.column, error.help.unwrap_or_default()), expected, "{source}");
    }
}

#[test]
fn all_errors_of_all_files() {
    let a = ("a", ".proc main\nmul r0, v0, 2.0\nifc flag\n.end\ncall part\njmpu b0, there\nend\n.end\n");
    let b = ("b", ".nodvle\n.proc part\nmvo r0, v0\n.end\n");
    let found = errors(&[a, b], Options::default());
    let lines: Vec<(&str, u32)> = found.iter().map(|error| (error.file.as_str(), error.line)).collect();
    assert_eq!(lines, [("a", 2), ("a", 3), ("a", 6), ("b", 3)]);
    let other = errors(&[("a", ".vsh main, end\n.uniform c0, c3, m\nmain:\nmov o0, v0\n")], Options::default());
    assert_eq!(other.len(), 1, "the rest of another dialect follows from the first error");
    // That `main` is a label there is one of these.
    let other =
        errors(&[("a", "; a comment\n .const c20, 1.0, 1.0, 1.0, 1.0\nmain:\n mov o0, v0\n")], Options::default());
    let told: Vec<_> = other.iter().map(|error| (error.line, error.help.as_deref().unwrap_or_default())).collect();
    let help = "the file looks like aemstro's dialect: picajit reads picasso's language (docs/language.md)";
    assert_eq!(told, [(2, help)]);
    assert_eq!(errors(&[("a", ".proc main\nend\n.end\n")], Options::default()), []);
}
