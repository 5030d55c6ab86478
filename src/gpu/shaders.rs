//! Uploaded words and an entry point -> the shader that runs them, kept until the words change.
//!
//! Invariant: while no word has changed, nothing is copied, compared or looked up. It must not know which registers
//! words came through.

use super::upload::ShaderState;
use crate::engine::{Engine, Shader};
use crate::isa::{MAX_CODE_WORDS, Pc};
use crate::program::{Entry, Program};

/// Programs of one kind of unit that are kept. Games change between a few in every frame.
const PROGRAMS: usize = 8;
/// Entries of a program that are kept.
const ENTRIES: usize = 16;

/// The programs that have run lately, that of the present words first unless `changed`.
#[derive(Clone)]
pub(super) struct Shaders {
    changed: bool,
    programs: Vec<Kept>,
}

#[derive(Clone)]
struct Kept {
    program: Program,
    shaders: Vec<(Pc, Shader)>,
}

/// Work that could not be avoided, since the GPU was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Times that all words were compared with those of programs that are kept.
    pub comparisons: u64,
    /// Programs made of uploaded words.
    pub programs: u64,
    /// Shaders asked of the engine, which compiles them or finds them in its cache.
    pub lookups: u64,
}

impl Shaders {
    pub(super) fn new() -> Shaders {
        Shaders { changed: true, programs: Vec::new() }
    }

    /// A word of code or a descriptor is another one.
    pub(super) fn words_changed(&mut self) {
        self.changed = true;
    }

    /// What runs the words of `memory` from `entry` on. All of memory is the program, so one without END stops at its
    /// end.
    pub(super) fn get(&mut self, engine: &Engine, memory: &ShaderState, entry: Entry, work: &mut Work) -> Shader {
        if self.changed {
            work.comparisons += 1;
            let code = &memory.code[..memory.code.len().min(MAX_CODE_WORDS)];
            let same = |p: &Program| p.code() == code && p.opdescs() == &*memory.opdescs;
            match self.programs.iter().position(|kept| same(&kept.program)) {
                Some(n) => self.programs[..=n].rotate_right(1),
                None => {
                    work.programs += 1;
                    let program = Program::from_words(code, &memory.opdescs).expect("no more words than units have");
                    self.programs.truncate(PROGRAMS - 1);
                    self.programs.insert(0, Kept { program, shaders: Vec::new() });
                }
            }
            self.changed = false;
        }
        let Kept { program, shaders } = self.programs.first_mut().expect("there is one if nothing has changed");
        if let Some((_, shader)) = shaders.iter().find(|(pc, _)| *pc == entry.pc) {
            return shader.clone();
        }
        work.lookups += 1;
        let shader = engine.own_shader(program, entry);
        if shaders.len() == ENTRIES {
            shaders.remove(0);
        }
        shaders.push((entry.pc, shader.clone()));
        shader
    }
}
