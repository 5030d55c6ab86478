//! Uploaded words and an entry point -> the shader that runs them, cached until the words change.
//!
//! Invariant: while no word has changed, nothing is copied, compared or looked up. This file must
//! not know which registers transferred the words.

use super::upload::ShaderState;
use crate::engine::{Engine, Shader};
use crate::isa::{MAX_CODE_WORDS, Pc};
use crate::program::{Entry, Program};

/// Programs cached for one kind of unit. Games alternate between a few in every frame.
const PROGRAMS: usize = 8;
/// Entries cached for one program.
const ENTRIES: usize = 16;

/// The most recently used programs. The first one matches the uploaded words unless `changed`.
#[derive(Clone)]
pub(super) struct ProgramCache {
    changed: bool,
    programs: Vec<CachedProgram>,
}

#[derive(Clone)]
struct CachedProgram {
    program: Program,
    shaders: Vec<(Pc, Shader)>,
}

/// The cost of uploads since the GPU was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadStats {
    /// Comparisons of all uploaded words with cached programs.
    pub comparisons: u64,
    /// Programs created from uploaded words.
    pub programs: u64,
    /// Shaders requested from the engine.
    pub lookups: u64,
}

impl ProgramCache {
    pub(super) fn new() -> ProgramCache {
        ProgramCache { changed: true, programs: Vec::new() }
    }

    /// Notes that a code word or descriptor has changed.
    pub(super) fn words_changed(&mut self) {
        self.changed = true;
    }

    /// The shader for the words of `memory` from `entry` on. The program is the whole memory, so a
    /// program without END stops at the end of memory.
    pub(super) fn get(
        &mut self,
        engine: &Engine,
        memory: &ShaderState,
        entry: Entry,
        stats: &mut UploadStats,
    ) -> &Shader {
        if self.changed {
            stats.comparisons += 1;
            let code = &memory.code[..memory.code.len().min(MAX_CODE_WORDS)];
            let matches = |p: &Program| p.code() == code && p.opdescs() == &*memory.opdescs;
            match self.programs.iter().position(|cached| matches(&cached.program)) {
                Some(n) => self.programs[..=n].rotate_right(1),
                None => {
                    stats.programs += 1;
                    let program = Program::from_words(code, &memory.opdescs).expect("no more words than units have");
                    self.programs.truncate(PROGRAMS - 1);
                    self.programs.insert(0, CachedProgram { program, shaders: Vec::new() });
                }
            }
            self.changed = false;
        }
        let CachedProgram { program, shaders } = self.programs.first_mut().expect("present unless words changed");
        let position = shaders.iter().position(|(pc, _)| *pc == entry.pc).unwrap_or_else(|| {
            stats.lookups += 1;
            let shader = engine.own_shader(program, entry);
            if shaders.len() == ENTRIES {
                shaders.remove(0);
            }
            shaders.push((entry.pc, shader));
            shaders.len() - 1
        });
        &shaders[position].1
    }
}
