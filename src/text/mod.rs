//! picasso's assembly language: the assembler and the disassembler.
//!
//! | file | from | to |
//! |---|---|---|
//! | `lexer` | a source line | labels, head word, arguments, each a `span` with its column |
//! | `operand` | an operand | register, index, selector, sign; conditions; aliases |
//! | `inst`, `directive`, `constants` | a statement | words, declarations |
//! | `opdesc` | an instruction's descriptor | the descriptor table, merged as picasso does |
//! | `block` | block ends | padding, addresses of blocks and procedures |
//! | `declarations` | declarations | registers and the tables of a DVLE |
//! | `header` | shared uniforms | a C header |
//! | `help` | an error and the names at its place | what to do |
//! | `context` | | the state of an assembly, on which the statements act |
//! | [`asm`] | files | an [`Assembly`] |
//! | `symbols`, `recovery`, `analysis` | a text, finished or half typed | its errors, names and operands, for editors |
//! | [`disasm`], `print` | a `Shbin`, an `Inst` | text that assembles to the same words |
//! | `literal` | a number as text | `f32`, vec4, float24, and back |
//!
//! A source that picasso accepts assembles to picasso's words, descriptors and tables. That
//! includes its lenient readings (`c010` is c8), which also give a warning ([`WarningKind`]).
//!
//! ```
//! use picajit::text;
//! let a = text::assemble(".proc main\nmov o0, v0\nend\n.end\n").unwrap();
//! assert_eq!(a.shbin.code, [0x4C00_0000, 0x8800_0000]);
//! assert!(text::disassemble(&a.shbin).contains("    mov o0, v0\n    end\n"));
//! ```
//!
//! There is no strict mode that rejects the lenient readings.
//!
//! # Beyond picasso
//! picasso rejects all of these forms, so none of them changes the meaning of a picasso source. The
//! exceptions are `f24#`, which picasso reads as 0, and a register after `]`, which it ignores. Numbers are decimal or `0x` hex.
//!
//! | text | meaning |
//! |---|---|
//! | `.raw` | this file, from here on: no padding NOPs; instructions outside of blocks; index registers on v and r operands; two different v registers in one instruction; o7-o15 in geometry files; up to 4096 words |
//! | `.word N, ...` | code words, verbatim |
//! | `.opdesc W [, X]` | appends descriptor W (second word X) at a fixed index; instructions still choose by first fit |
//! | `INST @n`, after `.raw` | the instruction uses descriptor n |
//! | `dph! dphi! dst! dsti! sge! sgei! slt! slti! mad! madi!` | exactly this encoding |
//! | `v15` | the register; picasso needs `v14[1]` |
//! | `r0._`, `a0._` | empty write mask |
//! | `mova a0.MASK, S` | any mask, in any order (`a0.yzw`) |
//! | `cmp S, true6, true7, S` | comparison operators 6 and 7 |
//! | `setemit 3` | slot 3 |
//! | `F ignore !G` | condition on F alone; `!` or none gives the reference bit of the other flag (`cmp.x ignore !cmp.y`) |
//! | `rcall T, N`; `rcallc COND, T, N`; `rcallu B, T, N` | call of N words at T |
//! | `rifc COND, T, N`; `rifu B, T, N` | IF whose else block is the N words at T |
//! | `rloop I, T` | LOOP whose last word is T |
//! | `rjmpc COND, T`; `rjmpu [!]B, T` | jump to T |
//! | T, N | sums and differences of numbers, labels and `.` (this word): `done-1`, `.+3`, `b-a` |
//! | `.entry START [END]` | entry point by number (END 0 if missing) |
//! | `.file` | ends this file and begins the next one in the same text: one DVLE each |
//! | `.fvec NAME REG`, `.fvec NAME[SIZE] REG`; `.ivec`, `.bool` | a uniform in these registers; others and constants keep clear of them |
//! | `.bind NAME REG [SIZE]` | name and uniform-table row for given registers; allocates nothing |
//! | `.wire TYPE, REG, MASK [, X]` | output-table row by numbers (mask bit 0 = x) |
//! | `.masks IN, OUT` | the DVLE's input and output masks |
//! | `.label NAME ID POSITION SIZE UNKNOWN` | a row of the DVLE's label table; `-` for no size |
//! | `.version N` | the DVLE's version |
//! | `.program N ["FILE" ...]` | the program's version, and the names of its source files |
//! | `f24#XXXXXX` | a component of `.constf .constfa .setf` by its float24 bits |

pub(crate) mod analysis;
mod args;
pub mod asm;
mod block;
mod constants;
mod context;
mod declarations;
pub(crate) mod directive;
pub mod disasm;
pub mod error;
mod header;
mod help;
mod inst;
mod lexer;
mod limits;
pub(crate) mod literal;
pub(crate) mod opdesc;
mod operand;
mod print;
pub(crate) mod recovery;
pub(crate) mod registers;
pub(crate) mod span;
pub(crate) mod symbols;
pub mod warning;

#[cfg(test)]
mod tests;

pub use analysis::errors;
pub use asm::{Assembler, Assembly, Options, Proc, SharedUniform, assemble, assemble_with};
pub use disasm::disassemble;
pub use error::{AsmError, AsmErrorKind};
pub use lexer::decode;
pub use warning::{Warning, WarningKind};
