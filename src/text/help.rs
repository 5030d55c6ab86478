//! An error, the names at its place and its line -> what to do.
//!
//! Most errors say it themselves. Help is for those where the mistake can be told:
//! a misspelled name, operands in the wrong order, another language.

use super::context::{Assembler, Site};
use super::directive::PROPERTIES;
use super::error::{AsmErrorKind, Fault, clip};
use super::lexer;
use super::registers::{BOOL, FLOAT};
use super::span::Span;
use crate::isa::table::Format::{F1, F1i, F1u, F5, F5i};
use crate::isa::table::ROWS;

/// Directives of the language, for suggestions.
const DIRECTIVES: [&str; 19] = [
    ".proc", ".else", ".end", ".alias", ".fvec", ".ivec", ".bool", ".constf", ".consti", ".constfa", ".in", ".out",
    ".entry", ".nodvle", ".gsh", ".setf", ".seti", ".setb", ".raw",
];

/// Instructions of other languages, and what does the same here.
const OTHER_INSTRUCTIONS: &[(&[&str], &str)] = &[
    (&["sub"], "negate the source: `add r0, a, -b`"),
    (&["div"], "multiply by the result of `rcp`"),
    (&["sqrt"], "`rsq` gives 1/sqrt(x), and `rcp` of that the root"),
    (&["rsqrt"], "the instruction is `rsq`"),
    (&["exp", "exp2", "pow"], "`ex2` gives 2^x"),
    (&["log", "log2"], "`lg2` gives the logarithm to base 2"),
    (&["abs"], "`max r0, a, -a` gives it"),
    (&["floor"], "the instruction is `flr`"),
    (&["frc", "frac", "fract"], "subtract the result of `flr`"),
    (&["nrm", "normalize"], "`dp3`, `rsq` and `mul` do it"),
    (&["m3x3", "m4x3", "m4x4"], "multiply by a matrix with one `dp4` for each row"),
    (&["sgt"], "the instruction is `slt` with its operands exchanged"),
    (&["sle"], "the instruction is `sge` with its operands exchanged"),
    (&["if"], "`ifc` tests the flags, `ifu` a boolean uniform"),
    (&["else"], "the directive is `.else`"),
    (&["endif", "endloop", "endfor", "endrep"], "the directive is `.end`"),
    (&["loop", "rep", "while"], "`for` takes an integer uniform or constant: its x is the iterations less one"),
    (&["jmp", "goto", "br", "bra"], "`jmpc` tests the flags, `jmpu` a boolean uniform"),
    (&["ret", "return"], "a procedure returns at its `.end`"),
];

/// Directives of other dialects, and what does the same here.
const OTHER_DIRECTIVES: &[(&[&str], &str)] = &[
    (&[".include"], "the language has no includes: give `asm` several files, or run a preprocessor before it"),
    (&[".macro", ".equ", ".define", ".set"], "the language has no macros: run a preprocessor before `asm`"),
    (&[".const"], "the directive is `.constf NAME(x, y, z, w)`"),
    (&[".uniform"], "the directives are `.fvec NAME`, `.ivec NAME` and `.bool NAME`"),
    (&[".input"], "the directive is `.in NAME`"),
    (&[".output"], "the directive is `.out NAME PROPERTY`"),
    (&[".func", ".function"], "the directive is `.proc NAME`"),
];

