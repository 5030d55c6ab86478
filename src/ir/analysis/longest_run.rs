//! Blocks of a [`Cfg`] and iterations of loops -> the most words that a run executes.
//!
//! Fuel bounds a run too, but by the same number for a program of ten words and for one that never ends. A draw has
//! many runs, and its limit depends on what each of them may cost.
//!
//! Take a part of the graph that a run enters once. It is in each strongly connected component once at most, on a path
//! without cycles. A component with a cycle needs a loop counter that no LOOP in it sets. That loop's body ends with
//! another iteration less often than the count says, and between these edges the run is in the rest of the component:
//! a part again. A component without such a counter has cycles of jumps or calls, which only fuel bounds.

use crate::ir::cfg::{Block, BlockId, Cfg, Edge, Step, Terminator};
use crate::ir::components;
use crate::isa::{INT_UNIFORMS, Pc};

/// An upper bound of the words that a run executes, by the iterations that each integer uniform stands for.
#[derive(Clone, Debug)]
pub(crate) enum LongestRun {
    /// Without loops.
    Words(u64),
    /// The last piece begins the run.
    Loops(Part),
}

/// A part of a graph as components, after their successors.
#[derive(Clone, Debug)]
pub(crate) struct Part(Box<[Piece]>);

#[derive(Clone, Debug)]
struct Piece {
    words: Words,
    /// The successors, as indices.
    next: Box<[u16]>,
}

#[derive(Clone, Debug)]
enum Words {
    /// Those of a block.
    Block(u64),
    /// A loop. `counts`: the integer uniforms that may hold its count, as bits.
    Loop { counts: u8, body: Part },
}

impl LongestRun {
    /// `None`: only the fuel ends a run.
    pub(crate) fn new(cfg: &Cfg) -> Option<LongestRun> {
        if let Some(words) = without_cycles(cfg) {
            return Some(LongestRun::Words(words));
        }
        let mut counts = Vec::new();
        for step in cfg.blocks.iter().flat_map(|block| &block.steps) {
            if let Step::LoopBegin { pc, int, .. } = *step {
                counts.push((pc + 1, int));
            }
        }
        let all: Vec<BlockId> = (0..cfg.blocks.len()).collect();
        Some(LongestRun::Loops(Search { cfg, counts }.part(&all, &mut Vec::new())?))
    }

    /// The most words of a run, with the iterations of a loop on each integer uniform.
    pub(crate) fn words(&self, iterations: &[u64; INT_UNIFORMS]) -> u64 {
        match self {
            LongestRun::Words(words) => *words,
            // The search begins at the entry, so its piece is complete last.
            LongestRun::Loops(part) => part.lengths(iterations).last().copied().unwrap_or(0),
        }
    }

    /// Bytes of memory that it occupies besides itself.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            LongestRun::Words(_) => 0,
            LongestRun::Loops(part) => part.bytes(),
        }
    }
}

/// The words of the longest path, if the graph has no cycle.
fn without_cycles(cfg: &Cfg) -> Option<u64> {
    let mut lengths = vec![0; cfg.blocks.len()];
    // Blocks are in reverse postorder.
    for (from, block) in cfg.blocks.iter().enumerate().rev() {
        if block.term.edges().any(|edge| edge.to <= from) {
            return None;
        }
        let after = block.term.edges().map(|edge| lengths[edge.to]).max().unwrap_or(0);
        lengths[from] = u64::from(block.words) + after;
    }
    lengths.first().copied()
}

impl Part {
    fn bytes(&self) -> usize {
        let inner = |Piece { words, next }: &Piece| {
            let body = if let Words::Loop { body, .. } = words { body.bytes() } else { 0 };
            body + size_of_val(&**next)
        };
        size_of_val(&*self.0) + self.0.iter().map(inner).sum::<usize>()
    }

    /// For each piece the most words from there.
    fn lengths(&self, iterations: &[u64; INT_UNIFORMS]) -> Vec<u64> {
        let mut lengths: Vec<u64> = Vec::with_capacity(self.0.len());
        for Piece { words, next } in &self.0 {
            let words = match words {
                Words::Block(words) => *words,
                Words::Loop { counts, body } => {
                    let times = (0..INT_UNIFORMS).filter(|n| counts >> n & 1 != 0).map(|n| iterations[n]).max();
                    times.unwrap_or(0) * body.lengths(iterations).into_iter().max().unwrap_or(0)
                }
            };
            lengths.push(words + next.iter().map(|&next| lengths[usize::from(next)]).max().unwrap_or(0));
        }
        lengths
    }
}

