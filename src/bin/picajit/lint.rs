//! An entry -> the words that it reaches, its reads and writes; a file -> its oddities
//! ([`Finding`]).
//!
//! Reachability follows [`Cfg`], which takes both edges of every condition. Where control flow has
//! too many states, every word counts as reachable. Nothing runs.

use crate::display;
use crate::load::{Loaded, LoadedEntry};
use picajit::ir::cfg::{Cfg, Limits, Terminator};
use picajit::isa::decode::opdesc_index;
use picajit::isa::table::{self, Format};
use picajit::isa::{DstFile, Inst, Pc, Src, SrcFile, Stage, Test};
use picajit::kernel::Unsupported;
use picajit::program::{Entry, Program};
use picajit::state::Exit;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::rc::Rc;

/// Words of a vertex unit's memory.
const VERTEX_WORDS: usize = 512;

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
    /// Exits other than END.
    pub exits: Vec<Exit>,
}

/// States that the entries of one file may take together: a damaged file can have thousands of
/// entries.
const STATES_OF_FILE: usize = 1 << 18;

/// Surveys `entry` of `program`.
pub fn survey(program: &Program, entry: Entry) -> Survey {
    within(program, entry, &mut Limits::default().states)
}

/// Surveys each entry of a file. Entries at one address share their survey.
pub fn surveys(loaded: &Loaded) -> Vec<Rc<Survey>> {
    let mut left = STATES_OF_FILE;
    let mut known: HashMap<Entry, Rc<Survey>> = HashMap::new();
    let of = |e: &LoadedEntry| {
        known.entry(e.entry).or_insert_with(|| Rc::new(within(&loaded.program, e.entry, &mut left))).clone()
    };
    loaded.entries.iter().map(of).collect()
}

/// A survey of at most `left` states, which it lowers by the states it takes.
fn within(program: &Program, entry: Entry, left: &mut usize) -> Survey {
    let mut s = Survey::default();
    let limits = Limits { states: Limits::default().states.min(*left), ..Limits::default() };
    let built = Cfg::build(program, entry, limits);
    *left -= built.as_ref().map_or(limits.states, |cfg| cfg.states);
    match built {
        Ok(cfg) => {
            s.blocks = Some(cfg.blocks.len());
            for block in &cfg.blocks {
                if let Terminator::Exit(exit) = block.term
                    && exit != Exit::End
                    && !s.exits.contains(&exit)
                {
                    s.exits.push(exit);
                }
            }
            s.reachable = cfg.reachable;
        }
        Err(why) => {
            s.reachable = (0..program.code().len() as Pc).collect();
            s.too_much = Some(why);
        }
    }
    for pc in s.reachable.clone() {
        if let Some(inst) = program.inst(pc) {
            s.look_at(&inst);
        }
    }
    s
}

impl Survey {
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

/// Instructions at `pcs` by name, with their counts; most frequent first, then by name.
pub fn opcodes(program: &Program, pcs: impl IntoIterator<Item = Pc>) -> Vec<(&'static str, usize)> {
    let mut counts = BTreeMap::new();
    for pc in pcs {
        if let Some(&word) = program.code().get(usize::from(pc)) {
            *counts.entry(table::row_of_word(word).map_or("undefined", |row| row.mnemonic)).or_insert(0) += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
    counts
}

/// An oddity of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A reachable undefined opcode.
    Undefined { pc: Pc, word: u32 },
    /// A transfer with bits 9:8 set, which no document describes.
    LengthBits { pc: Pc, word: u32 },
    /// An instruction names a descriptor that the file doesn't have.
    NoDescriptor { pc: Pc, index: u8, count: usize },
    /// An exit other than END.
    Exit { entry: usize, exit: Exit },
    /// EMIT or SETEMIT that a vertex entry reaches.
    EmitInVertex { entry: usize, pc: Pc },
    /// A vertex entry reaches words that its unit doesn't have.
    BeyondVertexUnit { entry: usize, pc: Pc },
    /// Control flow has too many states for native code.
    TooMuch { entry: usize, why: Unsupported },
    /// Inputs that are read though absent from the (non-empty) input mask.
    UndeclaredInputs { entry: usize, registers: u16 },
    /// Outputs that are declared and never written.
    UnwrittenOutputs { entry: usize, registers: u16 },
    /// No entry points.
    NoEntries,
    /// Words that no entry reaches.
    Unreachable { first: usize, last: usize },
}

impl Finding {
    /// Whether it is a note rather than a warning.
    pub fn is_note(&self) -> bool {
        matches!(self, Finding::Unreachable { .. } | Finding::TooMuch { .. })
    }

    /// Its name in JSON.
    pub fn id(&self) -> &'static str {
        match self {
            Finding::Undefined { .. } => "undefined-opcode",
            Finding::LengthBits { .. } => "length-bits",
            Finding::NoDescriptor { .. } => "no-descriptor",
            Finding::Exit { .. } => "exit",
            Finding::EmitInVertex { .. } => "emit-in-vertex",
            Finding::BeyondVertexUnit { .. } => "beyond-vertex-unit",
            Finding::TooMuch { .. } => "control-flow",
            Finding::UndeclaredInputs { .. } => "undeclared-inputs",
            Finding::UnwrittenOutputs { .. } => "unwritten-outputs",
            Finding::NoEntries => "no-entries",
            Finding::Unreachable { .. } => "unreachable",
        }
    }

    /// Its address, if it concerns one word.
    pub fn pc(&self) -> Option<Pc> {
        match *self {
            Finding::Undefined { pc, .. }
            | Finding::LengthBits { pc, .. }
            | Finding::NoDescriptor { pc, .. }
            | Finding::EmitInVertex { pc, .. }
            | Finding::BeyondVertexUnit { pc, .. } => Some(pc),
            Finding::Unreachable { first, .. } => Pc::try_from(first).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Undefined { pc, word } => {
                write!(f, "word {pc} (0x{word:08X}) has an opcode that no document defines; it does nothing here")
            }
            Finding::LengthBits { pc, word } => {
                write!(f, "word {pc} (0x{word:08X}) has bits 9:8 set, whose meaning is unknown; they are ignored")
            }
            Finding::NoDescriptor { pc, index, count } => {
                write!(f, "word {pc} uses descriptor {index}, but the file has {count}; it counts as zero")
            }
            Finding::Exit { entry, exit: Exit::PastEnd } => {
                write!(f, "entry {entry} can run past the last word without an end")
            }
            Finding::Exit { entry, exit: Exit::BreakOutsideLoop } => {
                write!(f, "entry {entry} can break outside of a loop, which hangs the hardware")
            }
            Finding::Exit { entry, exit } => write!(f, "entry {entry} can end with {}", exit_text(*exit)),
            Finding::EmitInVertex { entry, pc } => {
                write!(f, "entry {entry} is a vertex program and reaches an emit or setemit at word {pc}")
            }
            Finding::BeyondVertexUnit { entry, pc } => {
                write!(f, "entry {entry} reaches word {pc}, but a vertex unit has {VERTEX_WORDS} words")
            }
            Finding::TooMuch { entry, why } => write!(f, "entry {entry} has no native code: {why}"),
            Finding::UndeclaredInputs { entry, registers } => {
                write!(f, "entry {entry} reads {}, not in its input mask", display::mask("v", *registers))
            }
            Finding::UnwrittenOutputs { entry, registers } => {
                write!(f, "entry {entry} declares {} and never writes it", display::mask("o", *registers))
            }
            Finding::NoEntries => f.write_str("the file has no entry points"),
            Finding::Unreachable { first, last } if first == last => write!(f, "word {first} is reached by no entry"),
            Finding::Unreachable { first, last } => write!(f, "words {first}-{last} are reached by no entry"),
        }
    }
}

/// An exit as text.
pub fn exit_text(exit: Exit) -> &'static str {
    match exit {
        Exit::End => "end",
        Exit::Fuel => "out of fuel",
        Exit::BreakOutsideLoop => "break outside of a loop",
        Exit::PastEnd => "past the last word",
    }
}

