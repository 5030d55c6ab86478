//! [`Cfg`] -> [`Func`]: instructions to values.
//!
//! Blocks are visited in reverse postorder. A block with one way in goes on with its predecessor's contents; one with
//! several gets a parameter for every place that the program writes anywhere, and [`super::simplify`] takes away those
//! that turn out to be no choice at all. A source modifier stays on the use, a write mask becomes a merge, and a whole MOV
//! is no operation: its reader reads through it.
//!
//! Runs end in one block per kind of exit, which stores the places. Fuel is counted in a block of its own on each edge
//! that costs some. It must not know what lanes are needed ([`super::analysis`]) or how anything is computed.

use super::cfg::{self, Cfg, Step};
use super::{Block, BranchTest, Edge, Form, Func, Inst, Mem, Node, Terminator, Type, Value};
use crate::isa::flow::Exit;
use crate::isa::{self, DstFile, Opcode, Pc, Stage, WriteMask};
use std::collections::{BTreeMap, HashMap};

/// Something whose content changes during a run, as a small number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(u8);

impl Place {
    const A0: u8 = 48;
    pub(super) const AL: Place = Place(50);
    const FLAGS: u8 = 51;
    const BANK: Place = Place(53);
    const LEFT: u8 = 54;
    const INCREMENT: u8 = 58;
    const SAVED_AL: u8 = 62;
    const FUEL: Place = Place(66);
    const COUNT: usize = 67;

    pub(super) fn temp(n: u8) -> Place {
        Place(n)
    }
    /// Output of the bank that is being written.
    pub(super) fn out(n: u8) -> Place {
        Place(16 + n)
    }
    /// Output of the other bank.
    fn hidden(n: u8) -> Place {
        Place(32 + n)
    }
    pub(super) fn a0(n: u8) -> Place {
        Place(Place::A0 + n)
    }
    pub(super) fn flag(n: u8) -> Place {
        Place(Place::FLAGS + n)
    }
    /// Counters of the loop in `slot`: iterations left, increment, aL from before.
    fn left(slot: usize) -> Place {
        Place(Place::LEFT + slot as u8)
    }
    fn increment(slot: usize) -> Place {
        Place(Place::INCREMENT + slot as u8)
    }
    fn saved_al(slot: usize) -> Place {
        Place(Place::SAVED_AL + slot as u8)
    }

    fn ty(self) -> Type {
        match self.0 {
            0..Place::A0 => Type::Vec4,
            Place::FLAGS | 52 => Type::Flag,
            _ => Type::Int,
        }
    }

    /// Whether the unit has it, so that it outlives the run.
    fn is_register(self) -> bool {
        self < Place::BANK
    }
}

#[derive(Clone)]
struct Env([Option<Value>; Place::COUNT]);

/// An edge whose arguments are read from the contents at its source, once its target's parameters are known.
struct Delivery {
    from: usize,
    edge: usize,
    env: Env,
}

pub(super) struct Builder {
    pub(super) func: Func,
    fuel: u32,
    /// Places that are written anywhere and live in values.
    touched: Vec<Place>,
    /// Whether banks can change during the run.
    emits: bool,
    /// Contents at the start of the run, once somebody has asked.
    initial: Env,
    initial_loads: Vec<Value>,
    /// Inputs and uniforms that were read: one value each, so that to load it once is to look it up.
    leaves: HashMap<Node, Value>,
    /// Contents where the builder stands.
    env: Env,
    /// Where the builder stands.
    block: usize,
    pub(super) pc: Pc,
    /// For each block the edges that lead there.
    deliveries: BTreeMap<usize, Vec<Delivery>>,
    /// The block of each kind of exit.
    exits: BTreeMap<u32, (Exit, usize)>,
}

impl Func {
    /// Builds `form` of `cfg`. `fuel` is how many backward transfers a run may take.
    pub fn build(cfg: &Cfg, fuel: u32, form: Form) -> Func {
        let empty = Env([None; Place::COUNT]);
        let (touched, emits) = touched(cfg, form);
        let mut b = Builder {
            func: Func { entry: cfg.entry, form, nodes: Vec::new(), blocks: Vec::new() },
            fuel,
            touched,
            emits,
            initial: empty.clone(),
            initial_loads: Vec::new(),
            leaves: HashMap::new(),
            env: empty,
            block: 0,
            pc: cfg.entry.pc,
            deliveries: BTreeMap::new(),
            exits: BTreeMap::new(),
        };
        b.run(cfg);
        b.func.order_blocks();
        b.func
    }
}