struct Search<'a> {
    cfg: &'a Cfg,
    /// The first word of each loop's body, and the integer uniform with its count.
    counts: Vec<(Pc, u8)>,
}

impl Search<'_> {
    /// The part that consists of `blocks`. `around`: the slots of the loops around it, whose edges to another iteration
    /// do not belong to it.
    fn part(&self, blocks: &[BlockId], around: &mut Vec<usize>) -> Option<Part> {
        let found = components(blocks, |block| self.edges(block, around).map(|edge| edge.to).collect());
        let mut piece_of = vec![None; self.cfg.blocks.len()];
        let mut pieces = Vec::with_capacity(found.len());
        for component in found {
            component.iter().for_each(|&block| piece_of[block] = Some(pieces.len()));
            let targets = component.iter().flat_map(|&block| self.edges(block, around)).map(|edge| edge.to);
            let targets: Vec<BlockId> = targets.collect();
            let mut next: Vec<usize> = targets.iter().filter_map(|&to| piece_of[to]).collect();
            next.sort_unstable();
            next.dedup();
            // A successor that is the component itself is an edge within it.
            let has_cycle = next.last() == Some(&pieces.len());
            next.retain(|&piece| piece != pieces.len());
            let words = match has_cycle {
                false => Words::Block(self.cfg.blocks[component[0]].words.into()),
                true => {
                    let (slot, counts) = self.counter_of(&component, around)?;
                    around.push(slot);
                    let body = self.part(&component, around)?;
                    around.pop();
                    Words::Loop { counts, body }
                }
            };
            // There are no more pieces than blocks.
            pieces.push(Piece { words, next: next.into_iter().map(|piece| piece as u16).collect() });
        }
        Some(Part(pieces.into()))
    }

    /// The edges of a block, less those to another iteration of loops `around`.
    fn edges(&self, from: BlockId, around: &[usize]) -> impl Iterator<Item = Edge> {
        let term = &self.cfg.blocks[from].term;
        let repeats = matches!(term, Terminator::LoopEnd { slot, .. } if around.contains(slot));
        term.edges().skip(usize::from(repeats))
    }

    /// The slot of a counter that bounds a component's cycles, and the integer uniforms that may hold its count: the
    /// end of one of their loops decrements it, and no LOOP among them sets it.
    fn counter_of(&self, component: &[BlockId], around: &[usize]) -> Option<(usize, u8)> {
        let blocks = || component.iter().map(|&block| &self.cfg.blocks[block]);
        let is_set = |wanted: usize| {
            let mut steps = blocks().flat_map(|block| &block.steps);
            // A full ring moves the counters to other slots.
            steps.any(|step| matches!(*step, Step::LoopBegin { slot, shift, .. } if slot == wanted || shift))
        };
        let ends = || {
            blocks().filter_map(|block| match block.term {
                Terminator::LoopEnd { slot, again, .. } if component.contains(&again.to) => Some((slot, block)),
                _ => None,
            })
        };
        let (slot, _) = ends().find(|&(slot, _)| !around.contains(&slot) && !is_set(slot))?;
        let count = |block: &Block| {
            // Its LOOP is in another block, so the loop is open at the start of this one.
            let open = block.scopes.loops.iter().nth(slot)?;
            self.counts.iter().find(|(start, _)| *start == open.start).map(|(_, int)| 1 << int)
        };
        let mut counts = ends().filter(|&(other, _)| other == slot).map(|(_, block)| count(block));
        Some((slot, counts.try_fold(0, |all, one| Some(all | one?))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Interp;
    use crate::ir::cfg::Limits;
    use crate::kernel::{Backend, Config};
    use crate::program::Program;
    use crate::state::{Exit, NoEmitter, Uniforms, Unit};
    use std::sync::Arc;

    /// The bound of a program, whose main procedure comes last in its source.
    fn longest(source: &str, ints: [u8; INT_UNIFORMS]) -> Option<u64> {
        let shbin = crate::text::assemble(source).unwrap_or_else(|e| panic!("{e}\n{source}")).shbin;
        let (program, entry) = (shbin.program().expect("short"), shbin.dvles[0].entry());
        let cfg = Cfg::build(&program, entry, Limits::default()).expect("small");
        let words = LongestRun::new(&cfg)?.words(&ints.map(|count| u64::from(count) + 1));
        ends_within(program, entry, ints, words);
        Some(words)
    }

    /// A run with so much fuel ends with none left, whatever the conditions.
    fn ends_within(program: Program, entry: crate::program::Entry, ints: [u8; INT_UNIFORMS], words: u64) {
        let config = Config { fuel: words as u32, ..Config::of(entry.stage) };
        let kernel = Interp.compile(&Arc::new(program), entry, &config).expect("the oracle compiles everything");
        for b in 0..256 {
            let mut uniforms = Uniforms::new();
            (uniforms.b, uniforms.i) = (b, ints.map(|count| [count, 0, 0, 0]));
            assert_ne!(kernel.run(&uniforms, &mut Unit::default(), &mut NoEmitter), Exit::Fuel, "{words} words, b {b}");
        }
    }

    #[test]
    fn nested_loops_multiply() {
        let source = ".proc main\nnop\nfor i1\nnop\nfor i2\nnop\n.end\nfor i1\nnop\nnop\n.end\nnop\n.end\nend\n.end";
        assert_eq!(longest(source, [7, 9, 0, 3]), Some(3 + 10 * (4 + 1 + 10 * 2)));
        assert_eq!(longest(source, [255; 4]), Some(3 + 256 * (4 + 256 + 256 * 2)));
    }

    #[test]
    fn a_procedure_counts_at_each_call() {
        // The procedure precedes its callers, so each call is a backward transfer, and one is in a loop.
        let source = ".entry main\n.proc sub\nfor i0\nnop\n.end\nnop\n.end\n.proc main\ncall sub\nfor i3\nifu b0\n\
                      call sub\nnop\n.end\nnop\n.end\nend\n.end";
        // The procedure has seven words: its LOOP, five iterations and one after them.
        assert_eq!(longest(source, [4, 0, 0, 9]), Some(3 + 7 + 10 * (4 + 7)));
    }

    #[test]
    fn a_branch_counts_with_its_longer_side() {
        let source = ".proc main\nifu b0\nnop\nnop\n.else\nnop\n.end\nend\n.end";
        assert_eq!(longest(source, [0; 4]), Some(4));
    }

    #[test]
    fn a_loop_that_breaks_has_all_iterations() {
        let source = ".proc main\nfor i0\nfor i1\nbreakc cmp.x\nnop\n.end\nnop\n.end\nend\n.end";
        assert_eq!(longest(source, [1, 2, 0, 0]), Some(2 + 2 * (2 + 3 * 2)));
    }

    #[test]
    fn no_random_run_executes_more() {
        let (mut bounded, mut reached) = (0, 0);
        for seed in 0..crate::testing::miri_or(10, 20_000) {
            let case = crate::fuzz::generate::case_from_seed(seed, None, 1);
            let Ok(cfg) = Cfg::build(&case.program, case.entry, Limits::default()) else { continue };
            let Some(longest) = LongestRun::new(&cfg) else { continue };
            let most = longest.words(&case.uniforms.i.map(|[count, ..]| u64::from(count) + 1));
            let mut executed = 0;
            case.trace(&mut |_| executed += 1);
            assert!(executed <= most, "seed {seed}: {executed} of {most} words\n{cfg}");
            let loops = matches!(longest, LongestRun::Loops(_));
            bounded += u32::from(loops);
            reached += u32::from(loops && executed == most);
        }
        assert!(cfg!(miri) || bounded > 1_000 && reached > 100, "{bounded} with loops, {reached} of them execute all");
    }

    #[test]
    fn jumps_back_have_no_bound() {
        for source in [
            ".proc main\nagain: nop\njmpu b0, again\nend\n.end",
            ".proc main\nfor i0\nagain: nop\njmpu b0, again\nnop\n.end\nend\n.end",
            ".proc main\nagain: nop\nfor i0\nnop\n.end\njmpu b0, again\nend\n.end",
        ] {
            assert_eq!(longest(source, [0; 4]), None, "{source}");
        }
    }
}