/// An exit's name in JSON.
pub fn exit_id(exit: Exit) -> &'static str {
    match exit {
        Exit::End => "end",
        Exit::Fuel => "fuel",
        Exit::BreakOutsideLoop => "break-outside-loop",
        Exit::PastEnd => "past-end",
    }
}

/// The oddities of a file; `surveys` has one element for each entry, in order.
pub fn findings(loaded: &Loaded, surveys: &[Rc<Survey>]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut reached = vec![false; loaded.program.code().len()];
    for (entry, survey) in loaded.entries.iter().zip(surveys) {
        survey.reachable.iter().for_each(|&pc| reached[usize::from(pc)] = true);
        of_entry(&loaded.program, entry, survey, &mut found);
    }
    let mut words = Vec::new();
    for (pc, &word) in loaded.program.code().iter().enumerate().filter(|&(pc, _)| reached[pc]) {
        of_word(pc as Pc, word, loaded.program.opdescs().len(), &mut words);
    }
    words.append(&mut found);
    if loaded.entries.is_empty() {
        words.push(Finding::NoEntries);
        return words;
    }
    let mut first = None;
    for pc in 0..=reached.len() {
        match (reached.get(pc), first) {
            (Some(false), None) => first = Some(pc),
            (Some(true) | None, Some(start)) => {
                words.push(Finding::Unreachable { first: start, last: pc - 1 });
                first = None;
            }
            _ => {}
        }
    }
    words
}

fn of_word(pc: Pc, word: u32, descriptors: usize, found: &mut Vec<Finding>) {
    match table::row_of_word(word) {
        None => found.push(Finding::Undefined { pc, word }),
        Some(row) if matches!(row.format, Format::F2 | Format::F3) && word & 0x300 != 0 => {
            found.push(Finding::LengthBits { pc, word });
        }
        Some(_) => {}
    }
    if let Some(index) = opdesc_index(word)
        && usize::from(index) >= descriptors
    {
        found.push(Finding::NoDescriptor { pc, index, count: descriptors });
    }
}

fn of_entry(program: &Program, entry: &LoadedEntry, survey: &Survey, found: &mut Vec<Finding>) {
    let (n, dvle) = (entry.index, &entry.dvle);
    if let Some(why) = &survey.too_much {
        // Without a graph there is no further information.
        found.push(Finding::TooMuch { entry: n, why: why.clone() });
        return;
    }
    found.extend(survey.exits.iter().map(|&exit| Finding::Exit { entry: n, exit }));
    if entry.entry.stage == Stage::Vertex {
        let emits = |pc: &&Pc| matches!(program.inst(**pc), Some(Inst::Emit | Inst::Setemit(_)));
        found.extend(survey.reachable.iter().find(emits).map(|&pc| Finding::EmitInVertex { entry: n, pc }));
        let beyond = |pc: &&Pc| usize::from(**pc) >= VERTEX_WORDS;
        found.extend(survey.reachable.iter().find(beyond).map(|&pc| Finding::BeyondVertexUnit { entry: n, pc }));
    }
    // Some assemblers leave the mask empty.
    let registers = survey.inputs & !dvle.input_mask;
    if dvle.input_mask != 0 && registers != 0 {
        found.push(Finding::UndeclaredInputs { entry: n, registers });
    }
    let registers = dvle.output_mask & !survey.outputs;
    if registers != 0 {
        found.push(Finding::UnwrittenOutputs { entry: n, registers });
    }
}
