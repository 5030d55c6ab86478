//! An entry -> the words that it reaches, its reads and writes.
//!
//! Reachability takes both edges of every condition. Where control flow has too many states, every
//! word counts as reachable.

use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::kernel::Unsupported;
use picajit::isa::{DstFile, Inst, Pc, Src, SrcFile, Test};
use picajit::program::{Entry, Program};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Static properties of an entry's code.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Reachable addresses, ascending.
    pub reachable: Vec<Pc>,
    /// Basic blocks; `None` if control flow has too many states.
    pub blocks: Option<usize>,
    /// Why there is no graph.
    pub too_much: Option<Unsupported>,
    /// `v` registers read.
    pub inputs: u16,
    /// `o` registers written.
    pub outputs: u16,
    /// Float uniforms named; a relative operand may read others.
    pub floats: BTreeSet<usize>,
    /// Float uniforms that are the base of a relative operand.
    pub relative: BTreeSet<usize>,
    /// Integer uniforms read.
    pub ints: u16,
    /// Boolean uniforms read.
    pub bools: u16,
}

/// Surveys `entry` of `program`.
pub fn survey(program: &Program, entry: Entry) -> Survey {
    within(program, entry, &mut Limits::default().states)
}

/// Surveys each of the entries. Entries at one address share their survey.
pub fn surveys(program: &Program, entries: impl IntoIterator<Item = Entry>) -> Vec<Rc<Survey>> {
    let mut left = super::entry::MOST_STATES;
    let mut known: HashMap<Entry, Rc<Survey>> = HashMap::new();
    let mut of = |entry| known.entry(entry).or_insert_with(|| Rc::new(within(program, entry, &mut left))).clone();
    entries.into_iter().map(&mut of).collect()
}

/// A survey of at most `left` states, which it lowers by the states it takes.
fn within(program: &Program, entry: Entry, left: &mut usize) -> Survey {
    let limits = Limits { states: Limits::default().states.min(*left), ..Limits::default() };
    let built = Cfg::build(program, entry, limits);
    *left -= built.as_ref().map_or(limits.states, |cfg| cfg.states);
    match built {
        Ok(cfg) => Survey { blocks: Some(cfg.blocks.len()), ..Survey::of_words(program, &cfg.reachable) },
        Err(why) => {
            let all: Vec<Pc> = (0..program.code().len() as Pc).collect();
            Survey { too_much: Some(why), ..Survey::of_words(program, &all) }
        }
    }
}

impl Survey {
    /// The reads and writes of the words at `pcs`.
    pub(super) fn of_words(program: &Program, pcs: &[Pc]) -> Survey {
        let mut survey = Survey { reachable: pcs.to_vec(), ..Survey::default() };
        pcs.iter().filter_map(|&pc| program.inst(pc)).for_each(|inst| survey.look_at(&inst));
        survey
    }

    fn look_at(&mut self, inst: &Inst) {
        match inst {
            Inst::Alu(alu) => {
                alu.sources().iter().for_each(|src| self.read(src));
                match alu.dst.file() {
                    DstFile::Output(n) if alu.mask.bits() != 0 => self.outputs |= 1 << n,
                    _ => {}
                }
            }
            Inst::Mova { src, .. } => self.read(src),
            Inst::Cmp { src, .. } => src.iter().for_each(|src| self.read(src)),
            Inst::Call { test: Some(Test::Bool { id, .. }), .. }
            | Inst::If { test: Test::Bool { id, .. }, .. }
            | Inst::Jump { test: Test::Bool { id, .. }, .. } => self.bools |= 1 << (id & 15),
            Inst::Loop { int, .. } => self.ints |= 1 << (int & 3),
            _ => {}
        }
    }

    fn read(&mut self, src: &Src) {
        match src.reg.file() {
            SrcFile::Input(n) => self.inputs |= 1 << n,
            SrcFile::Temp(_) => {}
            SrcFile::Uniform(n) => {
                self.floats.insert(n.into());
                if src.relative().is_some() {
                    self.relative.insert(n.into());
                }
            }
        }
    }
}
