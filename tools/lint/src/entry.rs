//! One entry, explored and analysed once for all rules.

use super::EntryPoint;
use super::scopes::strayed;
use picajit::container::float24::f24_to_f32;
use picajit::container::shbin::{Constant, Dvle, Output};
use picajit::internals::analysis::assignment::{Assignment, Assignments, Bools, Visit};
use picajit::internals::analysis::{MOST_BLOCKS, ssa};
use picajit::internals::ir::Func;
use picajit::internals::ir::analysis::carried::{OUTPUTS, shown_at_start};
use picajit::internals::ir::cfg::{Explored, Limits};
use picajit::internals::ir::register_set::RegisterSet;
use picajit::internals::kernel::Unsupported;
use picajit::isa::{Inst, Pc, Stage};
use picajit::program::{Entry, Program};
use std::collections::{BTreeSet, HashMap};

/// States that the entries of one file may take together: a damaged file can have thousands of
/// entries.
pub(super) const MOST_STATES: usize = 1 << 18;

/// What the rules know of an entry.
pub(super) struct EntryFacts<'a> {
    pub program: &'a Program,
    pub index: usize,
    pub entry: Entry,
    pub tables: Option<&'a Dvle>,
    pub explored: Explored,
    pub assignments: Assignments,
    /// For each assignment the states before control flow strays.
    planned: Vec<BTreeSet<usize>>,
    /// The SSA form; `None` if control flow has too many blocks.
    pub func: Option<Func>,
    /// The registers of which an observable effect depends on the initial contents.
    pub shown_at_start: RegisterSet,
}

impl<'a> EntryFacts<'a> {
    /// Explores an entry. Lowers `left`, the states that may still be explored.
    pub fn new(
        program: &'a Program,
        index: usize,
        point: EntryPoint<'a>,
        left: &mut usize,
    ) -> Result<EntryFacts<'a>, Unsupported> {
        let EntryPoint { entry, tables } = point;
        let limit = Limits::default().states.min(*left);
        let explored = Explored::new(program, entry, limit);
        *left -= explored.as_ref().map_or(limit, |explored| explored.nodes().len());
        let explored = explored?;
        let assignments = Assignments::new(program, entry.stage, &explored, given_bools(tables));
        let cfg = explored.cfg(MOST_BLOCKS).ok();
        let shown = tables.map_or(OUTPUTS, mapped);
        let shown_at_start = cfg.as_ref().map_or(RegisterSet::NONE, |cfg| shown_at_start(cfg, shown));
        let func = cfg.as_ref().map(ssa);
        let planned = assignments.list.iter().map(|a| planned(program, &explored, a)).collect();
        Ok(EntryFacts { program, index, entry, tables, explored, assignments, planned, func, shown_at_start })
    }

    /// Every state that runs reach, with its assignment. What runs reach only because control flow
    /// has strayed is left out: a finding there has another finding as its cause.
    pub fn visits(&self) -> impl Iterator<Item = (&Assignment, Visit)> {
        let pairs = self.assignments.list.iter().zip(&self.planned);
        pairs.flat_map(|(assignment, planned)| {
            let visits = assignment.visits().filter(|visit| planned.contains(&visit.node));
            visits.map(move |visit| (assignment, visit))
        })
    }

    /// Whether some run goes elsewhere than its source says.
    pub fn strays(&self) -> bool {
        let all = |assignment: &Assignment| assignment.visits().map(|visit| visit.node).collect::<BTreeSet<usize>>();
        self.assignments.list.iter().zip(&self.planned).any(|(assignment, planned)| all(assignment) != *planned)
    }

    pub fn stage(&self) -> Stage {
        self.entry.stage
    }

    pub fn inst(&self, node: usize) -> Option<Inst> {
        self.program.inst(self.pc(node))
    }

    pub fn pc(&self, node: usize) -> Pc {
        self.explored.nodes()[node].pc
    }

    /// The output components that something receives: those of the output table. Without a table
    /// none are known.
    pub fn mapped(&self) -> RegisterSet {
        self.tables.map_or(RegisterSet::NONE, mapped)
    }

    /// The condition under which something holds that holds in `these` assignments only: ` if b0 is
    /// true`, or nothing.
    pub fn condition(&self, these: &[&Assignment]) -> String {
        let all = &self.assignments.list;
        let Some(first) = these.first() else { return String::new() };
        if these.len() == all.len() {
            return String::new();
        }
        let varies = |bit: u16| all.iter().any(|a| (a.bools.values ^ first.bools.values) & bit != 0);
        let same = |bit: u16| these.iter().all(|a| (a.bools.values ^ first.bools.values) & bit == 0);
        let fixed = (0..16u16).filter(|n| varies(1 << n) && same(1 << n));
        let texts: Vec<String> = fixed.map(|n| format!("b{n} is {}", first.bools.values >> n & 1 != 0)).collect();
        if texts.is_empty() { String::new() } else { format!(" if {}", texts.join(" and ")) }
    }
}