impl<'s> Assembler<'s> {
    /// What to do about an error of the line `site`.
    pub(super) fn help(&self, site: Site<'s>, fault: &Fault) -> Option<String> {
        use AsmErrorKind::*;
        let is_first = self.record.as_ref().is_none_or(|record| record.errors.is_empty());
        if is_first && let Some(dialect) = dialect(self.text) {
            return Some(format!("the file looks like {dialect}: picajit reads picasso's language (docs/language.md)"));
        }
        let found = site.text.get(fault.at..fault.at + fault.len).unwrap_or_default();
        let line = lexer::line(site.text).ok();
        let head = line.as_ref().map_or("", |line| line.head.text);
        let args = line.as_ref().map_or_else(Vec::new, |line| line.rest.arguments());
        match &fault.kind {
            UnknownMnemonic(name) => {
                let known = || ROWS.iter().map(|row| row.mnemonic);
                other(OTHER_INSTRUCTIONS, name).or_else(|| did_you_mean(name, known()))
            }
            UnknownDirective(name) => {
                other(OTHER_DIRECTIVES, name).or_else(|| did_you_mean(name, DIRECTIVES.into_iter()))
            }
            UnknownProperty(name) => did_you_mean(name, PROPERTIES.iter().map(|(long, ..)| *long)),
            UnknownComparison(text) => comparison(text).map(|name| format!("write `{name}`")),
            UnknownFlag(text) => self.boolean_test(head, text),
            Undefined { what: "register or alias", name } if name.eq_ignore_ascii_case("cmp") => {
                let flags = head.strip_suffix(['u', 'U']).map(|stem| format!("{stem}c"));
                let operand = args.first().map_or(found, |arg| arg.text);
                flags.map(|flags| format!("`{flags} {operand}` tests the flags"))
            }
            Undefined { what: "register or alias", name } => self.undefined_name(head, &args, fault.at, name),
            Undefined { what: "label", name } => did_you_mean(name, self.file.labels.keys().copied()),
            Undefined { what: "procedure", name } => did_you_mean(name, self.procs.keys().copied())
                .or_else(|| Some("define it, or give the file that has it as well".into())),
            Undefined { what: "entry procedure", name } => {
                let mut names = self.procs.keys();
                match (names.next(), names.next()) {
                    (Some(only), None) => Some(format!("`.entry {only}` names the entry procedure")),
                    _ => did_you_mean(name, self.procs.keys().copied())
                        .or_else(|| Some("`.entry NAME` names the entry procedure".into())),
                }
            }
            Duplicate { what: "procedure", .. } => {
                Some("give each procedure of all files another name; `.entry NAME` names the entry of a file".into())
            }
            NoDvle => Some("a file with `.nodvle` is a library: give the file with the entry procedure as well".into()),
            NumberAsOperand(_) if head.eq_ignore_ascii_case("for") => Some(
                "declare `.consti count(N, 0, 1, 0)`, where N is the iterations less one, and write `for count`".into(),
            ),
            // A directive names a register.
            NumberAsOperand(number) if head.starts_with('.') => {
                let class = match head.to_ascii_lowercase().as_str() {
                    ".in" => "v",
                    ".out" => "o",
                    ".seti" => "i",
                    ".setb" => "b",
                    ".gsh" | ".setf" => "c",
                    _ => return Some(format!("write a register, such as `c{number}`")),
                };
                Some(format!("write `{class}{number}`"))
            }
            NumberAsOperand(number) => {
                Some(format!("declare a constant, `.constf NAME({number}, {number}, {number}, {number})`, and name it"))
            }
            NarrowUniform { source, .. } => Some(
                self.exchanged(head, &args, (*source).into())
                    .map_or_else(|| copy_first(found), |line| format!("exchange the operands: `{line}`")),
            ),
            TwoUniforms | TwoInputs => Some(copy_first(found)),
            UnclosedBlock { .. } => Some("each `.proc`, `ifc`, `ifu`, `for` and array needs its own `.end`".into()),
            _ => None,
        }
    }

