//! The pages in a real browser: `picajit explore`, and the playground, served and built.
//!
//! Needs Chromium; without one every trial is ignored, with a line that says so. Trials of the built
//! playground need the page of `.ci/playground`. With `PICAJIT_SCREENSHOTS` set to a folder,
//! pictures are stored there.

mod command;
#[path = "browser/devtools.rs"]
mod devtools;
#[path = "browser/explored.rs"]
mod explored;
mod extent;
#[path = "browser/playground.rs"]
mod playground;
mod prerequisites;
#[path = "browser/served.rs"]
mod served;

use command::picajit;
use libtest_mimic::{Arguments, Trial};
use prerequisites::{skipped, temporary_folder};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of one trial, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        // A test may run on both pages at once.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = temporary_folder().join(format!("picajit-pages-{}-{n}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs `picajit explore` on a file. Returns the page's path.
    #[track_caller]
    fn explore(&self, file: &Path, args: &[&str]) -> PathBuf {
        let page = self.0.join("page.html");
        let output = picajit().arg("explore").arg(file).arg("-o").arg(&page).args(args).output().unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        page
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    let is_emulated = command::emulator().is_some();
    let chromium = devtools::command().filter(|_| !is_emulated);
    if is_emulated {
        skipped("pages in a browser: the command runs on an emulator, and its pages are the same on every CPU");
    } else if chromium.is_none() {
        skipped("pages in a browser: no Chromium (PICAJIT_CHROMIUM names one)");
    }
    let built = playground::page();
    if chromium.is_some() && !built.is_file() {
        skipped("the built playground in a browser: no page of .ci/playground");
    }
    let mut add = |name: String, is_ready: bool, trial: Box<dyn FnOnce(devtools::Browser) + Send>| {
        let (chromium, file) = (chromium.clone().filter(|_| is_ready), name.replace('/', "-"));
        let is_ignored = chromium.is_none();
        let run = move || {
            trial(devtools::Browser::start(&chromium.expect("trials without a browser are ignored"), &file));
            Ok(())
        };
        trials.push(Trial::test(name, run).with_ignored_flag(is_ignored));
    };
    for &(name, trial) in explored::TRIALS {
        add(format!("explore/{name}"), true, Box::new(trial));
    }
    for &(name, trial) in playground::TRIALS {
        add(format!("playground/{name}"), built.is_file(), Box::new(move |b| trial(b, playground::Page::Built)));
        add(format!("served/{name}"), true, Box::new(move |b| trial(b, playground::Page::Served)));
    }
    for &(name, trial) in playground::BUILT {
        add(format!("playground/{name}"), built.is_file(), Box::new(trial));
    }
    for &(name, trial) in served::TRIALS {
        add(format!("served/{name}"), true, Box::new(trial));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
