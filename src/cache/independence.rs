//! An entry of a program -> whether its vertices are independent, whatever engine runs them.
//!
//! This file must not depend on how keys are used.

use crate::ir::analysis::prove;
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Form, Func};
use crate::kernel::Config;
use crate::program::{Entry, Program};

/// Whether vertices that end can run in any order: none observes what another one leaves in the
/// unit, and all write the same registers; see [`prove`]. Programs that are too large to analyse
/// can't.
pub(crate) fn has_independent_vertices(program: &Program, entry: Entry, config: &Config) -> bool {
    let Ok(cfg) = Cfg::build(program, entry, Limits::default()) else { return false };
    let mut func = Func::build(&cfg, config.fuel, Form::Ssa);
    func.simplify(config.precision);
    prove(&func).is_ok_and(|proof| proof.kept.is_empty())
}
