//! A program and an entry -> [`Analysis`]: what a host can know of a shader before it runs.
//!
//! | file | question |
//! |---|---|
//! | `assignment` | what has a run certainly written at each point? |
//! | `carried` | which of the registers that a run shows does it read before it writes them? |
//! | `paths` | how many instructions are on the shortest and on the longest path? |
//!
//! ```
//! use picajit::analysis::Analysis;
//! use picajit::{Entry, Program, text};
//! let shbin = text::assemble(".proc main\nmov o0, v0\nend\n.end\n").unwrap().shbin;
//! let analysis = Analysis::new(&shbin.program().unwrap(), Entry::vertex(0)).unwrap();
//! assert!(analysis.is_independent());
//! assert_eq!((analysis.inputs, analysis.outputs, analysis.longest_path), (1, 1, Some(2)));
//! ```

#[doc(hidden)]
pub mod assignment;
#[doc(hidden)]
pub mod carried;
#[doc(hidden)]
pub mod paths;
#[cfg(test)]
mod tests;

pub use crate::ir::register_set::RegisterSet;

use crate::ir::analysis::carried::{OUTPUTS, shown_at_start};
use crate::ir::analysis::effects;
use crate::ir::cfg::{Cfg, Explored, Limits, Out};
use crate::ir::{Form, Func};
use crate::isa::numeric::Precision;
use crate::isa::{Inst, SrcFile, Test};
use crate::kernel::Unsupported;
use crate::program::{Entry, Program};
use assignment::{Assignments, Bools};
use paths::Paths;

/// Facts about one entry of a program, proved without a run. Each holds for all uniforms and
/// inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Analysis {
    /// The `v` registers that are read; bit n is `vn`.
    pub inputs: u16,
    /// The `o` registers that are written; bit n is `on`.
    pub outputs: u16,
    /// The registers that carry: a run's outputs, emitted vertices or control flow may depend on
    /// what an earlier run with the same uniforms left there. Empty if runs are independent.
    pub carried: RegisterSet,
    /// Branches on values that may differ between runs with the same uniforms.
    pub divergent_branches: u32,
    /// No run that reaches an END executes fewer instructions; `None` if none does.
    pub shortest_path: Option<u64>,
    /// No run executes more instructions. `None`: unbounded, as far as is known.
    pub longest_path: Option<u64>,
}

/// Blocks of control flow that are analysed.
#[doc(hidden)]
pub const MOST_BLOCKS: usize = 4096;

impl Analysis {
    /// Analyses `entry` of `program`.
    ///
    /// Fails if control flow has too many states for a graph.
    pub fn new(program: &Program, entry: Entry) -> Result<Analysis, Unsupported> {
        let explored = Explored::new(program, entry, Limits::default().states)?;
        let accesses = Accesses::new(program, explored.reachable());
        let (inputs, outputs) = (accesses.inputs, accesses.outputs());
        let mut assignments = Assignments::new(program, entry.stage, &explored, Bools::default());
        if !assignments.complete {
            assignments.list = vec![Assignments::merged(program, entry.stage, &explored)];
        }
        let cfg = explored.cfg(MOST_BLOCKS)?;
        let Paths { shortest, longest } = Paths::new(program, &explored, &cfg, [None; 4]);
        let carried =
            carried::carried(program, &explored, shown_at_start(&cfg, OUTPUTS), &assignments.list, entry.stage);
        let divergent_branches = ssa(&cfg).divergent_branches();
        Ok(Analysis { inputs, outputs, carried, divergent_branches, shortest_path: shortest, longest_path: longest })
    }

    /// Whether runs are independent: with the same uniforms, each gives the same results in any
    /// order and on any unit. A GPU may then run them in parallel.
    pub fn is_independent(&self) -> bool {
        self.carried.is_empty()
    }
}

/// The simplified SSA form of a graph.
#[doc(hidden)]
pub fn ssa(cfg: &Cfg) -> Func {
    let mut func = Func::build(cfg, u32::MAX, Form::Ssa);
    func.simplify(Precision::default());
    func
}

/// The registers that some words name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// The `v` registers that are read; bit n is `vn`.
    pub(crate) inputs: u16,
    /// The `c` registers that are read without an address register; bit n is `cn`.
    pub(crate) floats: u128,
    /// Bit `4 * n + c`: component `c` of `on` is written.
    pub(crate) written: u64,
}

impl Accesses {
    /// The accesses of all words that `entry` reaches.
    pub(crate) fn of(program: &Program, entry: Entry) -> Accesses {
        match Explored::new(program, entry, Limits::default().states) {
            Ok(explored) => Accesses::new(program, explored.reachable()),
            Err(_) => Accesses::new(program, &Vec::from_iter(0..program.code().len() as u16)),
        }
    }

    fn new(program: &Program, pcs: &[u16]) -> Accesses {
        let mut accesses = Accesses::default();
        for inst in pcs.iter().filter_map(|&pc| program.inst(pc)) {
            let sources: &[_] = match &inst {
                Inst::Alu(alu) => alu.sources(),
                Inst::Mova { src, .. } => std::slice::from_ref(src),
                Inst::Cmp { src, .. } => src,
                _ => &[],
            };
            for source in sources {
                match source.reg.file() {
                    SrcFile::Input(n) => accesses.inputs |= 1 << n,
                    SrcFile::Uniform(n) if source.relative().is_none() => accesses.floats |= 1 << n,
                    SrcFile::Uniform(_) | SrcFile::Temp(_) => {}
                }
            }
            accesses.written |= effects::writes(&inst).outputs;
        }
        accesses
    }

    /// The `o` registers that are written; bit n is `on`.
    fn outputs(&self) -> u16 {
        (0..16).filter(|n| self.written >> (4 * n) & 0xF != 0).fold(0, |mask, n| mask | 1 << n)
    }
}

/// Whether any state of the graph tests boolean uniform `id`.
#[doc(hidden)]
pub fn tests_bool(explored: &Explored, id: u8) -> bool {
    explored.nodes().iter().any(|node| matches!(node.out, Out::Two(Test::Bool { id: tested, .. }, ..) if tested == id))
}
