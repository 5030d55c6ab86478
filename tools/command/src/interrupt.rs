//! Ctrl-C -> a flag. A second Ctrl-C ends the process.

use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code of a process that a second Ctrl-C ends, as shells have it.
const INTERRUPTED: i32 = 130;

/// The flag that Ctrl-C sets from now on. If the system can't tell, Ctrl-C ends the process.
pub fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // Handlers run in this order, so the shutdown sees the flag of an earlier Ctrl-C only.
    if flag::register_conditional_shutdown(SIGINT, INTERRUPTED, flag.clone()).is_ok() {
        let _ = flag::register(SIGINT, flag.clone());
    }
    flag
}
