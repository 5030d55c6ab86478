//! [`Cfg`] -> [`Func`]: instructions to values.
//!
//! Blocks are visited in reverse postorder. A block with one predecessor inherits its state. A
//! block with several gets a parameter for every state variable that the program writes anywhere;
//! [`super::simplify`] removes the redundant ones. A source modifier stays on the use, a write mask
//! becomes a merge, and an unmasked MOV is copy-propagated.
//!
//! Each kind of exit has one block, which stores the state variables. Unless no run can exhaust the
//! fuel, edges pay for executed words (`fuel.rs`), and each backward transfer has a block that
//! tests it.

use super::cfg::{self, Cfg, Step};
use super::fuel::{self, Payments};
use super::{Block, BranchTest, Edge, Form, Func, Inst, Mem, Node, Terminator, Type, Value};
use crate::isa::flow::{Exit, MAX_FUEL};
use crate::isa::{self, DstFile, Opcode, Pc, Stage, WriteMask};
use std::collections::{BTreeMap, HashMap};

/// A state variable of a run (a register, flag, counter or the fuel), as a small number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct StateVar(u8);

impl StateVar {
    const A0: u8 = 48;
    pub(super) const AL: StateVar = StateVar(50);
    const FLAGS: u8 = 51;
    const BANK: StateVar = StateVar(53);
    const LEFT: u8 = 54;
    const INCREMENT: u8 = 58;
    const SAVED_AL: u8 = 62;
    const FUEL: StateVar = StateVar(66);
    const COUNT: usize = 67;

    pub(super) fn temp(n: u8) -> StateVar {
        StateVar(n)
    }
    /// Output of the current bank.
    pub(super) fn out(n: u8) -> StateVar {
        StateVar(16 + n)
    }
    /// Output of the other bank.
    fn hidden(n: u8) -> StateVar {
        StateVar(32 + n)
    }
    pub(super) fn a0(n: u8) -> StateVar {
        StateVar(StateVar::A0 + n)
    }
    pub(super) fn flag(n: u8) -> StateVar {
        StateVar(StateVar::FLAGS + n)
    }
    /// Counters of the loop in `slot`: iterations left, increment, aL before the loop.
    fn left(slot: usize) -> StateVar {
        StateVar(StateVar::LEFT + slot as u8)
    }
    fn increment(slot: usize) -> StateVar {
        StateVar(StateVar::INCREMENT + slot as u8)
    }
    fn saved_al(slot: usize) -> StateVar {
        StateVar(StateVar::SAVED_AL + slot as u8)
    }

    fn ty(self) -> Type {
        match self.0 {
            0..StateVar::A0 => Type::Vec4,
            StateVar::FLAGS | 52 => Type::Flag,
            _ => Type::Int,
        }
    }

    /// Whether it is part of the unit and so outlives the run.
    fn is_register(self) -> bool {
        self < StateVar::BANK
    }
}

#[derive(Clone)]
struct Env([Option<Value>; StateVar::COUNT]);

/// An edge with the state at its source. The state gives the arguments once the target's parameters
/// are known.
struct PendingEdge {
    from: usize,
    edge: usize,
    env: Env,
}

pub(super) struct Builder {
    pub(super) func: Func,
    /// The fuel of a run, and what edges pay of it. `None`: no run exhausts it.
    fuel: Option<(u32, Payments)>,
    /// The graph's block that the insertion point belongs to.
    cfg_block: usize,
    /// State variables that the program writes and that live in values.
    written: Vec<StateVar>,
    /// Whether an EMIT can toggle the bank.
    emits: bool,
    /// State at the start of the run, loaded on first read.
    initial: Env,
    initial_loads: Vec<Value>,
    /// The value of each input and uniform, created on first read.
    leaves: HashMap<Node, Value>,
    /// State at the insertion point.
    env: Env,
    /// Block of the insertion point.
    block: usize,
    pub(super) pc: Pc,
    /// The incoming edges of each block.
    pending: BTreeMap<usize, Vec<PendingEdge>>,
    /// The block of each kind of exit.
    exits: BTreeMap<u32, (Exit, usize)>,
}

