//! Objects: an assembled unit -> a DVOJ, and DVOJs -> a linked program.
//!
//! No public tool writes or links objects, so this is a reading of their description: an object's
//! entry is its label `main` or its first word, and addresses in its code count from that word.

use crate::display::unified_range;
use picajit::container::dvoj::{Dvoj, SourceLine};
use picajit::container::shbin::{Constant, GeometryMode, Label, Opdesc, Shbin, Uniform};
use picajit::internals::descriptors::OpdescTable;
use picajit::isa::{Inst, MAX_CODE_WORDS, Pc, Stage};
use picajit::text::Assembly;
use std::collections::HashMap;
use std::fmt;

/// The word after an object's masks where no geometry mode is given.
const UNKNOWN: u32 = u32::MAX;
/// Descriptors that an instruction can name; `mad` and `madi` name fewer.
const OPDESCS: usize = 128;
const MAD_OPDESCS: usize = 32;
/// Bits of an address, and its place in a word.
const ADDRESS_BITS: u32 = 12;
const ADDRESS_AT: u32 = 10;

/// Why a unit is no object, or objects are no program.
#[derive(Debug)]
pub enum ObjectError {
    /// A unit with several entries.
    Entries { count: usize },
    /// The entry is not the procedure `main`, and there is one.
    Entry { entry: u32, main: Pc },
    /// More code than a program holds.
    TooMuchCode { words: usize },
    /// An address that its field can't hold.
    Address { object: String, pc: usize },
    /// More descriptors than instructions can name.
    Descriptors { object: String, pc: usize, most: usize },
    /// An instruction without its descriptor.
    NoDescriptor { object: String, pc: usize, index: u8 },
    /// One name for several registers.
    Name { name: String, registers: [String; 2], objects: [String; 2] },
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Entries { count } => {
                write!(
                    f,
                    "the sources have {count} entry points, an object has one\nhelp: assemble each alone, then link"
                )
            }
            ObjectError::Entry { entry, main } => {
                write!(
                    f,
                    "the entry point is word {entry}, and that of the object is `main`, word {main}\nhelp: give the procedure `main` another name, or make it the entry point"
                )
            }
            ObjectError::TooMuchCode { words } => {
                write!(f, "the objects have {words} words of code together, a program holds {MAX_CODE_WORDS}")
            }
            ObjectError::Address { object, pc } => {
                write!(f, "{object}: the address in word {pc} is outside of the linked program")
            }
            ObjectError::Descriptors { object, pc, most } => {
                write!(
                    f,
                    "{object}: word {pc} can name {most} descriptors, and the linked table has more\nhelp: name the object first"
                )
            }
            ObjectError::NoDescriptor { object, pc, index } => {
                write!(f, "{object}: word {pc} names descriptor {index}, which the object lacks")
            }
            ObjectError::Name { name, registers: [a, b], objects: [first, second] } => {
                write!(
                    f,
                    "`{name}` is {a} in {first} and {b} in {second}\nhelp: `.fvec {name} {a}` gives it these registers"
                )
            }
        }
    }
}

impl std::error::Error for ObjectError {}

