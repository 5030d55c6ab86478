//! Warm start: files of the program store -> shaders in the cache, before the game requests them.
//!
//! Invariants: preloaded shaders take free cache space only, and never evict requested ones. With
//! threads, a requested shader waits for no preloaded one whose compilation has not begun. The
//! engine reports no event for a shader that no caller requests. This file must not depend on the
//! file format.

use super::Engine;
use super::program_store::{self, DirectoryListing, StoredProgram};
use crate::background::Priority;
use crate::cache::{Exploration, FIRST_STATES, ShaderKey};
use std::io;
use std::sync::Arc;

/// The budget of explored states: enough for the largest directory of real shaders. A state takes
/// about a microsecond, so files with hostile programs delay a preload by half a second.
const STATES: usize = program_store::MAX_PROGRAMS * FIRST_STATES;

/// The result of [`Engine::preload`]: counts of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preloaded {
    /// Programs that the cache now holds. With threads their compilation may still run;
    /// [`Engine::wait`] waits for it.
    pub programs: usize,
    /// Files that are not valid programs: broken, of another format version, or foreign. They stay
    /// untouched.
    pub rejected: usize,
    /// Files that the engine did not load: the cache is full, the directory has more than 4096
    /// programs, or exploring their programs exceeds the time budget, which real programs don't.
    pub skipped: usize,
}

impl Engine {
    /// Loads the programs of [`Options::store_directory`](super::Options::store_directory) into the
    /// cache, and compiles them: on this thread, or on the [threads](super::Options::threads) after
    /// this returns. Batch code is compiled when batches need it, as always. Does nothing without a
    /// store directory, if it does not exist yet, and in a build without native code.
    ///
    /// Call it when a game starts. Preloaded shaders take only free space in the cache. Without
    /// threads it takes the time of all compilations. With threads it reads and explores the
    /// programs, which takes some milliseconds for some hundred, and at most about half a second
    /// for hostile files. Compiling a file's program costs no more than compiling a program that a
    /// game uploads.
    ///
    /// Fails if the directory can't be read. Invalid files are only counted.
    pub fn preload(&self) -> io::Result<Preloaded> {
        let Some(store) = self.store() else { return Ok(Preloaded::default()) };
        let DirectoryListing { files, excess, others } = DirectoryListing::read(store.directory())?;
        let mut result = Preloaded { programs: 0, rejected: others, skipped: excess };
        let mut states = STATES;
        for (n, file) in files.iter().enumerate() {
            let Some(stored) = program_store::load(file) else {
                result.rejected += 1;
                continue;
            };
            let config = self.config(stored.on_unit);
            let found = ShaderKey::explore_within(&stored.program, stored.entry, config, &mut states);
            if !found.is_some_and(|(key, explored)| self.offer(&stored, key, explored)) {
                result.skipped += files.len() - n;
                break;
            }
            result.programs += 1;
        }
        Ok(result)
    }

    /// Offers a shader to the cache, and compiles it: first, or with threads when they are idle.
    /// Returns whether the cache has the shader.
    fn offer(&self, stored: &StoredProgram, key: ShaderKey, explored: Exploration) -> bool {
        if self.cache.has(&key) {
            return true;
        }
        let compiled = self.new_shader(&stored.program, &key, self.config(stored.on_unit), explored);
        if !self.cache.has_room(&key, compiled.held_bytes()) {
            return false;
        }
        let queue = self.compiler.queue();
        if queue.is_none() {
            compiled.compile_now();
        }
        let added = self.cache.offer(key.clone(), compiled.clone(), compiled.held_bytes());
        if let Some(queue) = queue.filter(|_| added) {
            let shader = Arc::downgrade(&compiled);
            // The cache may evict it first. If the threads end, its first runs compile it.
            let compile = move || {
                if let Some(shader) = shader.upgrade() {
                    shader.compile_now();
                }
            };
            queue.push(Priority::Idle, Box::new(compile));
        }
        // Another thread may have requested it since the first look.
        added || self.cache.has(&key)
    }
}
