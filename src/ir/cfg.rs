//! `(pc, scopes)` states -> blocks: control flow as an ordinary graph, found by exploration.
//!
//! Exploration calls [`Scopes::step`] exactly as the interpreter does, with every condition
//! unknown, so that both outcomes are followed, and loop counters left to the engine. Equal states
//! are one node: a procedure called from two sites is cloned, and a loop is a cycle. The rings
//! bound the number of states, and a budget bounds the work. Straight-line sequences of nodes
//! become blocks, in reverse postorder, the entry first.
//!
//! Invariant: a block is entered at its first step only, and every [backward](is_backward) transfer
//! ends a block.

use super::order::reverse_postorder;
use crate::isa::flow::Exit;
use crate::isa::flow::{Action, Next, Scopes, is_backward};
use crate::isa::{Inst, Pc, Test};
use crate::kernel::Unsupported;
use crate::program::{Entry, Program};
use foldhash::quality::RandomState;
use std::collections::HashMap;

/// Limits of exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `(pc, scopes)` states. A program of 4096 words without calls has 4096.
    pub states: usize,
    /// Blocks. Code generation takes up to a millisecond for each; real shaders have a dozen.
    pub blocks: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { states: 8192, blocks: 512 }
    }
}

/// A block's number: its index in [`Cfg::blocks`].
pub type BlockId = usize;

/// The control-flow graph of one entry.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// Address and stage of the entry.
    pub entry: Entry,
    /// Blocks in reverse postorder; the first is the entry.
    pub blocks: Vec<Block>,
    /// Number of `(pc, scopes)` states.
    pub states: usize,
    /// The addresses of all reachable words, ascending.
    pub reachable: Vec<Pc>,
}

/// Straight-line steps and a terminator.
#[derive(Clone, Debug)]
pub struct Block {
    /// The address of its first state.
    pub pc: Pc,
    /// Open scopes at its start.
    pub scopes: Scopes,
    /// Its steps, without words that only transfer control.
    pub steps: Vec<Step>,
    /// Words that a run executes in it, those that only transfer control included.
    pub words: u32,
    /// Its terminator.
    pub term: Terminator,
}

/// One step of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// An instruction that computes or emits: `Alu`, `Mova`, `Cmp`, `Emit` or `Setemit`.
    Inst(Pc, Inst),
    /// A LOOP begins: it sets aL and pushes its counters onto the engine's ring.
    LoopBegin {
        /// Its address.
        pc: Pc,
        /// Integer uniform with the counts.
        int: u8,
        /// Slot of the counters, 0 for the outermost loop.
        slot: usize,
        /// The ring was full: the counters in slots 1.. move down by one first.
        shift: bool,
    },
}

/// The terminator of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Terminator {
    /// The run ends.
    Exit(Exit),
    /// To one block.
    Goto(Edge),
    /// By a condition.
    Branch {
        /// The condition.
        test: Test,
        /// The edge if it holds.
        yes: Edge,
        /// The edge otherwise.
        no: Edge,
    },
    /// The body of the loop in `slot` ends: adds the increment to aL. If iterations are left,
    /// decrements their count and takes `again`.
    LoopEnd {
        /// Slot of its counters.
        slot: usize,
        /// The edge to the body.
        again: Edge,
        /// The edge out of the loop.
        exit: Edge,
        /// Whether `exit` restores aL to its value before the loop, because an outer loop is open.
        restore: bool,
    },
    /// A BREAK leaves the loop in `slot`: adds the increment to aL.
    LoopBreak {
        /// Slot of its counters.
        slot: usize,
        /// The edge out of the loop.
        exit: Edge,
        /// As in `LoopEnd`.
        restore: bool,
    },
}

/// An edge from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The target.
    pub to: BlockId,
    /// Whether it is a backward transfer, at which a run ends that has no fuel left.
    pub backward: bool,
}