/// The object of one unit.
pub fn object(assembly: Assembly) -> Result<Dvoj, ObjectError> {
    let Assembly { shbin, places, names, procs, .. } = assembly;
    let Shbin { code, opdescs, mut dvles, .. } = shbin;
    let Some(dvle) = dvles.pop().filter(|_| dvles.is_empty()) else {
        return Err(ObjectError::Entries { count: dvles.len() + 1 });
    };
    let mut symbols = Vec::new();
    let mut starts: Vec<u32> = Vec::new();
    for (n, name) in names.iter().enumerate() {
        // Line markers return to a file.
        if let Some(first) = names[..n].iter().position(|other| other == name) {
            starts.push(starts[first]);
            continue;
        }
        starts.push(symbols.len() as u32);
        symbols.extend(name.bytes().filter(|&b| b != 0).chain([0]));
    }
    let mut labels = dvle.labels;
    if labels.is_empty() {
        labels = procs.iter().enumerate().map(|(id, p)| label(id, p.start, p.len, &p.name)).collect();
    }
    let first = labels.iter().find(|label| label.position == 0).and_then(|label| label.size);
    let is_first = dvle.entry == 0 && first.unwrap_or(0) == dvle.end;
    if !is_first && !labels.iter().any(|label| label.name == MAIN) {
        labels.push(label(labels.len(), dvle.entry, dvle.end.saturating_sub(dvle.entry), MAIN));
    }
    let unknown = match dvle.geometry {
        GeometryMode::Point => UNKNOWN,
        mode => u32::from_le_bytes(mode.to_bytes()),
    };
    let place = |&(name, line): &(u32, u32)| SourceLine { file: starts[name as usize], line };
    let object = Dvoj {
        version: dvle.version,
        stage: dvle.stage,
        merge_outmaps: dvle.merge_outmaps,
        input_mask: dvle.input_mask,
        output_mask: dvle.output_mask,
        unknown,
        constants: dvle.constants,
        labels,
        code,
        opdescs,
        lines: places.iter().map(place).collect(),
        notes: Vec::new(),
        outputs: dvle.outputs,
        uniforms: dvle.uniforms,
        symbols,
    };
    let entry = object.entry().pc;
    if u32::from(entry) == dvle.entry { Ok(object) } else { Err(ObjectError::Entry { entry: dvle.entry, main: entry }) }
}

/// The label whose word is an object's entry.
const MAIN: &str = "main";

fn label(id: usize, position: u32, size: u32, name: &str) -> Label {
    Label { id: id as u16, unknown: 1, position, size: Some(size), name: name.into() }
}

/// Objects with their names -> one program with an entry for each, and warnings.
pub fn link(objects: Vec<(String, Dvoj)>) -> Result<(Shbin, Vec<String>), ObjectError> {
    let words = objects.iter().map(|(_, object)| object.code.len()).sum();
    if words > MAX_CODE_WORDS {
        return Err(ObjectError::TooMuchCode { words });
    }
    let warnings = names(&objects)?;
    let mut linked = Shbin::default();
    let mut table = Descriptors::new(&objects);
    for (name, object) in objects {
        let base = linked.code.len();
        for (pc, &word) in object.code.iter().enumerate() {
            let word = relocated(word, base).ok_or_else(|| ObjectError::Address { object: name.clone(), pc })?;
            table.add(word, (&name, pc), &object, &mut linked.code)?;
        }
        linked.file_names.extend(object.lines.first().and_then(|row| object.symbol(row.file)).map(Into::into));
        linked.dvles.push(object.linked_at(base as u32));
    }
    linked.opdescs = table.opdescs();
    Ok((linked, warnings))
}

/// The linked descriptor table.
enum Descriptors {
    /// First fit, as the assembler does.
    Assembler(OpdescTable),
    /// Every entry as it is: second words have an unknown meaning.
    Exact(Vec<Opdesc>, HashMap<(u32, u32), usize>),
}

impl Descriptors {
    fn new(objects: &[(String, Dvoj)]) -> Descriptors {
        match objects.iter().all(|(_, object)| object.opdescs.iter().all(|o| o.extra == 0)) {
            true => Descriptors::Assembler(OpdescTable::default()),
            false => Descriptors::Exact(Vec::new(), HashMap::new()),
        }
    }

    /// Appends a word of `object` to `code`, with the number of its descriptor in this table.
    fn add(
        &mut self,
        word: u32,
        (name, pc): (&str, usize),
        object: &Dvoj,
        code: &mut Vec<u32>,
    ) -> Result<(), ObjectError> {
        let Some(index) = Inst::opdesc_index(word) else {
            code.push(word);
            return Ok(());
        };
        let missing = || ObjectError::NoDescriptor { object: name.into(), pc, index };
        let given = *object.opdescs.get(usize::from(index)).ok_or_else(missing)?;
        let full = || ObjectError::Descriptors { object: name.into(), pc, most: most_descriptors(word) };
        let new = match self {
            Descriptors::Assembler(table) => {
                let slot = table.place(&Inst::decode(word, given.word)).map_err(|_| full())?;
                if let Some((a, b)) = slot.swap {
                    code.iter_mut().for_each(|word| exchange(word, a.into(), b.into()));
                }
                slot.index.into()
            }
            Descriptors::Exact(all, places) => *places.entry((given.word, given.extra)).or_insert_with(|| {
                all.push(given);
                all.len() - 1
            }),
        };
        if new >= most_descriptors(word) {
            return Err(full());
        }
        code.push(with_descriptor(word, new));
        Ok(())
    }

