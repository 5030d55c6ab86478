//! Jobs -> run by background threads in the order of their [`Priority`], while the threads that push
//! them go on.
//!
//! Invariant: a job runs once or, if the threads end or its [`Hotness`] is dropped before its turn, not
//! at all. The jobs that wait are at most twice as many as those whose hotness exists, or
//! [`MIN_SWEEP`]. Dropping [`Background`] joins its threads. In a child process after `fork`, which has
//! none of the threads, jobs are dropped and nothing waits. This file must not depend on the kind of work.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, ThreadId};

/// A unit of work. It should hold only weak references to the object it works for, so that work for
/// dropped objects is skipped.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Counts the vertices that ran without a piece of code, which a job is to compile. Wraps. It is a
/// part of the object that the job works for.
#[derive(Debug, Default)]
pub(crate) struct Hotness(Arc<AtomicU32>);

impl Hotness {
    /// Counts vertices; how many there were before.
    pub(crate) fn add(&self, vertices: u32) -> u32 {
        self.0.fetch_add(vertices, Ordering::Relaxed)
    }

    /// The vertices so far.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // then no run deoptimises
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Jobs of a kind that wait before any are looked through for dropped objects.
const MIN_SWEEP: usize = 1024;

/// Jobs of a kind that wait, each with the hotness of its object.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<(Weak<AtomicU32>, Job)>,
    /// How many wait when those of dropped objects are removed next.
    sweep_at: usize,
}

impl Jobs {
    /// Adds a job. Returns jobs that were removed, for the caller to drop without the lock.
    fn push(&mut self, hotness: &Hotness, job: Job) -> VecDeque<(Weak<AtomicU32>, Job)> {
        let mut removed = VecDeque::new();
        if self.waiting.len() >= self.sweep_at.max(MIN_SWEEP) {
            let all = std::mem::take(&mut self.waiting);
            (removed, self.waiting) = all.into_iter().partition(|(hotness, _)| hotness.strong_count() == 0);
            self.sweep_at = 2 * self.waiting.len();
        }
        self.waiting.push_back((Arc::downgrade(&hotness.0), job));
        removed
    }

    /// The hottest job, removed. Hotness changes while a job waits, so this compares all.
    fn hottest(&mut self) -> Option<Job> {
        let hotness = |hotness: &Weak<AtomicU32>| hotness.upgrade().map(|hotness| hotness.load(Ordering::Relaxed));
        let by_hotness = self.waiting.iter().enumerate().max_by_key(|(n, (of, _))| (hotness(of), Reverse(*n)));
        let (n, _) = by_hotness?;
        self.waiting.remove(n).map(|(_, job)| job)
    }
}

/// The order of jobs. Each kind precedes the next one.
#[derive(Clone, Copy)]
pub(crate) enum Priority<'a> {
    /// Compiles code without which vertices run on a lower tier; the hottest first.
    TierUp(&'a Hotness),
    /// Compiles code for what published code runs more slowly; the hottest first.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // then nothing is published
    Improve(&'a Hotness),
}

/// Threads that run jobs. Dropping it ends each thread after its current job.
pub(crate) struct Background {
    queue: Queue,
    threads: Vec<JoinHandle<()>>,
}

/// The jobs that wait for a thread. A queue is open while it has threads; a closed one accepts no
/// job.
#[derive(Clone, Default)]
pub struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Whether there are threads: [`State::threads`] for a caller without the lock.
    open: AtomicBool,
    /// Signals a new job, or the end of the threads.
    work: Condvar,
    /// Signals that no job waits or runs.
    idle: Condvar,
    /// The process that has the threads.
    process: OnceLock<u32>,
}

impl Shared {
    /// Whether this is a child process of the one that has the threads. Its copy of the lock may be held
    /// by a thread that it does not have.
    fn is_in_child(&self) -> bool {
        cfg!(unix) && self.process.get().is_some_and(|&process| process != std::process::id())
    }
}

