//! A function -> the plan of its batch code, and the thresholds of its batches: the one place that
//! decides when vertices run as groups, when two groups are interleaved, and which outputs are
//! computed in AoS form.
//!
//! Invariant: no decision changes a result. What may run as a group is proved in
//! [`crate::ir::analysis`]; here is only what pays.

use super::aos_cost;
use super::latency::GroupCost;
use crate::ir::analysis::ranges::Ranges;
use crate::ir::analysis::{Components, Dependence, RegisterUse, XYZW};
use crate::ir::register_set::RegisterSet;
use crate::ir::{Block, Form, Func, Inst, Mem, Terminator, Value};
use crate::isa::flow::Exit;
use crate::isa::numeric::Precision;
use crate::jit::abi::{GROUP, MAX_WRITTEN_MASKS};
use crate::jit::settings::{Interleave, Settings};
use crate::kernel::Unsupported;
use std::fmt;
use std::ops::Range;

/// Larger functions take too long to analyse. No real shader comes near.
const MAX_NODES: usize = 4096;

/// The smallest batch that interleaving speeds up.
const MIN_INTERLEAVED: usize = 2 * GROUP;
/// Batches above that which it slows down: with an odd number of groups the last one runs twice,
/// which costs more than interleaving the first two saves.
const ODD_GROUPS: Range<usize> = MIN_INTERLEAVED + 1..2 * MIN_INTERLEAVED;

/// The smallest batch of invocations that emit. Below it the last ones, which run singly, are most of it.
const MIN_EMITTING: usize = 2 * GROUP;

/// Interleaving pays from this many cycles of latency on for as many instructions of a group.
const LATENCY_BOUND: (u32, u32) = (2, 5);

/// Times the vertices before batch code is compiled: those before a second variant for the same
/// layout is. The first one serves until then, at most some 30 % slower, and compiling costs as
/// much as that loses in tens of thousands of vertices.
const SECOND_VARIANT: u32 = 16;

/// Bailouts tolerated before their ratio is checked.
pub(crate) const MIN_BAILOUTS: u32 = 64;

/// Why there is no batch code; vertices then run in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoBatchCode {
    /// The vertices may depend on each other.
    Dependent(Dependence),
    /// The program is larger than any real one: too many values, or too many instructions of CLIF
    /// by the estimate in `batch/estimate.rs`.
    TooLarge,
    /// Vertices keep registers on more different paths than any real program has.
    TooManyPaths,
    /// It did not compile.
    Unsupported(Unsupported),
}

impl std::error::Error for NoBatchCode {}

impl fmt::Display for NoBatchCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoBatchCode::Dependent(why) => why.fmt(f),
            NoBatchCode::TooLarge => f.write_str("the program is too large for batch code"),
            NoBatchCode::TooManyPaths => f.write_str("vertices keep registers on too many different paths"),
            NoBatchCode::Unsupported(why) => why.fmt(f),
        }
    }
}

/// Which batch code: a kernel has up to one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchVariant {
    /// Whether one iteration runs two groups.
    pub(crate) interleaved: bool,
}

impl BatchVariant {
    /// Its name in profiles.
    pub(crate) fn name(self) -> &'static str {
        if self.interleaved { "batch8" } else { "batch" }
    }

    /// Vertices come in multiples of this. Interleaved code lets its last group overlap the one
    /// before.
    pub(crate) fn step(self) -> usize {
        if self.interleaved { 1 } else { GROUP }
    }
}

/// How batch code runs vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchShape {
    /// Whether large batches interleave two groups.
    pub interleaved: bool,
    /// Divergent branches with a predicated copy.
    pub predicated: usize,
    /// Divergent branches at which a group bails out.
    pub bailouts: usize,
    /// Sets of components that some vertices write and others keep.
    pub kept: usize,
}

