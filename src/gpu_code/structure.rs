//! A function's graph -> nested `if`s and loops.
//!
//! A block that one block alone precedes stands in that block's `if`. A block where paths join stands after the block
//! that dominates it, and falls off the `if`s before it reach it. A loop's blocks stand in the loop of its header, the
//! blocks after it follow that loop. (N. Ramsey, *Beyond Relooper*, 2022, does so for WebAssembly, which has jumps out
//! of nested blocks.) Where a path must skip such a block, a variable holds the number of the path's target, and the
//! block is *guarded* by a test of it. Real programs need no guard.
//!
//! A graph that is not reducible, or nested too deeply for drivers, becomes one loop over all blocks, each guarded.

use crate::ir::{Func, dominates, dominators};
use crate::isa::flow::Exit;

/// Drivers recurse over nested statements. Real programs nest ten deep.
const MOST_NESTED: usize = 100;

/// Where the blocks of a function stand.
#[derive(Debug)]
pub(super) struct Structure {
    places: Vec<Place>,
    /// Blocks that stand in order in a loop of guards, not nested.
    pub(super) flat: bool,
}

/// Where one block stands, and what follows it.
#[derive(Clone, Debug, Default)]
struct Place {
    /// It begins a loop.
    is_header: bool,
    /// It stands in an `if` of the block that precedes it.
    is_arm: bool,
    /// The blocks right after it, inside of its loop.
    follow: Vec<usize>,
    /// The blocks after its loop.
    after: Vec<usize>,
    /// Some path passes it.
    is_guarded: bool,
    /// The targets of paths that go on to leave or repeat an outer loop, after this block's loop.
    onward: Vec<usize>,
}

/// What control flow does for an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// The target stands here, inside the `if`.
    Arm,
    /// The target follows.
    Fall,
    Break,
    Continue,
}

/// What follows the place that is being written, the nearest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Block(usize),
    /// The end of the loop of this header.
    Loop(usize),
}

/// What a walk over the structure calls, in the order of the code.
pub(super) trait Visitor {
    /// The block's instructions and terminator. `edge` says what to do for each edge of the terminator, and enters
    /// its arm.
    fn block(&mut self, walk: &mut Walk<'_>, block: usize);
    fn begin_guard(&mut self, block: usize);
    fn end_guard(&mut self);
    fn begin_loop(&mut self);
    fn end_loop(&mut self);
    /// After a loop: if the path's target is `to`, this jump.
    fn onward(&mut self, to: usize, jump: Jump);
}

/// A walk over the blocks in the order of the code.
pub(super) struct Walk<'a> {
    structure: &'a Structure,
    frames: Vec<Frame>,
}

/// Whether an edge leads to a block that is written in its place: a run that ends otherwise than by END.
pub(super) fn ends_here(func: &Func, to: usize) -> bool {
    use crate::ir::Terminator;
    matches!(func.blocks[to].term, Terminator::Exit(exit) if exit != Exit::End && exit != Exit::PastEnd)
}

impl Structure {
    /// Finds a place for every block.
    pub(super) fn new(func: &Func) -> Structure {
        let graph = Graph::new(func);
        let places = vec![Place::default(); func.blocks.len()];
        let mut structure = Structure { places, flat: false };
        if !graph.is_reducible() {
            structure.flat = true;
            return structure;
        }
        structure.place(&graph);
        let mut survey = Survey { guarded: vec![], onward: vec![], depth: 0, deepest: 0, func };
        structure.walk(&mut survey);
        structure.flat = survey.deepest > MOST_NESTED;
        for block in survey.guarded {
            structure.places[block].is_guarded = true;
        }
        for (header, to) in survey.onward {
            let onward = &mut structure.places[header].onward;
            if !onward.contains(&to) {
                onward.push(to);
            }
        }
        structure
    }