    /// The name that was meant, of those that fit the place, or how to declare one.
    fn undefined_name(&self, head: &str, args: &[Span<'s>], at: usize, name: &str) -> Option<String> {
        let row = ROWS.iter().find(|row| head.eq_ignore_ascii_case(row.mnemonic));
        let writes = row.is_some_and(|row| matches!(row.format, F1 | F1i | F1u | F5 | F5i));
        let is_destination = writes && args.first().is_some_and(|arg| arg.at == at);
        let names = self.file.names.all().filter(|(_, alias)| match is_destination {
            true => alias.reg < FLOAT && alias.letter != Some('v'),
            false => alias.letter != Some('o'),
        });
        did_you_mean(name, names.map(|(name, _)| name)).or_else(|| match is_destination {
            true => Some(format!("declare it first: `.out {name} PROPERTY`, or `.alias {name} rN`")),
            false if writes => Some("declare it first, with `.in`, `.fvec`, `.constf` or `.alias`".into()),
            false => None,
        })
    }

    /// `ifu flag` for `ifc flag`.
    fn boolean_test(&self, head: &str, flag: &str) -> Option<String> {
        let flag = flag.trim_start_matches('!');
        let stem = head.strip_suffix(['c', 'C']).filter(|stem| !stem.eq_ignore_ascii_case("break"))?;
        let register = self.file.names.register_of(flag)?;
        (BOOL..BOOL + 16).contains(&register).then(|| format!("`{stem}u {flag}` tests a boolean uniform"))
    }

    /// The statement with two sources exchanged, if the operation is the same and it fits then.
    /// `wide` is the number of the source that fits another place only.
    fn exchanged(&self, head: &str, args: &[Span<'s>], wide: usize) -> Option<String> {
        let name = head.to_ascii_lowercase();
        let mut texts: Vec<String> = args.iter().map(|arg| clip(arg.text)).collect();
        let is_narrow = |n: usize| args.get(n).is_some_and(|arg| self.is_narrow(arg.text));
        match name.as_str() {
            "add" | "mul" | "max" | "min" | "dp3" | "dp4" if texts.len() == 3 && is_narrow(1) => texts.swap(1, 2),
            "mad" | "madi" if texts.len() == 4 && wide == 1 && is_narrow(2) && is_narrow(3) => texts.swap(1, 2),
            "cmp" if texts.len() == 4 && is_narrow(0) => {
                texts.swap(0, 3);
                for text in &mut texts[1..3] {
                    let mirrored = match text.to_ascii_lowercase().as_str() {
                        "lt" => "gt",
                        "le" => "ge",
                        "gt" => "lt",
                        "ge" => "le",
                        "eq" => "eq",
                        "ne" => "ne",
                        _ => return None,
                    };
                    *text = mirrored.into();
                }
            }
            _ => return None,
        }
        Some(format!("{head} {}", texts.join(", ")))
    }

    /// Whether an operand is a v or r register without index.
    fn is_narrow(&self, operand: &str) -> bool {
        let body = operand.trim_start_matches('-');
        let base = body.split(['[', '.']).next().unwrap_or(body);
        let is_indexed = body.split_once('[').is_some_and(|(_, inside)| inside.starts_with(['a', 'A', 'l', 'L']));
        !is_indexed && self.file.names.register_of(base).is_some_and(|register| register < FLOAT)
    }
}

fn copy_first(operand: &str) -> String {
    let base = operand.trim_start_matches('-').split('.').next().unwrap_or_default();
    format!("copy it to a temporary first: `mov TEMP, {}`", clip(base))
}

fn other(table: &[(&[&str], &str)], name: &str) -> Option<String> {
    let row = table.iter().find(|(names, _)| names.iter().any(|other| name.eq_ignore_ascii_case(other)));
    row.map(|(_, help)| (*help).to_string())
}

fn comparison(text: &str) -> Option<&'static str> {
    Some(match text {
        ">" => "gt",
        ">=" => "ge",
        "<" => "lt",
        "<=" => "le",
        "=" | "==" => "eq",
        "!=" | "<>" => "ne",
        _ => return None,
    })
}

/// The other language that a text is written in, by forms that picasso's does not have.
pub(super) fn dialect(text: &str) -> Option<&'static str> {
    const AEMSTRO: &str = "aemstro's dialect";
    const NIHSTRO: &str = "nihstro's dialect";
    const GLSL: &str = "GLSL";
    text.lines().find_map(|line| {
        let code = line.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let mut words = code.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let register = |letter: char| {
            second.strip_prefix(letter).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        match first {
            ".const" if register('c') => Some(AEMSTRO),
            ".uniform" | ".vsh" => Some(AEMSTRO),
            ".out" if code.contains("result.") => Some(AEMSTRO),
            ".alias" if code.split_whitespace().nth(3) == Some("as") => Some(NIHSTRO),
            "#version" | "attribute" | "varying" => Some(GLSL),
            "uniform" if second.starts_with("mat") || second.starts_with("vec") => Some(GLSL),
            "void" if second.starts_with("main") => Some(GLSL),
            "vs_1_1" | "vs_2_0" | "vs_2_x" | "vs_3_0" => Some("Direct3D's assembly"),
            "!!arbvp1.0" => Some("OpenGL's assembly"),
            _ => None,
        }
    })
}

/// ``did you mean `name`?``, for the name that is nearest to `wrong`.
fn did_you_mean<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let wrong: Vec<char> = wrong.chars().take(64).flat_map(char::to_lowercase).collect();
    // Of short names many are one letter apart.
    let most = (wrong.len() / 3).clamp(1, 3);
    let near = names.filter_map(|name| {
        let letters: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
        let is_candidate = wrong.len() > 2 && letters.len().abs_diff(wrong.len()) <= most;
        is_candidate.then(|| (distance(&wrong, &letters), name)).filter(|(far, _)| *far <= most)
    });
    near.min().map(|(_, name)| format!("did you mean `{name}`?"))
}

/// Letters to insert, remove, replace, or exchange with their neighbour, between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        let [before, last, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters_and_exchanges() {
        let of = |a: &str, b: &str| distance(&Vec::from_iter(a.chars()), &Vec::from_iter(b.chars()));
        assert_eq!([of("", "abc"), of("abc", "abc"), of("opso", "opos"), of("mull", "mul")], [3, 0, 1, 1]);
        assert_eq!([of("kitten", "sitting"), of("ab", "ba"), of("postion", "position")], [3, 1, 1]);
    }

    #[test]
    fn dialects_have_forms_that_picasso_lacks() {
        assert_eq!(dialect(" .const c20, 1.0, 1.0, 1.0, 1.0\n"), Some("aemstro's dialect"));
        assert_eq!(dialect("nop\n.alias p o0 as position"), Some("nihstro's dialect"));
        assert_eq!(dialect("#version 100\nvoid main() {"), Some("GLSL"));
        assert_eq!(dialect(".alias p r0 ; as position\n// x\n.constf k(1, 1, 1, 1)\n.out p position"), None);
    }
}