/// What batch code computes, and in which form.
pub(crate) struct BatchPlan {
    /// The function, with a mask for each set of components that some vertices write and others
    /// keep.
    pub(crate) func: Func,
    /// These masks.
    pub(crate) written_masks: Vec<Value>,
    /// The components of outputs among those that they are for.
    pub(crate) kept_outputs: Vec<KeptOutput>,
    /// Components that SoA code computes: those that branches and outputs in SoA form depend on.
    pub(crate) live: Vec<Components>,
    /// Components that code computes in SoA or AoS form.
    pub(crate) live_in_any_form: Vec<Components>,
    /// The number format.
    pub(crate) precision: Precision,
    /// How results are narrowed, in float24.
    pub(crate) ranges: Option<Ranges>,
    /// For each value whether it is divergent.
    pub(crate) divergent: Vec<bool>,
    /// For each value whether it is the fuel that is left.
    pub(crate) fuel: Vec<bool>,
    /// For each value whether an output that holds all of it is computed in AoS form.
    aos: Vec<bool>,
    /// For each output register the components that runs write, and emit if they do; the others keep
    /// what the unit holds.
    pub(crate) written: [Components; 16],
    /// Whether every run reaches an END.
    pub(crate) always_ends: bool,
    /// Whether the program emits: its code stores emitted vertices only.
    pub(crate) emits: bool,
    /// Whether groups read what an invocation before them must have left.
    pub(crate) needs_settled: bool,
    /// Whether code returns the reason of its bailout, for tests.
    pub(crate) counts_bailouts: bool,
}

/// A component of an output that some vertices write and others keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    /// Output register, 0-15.
    pub(crate) register: u8,
    /// Its component.
    pub(crate) component: u8,
    /// The index of the mask of the vertices that write it.
    pub(crate) mask: usize,
}

impl BatchPlan {
    /// The plan for `func`, in SSA form and with these registers, or why there is none.
    pub(crate) fn new(func: &Func, registers: &RegisterUse, precision: Precision) -> Result<BatchPlan, NoBatchCode> {
        debug_assert!(func.form == Form::Ssa, "registers in memory are carried by nature");
        if func.nodes.len() > MAX_NODES {
            return Err(NoBatchCode::TooLarge);
        }
        let emits = registers.dependence == Some(Dependence::Emits);
        // After the first invocation, none depends on another.
        let settles = emits && func.settles(registers.carried);
        let dependence = match registers.dependence {
            // The order of vertices is kept, so only registers matter. All invocations must take the same
            // path: groups have an EMIT for every lane or for none, and no register is kept by some.
            Some(Dependence::Emits) if !registers.carried.is_empty() && !settles => {
                Some(Dependence::Carried(registers.carried))
            }
            Some(Dependence::Emits) if func.divergent_branches() != 0 => Some(Dependence::EmitsOnPaths),
            Some(Dependence::Emits) => None,
            other => other,
        };
        if let Some(dependence) = dependence {
            return Err(NoBatchCode::Dependent(dependence));
        }
        if !func.reaches_end() {
            return Err(NoBatchCode::Dependent(Dependence::NeverEnds));
        }
        match emits {
            true => BatchPlan::of_emitting(func.clone(), registers, precision),
            false => BatchPlan::of(func.clone(), &registers.written, precision),
        }
    }

    /// The plan for a program that emits, whose invocations are independent and take one path.
    fn of_emitting(func: Func, registers: &RegisterUse, precision: Precision) -> Result<BatchPlan, NoBatchCode> {
        let written = std::array::from_fn(|n| registers.set.output(n as u8));
        let mut emitted = Vec::new();
        for block in &func.blocks {
            // Stores after the last EMIT are for the unit.
            let end = block.insts.iter().rposition(|(_, inst)| *inst == Inst::Emit).unwrap_or(0);
            emitted.extend(block.insts[..end].iter().filter_map(|(_, inst)| match *inst {
                Inst::Store(Mem::Out { n, .. }, value) => Some((value, written[usize::from(n)])),
                _ => None,
            }));
        }
        let live = func.live_from(emitted.clone());
        Ok(BatchPlan {
            precision,
            ranges: ranges(&func, &live, &emitted, precision)?,
            live_in_any_form: live.clone(),
            live,
            divergent: func.is_divergent(),
            fuel: func.is_fuel(),
            aos: vec![false; func.nodes.len()],
            written,
            written_masks: Vec::new(),
            kept_outputs: Vec::new(),
            // All runs take the same path, so none relies on this.
            always_ends: false,
            emits: true,
            needs_settled: !registers.carried.is_empty(),
            counts_bailouts: false,
            func,
        })
    }