impl Terminator {
    /// The edges, in order.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        let (a, b) = match *self {
            Terminator::Exit(_) => (None, None),
            Terminator::Goto(e) | Terminator::LoopBreak { exit: e, .. } => (Some(e), None),
            Terminator::Branch { yes, no, .. } => (Some(yes), Some(no)),
            Terminator::LoopEnd { again, exit, .. } => (Some(again), Some(exit)),
        };
        a.into_iter().chain(b)
    }

    fn edges_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        let (a, b) = match self {
            Terminator::Exit(_) => (None, None),
            Terminator::Goto(e) | Terminator::LoopBreak { exit: e, .. } => (Some(e), None),
            Terminator::Branch { yes, no, .. } => (Some(yes), Some(no)),
            Terminator::LoopEnd { again, exit, .. } => (Some(again), Some(exit)),
        };
        a.into_iter().chain(b)
    }
}

type NodeId = usize;

/// One outcome of a node's instruction. Edges of its terminator name nodes instead of blocks.
#[derive(Clone, Copy, Debug)]
pub struct Outcome(pub Terminator);

/// A `(pc, scopes)` state.
#[derive(Clone, Debug)]
pub struct Node {
    /// The word that is about to be executed.
    pub pc: Pc,
    /// Open scopes before it.
    pub scopes: Scopes,
    step: Option<Step>,
    /// What follows it.
    pub out: Out,
}

/// The outcomes of a node's instruction.
#[derive(Clone, Copy, Debug)]
pub enum Out {
    /// Without a condition.
    One(Outcome),
    /// If the test holds, and otherwise.
    Two(Test, Outcome, Outcome),
}

impl Out {
    /// The nodes that may follow.
    pub fn successors(&self) -> impl Iterator<Item = usize> {
        let (a, b) = match self {
            Out::One(a) => (a, None),
            Out::Two(_, a, b) => (a, Some(b)),
        };
        a.0.edges().chain(b.into_iter().flat_map(|b| b.0.edges())).map(|edge| edge.to)
    }
}

impl Cfg {
    /// Explores the states that `entry` reaches in `program`, and forms blocks.
    ///
    /// Fails with [`Unsupported::TooManyStates`] or [`Unsupported::TooManyBlocks`] beyond `limits`.
    pub fn build(program: &Program, entry: Entry, limits: Limits) -> Result<Cfg, Unsupported> {
        Explored::new(program, entry, limits.states)?.cfg(limits.blocks)
    }
}

/// The states that an entry reaches: a [`Cfg`] before its blocks are formed.
#[derive(Debug)]
pub struct Explored {
    entry: Entry,
    nodes: Vec<Node>,
    reachable: Vec<Pc>,
}

impl Explored {
    /// Explores what `entry` reaches in `program`. The result does not depend on `max_states`.
    ///
    /// Fails with [`Unsupported::TooManyStates`] if `entry` reaches more than `max_states`.
    pub fn new(program: &Program, entry: Entry, max_states: usize) -> Result<Explored, Unsupported> {
        #[cfg(test)]
        EXPLORATIONS.with(|count| count.set(count.get() + 1));
        let nodes = explore(program, entry, max_states)?;
        let reachable = reachable(program, &nodes);
        Ok(Explored { entry, nodes, reachable })
    }

    /// The addresses of all words that the entry can execute, ascending.
    pub fn reachable(&self) -> &[Pc] {
        &self.reachable
    }

    /// All states; the first is the entry. Edges are indices here.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Forms blocks.
    ///
    /// Fails with [`Unsupported::TooManyBlocks`] if there are more than `max_blocks`.
    pub fn cfg(&self, max_blocks: usize) -> Result<Cfg, Unsupported> {
        let Explored { entry, ref nodes, ref reachable } = *self;
        let blocks = order(form_blocks(nodes));
        if blocks.len() > max_blocks {
            return Err(Unsupported::TooManyBlocks { limit: max_blocks, blocks: blocks.len() });
        }
        Ok(Cfg { entry, states: nodes.len(), reachable: reachable.clone(), blocks })
    }
}

