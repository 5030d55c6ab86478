//! One line about each instruction, directive and property, for hover and completion.
//!
//! A test compares the tables with the assembler's.

/// A statement's head word, its arguments and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub name: &'static str,
    pub arguments: &'static str,
    pub meaning: &'static str,
}

const fn entry(name: &'static str, arguments: &'static str, meaning: &'static str) -> Entry {
    Entry { name, arguments, meaning }
}

/// All instructions.
#[rustfmt::skip]
pub const INSTRUCTIONS: &[Entry] = &[
    entry("add", "dst, src1, src2", "Sum, component by component."),
    entry("dp3", "dst, src1, src2", "Dot product of x, y, z, in every component written."),
    entry("dp4", "dst, src1, src2", "Dot product of x, y, z, w, in every component written."),
    entry("dph", "dst, src1, src2", "Dot product with w of src1 taken as 1, in every component written."),
    entry("dst", "dst, src1, src2", "Distance vector: (1, src1.y * src2.y, src1.z, src2.w)."),
    entry("ex2", "dst, src", "2 to the power of src.x, in every component written."),
    entry("lg2", "dst, src", "Logarithm of src.x to base 2, in every component written."),
    entry("litp", "dst, src", "(max(x, 0), y within 127.996 of 0, 0, max(w, 0)). Sets cmp.x to x >= 0 and cmp.y to w >= 0."),
    entry("mul", "dst, src1, src2", "Product, component by component. 0 times infinity is 0."),
    entry("sge", "dst, src1, src2", "1 where src1 >= src2, otherwise 0."),
    entry("slt", "dst, src1, src2", "1 where src1 < src2, otherwise 0."),
    entry("flr", "dst, src", "The greatest integer that is not greater, component by component."),
    entry("max", "dst, src1, src2", "The greater one, component by component; src2 where none is greater."),
    entry("min", "dst, src1, src2", "The smaller one, component by component; src2 where none is smaller."),
    entry("rcp", "dst, src", "1 / src.x, in every component written."),
    entry("rsq", "dst, src", "1 / square root of src.x, in every component written."),
    entry("mova", "a0.xy, src", "Moves x and y, as integers, to the address registers."),
    entry("mov", "dst, src", "Copies the components written."),
    entry("dphi", "dst, src1, src2", "`dph`; the operands determine the encoding."),
    entry("dsti", "dst, src1, src2", "`dst`; the operands determine the encoding."),
    entry("sgei", "dst, src1, src2", "`sge`; the operands determine the encoding."),
    entry("slti", "dst, src1, src2", "`slt`; the operands determine the encoding."),
    entry("break", "", "Leaves the innermost loop."),
    entry("nop", "", "Does nothing. Keeps the ends of two scopes apart."),
    entry("end", "", "Ends the program for this vertex."),
    entry("breakc", "condition", "Leaves the innermost loop if the condition on the flags holds."),
    entry("call", "procedure", "Calls a procedure."),
    entry("callc", "condition, procedure", "Calls a procedure if the condition on the flags holds."),
    entry("callu", "b, procedure", "Calls a procedure if the boolean is true."),
    entry("ifu", "b", "Runs the block up to `.else` or `.end` if the boolean is true."),
    entry("ifc", "condition", "Runs the block up to `.else` or `.end` if the condition on the flags holds."),
    entry("for", "i", "Runs the block up to `.end` i.x + 1 times. aL begins at i.y and grows by i.z."),
    entry("emit", "", "Geometry programs: hands over the outputs as the vertex that `setemit` chose."),
    entry("setemit", "slot, prim inv", "Geometry programs: the slot of the next vertex, whether it completes a primitive, and whether that is inverted."),
    entry("jmpc", "condition, label", "Jumps if the condition on the flags holds."),
    entry("jmpu", "b, label", "Jumps if the boolean is true, or with `!` if it is false."),
    entry("cmp", "src1, opx, opy, src2", "Compares x and y of the sources, and sets the flags cmp.x and cmp.y."),
    entry("madi", "dst, src1, src2, src3", "`mad`; the operands determine the encoding."),
    entry("mad", "dst, src1, src2, src3", "src1 * src2 + src3, component by component."),
];