    /// The plan for independent vertices that write these components.
    fn of(mut func: Func, changed: &RegisterSet, precision: Precision) -> Result<BatchPlan, NoBatchCode> {
        let ends = |block: &&Block| block.term == Terminator::Exit(Exit::End);
        let always_ends = func.blocks.iter().all(|b| !matches!(b.term, Terminator::Exit(_)) || ends(&b));
        let mut written = [0; 16];
        let mut outputs = Vec::new();
        for (_, inst) in func.blocks.iter().filter(ends).flat_map(|block| &block.insts) {
            if let Inst::Store(Mem::Out { n, .. }, value) = *inst {
                let components = changed.output(n);
                written[usize::from(n)] |= components;
                outputs.push((value, components));
            }
        }
        let kept = func.kept_components();
        let mut divergent = func.is_divergent();
        if kept.len() > MAX_WRITTEN_MASKS {
            return Err(NoBatchCode::TooManyPaths);
        }
        let mut written_masks = Vec::new();
        if !kept.is_empty() {
            written_masks = func.add_written_masks(&kept);
            divergent = func.is_divergent();
        }
        let kept_outputs = (kept.iter().enumerate())
            .flat_map(|(mask, kept)| kept.components.iter().map(move |component| (mask, *component)))
            .filter_map(|(mask, (mem, component))| match mem {
                Mem::Out { n, .. } => Some(KeptOutput { register: n, component, mask }),
                _ => None,
            })
            .collect();
        let mut aos = vec![false; func.nodes.len()];
        let nan_tainted = func.nan_tainted();
        // All runs that end do so in one block, so each of these is computed once.
        for (value, _) in outputs.iter().filter(|(_, components)| *components == XYZW) {
            aos[value.0 as usize] = aos_cost::pays(&func, *value, XYZW, &nan_tainted);
        }
        let masks = written_masks.iter().map(|&mask| (mask, 1));
        let live_in_any_form = func.live_from(outputs.iter().copied().chain(masks.clone()).collect());
        let ranges = ranges(&func, &live_in_any_form, &outputs, precision)?;
        let soa = outputs.into_iter().filter(|(value, components)| *components != XYZW || !aos[value.0 as usize]);
        let live = func.live_from(soa.chain(masks).collect());
        let (fuel, counts_bailouts) = (func.is_fuel(), false);
        Ok(BatchPlan {
            precision,
            ranges,
            func,
            written_masks,
            kept_outputs,
            live,
            live_in_any_form,
            divergent,
            fuel,
            aos,
            written,
            always_ends,
            emits: false,
            needs_settled: false,
            counts_bailouts,
        })
    }

    /// Whether components are computed in float24.
    pub(crate) fn is_float24(&self) -> bool {
        self.precision != Precision::F32
    }

    /// Whether output register `n`, if it holds `value` when a run ends, is computed in AoS form.
    pub(crate) fn is_aos_output(&self, n: u8, value: Value) -> bool {
        self.written[usize::from(n)] == XYZW && self.aos[value.0 as usize]
    }

    /// The values that are computed in AoS form.
    #[cfg(test)]
    pub(crate) fn aos_values(&self) -> impl Iterator<Item = Value> {
        (0..).zip(&self.aos).filter(|(_, aos)| **aos).map(|(id, _)| Value(id))
    }
}

