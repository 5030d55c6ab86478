//! The stages from words to machine code that is not installed yet, for one CPU.
//!
//! They do not know where code lives, nor whether the CPU is the one they run on.

use super::abi::Stores;
use super::batch::policy::{self, BatchPlan, BatchShape, BatchVariant, NoBatchCode};
use super::emit::Products;
use super::emit::estimate;
use super::settings::{Settings, Variant};
use super::stages::{Stages, Timings};
use super::target::Machine;
use super::{batch, vertex};
use crate::ir::analysis::{RegisterUse, multiplies};
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::{Form, Func};
use crate::isa::numeric::Precision;
use crate::isa::{Pc, Stage};
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Config, Unsupported};
use crate::program::{Entry, Program};
use cranelift_codegen::Context;
use cranelift_codegen::ir as clif;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use std::time::Instant;

/// Compiles for one CPU.
pub(super) struct CodeGenerator {
    pub(super) isa: OwnedTargetIsa,
    pub(super) variant: Variant,
    pub(super) settings: Settings,
    pub(super) limits: Limits,
}

/// The memory of one compilation. It is freed afterwards: using it again saves little, and keeps
/// what the largest compilation took.
pub(super) struct Scratch {
    pub(super) context: Context,
    builder: FunctionBuilderContext,
    /// The address of the cancel flag.
    cancel: usize,
}

/// The cancel flag's address in code that is printed: code of the same size, and always the same.
const PRINTED_CANCEL_FLAG: usize = 0x7F5A_CA9C_E1EC_u64 as usize;

impl Scratch {
    /// For code that runs until `cancel` is set. The owner of the code owns the flag.
    pub(super) fn new(cancel: &CancelFlag) -> Scratch {
        Scratch { cancel: cancel.address(), ..Scratch::for_print() }
    }

    /// For code that is printed and does not run.
    fn for_print() -> Scratch {
        Scratch { context: Context::new(), builder: FunctionBuilderContext::new(), cancel: PRINTED_CANCEL_FLAG }
    }
}

/// In debug builds, stops on a broken rule of the IR: a bug in picajit that no input may show
/// otherwise.
fn check(func: &Func, when: &str) {
    if cfg!(debug_assertions)
        && let Err(broken) = func.verify()
    {
        panic!("{when}: {broken}\n{func}");
    }
}

impl CodeGenerator {
    /// The graph that `build` gives, within the limits.
    pub(super) fn cfg(
        &self,
        build: impl FnOnce(Limits) -> Result<Cfg, Unsupported>,
        entry: Entry,
        config: &Config,
        timings: &mut Timings,
    ) -> Result<Cfg, Unsupported> {
        if entry.stage == Stage::Geometry && config.layout.is_some_and(|l| l.offsets().geometry.is_none()) {
            return Err(Unsupported::NoGeometry);
        }
        let start = Instant::now();
        let cfg = build(self.limits)?;
        timings.cfg = start.elapsed();
        Ok(cfg)
    }

    /// Blocks -> simplified SSA.
    pub(super) fn ssa(&self, cfg: &Cfg, config: &Config, timings: &mut Timings) -> Func {
        let start = Instant::now();
        let form = match self.variant {
            Variant::Vec4 | Variant::Batch => Form::Ssa,
            Variant::Unoptimised => Form::Memory,
        };
        let mut func = Func::build(cfg, config.fuel, form);
        check(&func, "built");
        func.simplify(config.precision);
        check(&func, "simplified");
        timings.ssa = start.elapsed();
        func
    }

    /// Whether outputs-only code serves batches: nothing but the outputs of one bank matters.
    pub(super) fn has_outputs_code(&self, func: &Func) -> bool {
        self.variant == Variant::Batch && !func.has_emission()
    }

    /// How code for one vertex multiplies first.
    pub(super) fn products(&self, func: &Func, precision: Precision) -> Products {
        // In float24 already reading an input is something to speculate about.
        let pays = precision != Precision::F32 || func.nodes.iter().any(multiplies);
        match self.variant {
            Variant::Vec4 | Variant::Batch if pays => Products::Speculative,
            _ => Products::Exact,
        }
    }

    /// Fails if code of `func` for one vertex would be too large.
    pub(super) fn check_size(&self, func: &Func, products: Products, config: &Config) -> Result<(), Unsupported> {
        let (limit, estimate) =
            (estimate::limit(func), estimate::vertex_instructions(func, products, config.precision));
        if estimate > limit { Err(Unsupported::TooMuchCode { limit, estimate }) } else { Ok(()) }
    }