#[cfg(test)]
thread_local! {
    /// Explorations that this thread has begun.
    static EXPLORATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The result of `work`, and the number of explorations that it begins on this thread.
#[cfg(all(test, feature = "jit"))]
pub(crate) fn count_explorations<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = EXPLORATIONS.get();
    let result = work();
    (result, EXPLORATIONS.get() - before)
}

fn explore(program: &Program, entry: Entry, max_states: usize) -> Result<Vec<Node>, Unsupported> {
    let mut explorer = Explorer::new(program, max_states);
    let mut nodes: Vec<Node> = Vec::with_capacity(USUAL_STATES);
    explorer.id(entry.pc, Scopes::default())?;
    while let Some(&(pc, scopes, number)) = explorer.queue.get(nodes.len()) {
        explorer.current = (scopes, number);
        nodes.push(explorer.node(pc, scopes)?);
    }
    Ok(nodes)
}

fn reachable(program: &Program, nodes: &[Node]) -> Vec<Pc> {
    let mut met = vec![false; program.code().len()];
    for node in nodes {
        if let Some(met) = met.get_mut(usize::from(node.pc)) {
            *met = true;
        }
    }
    (0..).zip(met).filter(|(_, met)| *met).map(|(pc, _)| pc).collect()
}

struct Explorer<'a> {
    program: &'a Program,
    max_states: usize,
    /// By word and scopes.
    ids: HashMap<u64, NodeId, RandomState>,
    /// Distinct scopes, numbered: there are few, and hashing them would dominate the cost.
    numbers: HashMap<Scopes, ScopesId, RandomState>,
    /// Scopes of the current state, which most steps don't change.
    current: (Scopes, ScopesId),
    /// All states, in order of their numbers.
    queue: Vec<(Pc, Scopes, ScopesId)>,
}

type ScopesId = u32;

/// Enough for most real shaders.
const USUAL_STATES: usize = 64;

