//! Real sources of picajit -> the same text on loom's primitives, sound and with each defect.
//!
//! Every replacement must apply exactly once: a source that has changed fails here.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Old and new text.
type Edit = (&'static str, &'static str);

/// The file, its edits for loom, and its defects by name.
struct Source {
    file: &'static str,
    name: &'static str,
    loom: &'static [Edit],
    defects: &'static [(&'static str, Edit)],
}

const SOURCES: [Source; 2] = [
    Source {
        file: "src/background.rs",
        name: "background",
        loom: &[
            ("use std::panic::{AssertUnwindSafe, catch_unwind};\n", ""),
            ("use std::sync::atomic::", "use loom::sync::atomic::"),
            (
                "use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};",
                "use crate::primitives::OnceLock;\nuse loom::sync::{Condvar, Mutex, MutexGuard};\nuse std::sync::{Arc, PoisonError, Weak};",
            ),
            (
                "use std::thread::{self, JoinHandle, ThreadId};",
                "use crate::primitives::{self as thread, JoinHandle, ThreadId};",
            ),
            ("thread_local! {", "loom::thread_local! {"),
            ("Cell<Option<ThreadId>> = const { Cell::new(None) };", "Cell<Option<ThreadId>> = Cell::new(None);"),
            (
                "if Some(thread.thread().id()) != WORKER.get()",
                "if Some(thread.thread().id()) != WORKER.with(Cell::get)",
            ),
            ("WORKER.get().is_some_and(", "WORKER.with(Cell::get).is_some_and("),
            (
                "WORKER.set(Some(thread::current().id()));",
                "WORKER.with(|worker| worker.set(Some(thread::current().id())));",
            ),
            // It would swallow what loom finds.
            ("let _ = catch_unwind(AssertUnwindSafe(job));", "job();"),
        ],
        defects: &[
            ("no_join", ("let _ = thread.join();", "")),
            ("no_wake", ("self.queue.0.work.notify_all();", "")),
            (
                "two_requests",
                (
                    "!self.requested.swap(true, Ordering::Relaxed)",
                    "{ self.requested.store(true, Ordering::Relaxed); true }",
                ),
            ),
        ],
    },
    Source {
        file: "src/kernel/direct.rs",
        name: "direct",
        loom: &[
            ("use std::sync::atomic::", "use loom::sync::atomic::"),
            ("use std::sync::{Arc, OnceLock};", "use crate::primitives::OnceLock;\nuse std::sync::Arc;"),
        ],
        defects: &[
            (
                "relaxed_publication",
                ("to.store(function, Ordering::Release);", "to.store(function, Ordering::Relaxed);"),
            ),
            ("relaxed_lookup", ("function.load(Ordering::Acquire)", "function.load(Ordering::Relaxed)")),
        ],
    },
];

fn edit(text: &str, (old, new): Edit, file: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{file}: `{old}`");
    text.replacen(old, new, 1)
}

fn main() {
    let (root, out) = (Path::new("../.."), PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")));
    for Source { file, name, loom, defects } in SOURCES {
        println!("cargo::rerun-if-changed=../../{file}");
        let text = fs::read_to_string(root.join(file)).expect("a source of picajit");
        let code = text.split("#[cfg(test)]\nmod tests {").next().expect("the first part");
        // An included file has no attributes of its own.
        let inner = |line: &&str| !line.starts_with("//!") && !line.starts_with("#![");
        let code: String = code.split_inclusive('\n').filter(inner).collect();
        let code = code
            .replace("cfg!(feature = \"jit\")", "true")
            .replace("#[cfg_attr(not(feature = \"jit\"), allow(dead_code))]", "");
        let code = loom.iter().fold(code, |code, change| edit(&code, *change, file));
        fs::write(out.join(format!("{name}.rs")), &code).expect("OUT_DIR is writable");
        for (defect, change) in defects {
            fs::write(out.join(format!("{name}_{defect}.rs")), edit(&code, *change, file))
                .expect("OUT_DIR is writable");
        }
    }
}
