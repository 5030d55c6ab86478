//! What loom lacks: the standard library's `OnceLock`, and threads.

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
pub use loom::thread::{Builder, JoinHandle, ThreadId, current};

/// The protocol of the standard library's: a lock for writers; the value is published with release
/// and read with acquire.
pub struct OnceLock<T> {
    ready: AtomicBool,
    writing: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, under the lock, before `ready` publishes it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> OnceLock<T> {
    pub fn new() -> OnceLock<T> {
        OnceLock { ready: AtomicBool::new(false), writing: Mutex::new(()), value: UnsafeCell::new(None) }
    }

    pub fn get(&self) -> Option<&T> {
        // SAFETY: nothing writes after `ready`.
        self.ready.load(Ordering::Acquire).then(|| self.value.with(|value| unsafe { (*value).as_ref() }))?
    }

    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let writing = self.writing.lock().expect("no panic");
        if self.get().is_none() {
            let value = compute();
            // SAFETY: this thread has the lock, and nothing reads before `ready`.
            self.value.with_mut(|place| unsafe { *place = Some(value) });
            self.ready.store(true, Ordering::Release);
        }
        drop(writing);
        self.get().expect("just written")
    }
}

/// Memory that loom watches: a read that a write does not happen before is an error.
#[derive(Default)]
pub struct Watched(UnsafeCell<u32>);

// SAFETY: loom ends the model at the first unordered access.
unsafe impl Sync for Watched {}
// SAFETY: it is a number.
unsafe impl Send for Watched {}

impl Watched {
    pub fn write(&self, value: u32) {
        // SAFETY: loom watches.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    pub fn read(&self) -> u32 {
        // SAFETY: loom watches.
        self.0.with(|place| unsafe { *place })
    }
}