/// What the program writes and the form keeps in values, and whether it emits.
fn touched(cfg: &Cfg, form: Form) -> (Vec<Place>, bool) {
    let mut set = [false; Place::COUNT];
    let mut emits = false;
    let mut mark = |p: Place| set[usize::from(p.0)] = true;
    for block in &cfg.blocks {
        for step in &block.steps {
            match step {
                Step::LoopBegin { slot, shift, .. } => {
                    mark(Place::AL);
                    for slot in if *shift { 0..4 } else { *slot..slot + 1 } {
                        mark(Place::left(slot));
                        mark(Place::increment(slot));
                        mark(Place::saved_al(slot));
                    }
                }
                Step::Inst(_, isa::Inst::Alu(alu)) => {
                    if alu.mask != WriteMask::NONE {
                        mark(match alu.dst.file() {
                            DstFile::Output(n) => Place::out(n),
                            DstFile::Temp(n) => Place::temp(n),
                        });
                    }
                    if alu.op == Opcode::Litp {
                        mark(Place::flag(0));
                        mark(Place::flag(1));
                    }
                }
                Step::Inst(_, isa::Inst::Mova { mask, .. }) => {
                    (0..2).filter(|&n| mask.has(n)).for_each(|n| mark(Place::a0(n as u8)));
                }
                Step::Inst(_, isa::Inst::Cmp { .. }) => {
                    mark(Place::flag(0));
                    mark(Place::flag(1));
                }
                Step::Inst(_, isa::Inst::Emit) => emits |= cfg.entry.stage == Stage::Geometry,
                Step::Inst(..) => {}
            }
        }
        if block.term.edges().any(|e| e.backward) {
            mark(Place::FUEL);
        }
    }
    if emits {
        // The banks change places, so what is written to one is later in the other.
        for n in 0..16 {
            set[usize::from(Place::hidden(n).0)] = set[usize::from(Place::out(n).0)];
        }
        set[usize::from(Place::BANK.0)] = true;
    }
    let kept = |p: &Place| set[usize::from(p.0)] && (form == Form::Ssa || *p > Place::BANK);
    ((0..Place::COUNT as u8).map(Place).filter(kept).collect(), emits)
}