/// How results are narrowed, in float24.
fn ranges(
    func: &Func,
    live: &[Components],
    stored: &[(Value, Components)],
    precision: Precision,
) -> Result<Option<Ranges>, NoBatchCode> {
    match precision {
        Precision::F32 => Ok(None),
        Precision::F24 { .. } => func.ranges(live, stored).map(Some).ok_or(NoBatchCode::TooLarge),
    }
}

/// Whether large batches of `func` run two interleaved groups.
pub(crate) fn interleaves(interleave: Interleave, func: &Func) -> bool {
    match interleave {
        // The records of emitted vertices have one cursor.
        _ if func.has_emission() => false,
        Interleave::Auto => interleaving_pays(func),
        Interleave::Off => false,
        Interleave::On => true,
    }
}

/// Interleaving hides latency: while one group waits for a result, the other goes on. Where a group
/// computes enough meanwhile it needs more registers than there are, which costs more; and the CPU
/// overlaps the iterations of an inner loop anyway. docs/performance.md has the measurements.
fn interleaving_pays(func: &Func) -> bool {
    let loops = |(id, block): (usize, &crate::ir::Block)| block.term.edges().any(|edge| edge.to <= id);
    if func.blocks.iter().enumerate().any(loops) {
        return false;
    }
    let GroupCost { chain, instructions } = GroupCost::of(func);
    chain * LATENCY_BOUND.1 >= instructions * LATENCY_BOUND.0
}

/// From which batch size on a kernel uses which code; [`usize::MAX`] for never.
#[derive(Clone, Copy)]
pub(crate) struct Thresholds {
    groups: usize,
    interleaved: usize,
    /// Vertices in batches before batch code is compiled.
    compile_after: u32,
}

impl Thresholds {
    /// Those of a kernel that has no batch code.
    pub(crate) const NEVER: Thresholds = Thresholds { groups: usize::MAX, interleaved: usize::MAX, compile_after: 0 };

    /// Those of `func`.
    pub(crate) fn new(func: &Func, settings: &Settings) -> Thresholds {
        let interleaved = match settings.interleave {
            other if !interleaves(other, func) => usize::MAX,
            Interleave::On => GROUP,
            _ => MIN_INTERLEAVED,
        };
        let groups = if func.has_emission() { MIN_EMITTING } else { GROUP };
        Thresholds { groups, interleaved, compile_after: settings.batch_threshold }
    }

    /// Whether a batch of `count` vertices is large enough for groups.
    #[inline]
    pub(crate) fn runs_groups(&self, count: usize) -> bool {
        count >= self.groups
    }

    /// Whether a batch of `count` vertices runs two interleaved groups. With [`Interleave::On`],
    /// for tests, all do.
    #[inline]
    pub(crate) fn interleaves(&self, count: usize) -> bool {
        count >= self.interleaved && (self.interleaved != MIN_INTERLEAVED || !ODD_GROUPS.contains(&count))
    }

    /// Whether a kernel that has run `batched` vertices in batches should have batch code.
    pub(crate) fn compiles_after(&self, batched: u32) -> bool {
        batched >= self.compile_after
    }

    /// The same for a second variant, while the first one serves.
    pub(crate) fn compiles_second_after(&self, batched: u32) -> bool {
        batched >= self.compile_after.saturating_mul(SECOND_VARIANT)
    }

    /// How many functions of batch code a kernel may come to have, for an estimate of its memory.
    pub(crate) fn batch_functions(&self) -> usize {
        2 * usize::from(self.groups != usize::MAX) + 2 * usize::from(self.interleaved != usize::MAX)
    }
}

/// Whether bailouts cost more than the groups that run to their end save, so far.
pub(crate) fn bails_out_often(groups: u32, bailouts: u32) -> bool {
    bailouts >= MIN_BAILOUTS && bailouts > groups / 4
}

#[cfg(test)]
pub(in crate::jit) mod tests;
