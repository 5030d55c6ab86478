//! Blocks of a [`Cfg`] and integer uniforms -> the most words that a run executes.
//!
//! Fuel bounds a run too, but by the same number for a program of ten words and for one that never ends. A draw has
//! many runs, and its limit depends on what each of them may cost.
//!
//! Take a part of the graph that a run enters once. If it has no cycle, the run executes each of its blocks once at
//! most. A cycle needs a loop counter that no LOOP in the cycle sets. That loop's body ends at most `count` times with
//! another iteration, and between these edges the run is in the rest of the part, `count + 1` times at most. The rest
//! has other cycles, for which the same holds. A cycle without such a counter consists of jumps or calls, and only fuel
//! bounds it.

use crate::ir::cfg::{Block, BlockId, Cfg, Edge, Step, Terminator};
use crate::isa::{INT_UNIFORMS, Pc};

/// The slots of a loop counter: a fifth open loop forgets the first.
const SLOTS: usize = 4;

/// An upper bound of the words that a run executes, by the integer uniforms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongestRun(Box<[Term]>);

/// The words of blocks in the same loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    words: u64,
    /// For each loop around the blocks the integer uniforms that may hold its count, as bits; 0: no loop.
    counts: [u8; SLOTS],
}

impl LongestRun {
    /// `None`: only the fuel ends a run.
    pub(crate) fn new(cfg: &Cfg) -> Option<LongestRun> {
        let mut search = Search { cfg, counts: Vec::new(), terms: Vec::new() };
        for step in cfg.blocks.iter().flat_map(|block| &block.steps) {
            match *step {
                // Counters that change their slots are not followed.
                Step::LoopBegin { shift: true, .. } => return None,
                Step::LoopBegin { pc, int, .. } => search.counts.push((pc + 1, int)),
                Step::Inst(..) => {}
            }
        }
        search.part(&vec![true; cfg.blocks.len()], &mut Vec::new())?;
        Some(LongestRun(search.terms.into()))
    }

    /// The most words of a run with these integer uniforms.
    pub(crate) fn words(&self, ints: &[[u8; 4]; INT_UNIFORMS]) -> u64 {
        let times = |counts: u8| {
            let count = (0..INT_UNIFORMS).filter(|n| counts >> n & 1 != 0).map(|n| ints[n][0]).max();
            count.map_or(1, |count| u64::from(count) + 1)
        };
        self.0.iter().map(|term| term.counts.iter().fold(term.words, |words, &counts| words * times(counts))).sum()
    }
}

/// The counter of a loop.
#[derive(Clone, Copy)]
struct Counter {
    slot: usize,
    /// As in [`Term`].
    counts: u8,
}

struct Search<'a> {
    cfg: &'a Cfg,
    /// The first word of each loop's body, and the integer uniform with its count.
    counts: Vec<(Pc, u8)>,
    terms: Vec<Term>,
}