impl Builder {
    fn run(&mut self, cfg: &Cfg) {
        // Block 0 loads what the run begins with; block n + 1 is the graph's block n; fuel checks and exits follow.
        self.new_block(self.pc);
        for block in &cfg.blocks {
            self.new_block(block.pc);
        }
        let mut ways_in = vec![0; cfg.blocks.len()];
        ways_in[0] = 1;
        cfg.blocks.iter().flat_map(|b| b.term.edges()).for_each(|e| ways_in[e.to] += 1);

        let start = self.deliver(0, 0, 1);
        self.func.blocks[0].term = Terminator::Goto(start);
        for (id, block) in cfg.blocks.iter().enumerate() {
            self.pc = block.pc;
            self.enter(id + 1, ways_in[id] > 1);
            for &step in &block.steps {
                self.step(step);
            }
            self.terminate(&block.term);
        }
        let exits: Vec<(Exit, usize)> = self.exits.values().copied().collect();
        for (exit, id) in exits {
            self.pc = self.func.blocks[id].pc;
            let several = self.deliveries[&id].len() > 1;
            self.enter(id, several);
            if self.func.form == Form::Ssa {
                self.store(Place::is_register);
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

    /// Stands at the beginning of block `id`, with a parameter for every touched place if it has several ways in.
    fn enter(&mut self, id: usize, several: bool) {
        self.block = id;
        if !several {
            // In reverse postorder the one way in has been built already.
            self.env = self.deliveries[&id][0].env.clone();
            return;
        }
        self.env = self.initial.clone();
        for place in self.touched.clone() {
            let param = self.func.value(Node::Param(place.ty()));
            self.func.blocks[id].params.push(param);
            self.env.0[usize::from(place.0)] = Some(param);
        }
    }

    /// Edge number `edge` of block `from` to block `to`, with the present contents.
    fn deliver(&mut self, from: usize, edge: usize, to: usize) -> Edge {
        let delivery = Delivery { from, edge, env: self.env.clone() };
        self.deliveries.entry(to).or_default().push(delivery);
        Edge { to, args: Vec::new() }
    }

    /// The way of the graph's `e`, through a fuel check if it costs fuel.
    fn follow(&mut self, from: usize, edge: usize, e: cfg::Edge) -> Edge {
        if !e.backward {
            return self.deliver(from, edge, e.to + 1);
        }
        let check = self.new_block(self.pc);
        let to_check = Edge { to: check, args: Vec::new() };
        let before = self.env.clone();
        let fuel = self.read(Place::FUEL);
        let out = self.exit_block(Exit::Fuel);
        let no = self.deliver(check, 1, out);
        let minus_one = self.func.value(Node::Int(-1));
        let here = std::mem::replace(&mut self.block, check);
        let less = self.define(Node::Add(fuel, minus_one));
        self.write(Place::FUEL, less);
        let yes = self.deliver(check, 0, e.to + 1);
        self.block = here;
        self.env = before;
        self.func.blocks[check].term = Terminator::Branch { test: BranchTest::NonZero(fuel), yes, no };
        to_check
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
                Terminator::Goto(self.deliver(from, 0, to))
            }
            cfg::Terminator::Goto(edge) => Terminator::Goto(self.follow(from, 0, edge)),
            cfg::Terminator::Branch { test, yes, no } => {
                let test = match test {
                    isa::Test::Flags(cond) => {
                        BranchTest::Flags { cond, x: self.read(Place::flag(0)), y: self.read(Place::flag(1)) }
                    }
                    isa::Test::Bool { id, value } => BranchTest::Bool { id, value },
                };
                Terminator::Branch { test, yes: self.follow(from, 0, yes), no: self.follow(from, 1, no) }
            }
            cfg::Terminator::LoopEnd { slot, again, exit, restore } => {
                self.advance_loop_counter(slot);
                let left = self.read(Place::left(slot));
                let before = self.env.clone();
                let minus_one = self.func.value(Node::Int(-1));
                let less = self.define(Node::Add(left, minus_one));
                self.write(Place::left(slot), less);
                let yes = self.follow(from, 0, again);
                self.env = before;
                let no = if restore && self.func.form == Form::Memory {
                    // The store belongs to this way out only.
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
        let (al, increment) = (self.read(Place::AL), self.read(Place::increment(slot)));
        let sum = self.define(Node::Add(al, increment));
        self.write(Place::AL, sum);
    }

    fn leave_loop(&mut self, slot: usize, restore: bool) {
        if restore {
            let saved = self.read(Place::saved_al(slot));
            self.write(Place::AL, saved);
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
                        for place in [Place::left, Place::increment, Place::saved_al] {
                            let v = self.read(place(slot + 1));
                            self.write(place(slot), v);
                        }
                    }
                }
                let al = self.read(Place::AL);
                self.write(Place::saved_al(slot), al);
                for (component, place) in [Place::left(slot), Place::AL, Place::increment(slot)].into_iter().enumerate()
                {
                    let v = self.func.value(Node::IntUniform { id: int, component: component as u8 });
                    self.write(place, v);
                }
            }
        }
    }

    /// EMIT: the outputs go to memory, and the banks change places.
    pub(super) fn emit(&mut self) {
        if self.func.form == Form::Ssa {
            self.store(|p| (Place::out(0)..Place::hidden(0)).contains(&p));
        }
        self.push(Inst::Emit);
        if self.func.form == Form::Ssa {
            let bank = self.read(Place::BANK);
            for n in 0..16 {
                if self.touched.contains(&Place::out(n)) {
                    let (out, hidden) = (self.read(Place::out(n)), self.read(Place::hidden(n)));
                    self.write(Place::out(n), hidden);
                    self.write(Place::hidden(n), out);
                }
            }
            let flipped = match *self.func.node(bank) {
                Node::Flip(v) => v,
                _ => self.define(Node::Flip(bank)),
            };
            self.write(Place::BANK, flipped);
        }
    }

    /// Stores those touched places that `which` picks.
    fn store(&mut self, which: impl Fn(Place) -> bool) {
        for place in self.touched.clone() {
            if place != Place::BANK && which(place) {
                let value = self.read(place);
                let mem = self.mem(place);
                self.push(Inst::Store(mem, value));
            }
        }
    }

    /// Where a register is, seen from here.
    fn mem(&mut self, place: Place) -> Mem {
        match place.0 {
            n @ 0..16 => Mem::Temp(n),
            n @ 16..48 => {
                let current = self.read(Place::BANK);
                let bank = match *self.func.node(current) {
                    _ if n < 32 => current,
                    Node::Flip(v) => v,
                    _ => self.define(Node::Flip(current)),
                };
                Mem::Out { n: n & 15, bank }
            }
            n @ Place::A0..50 => Mem::Address(n - Place::A0),
            50 => Mem::LoopCounter,
            n @ Place::FLAGS..53 => Mem::Flag(n - Place::FLAGS),
            _ => Mem::Bank,
        }
    }

    /// The present content of `place`.
    pub(super) fn read(&mut self, place: Place) -> Value {
        if self.func.form == Form::Memory && place <= Place::BANK {
            let mem = self.mem_now(place);
            return self.define(Node::Load(mem));
        }
        if let Some(value) = self.env.0[usize::from(place.0)] {
            return value;
        }
        let value = self.initial(place);
        self.env.0[usize::from(place.0)] = Some(value);
        value
    }

    /// As [`Builder::mem`], in the memory form: the bank is what memory says now.
    fn mem_now(&mut self, place: Place) -> Mem {
        match place.0 {
            n @ 16..32 => {
                let bank = if self.emits { self.define(Node::Load(Mem::Bank)) } else { self.initial(Place::BANK) };
                Mem::Out { n: n - 16, bank }
            }
            _ => self.mem(place),
        }
    }

    /// What `place` holds when the run begins.
    fn initial(&mut self, place: Place) -> Value {
        if let Some(value) = self.initial.0[usize::from(place.0)] {
            return value;
        }
        let value = match place {
            Place::FUEL => self.func.value(Node::Int(self.fuel as i32)),
            // Counters that no LOOP has set can't be read; the value only fills a parameter.
            _ if place > Place::BANK => self.func.value(Node::Int(0)),
            _ => {
                let mem = match place.0 {
                    n @ 16..48 => {
                        let mut bank = self.initial(Place::BANK);
                        if n >= 32 {
                            bank = self.func.value(Node::Flip(bank));
                            self.initial_loads.push(bank);
                        }
                        Mem::Out { n: n & 15, bank }
                    }
                    _ => self.mem(place),
                };
                let value = self.func.value(Node::Load(mem));
                self.initial_loads.push(value);
                value
            }
        };
        self.initial.0[usize::from(place.0)] = Some(value);
        value
    }

    /// Gives `place` a new content.
    pub(super) fn write(&mut self, place: Place, value: Value) {
        if self.func.form == Form::Memory && place <= Place::BANK {
            let mem = self.mem_now(place);
            self.push(Inst::Store(mem, value));
        } else {
            self.env.0[usize::from(place.0)] = Some(value);
        }
    }

    /// Adds `inst` where the builder stands.
    pub(super) fn push(&mut self, inst: Inst) {
        self.func.blocks[self.block].insts.push((self.pc, inst));
    }

    /// An input or a uniform.
    pub(super) fn leaf(&mut self, node: Node) -> Value {
        debug_assert!(matches!(node, Node::Input(_) | Node::Uniform(_)), "what is the same throughout a run");
        *self.leaves.entry(node).or_insert_with(|| self.func.value(node))
    }

    /// Adds a node where the builder stands.
    pub(super) fn define(&mut self, node: Node) -> Value {
        let value = self.func.value(node);
        if !node.is_leaf() {
            self.push(Inst::Def(value));
        }
        value
    }

    fn fill_arguments(&mut self) {
        for (to, deliveries) in std::mem::take(&mut self.deliveries) {
            if self.func.blocks[to].params.is_empty() {
                continue;
            }
            for Delivery { from, edge, env } in deliveries {
                let args: Vec<Value> = self
                    .touched
                    .clone()
                    .into_iter()
                    .map(|p| env.0[usize::from(p.0)].unwrap_or_else(|| self.initial(p)))
                    .collect();
                let edge = self.func.blocks[from].term.edges_mut().nth(edge);
                edge.expect("the edge was made when it was delivered").args = args;
            }
        }
    }
}
