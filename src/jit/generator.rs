//! Words -> machine code that is not installed yet, and every stage on the way as text.
//!
//! It must not know where code lives, nor whether the CPU it makes code for is the one it runs on.

use super::kernel::Way;
use super::math::Care;
use super::target::{Groups, Machine};
use super::{Timings, Variant, lanes, lower};
use crate::ir::batch::{Sequential, Side};
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Form, Func, Inst};
use crate::isa::Stage;
use crate::isa::numeric::Precision;
use crate::kernel::{Config, Unsupported};
use crate::layout::Layout;
use crate::program::{Entry, Program};
use crate::state::Order;
use cranelift_codegen::Context;
use cranelift_codegen::ir as clif;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use std::fmt;
use std::time::Instant;

/// Makes code for one CPU.
pub(super) struct Generator {
    pub(super) isa: OwnedTargetIsa,
    pub(super) variant: Variant,
    pub(super) groups: Groups,
    pub(super) limits: Limits,
}

/// Allocations that compiling can use again.
pub(super) struct Scratch {
    pub(super) context: Context,
    builder: FunctionBuilderContext,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { context: Context::new(), builder: FunctionBuilderContext::new() }
    }
}

/// Every stage of one compilation as text.
#[derive(Clone, Debug)]
pub struct Stages {
    /// Blocks.
    pub cfg: String,
    /// Simplified SSA.
    pub ssa: String,
    /// Cranelift's IR.
    pub clif: String,
    /// Machine code, in Cranelift's notation.
    pub host: String,
    /// Bytes of machine code and constants.
    pub bytes: usize,
}

impl Stages {
    /// Lines of [`Stages::host`] that become an instruction. Now and then one of them becomes two.
    pub fn instructions(&self) -> usize {
        let mut lines = self.host.lines().map(str::trim).peekable();
        let mut count = 0;
        while let Some(line) = lines.next() {
            // A jump to what comes next is left out, and `uninit` speaks to the register allocator.
            let next = lines.peek().and_then(|l| l.strip_prefix("block")?.strip_suffix(':')).unwrap_or("");
            let jump = line.strip_prefix("jmp").or(line.strip_prefix("b ")).map(str::trim);
            let falls = jump.is_some_and(|to| to.strip_prefix("label") == Some(next));
            count += usize::from(!falls && !line.is_empty() && !line.ends_with(':') && !line.starts_with("uninit"));
        }
        count
    }
}

/// Why there is no code of a kind; of that for batches, which then run one vertex after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCode {
    /// The vertices may see each other.
    Sequential(Sequential),
    /// Such code is made in single precision only.
    Precision,
    /// The program is larger than any real one.
    TooLarge,
    /// It did not compile.
    Unsupported(Unsupported),
}

impl std::error::Error for NoCode {}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCode::Sequential(why) => why.fmt(f),
            NoCode::Precision => f.write_str("vertices run side by side in single precision only"),
            NoCode::TooLarge => f.write_str("the program is too large to run vertices side by side"),
            NoCode::Unsupported(why) => why.fmt(f),
        }
    }
}

/// In debug builds, stops on a broken rule of the IR: a bug of ours that no input may show otherwise.
fn check(func: &Func, when: &str) {
    if cfg!(debug_assertions)
        && let Err(broken) = func.verify()
    {
        panic!("{when}: {broken}\n{func}");
    }
}

impl Generator {
    /// Blocks, how many there are, and simplified SSA.
    pub(super) fn ssa(
        &self,
        program: &Program,
        entry: Entry,
        config: &Config,
        timings: &mut Timings,
    ) -> Result<(usize, Func), Unsupported> {
        if entry.stage == Stage::Geometry && config.layout.is_some_and(|l| l.offsets().geometry.is_none()) {
            return Err(Unsupported::NoGeometry);
        }
        let start = Instant::now();
        let cfg = Cfg::build(program, entry, self.limits)?;
        timings.cfg = start.elapsed();
        let start = Instant::now();
        let form = match self.variant {
            Variant::Vec4 | Variant::Lanes => Form::Ssa,
            Variant::Unoptimised => Form::Memory,
        };
        let mut func = Func::build(&cfg, config.fuel, form);
        check(&func, "built");
        func.simplify(config.precision);
        check(&func, "simplified");
        timings.ssa = start.elapsed();
        Ok((cfg.blocks.len(), func))
    }

