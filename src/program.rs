//! Code words and operand descriptors -> [`Program`], the input of every engine; and [`Entry`], the
//! address and stage of a run.
//!
//! An emulator builds a program from the words that a game uploads. A program is immutable; two
//! programs with the same words and descriptors are equal.

use crate::isa::{Inst, MAX_CODE_WORDS, OPDESCS, Pc, Stage};
use std::fmt;

/// Program memory and the operand-descriptor table.
///
/// ```
/// use picajit::{Entry, Program};
///
/// let program = Program::from_words(&[0x2002_5000, 0x8800_0000], &[0x6_C36F])?;
/// assert_eq!((program.code().len(), program.opdescs().len()), (2, 1));
/// let entry = Entry::vertex(0);
/// assert_eq!(entry.stage.to_string(), "vertex");
/// let error = Program::from_words(&[0; 5000], &[]).unwrap_err();
/// assert_eq!(error.to_string(), "program of 5000 words: the largest unit holds 4096");
/// # Ok::<(), picajit::program::ProgramError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    code: Box<[u32]>,
    opdescs: Box<[u32]>,
}

/// Why code words do not form a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// More code than the largest unit's memory holds.
    TooLong {
        /// Number of code words.
        words: usize,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::TooLong { words } => {
                write!(f, "program of {words} words: the largest unit holds {MAX_CODE_WORDS}")
            }
        }
    }
}

impl std::error::Error for ProgramError {}

impl Program {
    /// A program of uploaded words. An instruction can name the first 128 descriptors; further ones
    /// are accepted and ignored, since a host's table may be larger (its index register is twelve
    /// bits wide).
    ///
    /// Fails if there are more than 4096 code words.
    pub fn from_words(code: &[u32], opdescs: &[u32]) -> Result<Program, ProgramError> {
        if code.len() > MAX_CODE_WORDS {
            return Err(ProgramError::TooLong { words: code.len() });
        }
        Ok(Program { code: code.into(), opdescs: opdescs[..opdescs.len().min(OPDESCS)].into() })
    }

    /// The code words.
    pub fn code(&self) -> &[u32] {
        &self.code
    }

    /// Bytes of memory that the program occupies.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.code) + size_of_val(&*self.opdescs)
    }

    /// The operand descriptors, at most 128.
    pub fn opdescs(&self) -> &[u32] {
        &self.opdescs
    }

    /// Descriptor `index`; zero where nothing was uploaded.
    pub fn opdesc(&self, index: u8) -> u32 {
        self.opdescs.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// The instruction at `pc`; `None` past the last word.
    pub fn inst(&self, pc: Pc) -> Option<Inst> {
        let word = *self.code.get(usize::from(pc))?;
        Some(Inst::decode(word, Inst::opdesc_index(word).map_or(0, |i| self.opdesc(i))))
    }

    /// All instructions in address order.
    pub fn insts(&self) -> impl Iterator<Item = (Pc, Inst)> + '_ {
        (0..self.code.len() as Pc).map(|pc| (pc, self.inst(pc).expect("pc is inside the code")))
    }

    /// A 128-bit name of the program, stable across releases and machines: FNV-1a over the lengths,
    /// the code words and the descriptors, little endian. Engines also compare the programs
    /// themselves, never only their hashes.
    pub fn hash128(&self) -> ProgramHash {
        let mut h = Fnv128::new();
        h.word(self.code.len() as u32);
        self.code.iter().for_each(|&w| h.word(w));
        h.word(self.opdescs.len() as u32);
        self.opdescs.iter().for_each(|&w| h.word(w));
        h.finish()
    }
}

/// See [`Program::hash128`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramHash(pub u128);

impl fmt::Display for ProgramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ProgramHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 128-bit FNV-1a with its specification's parameters.
pub(crate) struct Fnv128(u128);

impl Fnv128 {
    pub(crate) fn new() -> Fnv128 {
        Fnv128(0x6c62272e07bb014262b821756295c58d)
    }
    pub(crate) fn word(&mut self, w: u32) {
        for b in w.to_le_bytes() {
            self.0 = (self.0 ^ u128::from(b)).wrapping_mul(0x0000000001000000000000000000013B);
        }
    }
    pub(crate) fn finish(self) -> ProgramHash {
        ProgramHash(self.0)
    }
}

/// Address and stage at which a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// First word. Register writes carry 0x7FFF in the upper half; mask it off.
    pub pc: Pc,
    /// Kind of unit.
    pub stage: Stage,
}

impl Entry {
    /// A vertex program that begins at `pc`.
    pub const fn vertex(pc: Pc) -> Entry {
        Entry { pc, stage: Stage::Vertex }
    }
    /// A geometry program that begins at `pc`.
    pub const fn geometry(pc: Pc) -> Entry {
        Entry { pc, stage: Stage::Geometry }
    }
}