impl<'a> Explorer<'a> {
    fn new(program: &'a Program, max_states: usize) -> Explorer<'a> {
        let none = (Scopes::default(), 0);
        let (ids, queue) =
            (HashMap::with_capacity_and_hasher(USUAL_STATES, RandomState::default()), Vec::with_capacity(USUAL_STATES));
        let numbers = HashMap::from_iter([none]);
        Explorer { program, max_states, ids, numbers, current: none, queue }
    }

    fn number(&mut self, scopes: Scopes) -> ScopesId {
        if self.current.0 == scopes {
            return self.current.1;
        }
        let next = self.numbers.len() as ScopesId;
        *self.numbers.entry(scopes).or_insert(next)
    }

    fn id(&mut self, pc: Pc, scopes: Scopes) -> Result<NodeId, Unsupported> {
        let number = self.number(scopes);
        let place = u64::from(number) << Pc::BITS | u64::from(pc);
        if let Some(&id) = self.ids.get(&place) {
            return Ok(id);
        }
        let id = self.queue.len();
        if id >= self.max_states {
            return Err(Unsupported::TooManyStates { limit: self.max_states, pc });
        }
        self.ids.insert(place, id);
        self.queue.push((pc, scopes, number));
        Ok(id)
    }

    fn node(&mut self, pc: Pc, scopes: Scopes) -> Result<Node, Unsupported> {
        let exit = |exit| Ok(Node { pc, scopes, step: None, out: Out::One(Outcome(Terminator::Exit(exit))) });
        let Some(inst) = self.program.inst(pc) else { return exit(Exit::PastEnd) };
        let mut step = None;
        let out = match inst {
            Inst::End => return exit(Exit::End),
            Inst::Nop | Inst::Undefined { .. } => Out::One(self.outcome(pc, scopes, Action::Next)?),
            Inst::Alu(_) | Inst::Mova { .. } | Inst::Cmp { .. } | Inst::Emit | Inst::Setemit(_) => {
                step = Some(Step::Inst(pc, inst));
                Out::One(self.outcome(pc, scopes, Action::Next)?)
            }
            Inst::Break => Out::One(self.outcome(pc, scopes, Action::Break)?),
            Inst::Breakc { cond } => self.two(pc, scopes, Test::Flags(cond), Action::Break, Action::Next)?,
            Inst::Call { test, target, len } => {
                let call = Action::Call { target, len };
                match test {
                    None => Out::One(self.outcome(pc, scopes, call)?),
                    Some(test) => self.two(pc, scopes, test, call, Action::Next)?,
                }
            }
            Inst::If { test, target, len } => {
                let then = Action::Then { end: target, cont: target + Pc::from(len) };
                self.two(pc, scopes, test, then, Action::Jump(target))?
            }
            Inst::Jump { test, target } => self.two(pc, scopes, test, Action::Jump(target), Action::Next)?,
            Inst::Loop { int, last } => {
                let shift = scopes.loops.is_full();
                let slot = scopes.loops.len() - usize::from(shift);
                step = Some(Step::LoopBegin { pc, int, slot, shift });
                Out::One(self.outcome(pc, scopes, Action::Loop { last })?)
            }
        };
        Ok(Node { pc, scopes, step, out })
    }

    fn two(&mut self, pc: Pc, scopes: Scopes, test: Test, yes: Action, no: Action) -> Result<Out, Unsupported> {
        Ok(Out::Two(test, self.outcome(pc, scopes, yes)?, self.outcome(pc, scopes, no)?))
    }

    fn outcome(&mut self, pc: Pc, mut scopes: Scopes, action: Action) -> Result<Outcome, Unsupported> {
        if action == Action::Break && !scopes.can_break() {
            return Ok(Outcome(Terminator::Exit(Exit::BreakOutsideLoop)));
        }
        let next = scopes.step(pc, action);
        let edge = |e: &mut Self, to, scopes| Ok(Edge { to: e.id(to, scopes)?, backward: is_backward(pc, to) });
        Ok(Outcome(match next {
            Next::Go(to) => Terminator::Goto(edge(self, to, scopes)?),
            Next::LoopEnd { again, exit } => {
                let slot = scopes.loops.len() - 1;
                let again = edge(self, again, scopes)?;
                let restore = scopes.leave_loop();
                Terminator::LoopEnd { slot, again, exit: edge(self, exit, scopes)?, restore }
            }
            Next::LoopBreak { exit } => {
                let slot = scopes.loops.len() - 1;
                let restore = scopes.leave_loop();
                Terminator::LoopBreak { slot, exit: edge(self, exit, scopes)?, restore }
            }
        }))
    }
}

/// Joins straight-line sequences of nodes. Edges are indices in the result.
fn form_blocks(nodes: &[Node]) -> Vec<Block> {
    // A node begins a block unless its only predecessor has it as its only forward successor.
    let mut ways_in = vec![0u32; nodes.len()];
    let mut leads = vec![false; nodes.len()];
    leads[0] = true;
    for node in nodes {
        let (a, b) = match &node.out {
            Out::One(a) => (a, None),
            Out::Two(_, a, b) => (a, Some(b)),
        };
        let plain = b.is_none() && matches!(a.0, Terminator::Goto(Edge { backward: false, .. }));
        for edge in a.0.edges().chain(b.into_iter().flat_map(|b| b.0.edges())) {
            ways_in[edge.to] += 1;
            leads[edge.to] |= !plain || ways_in[edge.to] > 1;
        }
    }

    let mut block_of = vec![usize::MAX; nodes.len()];
    let mut count = 0;
    for (id, _) in leads.iter().enumerate().filter(|(_, leads)| **leads) {
        block_of[id] = count;
        count += 1;
    }
    // An outcome that is more than an edge gets a block of its own, after the others.
    let mut blocks = Vec::with_capacity(count);
    let mut extra = Vec::new();
    for (id, first) in nodes.iter().enumerate().filter(|(id, _)| leads[*id]) {
        let mut steps = Vec::new();
        let mut words = 0;
        let mut node = &nodes[id];
        let term = loop {
            steps.extend(node.step);
            words += 1;
            match node.out {
                Out::One(Outcome(Terminator::Goto(Edge { to, .. }))) if !leads[to] => node = &nodes[to],
                Out::One(Outcome(mut term)) => {
                    term.edges_mut().for_each(|e| e.to = block_of[e.to]);
                    break term;
                }
                Out::Two(test, yes, no) => {
                    let mut edge = |Outcome(mut term): Outcome| {
                        term.edges_mut().for_each(|e| e.to = block_of[e.to]);
                        if let Terminator::Goto(edge) = term {
                            return edge;
                        }
                        extra.push(Block { pc: node.pc, scopes: node.scopes, steps: Vec::new(), words: 0, term });
                        Edge { to: count + extra.len() - 1, backward: false }
                    };
                    break Terminator::Branch { test, yes: edge(yes), no: edge(no) };
                }
            }
        };
        blocks.push(Block { pc: first.pc, scopes: first.scopes, steps, words, term });
    }
    blocks.append(&mut extra);
    blocks
}

/// Renumbers blocks in reverse postorder from the first.
fn order(mut blocks: Vec<Block>) -> Vec<Block> {
    let successors = |b: usize| blocks[b].term.edges().map(|e| e.to).collect::<Vec<_>>().into_iter();
    let order = reverse_postorder(blocks.len(), successors);
    let mut new_id = vec![usize::MAX; blocks.len()];
    order.iter().enumerate().for_each(|(new, &old)| new_id[old] = new);
    let renumbered = order.iter().map(|&old| {
        let Block { pc, scopes, words, mut term, .. } = blocks[old];
        term.edges_mut().for_each(|e| e.to = new_id[e.to]);
        Block { pc, scopes, steps: std::mem::take(&mut blocks[old].steps), words, term }
    });
    renumbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procedure called from two sites, an IF and a LOOP. The word after `end` is unreachable.
    const SOURCE: &str =
        ".proc main\n call sub\n for i1\n ifu b0\n call sub\n .end\n mov r1, v1\n .end\n end\n nop\n.end
.proc sub\n mov r0, v0\n nop\n.end";

    fn program() -> (Program, Entry) {
        let shbin = crate::text::assemble(SOURCE).expect("a good source").shbin;
        (shbin.program().expect("short"), shbin.dvles[0].entry())
    }

    #[test]
    fn limits_are_the_most_that_is_allowed() {
        let (program, entry) = program();
        let cfg = Cfg::build(&program, entry, Limits::default()).expect("small");
        let (states, blocks) = (cfg.states, cfg.blocks.len());
        assert!(states > cfg.reachable.len() && blocks > 4, "the procedure is cloned: {cfg}");
        let build = |states, blocks| Cfg::build(&program, entry, Limits { states, blocks }).map(|cfg| cfg.to_string());
        assert_eq!(build(states, blocks), Ok(cfg.to_string()));
        assert_eq!(build(states, blocks - 1), Err(Unsupported::TooManyBlocks { limit: blocks - 1, blocks }));
        let short = build(states - 1, blocks);
        assert!(matches!(short, Err(Unsupported::TooManyStates { limit, .. }) if limit == states - 1), "{short:?}");
        let explore = |states| Explored::new(&program, entry, states).map(|explored| explored.reachable);
        assert_eq!(explore(states).as_ref(), Ok(&cfg.reachable));
        assert!(matches!(explore(states - 1), Err(Unsupported::TooManyStates { .. })));
    }

    #[test]
    fn reachable_are_words_that_exist() {
        let (program, entry) = program();
        let reachable = Explored::new(&program, entry, Limits::default().states).expect("small").reachable;
        assert_eq!(reachable, [0, 1, 2, 3, 4, 5, 6, 8, 9], "all but the word behind `end`");
        // Past the last word is a state, and no word.
        let program = Program::from_words(&[0x8400_0000], &[]).expect("short");
        let cfg = Cfg::build(&program, Entry::vertex(0), Limits::default()).expect("small");
        assert_eq!((cfg.states, cfg.reachable, cfg.blocks.len()), (2, vec![0], 1));
        assert_eq!(cfg.blocks[0].term, Terminator::Exit(Exit::PastEnd));
    }
}
