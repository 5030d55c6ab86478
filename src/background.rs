//! Work -> done by threads of its own, first come first served, while everybody else goes on.
//!
//! Invariant: a job is done once or, if the threads end before its turn, not at all; behind the end of [`Background`] none of its
//! threads runs. It must not know what the work is.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

/// Something to do. It should hold no more than a weak reference to what it is for, so that nobody waits for what nobody wants.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads that do jobs. They end with this value, after the job that each has begun.
pub struct Background {
    queue: Queue,
    threads: Vec<JoinHandle<()>>,
}

/// Where jobs are left. It outlives the threads, and then takes none.
#[derive(Clone, Default)]
pub struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work, or there will be none.
    work: Condvar,
    /// All work is done.
    idle: Condvar,
}

thread_local! {
    /// The number of this thread, if it does jobs. A host's thread is not asked for its own: what the standard library makes for that
    /// is never freed on the main thread, and a leak to whoever looks for some.
    static SERVES: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs that are being done.
    busy: usize,
    /// The threads that do them. None: the queue takes nothing.
    threads: Vec<ThreadId>,
}

impl Background {
    /// So many threads, 64 at most, or as many of them as the system gives.
    pub fn new(threads: usize) -> Background {
        let queue = Queue::default();
        // Held until all are known, so that none ends for want of itself.
        let mut state = queue.state();
        let started = (0..threads.min(64)).map_while(|_| {
            let queue = queue.clone();
            thread::Builder::new().name("picajit".into()).spawn(move || queue.serve()).ok()
        });
        let threads: Vec<JoinHandle<()>> = started.collect();
        state.threads = threads.iter().map(|t| t.thread().id()).collect();
        drop(state);
        Background { queue, threads }
    }