impl Func {
    /// Builds `form` of `cfg`. `fuel` pays for the words that a run executes.
    pub fn build(cfg: &Cfg, fuel: u32, form: Form) -> Func {
        let empty = Env([None; StateVar::COUNT]);
        let fuel = fuel.min(MAX_FUEL);
        // The memory form is a yardstick, so it checks every transfer.
        let payments = (form == Form::Memory || !fuel::suffices(cfg, fuel)).then(|| Payments::new(cfg));
        let (written, emits) = written(cfg, form, payments.is_some());
        let mut b = Builder {
            func: Func { entry: cfg.entry, form, nodes: Vec::new(), blocks: Vec::new() },
            fuel: payments.map(|payments| (fuel, payments)),
            cfg_block: 0,
            written,
            emits,
            initial: empty.clone(),
            initial_loads: Vec::new(),
            leaves: HashMap::new(),
            env: empty,
            block: 0,
            pc: cfg.entry.pc,
            pending: BTreeMap::new(),
            exits: BTreeMap::new(),
        };
        b.run(cfg);
        b.func.order_blocks();
        b.func
    }
}

/// The state variables that the program writes and the form keeps in values, and whether it emits.
fn written(cfg: &Cfg, form: Form, checks_fuel: bool) -> (Vec<StateVar>, bool) {
    let mut set = [false; StateVar::COUNT];
    let mut emits = false;
    let mut mark = |p: StateVar| set[usize::from(p.0)] = true;
    for block in &cfg.blocks {
        for step in &block.steps {
            match step {
                Step::LoopBegin { slot, shift, .. } => {
                    mark(StateVar::AL);
                    for slot in if *shift { 0..4 } else { *slot..slot + 1 } {
                        mark(StateVar::left(slot));
                        mark(StateVar::increment(slot));
                        mark(StateVar::saved_al(slot));
                    }
                }
                Step::Inst(_, isa::Inst::Alu(alu)) => {
                    if alu.mask != WriteMask::NONE {
                        mark(match alu.dst.file() {
                            DstFile::Output(n) => StateVar::out(n),
                            DstFile::Temp(n) => StateVar::temp(n),
                        });
                    }
                    if alu.op == Opcode::Litp {
                        mark(StateVar::flag(0));
                        mark(StateVar::flag(1));
                    }
                }
                Step::Inst(_, isa::Inst::Mova { mask, .. }) => {
                    (0..2).filter(|&n| mask.has(n)).for_each(|n| mark(StateVar::a0(n as u8)));
                }
                Step::Inst(_, isa::Inst::Cmp { .. }) => {
                    mark(StateVar::flag(0));
                    mark(StateVar::flag(1));
                }
                Step::Inst(_, isa::Inst::Emit) => emits |= cfg.entry.stage == Stage::Geometry,
                Step::Inst(..) => {}
            }
        }
        if checks_fuel && block.term.edges().any(|e| e.backward) {
            mark(StateVar::FUEL);
        }
    }
    if emits {
        // EMIT exchanges the banks, so a write to one is later in the other.
        for n in 0..16 {
            set[usize::from(StateVar::hidden(n).0)] = set[usize::from(StateVar::out(n).0)];
        }
        set[usize::from(StateVar::BANK.0)] = true;
    }
    let kept = |p: &StateVar| set[usize::from(p.0)] && (form == Form::Ssa || *p > StateVar::BANK);
    ((0..StateVar::COUNT as u8).map(StateVar).filter(kept).collect(), emits)
}

