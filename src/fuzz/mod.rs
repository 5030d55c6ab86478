//! The fuzzer: random programs on every engine, and an account of what went wrong that a person can use.
//!
//! | file | turns | into |
//! |---|---|---|
//! | [`choice`] | a seed, or a fuzzer's bytes | choices |
//! | [`generate`], `sensible`, [`values`] | choices | a [`Case`]: a program and all registers |
//! | [`mod@compare`] | a case and engines | nothing to say, or a [`Divergence`] |
//! | [`mod@shrink`], `edit` | a divergence | a smaller one |
//! | [`explain`] | a divergence | the first instruction whose result differs |
//! | [`mod@filetest`] | a divergence | a test file, ready to be kept |
//! | `blocks` | numbered blocks of work | their results in order, made on several threads |
//! | [`mod@digest`] | a plan and an engine | a line for each case, to be compared with other machines' |
//! | [`mod@sweep`], [`stats`] | a plan | many cases compared, and what they were like |
//!
//! Random tests, `cargo fuzz`, and the verbs `fuzz` and `diff --shrink` all use these. Everything is a function of its
//! arguments: the same seed gives the same programs, the same verdict and the same text on every machine.
//!
//! Behind the feature `fuzz`, since a host that runs shaders has no use for it. It must not know which engines there are.

mod blocks;
pub mod case;
pub mod choice;
pub mod compare;
pub mod digest;
mod edit;
pub mod explain;
pub mod filetest;
pub mod generate;
mod sensible;
pub mod shrink;
pub mod stats;
pub mod sweep;
pub mod values;

pub use case::Case;
pub use compare::{Divergence, Engine, Found, Outcome, compare};
pub use filetest::{filetest, report};
pub use generate::{Tier, case_from_bytes, case_from_seed};
pub use shrink::shrink;
pub use stats::{Stats, percent};
pub use sweep::{Plan, Swept, sweep};