    /// Where to leave jobs.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.threads.clear();
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        // Not under the lock: what a job holds may do anything when it is dropped.
        drop(dropped);
        self.queue.0.work.notify_all();
        self.queue.0.idle.notify_all();
        for thread in self.threads.drain(..) {
            // A job may end its own threads, and can't wait for itself.
            if Some(thread.thread().id()) != SERVES.get() {
                let _ = thread.join();
            }
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after every statement, and jobs run outside.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it takes jobs.
    pub fn open(&self) -> bool {
        !self.state().threads.is_empty()
    }

    /// Leaves a job to be done; false if there is nobody to do it, and the job is dropped.
    pub fn push(&self, job: Job) -> bool {
        let mut state = self.state();
        let open = !state.threads.is_empty();
        if open {
            state.jobs.push_back(job);
            self.0.work.notify_one();
        }
        open
    }

    /// Returns when all that was left is done, also what is left meanwhile; at once on one of the threads that do it, and where
    /// there are none.
    pub fn wait(&self) {
        let mut state = self.state();
        while (!state.jobs.is_empty() || state.busy > 0) && !state.threads.is_empty() {
            if SERVES.get().is_some_and(|this| state.threads.contains(&this)) {
                return;
            }
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What a thread does until there is no more use for it.
    fn serve(&self) {
        SERVES.set(Some(thread::current().id()));
        let mut state = self.state();
        loop {
            if state.threads.is_empty() {
                return;
            }
            let Some(job) = state.jobs.pop_front() else {
                state = self.0.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            // A bug in one job should not take the others' thread. The panic has been printed by its hook.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = self.state();
            state.busy -= 1;
            if state.busy == 0 && state.jobs.is_empty() {
                self.0.idle.notify_all();
            }
        }
    }
}

/// A value that is computed once: by the thread that needs it, or by a job while that thread does without.
pub struct Lazy<T> {
    value: OnceLock<T>,
    /// Whether a job to compute it was left in a queue.
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
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value; `compute` runs if there is none yet. Of threads that call this at once one computes, and the others wait.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        self.value.get_or_init(compute)
    }

    /// The value, if there is one. Else `queue` gets a job, once, that calls `init`, and the caller does without; if there is no queue, or
    /// its threads have ended, `init` runs here and now. `init` computes the value of this very `Lazy`, a part of `owner`, of which the
    /// job holds a weak reference.
    pub fn get_or_request<'a, O: Send + Sync + 'static>(
        &'a self,
        owner: &'a Arc<O>,
        queue: Option<&Queue>,
        init: impl Fn(&O) -> &T + Send + 'static,
    ) -> Option<&'a T> {
        if let Some(value) = self.value.get() {
            return Some(value);
        }
        let Some(queue) = queue.filter(|queue| queue.open()) else { return Some(init(owner)) };
        if !self.requested.swap(true, Ordering::Relaxed) {
            let weak = Arc::downgrade(owner);
            let init = move || {
                if let Some(owner) = weak.upgrade() {
                    init(&owner);
                }
            };
            queue.push(Box::new(init));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    fn count(done: &Arc<AtomicUsize>, by: usize) -> Job {
        let done = done.clone();
        Box::new(move || {
            done.fetch_add(by, Ordering::Relaxed);
        })
    }

    #[test]
    fn all_that_was_left_is_done_when_waiting_ends() {
        for threads in [1, 4] {
            let background = Background::new(threads);
            let done = Arc::new(AtomicUsize::new(0));
            for n in 0..100 {
                let (done, queue) = (done.clone(), background.queue().clone());
                let job = move || {
                    done.fetch_add(1, Ordering::Relaxed);
                    // Every other one leaves another.
                    if n % 2 == 0 {
                        assert!(queue.push(count(&done, 1)));
                    }
                };
                assert!(background.queue().push(Box::new(job)));
            }
            background.queue().wait();
            assert_eq!(done.load(Ordering::Relaxed), 150, "{threads} threads");
        }
    }

    #[test]
    fn a_panic_in_a_job_is_its_own() {
        let background = Background::new(1);
        // Without a message, which tests would print: the hook is for panics proper.
        assert!(background.queue().push(Box::new(|| std::panic::resume_unwind(Box::new("on purpose")))));
        let (send, receive) = mpsc::channel();
        assert!(background.queue().push(Box::new(move || send.send(7).expect("heard"))));
        background.queue().wait();
        assert_eq!(receive.try_recv(), Ok(7));
    }

    #[test]
    fn without_threads_nothing_is_taken_and_nobody_waits() {
        let background = Background::new(0);
        assert!(!background.queue().open() && !background.queue().push(Box::new(|| ())));
        background.queue().wait();
    }

    #[test]
    fn the_end_drops_what_has_not_begun_and_waits_for_what_has() {
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let done = Arc::new(AtomicUsize::new(0));
        let background = Background::new(1);
        let queue = background.queue().clone();
        let first = done.clone();
        queue.push(Box::new(move || {
            begun.send(()).expect("heard");
            may_go.recv().expect("told");
            first.fetch_add(1, Ordering::Relaxed);
        }));
        queue.push(count(&done, 10));
        has_begun.recv().expect("it begins");
        let waiting = queue.clone();
        let waiter = thread::spawn(move || waiting.wait());
        let end = thread::spawn(move || drop(background));
        while queue.open() {
            thread::yield_now();
        }
        waiter.join().expect("nobody waits for what won't be done");
        go.send(()).expect("it waits");
        end.join().expect("it ends");
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&done), 1, "nobody holds the other job");
        assert!(!queue.push(Box::new(|| ())));
    }

    #[test]
    fn a_job_may_wait_for_all_and_end_all() {
        let background = Background::new(2);
        let queue = background.queue().clone();
        let (send, receive) = mpsc::channel::<Background>();
        let (done, is_done) = mpsc::channel();
        let own = queue.clone();
        queue.push(Box::new(move || {
            own.wait();
            drop(receive.recv().expect("sent"));
            done.send(()).expect("heard");
        }));
        send.send(background).expect("taken");
        is_done.recv().expect("neither waits for itself");
        queue.wait();
    }
}
