//! 0 * infinity, where both factors are certain: values that follow from the entry's constants.

use super::entry::{EntryFacts, is_named};
use super::{Findings, Rule};
use crate::container::float24::f24_to_f32;
use crate::container::shbin::Constant;
use crate::ir::analysis::{Components, operand_components};
use crate::ir::{Inst as Step, Node, ScalarUse, Use};
use crate::isa::numeric::Precision;
use crate::isa::{Pc, VectorOp};
use std::collections::{BTreeSet, HashMap};

/// A vector of which some components are known.
type Partial = [Option<f32>; 4];

pub(super) fn check(entry: &EntryFacts<'_>, found: &mut Findings) {
    let (Some(func), Some(dvle)) = (&entry.func, entry.tables) else { return };
    let mut constants = HashMap::new();
    for constant in &dvle.constants {
        if let Constant::Float { register, value } = *constant {
            constants.insert(register, value.map(|bits| Some(f24_to_f32(bits))));
        }
    }
    // A host may give a register with a name another value.
    constants.retain(|&register, _| !is_named(entry.tables, 0x10 + register));
    if constants.is_empty() {
        return;
    }
    let live = func.live_components();
    let visits = entry.assignments.list.iter().flat_map(|a| a.visits());
    let reached: BTreeSet<Pc> = visits.map(|visit| entry.pc(visit.node)).collect();
    let mut known: Vec<Partial> = func.nodes.iter().map(|node| of_leaf(node, &constants)).collect();
    for block in &func.blocks {
        for &(pc, inst) in &block.insts {
            let Step::Def(value) = inst else { continue };
            let node = func.node(value);
            if let Node::Alu { op, src } = node
                && reached.contains(&pc)
                && multiplies_zero_by_infinity(*op, src, live[value.0 as usize], &known)
            {
                found.add(Rule::ZeroTimesInfinity, Some(entry.index), Some(pc), "this multiplies 0 by an infinity");
            }
            known[value.0 as usize] = evaluate(node, &known);
        }
    }
}

fn of_leaf(node: &Node, constants: &HashMap<u16, Partial>) -> Partial {
    match node {
        Node::Const(bits) => bits.map(|bits| Some(f32::from_bits(bits))),
        Node::Uniform(n) => constants.get(&u16::from(*n)).copied().unwrap_or_default(),
        _ => [None; 4],
    }
}

fn scalar(source: &ScalarUse, known: &[Partial]) -> Option<f32> {
    let x = known[source.value.0 as usize][usize::from(source.component)]?;
    Some(if source.negate { -x } else { x })
}

fn vector(source: &Use, known: &[Partial]) -> Partial {
    [0, 1, 2, 3].map(|c| scalar(&source.component(c), known))
}

fn evaluate(node: &Node, known: &[Partial]) -> Partial {
    let precision = Precision::default();
    match node {
        Node::Scalar { op, src } => [scalar(src, known).map(|x| precision.scalar(*op, x)); 4],
        Node::Alu { op: op @ VectorOp::Pointwise(_), src } => {
            let sources = src.map(|source| vector(&source, known));
            let count = op.sources();
            [0, 1, 2, 3].map(|c| {
                let all = (0..count).map(|n| sources[n][c]).collect::<Option<Vec<f32>>>()?;
                let argument = |n: usize| [all.get(n).copied().unwrap_or(all[0]); 4];
                Some(precision.vector(*op, [argument(0), argument(1), argument(2)])[0])
            })
        }
        Node::Merge { mask, old, new } => {
            let (old, new) = (known[old.0 as usize], known[new.0 as usize]);
            [0, 1, 2, 3].map(|c| if mask.has(c) { new[c] } else { old[c] })
        }
        _ => [None; 4],
    }
}

fn multiplies_zero_by_infinity(op: VectorOp, src: &[Use; 3], live: Components, known: &[Partial]) -> bool {
    let (a, b) = (vector(&src[0], known), vector(&src[1], known));
    let certain = |x: Option<f32>, y: Option<f32>| matches!((x, y), (Some(x), Some(y)) if x == 0.0 && y.is_infinite());
    let components = if op.multiplies() { operand_components(op, 1, live) } else { 0 };
    (0..4).filter(|c| components >> c & 1 != 0).any(|c| certain(a[c], b[c]) || certain(b[c], a[c]))
}