    fn opdescs(self) -> Vec<Opdesc> {
        match self {
            Descriptors::Assembler(table) => table.entries().map(|(word, extra)| Opdesc { word, extra }).collect(),
            Descriptors::Exact(all, _) => all,
        }
    }
}

/// Descriptors that an instruction with a descriptor can name.
fn most_descriptors(word: u32) -> usize {
    if word >> 30 == 3 { MAD_OPDESCS } else { OPDESCS }
}

fn with_descriptor(word: u32, index: usize) -> u32 {
    word & !(most_descriptors(word) as u32 - 1) | index as u32
}

/// Exchanges two entries of the table in a word.
fn exchange(word: &mut u32, a: usize, b: usize) {
    match Inst::opdesc_index(*word).map(usize::from) {
        Some(n) if n == a => *word = with_descriptor(*word, b),
        Some(n) if n == b => *word = with_descriptor(*word, a),
        _ => {}
    }
}

/// A word of an object at `base` of the program; `None` if its address doesn't fit.
fn relocated(word: u32, base: usize) -> Option<u32> {
    let is_address =
        matches!(Inst::decode(word, 0), Inst::Call { .. } | Inst::If { .. } | Inst::Loop { .. } | Inst::Jump { .. });
    if !is_address {
        return Some(word);
    }
    let mask = (1u32 << ADDRESS_BITS) - 1;
    let address = (word >> ADDRESS_AT & mask) as usize + base;
    (address <= mask as usize).then_some(word & !(mask << ADDRESS_AT) | (address as u32) << ADDRESS_AT)
}

/// Vertex programs share the names of uniforms, as sources do. Each entry has its own table, so one
/// register with several names gives a warning only.
fn names(objects: &[(String, Dvoj)]) -> Result<Vec<String>, ObjectError> {
    let mut warnings = Vec::new();
    let mut named: HashMap<&str, (&str, &Uniform)> = HashMap::new();
    let mut taken: HashMap<u16, (&str, &str)> = HashMap::new();
    for (object, dvoj) in objects.iter().filter(|(_, dvoj)| dvoj.stage == Stage::Vertex) {
        for uniform in dvoj.uniforms.iter().filter(|u| u.first >= FIRST_UNIFORM) {
            let (first, other) = *named.entry(&uniform.name).or_insert((object, uniform));
            if (other.first, other.last) != (uniform.first, uniform.last) {
                let registers = [other, uniform].map(|u| unified_range(u.first, u.last));
                let objects = [first.into(), object.clone()];
                return Err(ObjectError::Name { name: uniform.name.clone(), registers, objects });
            }
            let mut clash = None;
            for register in uniform.first..=uniform.last.min(LAST_UNIFORM) {
                let (name, owner) = *taken.entry(register).or_insert((&uniform.name, object));
                if name != uniform.name {
                    clash.get_or_insert((register, name, owner));
                }
            }
            if let Some((register, name, owner)) = clash {
                warnings.push(shared(register, name, owner, &uniform.name, object));
            }
        }
    }
    for (object, dvoj) in objects.iter().filter(|(_, dvoj)| dvoj.stage == Stage::Vertex) {
        for constant in &dvoj.constants {
            let register = unified(constant);
            if let Some((name, owner)) = taken.get(&register).filter(|(_, owner)| owner != object) {
                warnings.push(shared(register, name, owner, "a constant", object));
            }
        }
    }
    Ok(warnings)
}

/// First and last number of uniforms in the tables of names.
const FIRST_UNIFORM: u16 = 0x10;
const LAST_UNIFORM: u16 = 0x87;

fn unified(constant: &Constant) -> u16 {
    let first = match constant {
        Constant::Float { .. } => 0x10,
        Constant::Int { .. } => 0x70,
        Constant::Bool { .. } => 0x78,
    };
    first + constant.register()
}

fn shared(register: u16, name: &str, owner: &str, other: &str, object: &str) -> String {
    let register = unified_range(register, register);
    format!(
        "{register} is `{name}` in {owner} and `{other}` in {object}: binding one program changes the other's value"
    )
}

#[cfg(test)]
mod tests;
