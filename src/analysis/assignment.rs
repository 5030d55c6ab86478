//! An entry's states -> what a run has certainly written wherever it can be: definite assignment.
//!
//! A forward analysis to a fixed point. Facts hold on every path to a point, so they meet by
//! intersection. Paths that no run takes are left out where that is decidable: boolean uniforms
//! have one value for the whole run, so each assignment of them is analysed apart; and a flag keeps
//! its value from one test to the next, so a point is a state of the graph with what is known of
//! both flags.

use crate::ir::analysis::effects::{reads, writes};
use crate::ir::cfg::{Explored, Out, Terminator};
use crate::ir::register_set::RegisterSet;
use crate::isa::flow::Exit;
use crate::isa::{Cond, Inst, Setemit, Stage, Test};
use crate::program::Program;

/// Points that all assignments of the boolean uniforms may take together.
const MOST_POINTS: usize = 1 << 16;

/// Values of the boolean uniforms: those that are the same in every run, or an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bools {
    /// The uniforms with a known value; bit n is `bn`.
    pub known: u16,
    /// Their values.
    pub values: u16,
}

impl Bools {
    /// The value of `b{id}`, if it is known.
    pub fn get(self, id: u8) -> Option<bool> {
        let bit = 1u16 << (id & 15);
        (self.known & bit != 0).then_some(self.values & bit != 0)
    }
}

/// What is certain at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Components that the run has written. Outputs: those of the current bank.
    pub written: RegisterSet,
    /// Output components written in the other bank.
    hidden: u64,
    /// Output components written since the last EMIT.
    pub since_emit: u64,
    /// Output components written in the run, in whichever bank.
    pub written_in_run: u64,
    /// No EMIT has run.
    pub before_emit: bool,
    /// Vertex slots filled by this run; bit n is slot n.
    pub slots: u8,
    /// The parameters of EMIT, if every path sets the same.
    pub setemit: Option<Setemit>,
}

impl Facts {
    const START: Facts = Facts {
        written: RegisterSet::NONE,
        hidden: 0,
        since_emit: 0,
        written_in_run: 0,
        before_emit: true,
        slots: 0,
        setemit: None,
    };

    fn meet(self, o: Facts) -> Facts {
        Facts {
            written: self.written & o.written,
            hidden: self.hidden & o.hidden,
            since_emit: self.since_emit & o.since_emit,
            written_in_run: self.written_in_run & o.written_in_run,
            before_emit: self.before_emit && o.before_emit,
            slots: self.slots & o.slots,
            setemit: self.setemit.filter(|_| self.setemit == o.setemit),
        }
    }

    fn after(mut self, inst: &Inst, emits: bool) -> Facts {
        let set = writes(inst);
        self.written = self.written | set;
        self.since_emit |= set.outputs;
        self.written_in_run |= set.outputs;
        match inst {
            Inst::Setemit(how) => self.setemit = Some(*how),
            Inst::Emit if emits => {
                std::mem::swap(&mut self.written.outputs, &mut self.hidden);
                self.since_emit = 0;
                self.before_emit = false;
                if let Some(how) = self.setemit {
                    self.slots |= 1 << how.vertex;
                }
            }
            _ => {}
        }
        self
    }
}

/// What is known of a flag.
type Known = Option<bool>;

/// A state of the graph with knowledge of both flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    node: usize,
    flags: [Known; 2],
}

impl Point {
    fn index(self) -> usize {
        let code = |known: Known| known.map_or(0, |value| 1 + usize::from(value));
        self.node * 9 + code(self.flags[0]) * 3 + code(self.flags[1])
    }
    fn from_index(index: usize) -> Point {
        let known = |code: usize| [None, Some(false), Some(true)][code];
        Point { node: index / 9, flags: [known(index % 9 / 3), known(index % 3)] }
    }
}

/// The facts of one assignment of the boolean uniforms.
pub struct Assignment {
    /// The assignment; other uniforms are irrelevant or unknown.
    pub bools: Bools,
    facts: Vec<Option<Facts>>,
    /// All that some run writes.
    pub ever_written: RegisterSet,
}

