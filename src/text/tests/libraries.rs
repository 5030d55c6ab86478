//! Files with `.nodvle`, and uniforms in registers that the source gives.

use crate::text::{Assembler, Assembly, Options, assemble};

fn uniforms(assembly: &Assembly) -> Vec<(String, u16, u16)> {
    let rows = assembly.shbin.dvles.iter().flat_map(|dvle| &dvle.uniforms);
    rows.map(|row| (row.name.clone(), row.first, row.last)).collect()
}

#[test]
fn tables_of_a_library_are_lost_with_a_warning() {
    let library = ".constf half(1, 1, 1, 1)\n.setb b3 true\n.seti i1(3, 0, 1, 0)\n.entry nothing\n.constfa k[]\n\
                   .constfa (1, 2, 3, 4)\n.end\n.proc part\nmul r0, half, r0\n.end\n";
    let main = ".proc main\ncall part\nend\n.end\n";
    for (library, lines) in
        [(format!(".nodvle\n{library}"), vec![2, 3, 4, 5, 6]), (format!("{library}.nodvle\n"), vec![1, 2, 3, 4, 5])]
    {
        let mut assembler = Assembler::new(Options::default());
        assembler.add_file("main", main).expect("good");
        assembler.add_file("library", &library).expect("good");
        let warnings = assembler.finish().expect("good").warnings;
        assert_eq!(warnings.iter().map(|w| w.line).collect::<Vec<_>>(), lines);
        let text = warnings[0].to_string();
        assert!(text.ends_with("`.constf` has no effect: `.nodvle` drops the tables of this file"), "{text}");
    }
}

#[test]
fn uniforms_in_given_registers() {
    let good = |declarations: &str| {
        let assembly = assemble(&format!("{declarations}.proc main\nend\n.end\n")).expect(declarations);
        assert_eq!(assembly.warnings, [], "{declarations}");
        assembly
    };
    let row = |name: &str, first: u16, last: u16| (name.to_string(), first, last);
    // c0 is 0x10 in the table, i0 0x70, b0 0x78.
    let assembly = good(".fvec a, m[4] c1, b[2]\n.ivec n i2\n.bool lit b15, more\n");
    let expected = [
        row("a", 0x10, 0x10),
        row("m", 0x11, 0x14),
        row("b", 0x15, 0x16),
        row("n", 0x72, 0x72),
        row("more", 0x78, 0x78),
    ];
    assert_eq!(uniforms(&assembly)[..5], expected);
    // Constants keep clear of them too.
    let assembly = good(".fvec top c95\n.constf k(1, 1, 1, 1)\n.fvec last[2] c92\n.constf l(1, 1, 1, 1)\n");
    assert_eq!(assembly.shbin.dvles[0].constants.iter().map(|c| c.register()).collect::<Vec<_>>(), [94, 91]);
}

#[test]
fn registers_that_are_taken() {
    for (declarations, expected) in [
        (".fvec a[2]\n.fvec b c1\n", "2:9: `c1` is not free for this uniform"),
        (".fvec a c4, b[2] c3\n", "1:18: `c3` is not free for this uniform"),
        (".constf k(1, 1, 1, 1)\n.fvec a c95\n", "2:9: `c95` is not free for this uniform"),
        (".fvec a[2] c95\n", "1:12: `c95` is not free for this uniform"),
        (".gsh point c4\n.fvec a c3\n", "2:9: `c3` is not free for this uniform"),
        (".fvec a b1\n", "1:7: `a b1` is not a name: expected a letter, `_` or `$`, then letters, digits, `_` or `$`"),
        (
            ".fvec a c96\n",
            "1:7: `a c96` is not a name: expected a letter, `_` or `$`, then letters, digits, `_` or `$`",
        ),
    ] {
        let error = assemble(&format!("{declarations}.proc main\nend\n.end\n")).expect_err(declarations);
        assert_eq!(format!("{}:{}: {}", error.line, error.column, error.kind), expected, "{declarations}");
    }
}