impl Builder {
    fn run(&mut self, cfg: &Cfg) {
        // Block 0 loads the initial state; block n + 1 is the graph's block n; fuel checks and
        // exits follow.
        self.new_block(self.pc);
        for block in &cfg.blocks {
            self.new_block(block.pc);
        }
        let mut ways_in = vec![0; cfg.blocks.len()];
        ways_in[0] = 1;
        cfg.blocks.iter().flat_map(|b| b.term.edges()).for_each(|e| ways_in[e.to] += 1);

        let start = self.add_edge(0, 0, 1);
        self.func.blocks[0].term = Terminator::Goto(start);
        for (id, block) in cfg.blocks.iter().enumerate() {
            self.pc = block.pc;
            self.cfg_block = id;
            self.enter(id + 1, ways_in[id] > 1);
            for &step in &block.steps {
                self.step(step);
            }
            self.terminate(&block.term);
        }
        let exits: Vec<(Exit, usize)> = self.exits.values().copied().collect();
        for (exit, id) in exits {
            self.pc = self.func.blocks[id].pc;
            let several = self.pending[&id].len() > 1;
            self.enter(id, several);
            if self.func.form == Form::Ssa {
                self.store(StateVar::is_register);
            }
            self.func.blocks[id].term = Terminator::Exit(exit);
        }
        self.fill_arguments();
        self.func.blocks[0].insts = self.initial_loads.iter().map(|&v| (cfg.entry.pc, Inst::Def(v))).collect();
    }

    fn new_block(&mut self, pc: Pc) -> usize {
        self.func.blocks.push(Block {
            pc,
            params: Vec::new(),
            insts: Vec::new(),
            term: Terminator::Exit(Exit::PastEnd),
        });
        self.func.blocks.len() - 1
    }

    /// Moves the insertion point to the start of block `id`, with a parameter for every written
    /// variable if it has several predecessors.
    fn enter(&mut self, id: usize, several: bool) {
        self.block = id;
        if !several {
            // In reverse postorder the only predecessor is built already.
            self.env = self.pending[&id][0].env.clone();
            return;
        }
        self.env = self.initial.clone();
        for var in self.written.clone() {
            let param = self.func.value(Node::Param(var.ty()));
            self.func.blocks[id].params.push(param);
            self.env.0[usize::from(var.0)] = Some(param);
        }
    }

    /// Edge number `edge` of block `from` to block `to`, with the current state.
    fn add_edge(&mut self, from: usize, edge: usize, to: usize) -> Edge {
        let pending = PendingEdge { from, edge, env: self.env.clone() };
        self.pending.entry(to).or_default().push(pending);
        Edge { to, args: Vec::new() }
    }

    /// The graph's edge `e`, through a block if it pays for words, or tests the fuel.
    fn follow(&mut self, from: usize, edge: usize, e: cfg::Edge) -> Edge {
        let words = self.fuel.as_ref().map_or(0, |(_, payments)| payments.on(self.cfg_block, e));
        if words == 0 {
            return self.add_edge(from, edge, e.to + 1);
        }
        let through = self.new_block(self.pc);
        let before = self.env.clone();
        let fuel = self.read(StateVar::FUEL);
        let no = e.backward.then(|| {
            let out = self.exit_block(Exit::Fuel);
            self.add_edge(through, 1, out)
        });
        let cost = self.func.value(Node::Int(-words.cast_signed()));
        let here = std::mem::replace(&mut self.block, through);
        let less = self.define(Node::Add(fuel, cost));
        self.write(StateVar::FUEL, less);
        let yes = self.add_edge(through, 0, e.to + 1);
        self.block = here;
        self.env = before;
        self.func.blocks[through].term = match no {
            Some(no) => Terminator::Branch { test: BranchTest::AtLeast(fuel, words.cast_signed()), yes, no },
            None => Terminator::Goto(yes),
        };
        Edge { to: through, args: Vec::new() }
    }

    fn exit_block(&mut self, exit: Exit) -> usize {
        if let Some(&(_, id)) = self.exits.get(&(exit as u32)) {
            return id;
        }
        let id = self.new_block(self.pc);
        self.exits.insert(exit as u32, (exit, id));
        id
    }

