//! The values of `--cpu`.

use crate::measure::Cpu;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// `host`: the CPU of this machine. `baseline`: the least that native code supports.
pub fn parser() -> impl TypedValueParser<Value = Cpu> {
    PossibleValuesParser::new(["host", "baseline"]).map(|name| match &*name {
        "host" => Cpu::Host,
        _ => Cpu::Baseline,
    })
}