/// A state that runs reach, and what is certain there.
pub struct Visit {
    /// Index of the state in the graph.
    pub node: usize,
    /// What is certain before its instruction.
    pub facts: Facts,
}

impl Assignment {
    fn new(program: &Program, stage: Stage, explored: &Explored, bools: Bools) -> Assignment {
        let nodes = explored.nodes();
        let emits = stage == Stage::Geometry;
        let mut facts: Vec<Option<Facts>> = vec![None; nodes.len() * 9];
        let start = Point { node: 0, flags: [None; 2] }.index();
        facts[start] = Some(Facts::START);
        let mut ever_written = RegisterSet::NONE;
        let mut queue = vec![start];
        while let Some(at) = queue.pop() {
            let point = Point::from_index(at);
            let Some(mut after) = facts[at] else { continue };
            if let Some(inst) = program.inst(nodes[point.node].pc) {
                after = after.after(&inst, emits);
                ever_written = ever_written | writes(&inst);
            }
            for_each_successor(program, explored, bools, point, |next| {
                let slot = &mut facts[next.index()];
                let met = slot.map_or(after, |before| before.meet(after));
                if *slot != Some(met) {
                    *slot = Some(met);
                    queue.push(next.index());
                }
            });
        }
        Assignment { bools, facts, ever_written }
    }