    fn terminate(&mut self, term: &cfg::Terminator) {
        let from = self.block;
        let term = match *term {
            cfg::Terminator::Exit(exit) => {
                let to = self.exit_block(exit);
                Terminator::Goto(self.add_edge(from, 0, to))
            }
            cfg::Terminator::Goto(edge) => Terminator::Goto(self.follow(from, 0, edge)),
            cfg::Terminator::Branch { test, yes, no } => {
                let test = match test {
                    isa::Test::Flags(cond) => {
                        BranchTest::Flags { cond, x: self.read(StateVar::flag(0)), y: self.read(StateVar::flag(1)) }
                    }
                    isa::Test::Bool { id, value } => BranchTest::Bool { id, value },
                };
                Terminator::Branch { test, yes: self.follow(from, 0, yes), no: self.follow(from, 1, no) }
            }
            cfg::Terminator::LoopEnd { slot, again, exit, restore } => {
                self.advance_loop_counter(slot);
                let left = self.read(StateVar::left(slot));
                let before = self.env.clone();
                let minus_one = self.func.value(Node::Int(-1));
                let less = self.define(Node::Add(left, minus_one));
                self.write(StateVar::left(slot), less);
                let yes = self.follow(from, 0, again);
                self.env = before;
                let no = if restore && self.func.form == Form::Memory {
                    // Only this edge restores aL.
                    let out = self.new_block(self.pc);
                    self.block = out;
                    self.leave_loop(slot, restore);
                    self.func.blocks[out].term = Terminator::Goto(self.follow(out, 0, exit));
                    Edge { to: out, args: Vec::new() }
                } else {
                    self.leave_loop(slot, restore);
                    self.follow(from, 1, exit)
                };
                Terminator::Branch { test: BranchTest::NonZero(left), yes, no }
            }
            cfg::Terminator::LoopBreak { slot, exit, restore } => {
                self.advance_loop_counter(slot);
                self.leave_loop(slot, restore);
                Terminator::Goto(self.follow(from, 0, exit))
            }
        };
        self.func.blocks[from].term = term;
    }

    fn advance_loop_counter(&mut self, slot: usize) {
        let (al, increment) = (self.read(StateVar::AL), self.read(StateVar::increment(slot)));
        let sum = self.define(Node::Add(al, increment));
        self.write(StateVar::AL, sum);
    }

    fn leave_loop(&mut self, slot: usize, restore: bool) {
        if restore {
            let saved = self.read(StateVar::saved_al(slot));
            self.write(StateVar::AL, saved);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Inst(pc, inst) => {
                self.pc = pc;
                self.inst(&inst);
            }
            Step::LoopBegin { pc, int, slot, shift } => {
                self.pc = pc;
                if shift {
                    for slot in 0..slot {
                        for var in [StateVar::left, StateVar::increment, StateVar::saved_al] {
                            let v = self.read(var(slot + 1));
                            self.write(var(slot), v);
                        }
                    }
                }
                let al = self.read(StateVar::AL);
                self.write(StateVar::saved_al(slot), al);
                for (component, var) in
                    [StateVar::left(slot), StateVar::AL, StateVar::increment(slot)].into_iter().enumerate()
                {
                    let v = self.func.value(Node::IntUniform { id: int, component: component as u8 });
                    self.write(var, v);
                }
            }
        }
    }

    /// EMIT: stores the outputs to memory and exchanges the banks.
    pub(super) fn emit(&mut self) {
        if self.func.form == Form::Ssa {
            self.store(|p| (StateVar::out(0)..StateVar::hidden(0)).contains(&p));
        }
        self.push(Inst::Emit);
        if self.func.form == Form::Ssa {
            let bank = self.read(StateVar::BANK);
            for n in 0..16 {
                if self.written.contains(&StateVar::out(n)) {
                    let (out, hidden) = (self.read(StateVar::out(n)), self.read(StateVar::hidden(n)));
                    self.write(StateVar::out(n), hidden);
                    self.write(StateVar::hidden(n), out);
                }
            }
            let flipped = match *self.func.node(bank) {
                Node::Flip(v) => v,
                _ => self.define(Node::Flip(bank)),
            };
            self.write(StateVar::BANK, flipped);
        }
    }

    /// Stores the written variables that `which` selects.
    fn store(&mut self, which: impl Fn(StateVar) -> bool) {
        for var in self.written.clone() {
            if var != StateVar::BANK && which(var) {
                let value = self.read(var);
                let mem = self.mem(var);
                self.push(Inst::Store(mem, value));
            }
        }
    }

