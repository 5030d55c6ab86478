//! The fuzzer: random programs on every engine, and a readable report of each divergence.
//!
//! | file | turns | into |
//! |---|---|---|
//! | [`choice`] | a seed, or a fuzzer's bytes | choices |
//! | [`generate`], `sensible`, `speculation`, [`registers`] | choices | a [`Case`]: a program and all registers |
//! | [`mod@compare`] | a case and engines | an [`Agreement`], or a [`Divergence`] |
//! | [`mod@shrink`], `edit` | a divergence | a smaller one |
//! | [`explain`] | a divergence | the first instruction whose result differs |
//! | [`mod@filetest`] | a divergence | a test file |
//! | `blocks` | numbered blocks of work | their results in order, computed on several threads |
//! | [`mod@digest`] | a plan and an engine | a line for each case, comparable between machines |
//! | [`mod@sweep`], [`stats`] | a plan | many compared cases, and their statistics |
//!
//! Random tests, `cargo fuzz`, and the verbs `fuzz` and `diff --shrink` all use these. Everything
//! is a function of its arguments: the same seed gives the same programs, the same verdict and the
//! same text on every machine.
//!
//! The library's unit tests include this source as a module, so paths within it begin with `super`.
//! It must not name engines other than the interpreter.

mod blocks;
pub mod case;
pub mod choice;
pub mod compare;
pub mod digest;
mod edit;
pub mod explain;
pub mod filetest;
pub mod generate;
pub mod registers;
mod sensible;
pub mod shrink;
mod speculation;
pub mod stats;
pub mod sweep;

pub use case::Case;
pub use compare::{Agreement, Divergence, Engine, Misbehaviour, compare};
pub use filetest::{filetest, report};
pub use generate::{Tier, case_from_bytes, case_from_seed};
pub use shrink::shrink;
pub use stats::{Stats, percent};
pub use sweep::{Plan, Swept, sweep};