    fn place(&mut self, graph: &Graph) {
        for block in 1..self.places.len() {
            let Some(dominator) = graph.dominators[block] else { continue };
            // Out of each loop that the dominator is in and the block is not.
            let mut left = None;
            let mut inner = graph.loop_of[dominator];
            while let Some(header) = inner.filter(|&header| !graph.in_loop(header, block)) {
                left = Some(header);
                inner = graph.outer[header];
            }
            let forward: Vec<usize> = graph.before[block].iter().copied().filter(|&from| from < block).collect();
            match left {
                Some(header) => self.places[header].after.push(block),
                None if forward == [dominator] => self.places[block].is_arm = true,
                None => self.places[dominator].follow.push(block),
            }
        }
        for (block, place) in self.places.iter_mut().enumerate() {
            place.is_header = graph.is_header(block);
        }
    }

    /// Walks over all blocks from the first.
    pub(super) fn walk(&self, visitor: &mut impl Visitor) {
        Walk { structure: self, frames: Vec::new() }.node(0, visitor);
    }

    /// Whether any path needs the variable that names its target.
    pub(super) fn has_targets(&self) -> bool {
        self.flat || self.places.iter().any(|place| place.is_guarded || !place.onward.is_empty())
    }
}

impl Walk<'_> {
    fn node(&mut self, block: usize, visitor: &mut impl Visitor) {
        let place = &self.structure.places[block];
        let height = self.frames.len();
        // What follows is pushed last first.
        self.frames.extend(place.after.iter().rev().map(|&n| Frame::Block(n)));
        if place.is_header {
            self.frames.push(Frame::Loop(block));
            visitor.begin_loop();
        }
        self.frames.extend(place.follow.iter().rev().map(|&n| Frame::Block(n)));
        visitor.block(self, block);
        for &next in &place.follow {
            self.following(next, visitor);
        }
        if place.is_header {
            self.frames.pop();
            visitor.end_loop();
            for &to in &place.onward {
                visitor.onward(to, self.jump(to).0);
            }
        }
        for &next in &place.after {
            self.following(next, visitor);
        }
        debug_assert_eq!(self.frames.len(), height);
    }

    fn following(&mut self, block: usize, visitor: &mut impl Visitor) {
        self.frames.pop();
        let is_guarded = self.structure.places[block].is_guarded;
        if is_guarded {
            visitor.begin_guard(block);
        }
        self.node(block, visitor);
        if is_guarded {
            visitor.end_guard();
        }
    }

    /// Whether anything may follow this place.
    pub(super) fn is_last(&self) -> bool {
        self.frames.is_empty()
    }

    /// The code of the block that an edge with [`Jump::Arm`] leads to.
    pub(super) fn arm(&mut self, block: usize, visitor: &mut impl Visitor) {
        self.node(block, visitor);
    }

    /// What an edge between these blocks does here, and whether it must name its target.
    pub(super) fn edge(&self, from: usize, to: usize) -> (Jump, bool) {
        if self.structure.places[to].is_arm && from < to {
            return (Jump::Arm, false);
        }
        let (jump, passed, loops) = self.path(to);
        let places = &self.structure.places;
        let names = places[to].is_guarded
            || passed.iter().any(|&block| places[block].is_guarded)
            || loops.iter().any(|&header| !places[header].onward.is_empty());
        (jump, names)
    }

    fn jump(&self, to: usize) -> (Jump, Vec<usize>) {
        let (jump, passed, _) = self.path(to);
        (jump, passed)
    }

    /// The jump towards `to`, the blocks that the path passes on its way, and the loops that it leaves.
    fn path(&self, to: usize) -> (Jump, Vec<usize>, Vec<usize>) {
        let (mut first, mut passed, mut loops) = (None, Vec::new(), Vec::new());
        // The blocks passed since the last loop ended: a break does not pass them.
        let mut run = Vec::new();
        for &frame in self.frames.iter().rev() {
            match frame {
                Frame::Block(block) if block == to => {
                    passed.extend(run);
                    return (first.unwrap_or(Jump::Fall), passed, loops);
                }
                Frame::Block(block) => run.push(block),
                Frame::Loop(header) if header == to => {
                    let here = if run.is_empty() { Jump::Fall } else { Jump::Continue };
                    return (first.unwrap_or(here), passed, loops);
                }
                Frame::Loop(header) => {
                    run.clear();
                    loops.push(header);
                    first = first.or(Some(Jump::Break));
                }
            }
        }
        unreachable!("a block stands after those that lead to it")
    }

    /// The loops that a path to `to` leaves, each with whether the path then needs another jump.
    fn dispatches(&self, to: usize) -> Vec<usize> {
        let (_, _, loops) = self.path(to);
        let mut found = Vec::new();
        for (n, &header) in loops.iter().enumerate() {
            let last = n + 1 == loops.len();
            // After the last of these loops the path falls, or it repeats the next one.
            let below = self.frames.iter().rposition(|&frame| frame == Frame::Loop(header)).expect("it is open");
            let repeats = last && {
                let rest = Walk { structure: self.structure, frames: self.frames[..below].to_vec() };
                rest.path(to).0 == Jump::Continue
            };
            if !last || repeats {
                found.push(header);
            }
        }
        found
    }
}

