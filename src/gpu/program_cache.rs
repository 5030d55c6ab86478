//! Uploaded words and an entry point -> the shader that runs them, kept until the words change.
//!
//! Invariant: while no word has changed, nothing is copied, compared or looked up. This file must
//! not know which registers transferred the words.

use super::upload::ShaderState;
use crate::engine::{Engine, Shader};
use crate::isa::{MAX_CODE_WORDS, Pc};
use crate::program::{Entry, Program};

/// Entries of the uploaded words. Games alternate between a few.
const ENTRIES: usize = 16;

/// The shaders of the uploaded words, unless `changed`. The engine keeps those of other words.
#[derive(Clone)]
pub(super) struct ProgramCache {
    changed: bool,
    shaders: Vec<(Pc, Shader)>,
}

/// The cost of uploads since the GPU was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadStats {
    /// Shaders requested from the engine, since words or the entry had changed.
    pub lookups: u64,
    /// Of these, programs that the engine did not know, and explored.
    pub programs: u64,
}

impl ProgramCache {
    pub(super) fn new() -> ProgramCache {
        ProgramCache { changed: true, shaders: Vec::new() }
    }

    /// Loads a shader's entry. See [`prefetch`](super::prefetch).
    #[inline(always)]
    pub(super) fn prefetch(&self) -> bool {
        self.shaders.first().is_some_and(|(_, shader)| shader.is_direct())
    }

    /// Notes that a code word or descriptor has changed.
    pub(super) fn words_changed(&mut self) {
        self.changed = true;
    }

    /// The shader for the words of `memory` from `entry` on. The program is the whole memory, so a
    /// program without END stops at the end of memory.
    #[inline]
    pub(super) fn get(
        &mut self,
        engine: &Engine,
        memory: &ShaderState,
        entry: Entry,
        stats: &mut UploadStats,
    ) -> &Shader {
        let position = match self.changed {
            true => None,
            false => self.shaders.iter().position(|(pc, _)| *pc == entry.pc),
        };
        let position = position.unwrap_or_else(|| self.request(engine, memory, entry, stats));
        &self.shaders[position].1
    }

    /// Requests the shader from the engine. Returns its position.
    #[cold]
    #[inline(never)]
    fn request(&mut self, engine: &Engine, memory: &ShaderState, entry: Entry, stats: &mut UploadStats) -> usize {
        let (code, opdescs) = (&memory.code[..memory.code.len().min(MAX_CODE_WORDS)], &memory.opdescs);
        if self.changed {
            self.changed = false;
            let last = self.shaders.drain(..).find(|(pc, _)| *pc == entry.pc);
            // Often the entry reaches none of the words.
            if let Some(last) = last.filter(|(_, shader)| shader.serves(code, opdescs, entry)) {
                self.shaders.push(last);
                return 0;
            }
        }
        stats.lookups += 1;
        let shader = engine.known_shader(code, opdescs, entry, true).unwrap_or_else(|| {
            stats.programs += 1;
            engine.own_shader(&Program::from_words(code, opdescs).expect("no more words than units have"), entry)
        });
        if self.shaders.len() == ENTRIES {
            self.shaders.remove(0);
        }
        self.shaders.push((entry.pc, shader));
        self.shaders.len() - 1
    }
}
