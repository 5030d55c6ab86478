//! Values that are certain, since they follow from the entry's constants: 0 * infinity, and
//! infinite or undefined results of RCP, RSQ and LG2.

use super::entry::{EntryFacts, constant_floats, constant_ints};
use super::{Findings, Rule};
use picajit::internals::ir::analysis::{Components, operand_components};
use picajit::internals::ir::{Func, Inst as Step, Node, ScalarUse, Use, Value};
use picajit::isa::numeric::Precision;
use picajit::isa::{Pc, ScalarOp, VectorOp};
use std::collections::{BTreeSet, HashMap};

/// A vector of which some components are known.
type Partial = [Option<f32>; 4];

pub(super) fn check(entry: &EntryFacts<'_>, found: &mut Findings) {
    let Some(func) = &entry.func else { return };
    let known = Known::new(entry, func);
    if known.is_empty() {
        return;
    }
    let live = func.live_components();
    let reached: BTreeSet<Pc> = entry.visits().map(|(_, visit)| entry.pc(visit.node)).collect();
    let steps = func.blocks.iter().flat_map(|block| &block.insts).filter(|(pc, _)| reached.contains(pc));
    for &(pc, inst) in steps {
        let Step::Def(value) = inst else { continue };
        let live = live[value.0 as usize];
        match func.node(value) {
            Node::Alu { op, src } if known.multiplies_zero_by_infinity(*op, src, live) => {
                found.add(Rule::ZeroTimesInfinity, Some(entry.index), Some(pc), "this multiplies 0 by an infinity");
            }
            Node::Scalar { op, src } if live != 0 => {
                let (Some(from), Some(to)) = (known.scalar(src), known.vectors[value.0 as usize][0]) else { continue };
                let name = match op {
                    ScalarOp::Rcp => "rcp",
                    ScalarOp::Rsq => "rsq",
                    ScalarOp::Lg2 => "lg2",
                    _ => continue,
                };
                if from.is_finite() && !to.is_finite() {
                    let result = if to.is_nan() { "no number" } else { "infinite" };
                    let message = format!("the argument is always {from}, so the result of this {name} is {result}");
                    found.add(Rule::InfiniteResult, Some(entry.index), Some(pc), message);
                }
            }
            _ => {}
        }
    }
}

/// The values of a function that are the same in every run.
pub(super) struct Known {
    vectors: Vec<Partial>,
    ints: Vec<Option<i32>>,
}

impl Known {
    /// Those that follow from the constants of `entry`.
    pub fn new(entry: &EntryFacts<'_>, func: &Func) -> Known {
        let floats: HashMap<u16, Partial> =
            constant_floats(entry.tables).into_iter().map(|(n, value)| (n, value.map(Some))).collect();
        let ints = constant_ints(entry.tables);
        let mut known = Known {
            vectors: func.nodes.iter().map(|node| of_leaf(node, &floats)).collect(),
            ints: vec![None; func.nodes.len()],
        };
        for (slot, node) in known.ints.iter_mut().zip(&func.nodes) {
            *slot = match *node {
                Node::Int(n) => Some(n),
                Node::IntUniform { id, component } => {
                    ints.get(usize::from(id)).copied().flatten().map(|value| value[usize::from(component & 3)].into())
                }
                _ => None,
            };
        }
        for &(_, inst) in func.blocks.iter().flat_map(|block| &block.insts) {
            if let Step::Def(value) = inst {
                known.vectors[value.0 as usize] = known.evaluate(func.node(value));
                known.ints[value.0 as usize] = known.evaluate_int(func.node(value));
            }
        }
        known
    }

    fn is_empty(&self) -> bool {
        self.vectors.iter().flatten().all(Option::is_none)
    }

    /// An integer.
    pub fn int(&self, value: Value) -> Option<i32> {
        self.ints[value.0 as usize]
    }

    fn scalar(&self, source: &ScalarUse) -> Option<f32> {
        let x = self.vectors[source.value.0 as usize][usize::from(source.component)]?;
        Some(if source.negate { -x } else { x })
    }

    fn vector(&self, source: &Use) -> Partial {
        [0, 1, 2, 3].map(|c| self.scalar(&source.component(c)))
    }

    fn evaluate(&self, node: &Node) -> Partial {
        let precision = Precision::default();
        match node {
            Node::Scalar { op, src } => [self.scalar(src).map(|x| precision.scalar(*op, x)); 4],
            Node::Alu { op: op @ VectorOp::Pointwise(_), src } => {
                let sources = src.map(|source| self.vector(&source));
                let count = op.sources();
                [0, 1, 2, 3].map(|c| {
                    let all = (0..count).map(|n| sources[n][c]).collect::<Option<Vec<f32>>>()?;
                    let argument = |n: usize| [all.get(n).copied().unwrap_or(all[0]); 4];
                    Some(precision.vector(*op, [argument(0), argument(1), argument(2)])[0])
                })
            }
            Node::Merge { mask, old, new } => {
                let (old, new) = (self.vectors[old.0 as usize], self.vectors[new.0 as usize]);
                [0, 1, 2, 3].map(|c| if mask.has(c) { new[c] } else { old[c] })
            }
            _ => [None; 4],
        }
    }

    fn evaluate_int(&self, node: &Node) -> Option<i32> {
        match *node {
            Node::ToAddress(ref source) => self.scalar(source).map(|x| Precision::default().to_address(x)),
            Node::Add(a, b) => Some(self.int(a)?.wrapping_add(self.int(b)?)),
            _ => None,
        }
    }

    fn multiplies_zero_by_infinity(&self, op: VectorOp, src: &[Use; 3], live: Components) -> bool {
        let (a, b) = (self.vector(&src[0]), self.vector(&src[1]));
        let certain =
            |x: Option<f32>, y: Option<f32>| matches!((x, y), (Some(x), Some(y)) if x == 0.0 && y.is_infinite());
        let components = if op.multiplies() { operand_components(op, 1, live) } else { 0 };
        (0..4).filter(|c| components >> c & 1 != 0).any(|c| certain(a[c], b[c]) || certain(b[c], a[c]))
    }
}

fn of_leaf(node: &Node, constants: &HashMap<u16, Partial>) -> Partial {
    match node {
        Node::Const(bits) => bits.map(|bits| Some(f32::from_bits(bits))),
        Node::Uniform(n) => constants.get(&u16::from(*n)).copied().unwrap_or_default(),
        _ => [None; 4],
    }
}