/// The directives of picasso's language.
#[rustfmt::skip]
pub const DIRECTIVES: &[Entry] = &[
    entry(".proc", "NAME", "Begins a procedure."),
    entry(".else", "", "Begins the other part of an `ifc` or `ifu`."),
    entry(".end", "", "Ends a procedure, a block or an array."),
    entry(".alias", "NAME OPERAND", "A name for a register, with components and sign."),
    entry(".fvec", "NAME, NAME[SIZE], ...", "Float uniforms, in the next free c registers."),
    entry(".ivec", "NAME, NAME[SIZE], ...", "Integer uniforms, in the next free i registers."),
    entry(".bool", "NAME, NAME[SIZE], ...", "Boolean uniforms, in the next free b registers."),
    entry(".constf", "NAME(x, y, z, w)", "A float constant, in the highest free c register."),
    entry(".consti", "NAME(x, y, z, w)", "An integer constant, in the highest free i register."),
    entry(".constfa", "NAME[]", "An array of float constants: `.constfa (x, y, z, w)` for each element, then `.end`."),
    entry(".setf", "REGISTER(x, y, z, w)", "The value of a c register."),
    entry(".seti", "REGISTER(x, y, z, w)", "The value of an i register."),
    entry(".setb", "REGISTER VALUE", "The value of a b register."),
    entry(".in", "NAME [REGISTER]", "A vertex attribute; without a register the next free one."),
    entry(".out", "NAME PROPERTY[.mask] [REGISTER[.mask]]", "An output and its use; `-` for no name."),
    entry(".entry", "NAME", "The procedure that the program begins with; `main` without it."),
    entry(".nodvle", "", "This file has no entry point: its procedures serve other files."),
    entry(".gsh", "point FIRST, variable FIRST N, fixed FIRST START N", "A geometry program; uniforms begin at FIRST."),
    entry(".raw", "", "Beyond picasso: no padding, and forms that only a disassembly needs."),
    entry(".word", "N, ...", "Beyond picasso: code words as they are."),
    entry(".opdesc", "WORD [, EXTRA]", "Beyond picasso: an operand descriptor."),
    entry(".bind", "NAME REGISTER [SIZE]", "Beyond picasso: a row of the uniform table for given registers."),
    entry(".wire", "TYPE, REGISTER, MASK", "Beyond picasso: a row of the output table by numbers."),
    entry(".masks", "IN, OUT", "Beyond picasso: the masks of inputs and outputs."),
    entry(".label", "NAME ID POSITION SIZE UNKNOWN", "Beyond picasso: a row of the label table."),
    entry(".version", "N", "Beyond picasso: the version of the entry point."),
    entry(".program", "N \"FILE\" ...", "Beyond picasso: the version of the program, and its source files."),
    entry(".file", "", "Beyond picasso: ends this file and begins the next one in the same text."),
];

/// Comparisons of `cmp`.
pub const COMPARISONS: &[Entry] = &[
    entry("eq", "", "equal"),
    entry("ne", "", "not equal"),
    entry("lt", "", "less than"),
    entry("le", "", "less than or equal"),
    entry("gt", "", "greater than"),
    entry("ge", "", "greater than or equal"),
];

/// Flags of conditions.
pub const FLAGS: &[Entry] = &[
    entry("cmp.x", "", "the result of the first comparison"),
    entry("cmp.y", "", "the result of the second comparison"),
];

/// Address registers in brackets.
pub const INDICES: &[Entry] = &[
    entry("a0.x", "", "first address register, set by mova"),
    entry("a0.y", "", "second address register, set by mova"),
    entry("aL", "", "loop counter, set by for"),
];

/// The instruction or directive of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    let name = name.strip_suffix('!').unwrap_or(name);
    INSTRUCTIONS.iter().chain(DIRECTIVES).find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// The long name of an output property.
pub fn property(semantic: u16) -> &'static str {
    let known = picajit::internals::source::PROPERTIES.iter().find(|(_, _, number)| *number == semantic);
    known.map_or("an unknown property", |(long, ..)| long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use picajit::internals::source::analyze;
    use picajit::isa::table::ROWS;
    use picajit::text::{AsmErrorKind, Options};

    #[test]
    fn instructions_are_those_of_the_table() {
        let names: Vec<_> = INSTRUCTIONS.iter().map(|entry| entry.name).collect();
        assert_eq!(names, ROWS.iter().map(|row| row.mnemonic).collect::<Vec<_>>());
    }

    #[test]
    fn directives_are_those_of_the_assembler() {
        let unknown = |name: &str| {
            let analysis = analyze(&format!("{name}\n"), Options::default());
            analysis.errors().any(|(_, kind)| matches!(kind, AsmErrorKind::UnknownDirective(_)))
        };
        for entry in DIRECTIVES {
            assert!(!unknown(entry.name), "{}", entry.name);
        }
        assert!(unknown(".uniform"));
        // Each directive that the language notes mention is here.
        let notes = include_str!("../../../../docs/language.md");
        let older = [".uniform", ".const", ".vsh", ".map", ".include", ".equ", ".macro"];
        for code in notes.split('`').skip(1).step_by(2) {
            for word in code.split_whitespace().filter(|word| word.starts_with('.') && word.len() > 2) {
                let is_name = word[1..].chars().all(|c| c.is_ascii_lowercase());
                if is_name && !older.contains(&word) {
                    assert!(find(word).is_some(), "{word}");
                }
            }
        }
    }
}
