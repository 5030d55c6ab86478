//! Messages and the progress bar, on standard error. A closed standard error is no failure.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// `error: ...`: the command or a file fails.
pub fn error(message: impl Display) {
    line("error", message);
}

/// `warning: ...`: the command continues, possibly not as intended.
pub fn warning(message: impl Display) {
    line("warning", message);
}

/// `note: ...`: additional information.
pub fn note(message: impl Display) {
    line("note", message);
}

fn line(kind: &str, message: impl Display) {
    let _ = writeln!(std::io::stderr(), "{kind}: {message}");
}

/// A line without a kind.
pub fn plain(message: impl Display) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Progress of a long command: a bar on a terminal, an occasional line elsewhere.
pub struct Live {
    bar: Option<ProgressBar>,
    said: std::time::Instant,
}

impl Live {
    /// Update intervals of a terminal, and of other streams.
    const EVERY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(10)];

    /// Of `len` steps, if known.
    pub fn new(len: Option<u64>) -> Live {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::stderr());
            let template = if len.is_some() { "{bar:20} {percent} % {msg}, {eta} left" } else { "{elapsed} {msg}" };
            bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
            bar
        });
        Live { bar, said: std::time::Instant::now() }
    }

    /// `done` steps are done. Calls `message` if an update is due.
    pub fn say(&mut self, done: u64, message: impl FnOnce() -> String) {
        if self.said.elapsed() < Live::EVERY[usize::from(self.bar.is_none())] {
            return;
        }
        self.said = std::time::Instant::now();
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(message());
            }
            None => plain(message()),
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar of `len` steps, on standard error. Hidden on other streams than terminals, and for the
/// first second.
pub struct Progress {
    bar: ProgressBar,
    start: std::time::Instant,
    what: &'static str,
}

impl Progress {
    /// `what` is a plural: `vertices`.
    pub fn new(len: u64, what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden());
        Progress { bar, start: std::time::Instant::now(), what }
    }

    /// `steps` more are done. Once every few hundred microseconds is enough.
    pub fn add(&self, steps: u64) {
        self.bar.inc(steps);
        if self.bar.is_hidden() && self.start.elapsed().as_secs() >= 1 {
            // On other streams the bar stays hidden.
            let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {msg}, {eta} left");
            self.bar.set_style(style.expect("the template is well formed"));
            self.bar.set_message(self.what);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
