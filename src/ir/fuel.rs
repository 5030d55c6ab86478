//! [`Cfg`] -> where a run pays for the words that it executes.
//!
//! A run may execute as many words as its fuel; the test is at each backward transfer, so every cycle has one. The
//! words of a path are paid for in few places: a block inherits what is *pending*, adds its own words, and pays all at
//! a backward transfer. At a join of paths with different amounts pending, each pays what exceeds the least. So a loop
//! without branches pays once an iteration, and an `if` in it once more.
//!
//! Invariant: at a backward transfer, what the run has paid on its way and what is pending add up to the words that it
//! has executed, on every path. The interpreters count words and must find the same.

use super::cfg::{Cfg, Edge};

/// What each block has pending, and so what its edges pay.
pub(super) struct Payments {
    /// Words that a run has executed and not paid for, at each block's start.
    pending: Vec<u32>,
    /// The same at each block's end.
    due: Vec<u32>,
    /// Whether a backward transfer may follow each block.
    matters: Vec<bool>,
}

impl Payments {
    pub(super) fn new(cfg: &Cfg) -> Payments {
        let count = cfg.blocks.len();
        let edges =
            || cfg.blocks.iter().enumerate().flat_map(|(from, block)| block.term.edges().map(move |e| (from, e)));
        // Blocks are in reverse postorder. What comes along other edges is paid there, so nothing is pending after them.
        let is_paid = |from: usize, edge: Edge| edge.backward || edge.to <= from;
        let mut least = vec![u32::MAX; count];
        least[0] = 0;
        edges().filter(|&(from, edge)| is_paid(from, edge)).for_each(|(_, edge)| least[edge.to] = 0);
        let mut due = Vec::with_capacity(count);
        for (from, block) in cfg.blocks.iter().enumerate() {
            due.push(least[from] + block.words);
            for edge in block.term.edges().filter(|&edge| !is_paid(from, edge)) {
                least[edge.to] = least[edge.to].min(due[from]);
            }
        }
        let mut matters = vec![false; count];
        loop {
            let before = matters.clone();
            for (from, block) in cfg.blocks.iter().enumerate().rev() {
                matters[from] = block.term.edges().any(|edge| edge.backward || matters[edge.to]);
            }
            if before == matters {
                break;
            }
        }
        Payments { pending: least, due, matters }
    }

    /// The words that a run pays for on `edge` out of block `from`. On a backward one it ends if its fuel is less.
    pub(super) fn on(&self, from: usize, edge: Edge) -> u32 {
        match edge.backward {
            true => self.due[from],
            false if self.matters[edge.to] => self.due[from] - self.pending[edge.to],
            false => 0,
        }
    }
}

/// Whether no run exhausts the fuel: there is no cycle, and no path to a backward transfer has more words.
pub(super) fn suffices(cfg: &Cfg, fuel: u32) -> bool {
    let mut longest = vec![0u32; cfg.blocks.len()];
    for (from, block) in cfg.blocks.iter().enumerate() {
        let words = longest[from].saturating_add(block.words);
        for edge in block.term.edges() {
            // Blocks are in reverse postorder.
            if edge.to <= from {
                return false;
            }
            longest[edge.to] = longest[edge.to].max(words);
        }
        if words > fuel && block.term.edges().any(|edge| edge.backward) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::cfg::Limits;

    /// Branches in loops, a loop in a loop, a procedure before its callers, jumps into the middle of a loop.
    const SOURCES: [&str; 4] = [
        ".proc main\nnop\nfor i0\nifu b0\nnop\nnop\n.else\nnop\n.end\nifu b1\nnop\n.end\nnop\n.end\nend\n.end",
        ".proc main\nfor i0\nnop\nfor i1\nifu b0\nbreakc cmp.x\nnop\n.end\nnop\n.end\nnop\n.end\nend\n.end",
        ".entry main\n.proc sub\nnop\nnop\n.end\n.proc main\nnop\ncall sub\nifu b0\ncall sub\n.end\nagain: nop\njmpu b2, again\n\
         callu b1, sub\nend\n.end",
        ".proc main\njmpu b0, into\nagain: nop\nnop\ninto: nop\njmpu b1, again\njmpu b2, into\nend\n.end",
    ];

    #[test]
    fn what_is_paid_and_pending_is_what_was_executed() {
        let mut checked = 0;
        for source in SOURCES {
            let shbin = crate::text::assemble(source).unwrap_or_else(|e| panic!("{e}\n{source}")).shbin;
            let cfg = Cfg::build(&shbin.program().expect("short"), shbin.dvles[0].entry(), Limits::default());
            let cfg = cfg.expect("small");
            assert!(!suffices(&cfg, u32::MAX), "{source}");
            let payments = Payments::new(&cfg);
            let mut state = 1u32;
            for _ in 0..200 {
                let (mut at, mut executed, mut paid) = (0, 0, 0);
                for _ in 0..60 {
                    executed += cfg.blocks[at].words;
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let edges: Vec<Edge> = cfg.blocks[at].term.edges().collect();
                    let Some(&edge) = edges.get((state >> 16) as usize % edges.len().max(1)) else { break };
                    paid += payments.on(at, edge);
                    if edge.backward {
                        assert_eq!(paid, executed, "{source}\n{cfg}");
                        checked += 1;
                    }
                    at = edge.to;
                }
            }
        }
        assert!(checked > 1_000, "{checked}");
    }

    #[test]
    fn a_path_needs_as_much_fuel_as_it_has_words_before_a_backward_transfer() {
        // Two words, then the return of a procedure that is laid out before its caller.
        let source = ".entry main\n.proc sub\nnop\nnop\n.end\n.proc main\nnop\ncall sub\nend\n.end";
        let shbin = crate::text::assemble(source).expect("a good source").shbin;
        let cfg = Cfg::build(&shbin.program().expect("short"), shbin.dvles[0].entry(), Limits::default());
        let cfg = cfg.expect("small");
        let needed = (0..9).find(|&fuel| suffices(&cfg, fuel));
        assert_eq!(needed, Some(2), "the call is backward and the return is forward:\n{cfg}");
        // The longer side of a branch before the call counts, whichever it is.
        for (yes, no) in [("nop\nnop\nnop", "nop"), ("nop", "nop\nnop\nnop")] {
            let source = format!(
                ".entry main\n.proc sub\nnop\n.end\n.proc main\nifu b0\n{yes}\n.else\n{no}\n.end\ncall sub\nend\n.end"
            );
            let shbin = crate::text::assemble(&source).expect("a good source").shbin;
            let cfg = Cfg::build(&shbin.program().expect("short"), shbin.dvles[0].entry(), Limits::default());
            let cfg = cfg.expect("small");
            let needed = (0..9).find(|&fuel| suffices(&cfg, fuel));
            assert_eq!(needed, Some(5), "a branch, three words, a call:\n{cfg}");
        }
    }
}