impl Search<'_> {
    /// Adds the words of a part of the graph, the blocks `within`. `around`: the loops around it, whose edges to
    /// another iteration do not belong to it.
    fn part(&mut self, within: &[bool], around: &mut Vec<Counter>) -> Option<()> {
        let mut once = within.to_vec();
        let blocks = (0..within.len()).filter(|&block| within[block]);
        // Blocks are in reverse postorder, so each cycle has an edge that goes back in it.
        let back = |from| self.edges(from, around).filter(move |edge| edge.to <= from).map(move |edge| (from, edge.to));
        let back: Vec<(BlockId, BlockId)> = blocks.flat_map(back).collect();
        for (from, to) in back {
            if !once[to] {
                continue;
            }
            let cycles = self.cycles_through(to, within, around);
            if !cycles[from] {
                continue;
            }
            once.iter_mut().zip(&cycles).for_each(|(once, cycles)| *once &= !cycles);
            around.push(self.counter_of(&cycles, around)?);
            self.part(&cycles, around)?;
            around.pop();
        }
        let words = self.cfg.blocks.iter().zip(once).filter(|(_, once)| *once).map(|(block, _)| u64::from(block.words));
        let (words, mut counts) = (words.sum(), [0; SLOTS]);
        counts.iter_mut().zip(around).for_each(|(counts, counter)| *counts = counter.counts);
        match self.terms.iter_mut().find(|term| term.counts == counts) {
            Some(term) => term.words += words,
            None => self.terms.push(Term { words, counts }),
        }
        Some(())
    }

    /// The edges of a block, less those to another iteration of loops `around`.
    fn edges(&self, from: BlockId, around: &[Counter]) -> impl Iterator<Item = Edge> {
        let term = &self.cfg.blocks[from].term;
        let repeats =
            matches!(term, Terminator::LoopEnd { slot, .. } if around.iter().any(|counter| counter.slot == *slot));
        term.edges().skip(usize::from(repeats))
    }

    /// The blocks on cycles through `block`, itself included.
    fn cycles_through(&self, block: BlockId, within: &[bool], around: &[Counter]) -> Vec<bool> {
        let edges: Vec<(BlockId, BlockId)> = (0..within.len())
            .filter(|&from| within[from])
            .flat_map(|from| self.edges(from, around).map(move |edge| (from, edge.to)))
            .filter(|&(_, to)| within[to])
            .collect();
        let reach = |edges: &mut dyn Iterator<Item = (BlockId, BlockId)>| {
            let mut next = vec![Vec::new(); within.len()];
            edges.for_each(|(from, to)| next[from].push(to));
            let (mut reached, mut queue) = (vec![false; within.len()], vec![block]);
            reached[block] = true;
            while let Some(from) = queue.pop() {
                for &to in &next[from] {
                    if !std::mem::replace(&mut reached[to], true) {
                        queue.push(to);
                    }
                }
            }
            reached
        };
        let after = reach(&mut edges.iter().copied());
        let before = reach(&mut edges.iter().map(|&(from, to)| (to, from)));
        after.into_iter().zip(before).map(|(after, before)| after && before).collect()
    }

    /// A counter that bounds the cycles: the end of one of their loops decrements it, and no LOOP among them sets it.
    fn counter_of(&self, cycles: &[bool], around: &[Counter]) -> Option<Counter> {
        let blocks = || self.cfg.blocks.iter().zip(cycles).filter(|(_, within)| **within).map(|(block, _)| block);
        let is_set = |wanted: usize| {
            let mut steps = blocks().flat_map(|block| &block.steps);
            steps.any(|step| matches!(*step, Step::LoopBegin { slot, .. } if slot == wanted))
        };
        let ends = || {
            blocks().filter_map(|block| match block.term {
                Terminator::LoopEnd { slot, again, .. } if cycles[again.to] => Some((slot, block)),
                _ => None,
            })
        };
        let is_free = |slot: usize| !around.iter().any(|counter| counter.slot == slot) && !is_set(slot);
        let (slot, _) = ends().find(|&(slot, _)| is_free(slot))?;
        let count = |block: &Block| {
            // Its LOOP is in another block, so the loop is open at the start of this one.
            let open = block.scopes.loops.iter().nth(slot)?;
            self.counts.iter().find(|(start, _)| *start == open.start).map(|(_, int)| 1 << int)
        };
        let mut counts = ends().filter(|&(other, _)| other == slot).map(|(_, block)| count(block));
        Some(Counter { slot, counts: counts.try_fold(0, |all, one| Some(all | one?))? })
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
        let words = LongestRun::new(&cfg)?.words(&ints.map(|count| [count, 0, 0, 0]));
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
    fn a_branch_counts_with_both_sides() {
        let source = ".proc main\nifu b0\nnop\nnop\n.else\nnop\n.end\nend\n.end";
        assert_eq!(longest(source, [0; 4]), Some(5));
    }

    #[test]
    fn a_loop_that_breaks_has_all_iterations() {
        let source = ".proc main\nfor i0\nfor i1\nbreakc cmp.x\nnop\n.end\nnop\n.end\nend\n.end";
        assert_eq!(longest(source, [1, 2, 0, 0]), Some(2 + 2 * (2 + 3 * 2)));
    }

    #[cfg(feature = "fuzz")]
    #[test]
    fn no_random_run_executes_more() {
        let (mut bounded, mut reached) = (0, 0);
        for seed in 0..crate::testing::miri_or(10, 20_000) {
            let case = crate::fuzz::generate::case_from_seed(seed, None, 1);
            let Ok(cfg) = Cfg::build(&case.program, case.entry, Limits::default()) else { continue };
            let Some(longest) = LongestRun::new(&cfg) else { continue };
            let most = longest.words(&case.uniforms.i);
            let mut executed = 0;
            case.trace(&mut |_| executed += 1);
            assert!(executed <= most, "seed {seed}: {executed} of {most} words\n{cfg}");
            let loops = longest.0.iter().any(|term| term.counts != [0; SLOTS]);
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