    /// Every point that runs reach. A state occurs once for each combination of known flags.
    pub fn visits(&self) -> impl Iterator<Item = Visit> + '_ {
        let visit = |(index, facts): (usize, &Option<Facts>)| facts.map(|facts| Visit { node: index / 9, facts });
        self.facts.iter().enumerate().filter_map(visit)
    }

    /// The points from which no exit can be reached, as states: a run there never ends.
    pub fn endless(&self, program: &Program, explored: &Explored) -> Vec<usize> {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); self.facts.len()];
        let mut queue = Vec::new();
        let mut ends = vec![false; self.facts.len()];
        for (index, _) in self.facts.iter().enumerate().filter(|(_, facts)| facts.is_some()) {
            let point = Point::from_index(index);
            let mut exits = false;
            for_each_outcome(program, explored, self.bools, point, |outcome, _| {
                exits |= matches!(outcome, Terminator::Exit(_));
            });
            for_each_successor(program, explored, self.bools, point, |next| {
                before[next.index()].push(index as u32);
            });
            if exits {
                ends[index] = true;
                queue.push(index);
            }
        }
        while let Some(index) = queue.pop() {
            for &earlier in &before[index] {
                if !std::mem::replace(&mut ends[earlier as usize], true) {
                    queue.push(earlier as usize);
                }
            }
        }
        let endless = |(index, facts): (usize, &Option<Facts>)| (facts.is_some() && !ends[index]).then_some(index / 9);
        self.facts.iter().enumerate().filter_map(endless).collect()
    }

    /// The successors of a state's instruction under this assignment, at every point of it.
    pub fn successors(&self, program: &Program, explored: &Explored, node: usize) -> Vec<usize> {
        let mut all = Vec::new();
        for index in (node * 9..node * 9 + 9).filter(|&index| self.facts[index].is_some()) {
            for_each_successor(program, explored, self.bools, Point::from_index(index), |next| all.push(next.node));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The exits of a state's instruction under this assignment.
    pub fn exits(&self, program: &Program, explored: &Explored, node: usize) -> Vec<Exit> {
        let mut all = Vec::new();
        for index in (node * 9..node * 9 + 9).filter(|&index| self.facts[index].is_some()) {
            for_each_outcome(program, explored, self.bools, Point::from_index(index), |outcome, _| {
                if let Terminator::Exit(exit) = outcome
                    && !all.contains(exit)
                {
                    all.push(*exit);
                }
            });
        }
        all
    }
}

/// Every assignment of the boolean uniforms that an entry tests.
pub struct Assignments {
    /// The analysed assignments.
    pub list: Vec<Assignment>,
    /// Whether they are all of them. If not, each is a possible one, and findings may be missing.
    pub complete: bool,
}

impl Assignments {
    /// Analyses `explored`, the states of `program` from an entry of kind `stage`. `given` are the
    /// uniforms with one value in every run.
    pub fn new(program: &Program, stage: Stage, explored: &Explored, given: Bools) -> Assignments {
        let tested = explored.nodes().iter().fold(0u16, |mask, node| match node.out {
            Out::Two(Test::Bool { id, .. }, ..) => mask | 1 << (id & 15),
            _ => mask,
        });
        let free: Vec<u16> = (0..16).map(|n| 1 << n).filter(|bit| tested & !given.known & bit != 0).collect();
        let combinations = 1usize << free.len();
        let complete = combinations.saturating_mul(explored.nodes().len()) <= MOST_POINTS;
        let values: Vec<u16> = if complete {
            let pick = |n: usize| (0..free.len()).filter(|k| n >> k & 1 != 0).fold(0, |v, k| v | free[k]);
            (0..combinations).map(pick).collect()
        } else {
            let all = free.iter().fold(0, |v, bit| v | bit);
            let flips = free.iter().flat_map(|&bit| [bit, all & !bit]);
            [0, all].into_iter().chain(flips).collect()
        };
        let known = given.known | free.iter().fold(0, |v, bit| v | bit);
        let assignment =
            |v: u16| Assignment::new(program, stage, explored, Bools { known, values: given.values & given.known | v });
        Assignments { list: values.into_iter().map(assignment).collect(), complete }
    }

    /// The facts with every boolean uniform unknown: they hold for each assignment.
    pub fn merged(program: &Program, stage: Stage, explored: &Explored) -> Assignment {
        Assignment::new(program, stage, explored, Bools::default())
    }
}

/// Calls `f(outcome, flags)` for every outcome of the instruction at `point`.
fn for_each_outcome(
    program: &Program,
    explored: &Explored,
    bools: Bools,
    point: Point,
    mut f: impl FnMut(&Terminator, [Known; 2]),
) {
    let node = &explored.nodes()[point.node];
    let inst = program.inst(node.pc);
    let is_overwritten = |flag: u8| inst.is_some_and(|inst| writes(&inst).state & flag != 0);
    let mut flags = point.flags;
    for (known, flag) in flags.iter_mut().zip([RegisterSet::CMP_X, RegisterSet::CMP_Y]) {
        if is_overwritten(flag) {
            *known = None;
        }
    }
    match &node.out {
        Out::One(outcome) => f(&outcome.0, flags),
        Out::Two(Test::Bool { id, value }, yes, no) => match bools.get(*id) {
            Some(known) => f(if known == *value { &yes.0 } else { &no.0 }, flags),
            None => {
                f(&yes.0, flags);
                f(&no.0, flags);
            }
        },
        Out::Two(Test::Flags(cond), yes, no) => {
            for flags in tested_flags(*cond, flags) {
                let holds = cond.eval(flags.map(|known| known.unwrap_or(false)));
                f(if holds { &yes.0 } else { &no.0 }, flags);
            }
        }
    }
}

/// The possible values of the flags that `cond` reads; the other flag stays as it is.
fn tested_flags(cond: Cond, flags: [Known; 2]) -> Vec<[Known; 2]> {
    let test = Inst::Breakc { cond };
    let read = reads(&test).state;
    let values = |known: Known, flag: u8| match known {
        None if read & flag != 0 => vec![Some(false), Some(true)],
        known => vec![known],
    };
    let (xs, ys) = (values(flags[0], RegisterSet::CMP_X), values(flags[1], RegisterSet::CMP_Y));
    xs.iter().flat_map(|&x| ys.iter().map(move |&y| [x, y])).collect()
}

fn for_each_successor(program: &Program, explored: &Explored, bools: Bools, point: Point, mut f: impl FnMut(Point)) {
    for_each_outcome(program, explored, bools, point, |outcome, flags| {
        outcome.edges().for_each(|edge| f(Point { node: edge.to, flags }));
    });
}