/// The first walk: finds which blocks paths pass.
struct Survey<'a> {
    func: &'a Func,
    guarded: Vec<usize>,
    onward: Vec<(usize, usize)>,
    depth: usize,
    deepest: usize,
}

impl Visitor for Survey<'_> {
    fn block(&mut self, walk: &mut Walk<'_>, block: usize) {
        let func = self.func;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        for edge in func.blocks[block].term.edges().filter(|edge| !ends_here(func, edge.to)) {
            if walk.edge(block, edge.to).0 == Jump::Arm {
                walk.arm(edge.to, self);
                continue;
            }
            let (_, passed) = walk.jump(edge.to);
            self.guarded.extend(passed);
            self.onward.extend(walk.dispatches(edge.to).into_iter().map(|header| (header, edge.to)));
        }
        self.depth -= 1;
    }
    fn begin_guard(&mut self, _: usize) {}
    fn end_guard(&mut self) {}
    fn begin_loop(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }
    fn end_loop(&mut self) {
        self.depth -= 1;
    }
    fn onward(&mut self, _: usize, _: Jump) {}
}

/// Dominators and loops.
struct Graph {
    before: Vec<Vec<usize>>,
    dominators: Vec<Option<usize>>,
    /// The header of the innermost loop of each block.
    loop_of: Vec<Option<usize>>,
    /// The header of the next outer loop, of each header.
    outer: Vec<Option<usize>>,
    /// The blocks of each header's loop.
    loops: Vec<Option<Vec<bool>>>,
}

impl Graph {
    fn new(func: &Func) -> Graph {
        let count = func.blocks.len();
        let mut before = vec![Vec::new(); count];
        for (from, block) in func.blocks.iter().enumerate() {
            for edge in block.term.edges().filter(|edge| !ends_here(func, edge.to)) {
                before[edge.to].push(from);
            }
        }
        let dominators = dominators(&before);
        let mut graph = Graph {
            before,
            dominators,
            loop_of: vec![None; count],
            outer: vec![None; count],
            loops: vec![None; count],
        };
        // Outer headers come first, so the innermost loop is written last.
        for header in 0..count {
            let sources: Vec<usize> = graph.before[header].iter().copied().filter(|&from| from >= header).collect();
            if sources.is_empty() {
                continue;
            }
            let mut members = vec![false; count];
            members[header] = true;
            let mut work = sources;
            while let Some(block) = work.pop() {
                if !std::mem::replace(&mut members[block], true) {
                    work.extend(&graph.before[block]);
                }
            }
            graph.outer[header] = graph.loop_of[header];
            (0..count).filter(|&block| members[block]).for_each(|block| graph.loop_of[block] = Some(header));
            graph.loops[header] = Some(members);
        }
        graph
    }

    fn is_header(&self, block: usize) -> bool {
        self.loops[block].is_some()
    }

    fn in_loop(&self, header: usize, block: usize) -> bool {
        self.loops[header].as_ref().is_some_and(|members| members[block])
    }

    /// Every loop is entered at its header only.
    fn is_reducible(&self) -> bool {
        let backward = |to: usize| self.before[to].iter().filter(move |&&from| from >= to).map(move |&from| (from, to));
        (0..self.before.len()).flat_map(backward).all(|(from, to)| dominates(&self.dominators, to, from))
    }
}