thread_local! {
    /// The id of this thread, if it runs jobs. Host threads never call `thread::current()`: on the
    /// main thread the standard library never frees the handle it creates, and leak detectors
    /// report it.
    static WORKER: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

#[derive(Default)]
struct State {
    tier_ups: Jobs,
    improvements: Jobs,
    /// The number of jobs that run.
    busy: usize,
    /// The threads that run jobs. Empty: the queue is closed.
    threads: Vec<ThreadId>,
}

impl State {
    fn has_jobs(&self) -> bool {
        !(self.tier_ups.waiting.is_empty() && self.improvements.waiting.is_empty())
    }

    /// The next job, removed.
    fn next(&mut self) -> Option<Job> {
        self.tier_ups.hottest().or_else(|| self.improvements.hottest())
    }
}

impl Background {
    /// Starts `threads` threads: at most 64, and fewer if the system fails to start one.
    pub(crate) fn new(threads: usize) -> Background {
        let queue = Queue::default();
        // A thread that finds no thread ids ends. The lock keeps it waiting until they are stored.
        let mut state = queue.state();
        let started = (0..threads.min(64)).map_while(|_| {
            let queue = queue.clone();
            thread::Builder::new().name("picajit".into()).spawn(move || queue.serve()).ok()
        });
        let threads: Vec<JoinHandle<()>> = started.collect();
        state.threads = threads.iter().map(|t| t.thread().id()).collect();
        if !threads.is_empty() {
            queue.0.process.get_or_init(std::process::id);
        }
        queue.0.open.store(!threads.is_empty(), Ordering::Relaxed);
        drop(state);
        Background { queue, threads }
    }

    /// The queue that the threads serve.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.queue.0.is_in_child() {
            // A handle that is dropped would tell the system of a thread that this process lacks.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        let mut state = self.queue.state();
        state.threads.clear();
        self.queue.0.open.store(false, Ordering::Relaxed);
        let State { tier_ups, improvements, .. } = &mut *state;
        let dropped = [tier_ups, improvements].map(std::mem::take);
        drop(state);
        // Outside the lock: a job's captured values may run arbitrary code when they are dropped.
        drop(dropped);
        self.queue.0.work.notify_all();
        self.queue.0.idle.notify_all();
        for thread in self.threads.drain(..) {
            // A job may drop its own `Background`; a thread can't join itself.
            if Some(thread.thread().id()) != WORKER.get() {
                let _ = thread.join();
            }
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic can't leave the state inconsistent: jobs run outside the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the queue has threads, and so accepts jobs. Takes no lock.
    pub(crate) fn open(&self) -> bool {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Adds a job. A closed queue drops it and returns false.
    #[cfg(test)]
    pub(crate) fn push(&self, priority: Priority<'_>, job: Job) -> bool {
        self.try_push(priority, job).is_ok()
    }

    /// Adds a job, or returns it if the queue is closed.
    fn try_push(&self, priority: Priority<'_>, job: Job) -> Result<(), Job> {
        if self.0.is_in_child() {
            // No thread will ever run it, and to wait for a value that one was computing would be for ever.
            return Ok(());
        }
        let mut state = self.state();
        if state.threads.is_empty() {
            return Err(job);
        }
        let removed = match priority {
            Priority::TierUp(hotness) => state.tier_ups.push(hotness, job),
            Priority::Improve(hotness) => state.improvements.push(hotness, job),
        };
        // A thread that wakes under the lock waits again.
        drop(state);
        drop(removed);
        self.0.work.notify_one();
        Ok(())
    }

    /// The jobs that wait or run.
    #[cfg(feature = "capi")]
    pub(crate) fn unfinished(&self) -> usize {
        if self.0.is_in_child() {
            return 0;
        }
        let state = self.state();
        state.tier_ups.waiting.len() + state.improvements.waiting.len() + state.busy
    }

    /// Blocks until no job waits or runs, including jobs that arrive during the wait. Returns at
    /// once on one of the queue's own threads, and if the queue is closed.
    pub fn wait(&self) {
        if self.0.is_in_child() {
            return;
        }
        let mut state = self.state();
        while (state.has_jobs() || state.busy > 0) && !state.threads.is_empty() {
            if WORKER.get().is_some_and(|this| state.threads.contains(&this)) {
                return;
            }
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs jobs until the queue closes.
    fn serve(&self) {
        WORKER.set(Some(thread::current().id()));
        let mut state = self.state();
        loop {
            if state.threads.is_empty() {
                return;
            }
            let Some(job) = state.next() else {
                state = self.0.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            // A panic in one job must not end the thread that other jobs need. The panic hook has
            // printed it.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = self.state();
            state.busy -= 1;
            if state.busy == 0 && !state.has_jobs() {
                self.0.idle.notify_all();
            }
        }
    }
}

/// A value that is computed once, in the background where possible. It is a part of an `owner`,
/// which jobs hold weakly.
///
/// Each method takes a function that computes the value of this very `Lazy`, through
/// [`Lazy::get_or_init`].
pub(crate) struct Lazy<T> {
    value: OnceLock<T>,
    requested: AtomicBool,
}

impl<T> Default for Lazy<T> {
    fn default() -> Lazy<T> {
        Lazy { value: OnceLock::new(), requested: AtomicBool::new(false) }
    }
}

impl<T> Lazy<T> {
    /// The value, if it has been computed.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value; `compute` runs if there is none yet. Of concurrent callers one computes and the
    /// others wait.
    pub(crate) fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        self.value.get_or_init(compute)
    }

    /// Whether any caller has requested the value.
    pub(crate) fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Runs `compute` on the first request, and nothing on later ones. If there is no value yet and
    /// the queue of `place` is open, `compute` runs as a job. Otherwise it runs before this returns, also if the
    /// value exists: it may do more than compute.
    #[inline]
    pub(crate) fn request<O: Send + Sync + 'static>(
        &self,
        owner: &Arc<O>,
        place: Option<(&Queue, Priority<'_>)>,
        compute: impl FnOnce(&O) + Send + 'static,
    ) {
        // The load keeps the cache line shared between threads that repeat a request.
        if !self.requested() && !self.requested.swap(true, Ordering::Relaxed) {
            self.first_request(owner, place, compute);
        }
    }

    fn first_request<O: Send + Sync + 'static>(
        &self,
        owner: &Arc<O>,
        place: Option<(&Queue, Priority<'_>)>,
        compute: impl FnOnce(&O) + Send + 'static,
    ) {
        let (queue, priority) = match place {
            Some(place) if self.value.get().is_none() => place,
            _ => return compute(owner),
        };
        let weak = Arc::downgrade(owner);
        let job = move || {
            if let Some(owner) = weak.upgrade() {
                compute(&owner);
            }
        };
        if let Err(job) = queue.try_push(priority, Box::new(job)) {
            job();
        }
    }

    /// The value, if there is one. Otherwise this [requests](Lazy::request) it, and returns `None`
    /// while a job computes it. If there is no open queue, `compute` runs here.
    #[cfg_attr(not(feature = "jit"), allow(dead_code))] // then no kernel compiles more code
    pub(crate) fn get_or_request<'a, O: Send + Sync + 'static>(
        &'a self,
        owner: &'a Arc<O>,
        place: Option<(&Queue, Priority<'_>)>,
        compute: impl Fn(&O) -> &T + Send + 'static,
    ) -> Option<&'a T> {
        if let Some(value) = self.value.get() {
            return Some(value);
        }
        let Some(place) = place.filter(|(queue, _)| queue.open()) else { return Some(compute(owner)) };
        self.request(owner, Some(place), move |owner| {
            compute(owner);
        });
        self.value.get()
    }
}

#[cfg(test)]
mod tests;
