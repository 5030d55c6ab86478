//! Programs of an earlier start -> shaders in the cache, before anybody asks for them.
//!
//! Invariant: what is loaded takes only room that is free, and never drives out what somebody has asked for; with threads, what
//! somebody asks for meanwhile waits for one or two of these at most, whether it is one of them or not; nothing is said of what
//! nobody asks for. It must not know what a file looks like.

use super::compiled::Compiled;
use super::program_store::{self, Asked, Found};
use super::{Engine, lock};
use crate::background::Queue;
use crate::cache::{Cache, FIRST_STATES, ShaderKey};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, Weak};

/// States that are explored at most: enough for as many real shaders as are read. One takes about a microsecond, so nobody waits
/// long where somebody has made programs with as many as there can be.
const STATES: usize = program_store::MOST * FIRST_STATES;

/// What [`Engine::preload`] has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preloaded {
    /// Programs that the engine now knows. With threads their code is still being made: [`Engine::wait`] waits for it.
    pub programs: usize,
    /// What is in the directory and is no program: broken, of another version, somebody else's. Nothing is done about it.
    pub rejected: usize,
    /// Files that were left where they are, for want of room in the cache, because there are more than 4096, or because it takes too
    /// long to see what their programs can execute, as real ones don't.
    pub skipped: usize,
}

impl Engine {
    /// Reads the programs that engines have kept in [`Options::store_directory`](super::Options::store_directory), and has their code
    /// made: here and now, or by [threads](super::Options::threads) while this returns. Code for batches is made when batches want
    /// it, as ever. Without such an option, in a build without native code, and where there is no such directory yet, there is nothing to do.
    ///
    /// It takes no more of the cache than is free. A host does it where a game starts: without threads it takes as long as making all
    /// that code does, with threads as long as reading the files and exploring their programs, as [`Engine::shader`]
    /// does: some milliseconds for some hundred, and about half a second where somebody has made them to take long. What files hold can cost threads as
    /// much time as programs that a game uploads, and no more.
    ///
    /// Fails if the directory can't be read. What is wrong with a file is counted.
    pub fn preload(&self) -> io::Result<Preloaded> {
        let Some(kept) = self.kept() else { return Ok(Preloaded::default()) };
        let Found { files, more, others } = Found::look(kept.directory())?;
        let mut result = Preloaded { programs: 0, rejected: others, skipped: more };
        let mut unmade = VecDeque::new();
        let mut states = STATES;
        for (n, file) in files.iter().enumerate() {
            let Some(asked) = program_store::load(file) else {
                result.rejected += 1;
                continue;
            };
            let key = ShaderKey::within(&asked.program, asked.entry, self.config(asked.own), &mut states);
            if !key.is_some_and(|key| self.offer(&asked, key, &mut unmade)) {
                result.skipped += files.len() - n;
                break;
            }
            result.programs += 1;
        }
        let queue = self.background.queue().clone();
        Arc::new(Unmade { list: Mutex::new(unmade), cache: self.cache.clone(), queue }).one_more();
        Ok(result)
    }

    /// Puts a shader into the cache, if there is room. With threads its code is left unmade. Whether the cache has it.
    fn offer(&self, asked: &Asked, key: ShaderKey, unmade: &mut VecDeque<(Weak<Compiled>, ShaderKey)>) -> bool {
        let compiled = self.new_shader(&asked.program, asked.entry, self.config(asked.own));
        let later = self.background.queue().open();
        {
            let cache = lock(&self.cache);
            if cache.has(&key) {
                return true;
            }
            if !cache.has_room(&key, compiled.held_bytes()) {
                return false;
            }
        }
        if !later {
            compiled.make();
        }
        let mut cache = lock(&self.cache);
        let taken = cache.offer(key.clone(), compiled.clone(), compiled.held_bytes());
        if taken && later {
            unmade.push_back((Arc::downgrade(&compiled), key));
            return true;
        }
        // Somebody may have asked for it meanwhile.
        taken || cache.has(&key)
    }
}

/// Shaders whose code threads are to make, when there is nothing else to do.
struct Unmade {
    list: Mutex<VecDeque<(Weak<Compiled>, ShaderKey)>>,
    cache: Arc<Mutex<Cache<Arc<Compiled>>>>,
    queue: Queue,
}

impl Unmade {
    /// Leaves a job for the next one, and so on. If nobody is there to do it, whoever first runs a shader makes its code.
    fn one_more(self: Arc<Unmade>) {
        let next = {
            let mut list = lock(&self.list);
            // Some may have gone from the cache since.
            std::iter::from_fn(|| list.pop_front()).find_map(|(shader, key)| Some((shader.upgrade()?, key)))
        };
        let Some((shader, key)) = next else { return };
        let (shader, queue) = (Arc::downgrade(&shader), self.queue.clone());
        queue.push(Box::new(move || {
            // First, so that other threads begin with the next one: jobs that are left later come behind no more than that.
            self.clone().one_more();
            if let Some(shader) = shader.upgrade() {
                shader.make();
                lock(&self.cache).resize(&key, shader.held_bytes());
            }
        }));
    }
}