    /// Speculation needs a way back: nothing may be written before the last test.
    pub(super) fn care(&self, func: &Func, precision: Precision) -> Care {
        let emits = func.blocks.iter().flat_map(|b| &b.insts).any(|(_, i)| matches!(i, Inst::Emit | Inst::Setemit(_)));
        // In float24 already reading an input is something to speculate about.
        let pays = precision != Precision::F32 || func.nodes.iter().any(crate::ir::facts::multiplies);
        match self.variant {
            Variant::Vec4 | Variant::Lanes if pays && !emits => Care::Speculate,
            _ => Care::Exact,
        }
    }

    /// CLIF, in `scratch`.
    pub(super) fn lower(&self, func: &Func, care: Care, config: &Config, scratch: &mut Scratch) {
        let (out, builder, machine) = self.begin(config, scratch);
        lower::lower(func, care, config.precision, out, builder, machine);
    }

    /// CLIF for batches, in `scratch`.
    pub(super) fn lower_lanes(&self, func: &Func, side: &Side, way: Way, config: &Config, scratch: &mut Scratch) {
        let (out, builder, machine) = self.begin(config, scratch);
        lanes::lower(func, side, way, out, builder, machine);
    }

    /// An empty function with the signature of compiled code.
    fn begin<'a>(
        &self,
        config: &Config,
        scratch: &'a mut Scratch,
    ) -> (&'a mut clif::Function, &'a mut FunctionBuilderContext, Machine) {
        let Scratch { context, builder } = scratch;
        let machine = Machine::of(&self.isa, config.layout.unwrap_or(Layout::OWN));
        context.clear();
        context.func.signature = machine.signature();
        (&mut context.func, builder, machine)
    }

    /// Compiles what `entry` reaches and prints every stage on the way. Of [`Variant::Lanes`] it is the code for batches.
    pub(super) fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, NoCode> {
        let cfg = Cfg::build(program, entry, self.limits).map_err(NoCode::Unsupported)?;
        let (_, func) = self.ssa(program, entry, config, &mut Timings::default()).map_err(NoCode::Unsupported)?;
        let mut scratch = Scratch::default();
        match self.variant {
            Variant::Lanes => {
                let way = Way { order: Order::Registers, two: self.groups.two_at_once(&func) };
                let side = provable(&func, way.order, config.precision)?;
                self.lower_lanes(&func, &side, way, config, &mut scratch);
            }
            _ => self.lower(&func, self.care(&func, config.precision), config, &mut scratch),
        }
        self.printed(&cfg, &func, scratch).map_err(NoCode::Unsupported)
    }

    fn printed(&self, cfg: &Cfg, func: &Func, mut scratch: Scratch) -> Result<Stages, Unsupported> {
        let clif = scratch.context.func.display().to_string();
        scratch.context.set_disasm(true);
        let compiled = scratch
            .context
            .compile(&*self.isa, &mut Default::default())
            .map_err(|e| Unsupported::Codegen { message: e.inner.to_string() })?;
        let host = compiled.vcode.clone().unwrap_or_default();
        let bytes = compiled.code_buffer().len();
        Ok(Stages { cfg: cfg.to_string(), ssa: func.to_string(), clif, host, bytes })
    }
}

/// What makes code for batches possible, or what speaks against it.
pub(super) fn provable(func: &Func, order: Order, precision: Precision) -> Result<Side, NoCode> {
    if precision != Precision::F32 {
        return Err(NoCode::Precision);
    }
    if func.nodes.len() > lanes::MOST_NODES {
        return Err(NoCode::TooLarge);
    }
    let proof = match order {
        Order::Registers => func.side_by_side(),
        Order::Components => func.side_by_components(),
    };
    proof.map_err(NoCode::Sequential)
}

/// Compiles what `entry` reaches for another CPU and prints every stage on the way, see [`Jit::explain`](super::Jit::explain). Nothing
/// of it runs.
#[cfg(feature = "targets")]
pub fn explain_for(
    target: super::Target,
    variant: Variant,
    program: &Program,
    entry: Entry,
    config: &Config,
) -> Result<Stages, NoCode> {
    let isa = target.isa().map_err(NoCode::Unsupported)?;
    Generator { isa, variant, groups: Groups::default(), limits: Limits::default() }.explain(program, entry, config)
}
