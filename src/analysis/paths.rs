//! An entry's states -> the instructions on its shortest and on its longest path.
//!
//! A loop runs as often as its integer uniform says, or between 1 and 256 times if that is unknown.
//! The shortest path is a lower bound and the longest an upper bound: no run is outside of them.

use crate::ir::analysis::longest_run::LongestRun;
use crate::ir::cfg::{Cfg, Explored, Out, Terminator};
use crate::ir::components;
use crate::isa::flow::Exit;
use crate::isa::{Inst, Pc};
use crate::program::Program;
use std::collections::HashMap;

/// Iterations of a loop whose integer uniform is unknown, at most.
const MOST_ITERATIONS: u16 = 256;
/// Loops within loops that are followed; the ring holds four.
const MOST_DEPTH: usize = 8;

/// Iterations that each integer uniform stands for, where known.
pub type Iterations = [Option<u16>; 4];

/// Instructions of a run, each word once for every time that it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths {
    /// No run that reaches an end executes fewer; `None` if none reaches an end.
    pub shortest: Option<u64>,
    /// No run executes more; `None` if no bound is found.
    pub longest: Option<u64>,
}

impl Paths {
    /// Those of `explored`, whose blocks are `cfg`.
    pub fn new(program: &Program, explored: &Explored, cfg: &Cfg, iterations: Iterations) -> Paths {
        let graph = Graph { program, explored, iterations, counted: None };
        let most = iterations.map(|known| known.unwrap_or(MOST_ITERATIONS).into());
        Paths { shortest: graph.shortest(), longest: LongestRun::new(cfg).map(|longest| longest.words(&most)) }
    }
}

/// The fewest instructions of a run that reaches an end; `None` if none does.
pub fn shortest(program: &Program, explored: &Explored, iterations: Iterations) -> Option<u64> {
    Graph { program, explored, iterations, counted: None }.shortest()
}

/// States up to which the executions of single words are counted from below.
const MOST_STATES: usize = 1024;

/// For each reachable word the executions of every run that ends, at least, and of any run, at most
/// (`None`: no bound is found). The first is 0 if the graph is large.
pub fn executions(
    program: &Program,
    explored: &Explored,
    iterations: Iterations,
) -> std::collections::BTreeMap<Pc, (u64, Option<u64>)> {
    let mut graph = Graph { program, explored, iterations, counted: None };
    let nodes = explored.nodes();
    let mut factors = vec![Some(1); nodes.len()];
    let all: Vec<usize> = (0..nodes.len()).collect();
    graph.multiply(&all, &[], MOST_DEPTH, &mut factors);
    let mut counts = std::collections::BTreeMap::new();
    for &pc in explored.reachable() {
        let states = nodes.iter().zip(&factors).filter(|(node, _)| node.pc == pc);
        let most = states.map(|(_, factor)| *factor).try_fold(0u64, |sum, factor| sum.checked_add(factor?));
        graph.counted = Some(pc);
        let least = if nodes.len() <= MOST_STATES { graph.shortest().unwrap_or(0) } else { 0 };
        counts.insert(pc, (least, most));
    }
    counts
}

struct Graph<'a> {
    program: &'a Program,
    explored: &'a Explored,
    iterations: Iterations,
    /// The only word that counts; all do if there is none.
    counted: Option<Pc>,
}

/// The loop of a [`Terminator::LoopEnd`]: its depth and its scope.
type Loop = (usize, Pc, Pc);

