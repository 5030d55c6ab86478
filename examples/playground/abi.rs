//! The playground: assemble, run and trace PICA200 shaders in a browser, offline.
//!
//! Compiled for WebAssembly this is the module of the page. The page's worker calls its functions,
//! `request`, `run` and `answer`, with text in UTF-8. `.ci/playground` builds the module, and
//! `picajit playground` puts it into the page.
//!
//! The worker reads and writes the module's memory itself; this file passes addresses and lengths
//! only. A browser gives a module one thread, so the locks are never contended.

#![allow(unsafe_code)] // for the attribute that exports a name

use picajit_explore::playground;
use std::sync::Mutex;

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());

/// Room for a request of `length` bytes, which the caller fills.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn request(length: usize) -> *mut u8 {
    let mut request = REQUEST.lock().expect("no call panics while it holds the lock");
    request.clear();
    request.resize(length, 0);
    request.as_mut_ptr()
}

/// Answers the request. Returns the length of the answer.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> usize {
    let request = REQUEST.lock().expect("no call panics while it holds the lock");
    let text = playground::answer(&String::from_utf8_lossy(&request));
    let mut answer = ANSWER.lock().expect("no call panics while it holds the lock");
    *answer = text;
    answer.len()
}

/// The address of the answer, valid until the next call of `run`.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    ANSWER.lock().expect("no call panics while it holds the lock").as_ptr()
}