/// The states that `assignment` reaches without an edge on which control flow strays.
fn planned(program: &Program, explored: &Explored, assignment: &Assignment) -> BTreeSet<usize> {
    let mut met = BTreeSet::from([0]);
    let mut queue = vec![0];
    while let Some(node) = queue.pop() {
        let successors = assignment.successors(program, explored, node);
        let lost = strayed(program, explored, node, &successors);
        for to in successors.into_iter().filter(|to| !lost.contains(to)) {
            if met.insert(to) {
                queue.push(to);
            }
        }
    }
    met
}

/// The output components that a table maps.
fn mapped(tables: &Dvle) -> RegisterSet {
    let row = |set, o: &Output| match u8::try_from(o.register) {
        Ok(n) if n < 16 => set | RegisterSet::of_output(n, received(o)),
        _ => set,
    };
    tables.outputs.iter().fold(RegisterSet::NONE, row)
}

/// The components of a row that have a meaning: the first ones of its mask, as many as the meaning
/// has (container notes, 4.3).
fn received(row: &Output) -> u8 {
    let count = match row.semantic {
        0..=2 => 4,
        3 | 5 | 6 => 2,
        4 => 1,
        8 => 3,
        // A dummy goes nowhere; it only makes a geometry program receive the register.
        _ => 0,
    };
    (0..4).filter(|c| row.mask >> c & 1 != 0).take(count).fold(0, |mask, c| mask | 1 << c)
}

/// The boolean uniforms that the entry's constants set, those without a name: a host may give the
/// others another value.
fn given_bools(tables: Option<&Dvle>) -> Bools {
    let mut given = Bools::default();
    for constant in tables.map_or(&[][..], |dvle| &dvle.constants) {
        if let Constant::Bool { register, value } = *constant
            && register < 16
            && !is_named(tables, 0x78 + register)
        {
            given.known |= 1 << register;
            given.values = given.values & !(1 << register) | u16::from(value) << register;
        }
    }
    given
}

/// The float constants that are the same in every run: a host may give a register with a name
/// another value.
pub(super) fn constant_floats(tables: Option<&Dvle>) -> HashMap<u16, [f32; 4]> {
    let mut all = HashMap::new();
    for constant in tables.map_or(&[][..], |dvle| &dvle.constants) {
        if let Constant::Float { register, value } = *constant
            && !is_named(tables, 0x10 + register)
        {
            all.insert(register, value.map(f24_to_f32));
        }
    }
    all
}

/// The integer constants that are the same in every run.
pub(super) fn constant_ints(tables: Option<&Dvle>) -> [Option<[u8; 4]>; 4] {
    let mut all = [None; 4];
    for constant in tables.map_or(&[][..], |dvle| &dvle.constants) {
        if let Constant::Int { register, value } = *constant
            && !is_named(tables, 0x70 + register)
            && let Some(slot) = all.get_mut(usize::from(register))
        {
            *slot = Some(value);
        }
    }
    all
}

/// Whether a uniform of the table has the register, in the table's numbering.
pub(super) fn is_named(tables: Option<&Dvle>, register: u16) -> bool {
    let uniforms = tables.map_or(&[][..], |dvle| &dvle.uniforms);
    uniforms.iter().any(|uniform| (uniform.first..=uniform.last).contains(&register))
}