impl Graph<'_> {
    /// 1 for a word, 0 past the last one.
    fn weight(&self, node: usize) -> u64 {
        let pc = self.explored.nodes()[node].pc;
        let exists = usize::from(pc) < self.program.code().len();
        u64::from(exists && self.counted.is_none_or(|counted| counted == pc))
    }

    /// The loop that a node's instruction ends, with the node's edge to the next iteration.
    fn loop_end(&self, node: usize) -> Option<(Loop, usize)> {
        let node = &self.explored.nodes()[node];
        let outcomes = match &node.out {
            Out::One(a) => [Some(a), None],
            Out::Two(_, a, b) => [Some(a), Some(b)],
        };
        outcomes.into_iter().flatten().find_map(|outcome| match outcome.0 {
            // The slot is the depth. The body begins at the target of `again`.
            Terminator::LoopEnd { slot, again, .. } => {
                let start = self.explored.nodes()[again.to].pc;
                Some(((slot, start, node.pc), again.to))
            }
            _ => None,
        })
    }

    /// Iterations of the loop whose body begins at `start`.
    fn iterations(&self, start: Pc) -> Option<u64> {
        match start.checked_sub(1).and_then(|pc| self.program.inst(pc)) {
            Some(Inst::Loop { int, .. }) => self.iterations[usize::from(int & 3)].map(u64::from),
            _ => None,
        }
    }

    fn successors(&self, node: usize, cut: &[(usize, usize)]) -> Vec<usize> {
        let all = self.explored.nodes()[node].out.successors();
        all.filter(|&to| !cut.contains(&(node, to))).collect()
    }

    /// The iterations of the loop that a cyclic component is, and `cut` with its edges back. `None`
    /// if it is no single loop.
    fn outermost_loop(&self, component: &[usize], cut: &[(usize, usize)]) -> Option<(u64, Vec<(usize, usize)>)> {
        let ends = component.iter().filter_map(|&node| {
            let (of, again) = self.loop_end(node)?;
            (component.binary_search(&again).is_ok() && !cut.contains(&(node, again))).then_some((of, node, again))
        });
        let ends: Vec<(Loop, usize, usize)> = ends.collect();
        let outermost = ends.iter().map(|(of, ..)| of.0).min()?;
        let mut of_loop = ends.iter().filter(|(of, ..)| of.0 == outermost);
        let (_, start, _) = of_loop.next()?.0;
        if of_loop.any(|(of, ..)| of.1 != start) {
            return None;
        }
        // A LOOP that takes the slot again, or moves the slots down, starts the count anew.
        let restarts = component.iter().any(|&node| {
            let node = &self.explored.nodes()[node];
            let open = &node.scopes.loops;
            let takes = open.is_full() || open.len() == outermost;
            takes && matches!(self.program.inst(node.pc), Some(Inst::Loop { .. }))
        });
        if restarts {
            return None;
        }
        let mut cut = cut.to_vec();
        cut.extend(ends.iter().filter(|(of, ..)| of.0 == outermost).map(|&(_, node, again)| (node, again)));
        Some((self.iterations(start).unwrap_or(MOST_ITERATIONS.into()), cut))
    }

    /// Multiplies the factor of each node in a loop by the loop's iterations.
    fn multiply(&self, part: &[usize], cut: &[(usize, usize)], depth: usize, factors: &mut [Option<u64>]) {
        for mut component in components(part, |node| self.successors(node, cut)) {
            component.sort_unstable();
            if component.len() == 1 && !self.successors(component[0], cut).contains(&component[0]) {
                continue;
            }
            let found = depth.checked_sub(1).and_then(|depth| Some((depth, self.outermost_loop(&component, cut)?)));
            let iterations = found.as_ref().map(|(_, (iterations, _))| *iterations);
            for &node in &component {
                factors[node] = factors[node].zip(iterations).and_then(|(a, b)| a.checked_mul(b));
            }
            if let Some((depth, (_, cut))) = found {
                self.multiply(&component, &cut, depth, factors);
            }
        }
    }

    /// The fewest instructions from the entry to an end.
    fn shortest(&self) -> Option<u64> {
        let nodes = self.explored.nodes();
        let distances = self.distances(0, None, &mut HashMap::new());
        let ends = |&n: &usize| match &nodes[n].out {
            Out::One(a) => matches!(a.0, Terminator::Exit(Exit::End)),
            Out::Two(..) => false,
        };
        (0..nodes.len()).filter(ends).filter_map(|n| distances[n].map(|d| d + self.weight(n))).min()
    }

    /// For each node the fewest instructions before it, from `start`, as far as `goal`. Going on after
    /// a loop with a known count takes its other iterations as well.
    fn distances(&self, start: usize, goal: Option<usize>, bodies: &mut HashMap<usize, u64>) -> Vec<Option<u64>> {
        let nodes = self.explored.nodes();
        let mut distances: Vec<Option<u64>> = vec![None; nodes.len()];
        distances[start] = Some(0);
        // Bellman's relaxation in the order of discovery: weights are not negative.
        let mut queue = std::collections::BTreeSet::from([(0u64, start)]);
        while let Some((distance, node)) = queue.pop_first() {
            if distances[node] != Some(distance) {
                continue;
            }
            // What follows the end of an inner loop would be measured while the inner body counts as 0.
            if goal == Some(node) {
                break;
            }
            // A word that may break out as well need not run all iterations.
            let ended = if matches!(nodes[node].out, Out::One(_)) { self.loop_end(node) } else { None };
            for to in nodes[node].out.successors() {
                let mut total = distance.saturating_add(self.weight(node));
                // Loops that overlap may end in an iteration that another loop's end goes back to.
                if let Some((of, again)) = ended
                    && to != again
                {
                    let others = self.iterations(of.1).unwrap_or(1).saturating_sub(1);
                    if others > 0 && again != start {
                        let body = match bodies.get(&node) {
                            Some(&body) => body,
                            None => {
                                // Nested loops meet each other's ends: 0 is a lower bound.
                                bodies.insert(node, 0);
                                let body = self.distances(again, Some(node), bodies)[node]
                                    .map_or(0, |d| d + self.weight(node));
                                bodies.insert(node, body);
                                body
                            }
                        };
                        total = total.saturating_add(others.saturating_mul(body));
                    }
                }
                if distances[to].is_none_or(|before| total < before) {
                    distances[to] = Some(total);
                    queue.insert((total, to));
                }
            }
        }
        distances
    }
}