    /// SSA -> CLIF for one vertex, in `scratch`.
    pub(super) fn vertex_clif(
        &self,
        func: &Func,
        products: Products,
        stores: Stores,
        config: &Config,
        scratch: &mut Scratch,
    ) {
        let (out, builder, machine) = self.begin(config, scratch);
        vertex::lower(func, products, stores, config.precision, out, builder, machine);
    }

    /// SSA -> CLIF for batches, in `scratch`.
    pub(super) fn batch_clif(
        &self,
        plan: &BatchPlan,
        variant: BatchVariant,
        config: &Config,
        scratch: &mut Scratch,
    ) -> BatchShape {
        let (out, builder, machine) = self.begin(config, scratch);
        check(&plan.func, "planned");
        batch::lower(plan, variant, out, builder, machine)
    }

    /// An empty function with the signature of compiled code.
    fn begin<'a>(
        &self,
        config: &Config,
        scratch: &'a mut Scratch,
    ) -> (&'a mut clif::Function, &'a mut FunctionBuilderContext, Machine) {
        let Scratch { context, builder, cancel } = scratch;
        let machine = Machine::of(&self.isa, config.layout, *cancel);
        context.clear();
        context.func.signature = machine.signature();
        (&mut context.func, builder, machine)
    }

    /// Compiles what `entry` reaches and prints every stage; of [`Variant::Batch`] the batch code.
    pub(super) fn explain(&self, program: &Program, entry: Entry, config: &Config) -> Result<Stages, NoBatchCode> {
        let mut timings = Timings::default();
        let build = |limits| Cfg::build(program, entry, limits);
        let cfg = self.cfg(build, entry, config, &mut timings).map_err(NoBatchCode::Unsupported)?;
        let func = self.ssa(&cfg, config, &mut timings);
        let mut scratch = Scratch::for_print();
        let batch = match self.variant {
            Variant::Batch => {
                let plan = BatchPlan::new(&func, &RegisterUse::new(&cfg), config.precision)?;
                // A kernel, too, runs single groups if two are too large.
                let interleaved = policy::interleaves(self.settings.interleave, &func)
                    && batch::estimate::check_size(&plan, true).is_ok();
                batch::estimate::check_size(&plan, interleaved)?;
                Some(self.batch_clif(&plan, BatchVariant { interleaved }, config, &mut scratch))
            }
            _ => {
                let products = self.products(&func, config.precision);
                self.check_size(&func, products, config).map_err(NoBatchCode::Unsupported)?;
                self.vertex_clif(&func, products, Stores::Unit, config, &mut scratch);
                None
            }
        };
        let stages = self.print(&cfg, &func, scratch).map_err(NoBatchCode::Unsupported)?;
        let ranges = || func.ranges(&func.live_components(), &func.stored_vectors());
        let ranges = (config.precision != Precision::F32).then(ranges).flatten();
        let steps =
            ranges.map(|ranges| format!("results narrowed by more than rounding:\n{ranges}")).unwrap_or_default();
        Ok(Stages { batch, ssa: stages.ssa + &steps, ..stages })
    }

    fn print(&self, cfg: &Cfg, func: &Func, mut scratch: Scratch) -> Result<Stages, Unsupported> {
        let clif = scratch.context.func.display().to_string();
        scratch.context.set_disasm(true);
        let compiled = scratch
            .context
            .compile(&*self.isa, &mut Default::default())
            .map_err(|e| Unsupported::Codegen { message: e.inner.to_string() })?;
        let host = compiled.vcode.clone().unwrap_or_default();
        let code = compiled.code_buffer().to_vec();
        let located = compiled.buffer.get_srclocs_sorted().iter().filter(|range| !range.loc.is_default());
        let ranges = located.filter_map(|r| Some((r.start..r.end, Pc::try_from(r.loc.bits()).ok()?))).collect();
        Ok(Stages { batch: None, cfg: cfg.to_string(), ssa: func.to_string(), clif, host, code, ranges })
    }
}

/// Compiles what `entry` reaches for another CPU and prints every stage, like
/// [`Jit::explain`](super::Jit::explain). The code does not run.
#[cfg(feature = "targets")]
pub fn explain_for(
    target: super::target::Target,
    variant: Variant,
    program: &Program,
    entry: Entry,
    config: &Config,
) -> Result<Stages, NoBatchCode> {
    let isa = target.isa().map_err(NoBatchCode::Unsupported)?;
    let generator = CodeGenerator { isa, variant, settings: Settings::default(), limits: Limits::default() };
    generator.explain(program, entry, config)
}