    /// The memory location of a register at this point.
    fn mem(&mut self, var: StateVar) -> Mem {
        match var.0 {
            n @ 0..16 => Mem::Temp(n),
            n @ 16..48 => {
                let current = self.read(StateVar::BANK);
                let bank = match *self.func.node(current) {
                    _ if n < 32 => current,
                    Node::Flip(v) => v,
                    _ => self.define(Node::Flip(current)),
                };
                Mem::Out { n: n & 15, bank }
            }
            n @ StateVar::A0..50 => Mem::Address(n - StateVar::A0),
            50 => Mem::LoopCounter,
            n @ StateVar::FLAGS..53 => Mem::Flag(n - StateVar::FLAGS),
            _ => Mem::Bank,
        }
    }

    /// The current value of `var`.
    pub(super) fn read(&mut self, var: StateVar) -> Value {
        if self.func.form == Form::Memory && var <= StateVar::BANK {
            let mem = self.mem_now(var);
            return self.define(Node::Load(mem));
        }
        if let Some(value) = self.env.0[usize::from(var.0)] {
            return value;
        }
        let value = self.initial(var);
        self.env.0[usize::from(var.0)] = Some(value);
        value
    }

    /// As [`Builder::mem`], in the memory form: loads the current bank.
    fn mem_now(&mut self, var: StateVar) -> Mem {
        match var.0 {
            n @ 16..32 => {
                let bank = if self.emits { self.define(Node::Load(Mem::Bank)) } else { self.initial(StateVar::BANK) };
                Mem::Out { n: n - 16, bank }
            }
            _ => self.mem(var),
        }
    }

    /// The initial value of `var`.
    fn initial(&mut self, var: StateVar) -> Value {
        if let Some(value) = self.initial.0[usize::from(var.0)] {
            return value;
        }
        let value = match var {
            StateVar::FUEL => {
                let fuel = self.fuel.as_ref().map_or(0, |(fuel, _)| *fuel);
                self.func.value(Node::Int(fuel.cast_signed()))
            }
            // A counter that no LOOP has set can't be read; the value only fills a parameter.
            _ if var > StateVar::BANK => self.func.value(Node::Int(0)),
            _ => {
                let mem = match var.0 {
                    n @ 16..48 => {
                        let mut bank = self.initial(StateVar::BANK);
                        if n >= 32 {
                            bank = self.func.value(Node::Flip(bank));
                            self.initial_loads.push(bank);
                        }
                        Mem::Out { n: n & 15, bank }
                    }
                    _ => self.mem(var),
                };
                let value = self.func.value(Node::Load(mem));
                self.initial_loads.push(value);
                value
            }
        };
        self.initial.0[usize::from(var.0)] = Some(value);
        value
    }

    /// Sets `var` to a new value.
    pub(super) fn write(&mut self, var: StateVar, value: Value) {
        if self.func.form == Form::Memory && var <= StateVar::BANK {
            let mem = self.mem_now(var);
            self.push(Inst::Store(mem, value));
        } else {
            self.env.0[usize::from(var.0)] = Some(value);
        }
    }

    /// Adds `inst` at the insertion point.
    pub(super) fn push(&mut self, inst: Inst) {
        self.func.blocks[self.block].insts.push((self.pc, inst));
    }

    /// An input or a uniform.
    pub(super) fn leaf(&mut self, node: Node) -> Value {
        debug_assert!(matches!(node, Node::Input(_) | Node::Uniform(_)), "what is the same throughout a run");
        *self.leaves.entry(node).or_insert_with(|| self.func.value(node))
    }

    /// Adds a node at the insertion point.
    pub(super) fn define(&mut self, node: Node) -> Value {
        let value = self.func.value(node);
        if !node.is_leaf() {
            self.push(Inst::Def(value));
        }
        value
    }

    fn fill_arguments(&mut self) {
        for (to, pending) in std::mem::take(&mut self.pending) {
            if self.func.blocks[to].params.is_empty() {
                continue;
            }
            for PendingEdge { from, edge, env } in pending {
                let args: Vec<Value> = self
                    .written
                    .clone()
                    .into_iter()
                    .map(|p| env.0[usize::from(p.0)].unwrap_or_else(|| self.initial(p)))
                    .collect();
                let edge = self.func.blocks[from].term.edges_mut().nth(edge);
                edge.expect("add_edge created the edge").args = args;
            }
        }
    }
}
