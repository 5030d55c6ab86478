//! The pages in a real browser: `picajit explore`, and the playground.
//!
//! Needs Chromium; without one every trial is ignored, with a line that says so. The playground's
//! trials need the page that `.ci/playground` builds. With `PICAJIT_SCREENSHOTS` set to a folder,
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

use command::picajit;
use libtest_mimic::{Arguments, Trial};
use prerequisites::{skipped, temporary_folder};
use std::path::{Path, PathBuf};

/// A folder of one trial, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = temporary_folder().join(format!("picajit-pages-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
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
    let is_emulated = std::env::var_os("PICAJIT_RUNNER").is_some();
    let chromium = devtools::command().filter(|_| !is_emulated);
    if is_emulated {
        skipped("pages in a browser: the command runs on an emulator, and its pages are the same on every CPU");
    } else if chromium.is_none() {
        skipped("pages in a browser: no Chromium (PICAJIT_CHROMIUM names one)");
    }
    let page = playground::page();
    if chromium.is_some() && !page.is_file() {
        skipped("the playground in a browser: no page of .ci/playground");
    }
    let all = explored::TRIALS.iter().map(|t| (t, true)).chain(playground::TRIALS.iter().map(|t| (t, page.is_file())));
    for ((name, trial), is_ready) in all {
        let chromium = chromium.clone();
        let is_ignored = chromium.is_none() || !is_ready;
        let run = move || {
            let chromium = chromium.expect("trials without a browser are ignored");
            trial(devtools::Browser::start(&chromium, &name.replace('/', "-")));
            Ok(())
        };
        trials.push(Trial::test(*name, run).with_ignored_flag(is_ignored));
    }
    libtest_mimic::run(&arguments, trials).exit();
}
