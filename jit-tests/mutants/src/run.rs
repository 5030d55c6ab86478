//! A mutant and its tests -> whether one of them fails.

use crate::tree::Binaries;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of one test process, in KiB: an endless loop that allocates ends soon.
const MEMORY: u64 = 6 << 20;

/// Filetests and unit tests that take longer are slow.
const SLOW_FILETEST: Duration = Duration::from_millis(100);
const SLOW_UNIT_TEST: Duration = Duration::from_secs(1);

/// A test that reaches mutants.
struct Test {
    name: String,
    time: Duration,
}

/// Which tests run. All quick ones take less than a quarter of the time of all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    Quick,
    Slow,
}

/// The tests of one binary, and those that reach each mutant.
pub struct Coverage {
    tests: Vec<Test>,
    /// Tests that take longer are slow.
    slow: Duration,
    by_mutant: HashMap<u32, Vec<usize>>,
}

/// What a run shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By this test.
    Caught(String),
    /// A test did not end in time.
    TimedOut,
    Missed,
    /// No test executes its place.
    NotReached,
}

/// The test binaries of the copy.
pub struct Tests {
    binaries: Binaries,
    root: PathBuf,
    out: PathBuf,
}

impl Tests {
    pub fn new(binaries: Binaries, root: &Path, out: &Path) -> Tests {
        Tests { binaries, root: root.to_path_buf(), out: out.to_path_buf() }
    }

    fn command(&self, binary: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {MEMORY} -c 0; exec \"$0\" \"$@\"")).arg(&self.binaries[binary]);
        // The same tests on every machine.
        command.env("PICAJIT_CORPUS", "/nonexistent").env_remove("PICAJIT_FULL");
        command.current_dir(&self.root).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Whether coverage in this file is of the present binary.
    fn is_current(&self, file: &Path, binary: &str) -> bool {
        let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        time(file) > time(&self.binaries[binary])
    }

    /// Runs every filetest without a mutant.
    pub fn filetest_coverage(&self) -> Result<Coverage, String> {
        let file = self.out.join("coverage.txt");
        if self.is_current(&file, "jit-tests") {
            return Coverage::parse(&file, SLOW_FILETEST);
        }
        let mut command = self.command("jit-tests");
        command.env("MUTANT_HOOK", "1").env("MUTANT_COVERAGE", &file).env("MUTANT_RECORD", "").stdout(Stdio::null());
        command.status().map_err(|e| e.to_string())?;
        Coverage::parse(&file, SLOW_FILETEST)
    }

    /// Runs every unit test without a mutant.
    pub fn unit_coverage(&self) -> Result<Coverage, String> {
        let all = self.out.join("unit-coverage.txt");
        if self.is_current(&all, "picajit") {
            return Coverage::parse(&all, SLOW_UNIT_TEST);
        }
        let list = self.command("picajit").args(["--list", "--format=terse"]).output().map_err(|e| e.to_string())?;
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let mut lines = String::new();
        for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
            let file = self.out.join("reached.txt");
            let _ = fs::remove_file(&file);
            let start = Instant::now();
            let mut command = self.command("picajit");
            command.args(["--exact", name]).env("MUTANT_RECORD", &file).stdout(Stdio::null());
            if !command.status().map_err(|e| e.to_string())?.success() {
                println!("note: {name} fails without a mutant, and is left out");
                continue;
            }
            let reached = fs::read_to_string(&file).unwrap_or_default();
            let reached = reached.lines().collect::<Vec<_>>().join(",");
            lines += &format!("{name}\t{}\tpassed\t{reached}\n", start.elapsed().as_millis());
        }
        fs::write(&all, lines).map_err(|e| e.to_string())?;
        Coverage::parse(&all, SLOW_UNIT_TEST)
    }

    /// The filetests of this speed that reach a mutant, up to the first that fails.
    pub fn filetests(&self, mutant: u32, coverage: &Coverage, speed: Speed) -> Result<Outcome, String> {
        let Some(tests) = coverage.of(mutant, speed) else { return Ok(Outcome::NotReached) };
        if tests.is_empty() {
            return Ok(Outcome::Missed);
        }
        let list = self.out.join(format!("tests-{mutant}.txt"));
        let names: Vec<&str> = tests.iter().map(|&t| &*coverage.tests[t].name).collect();
        fs::write(&list, names.join("\n")).map_err(|e| e.to_string())?;
        let log = self.out.join(format!("log-{mutant}.txt"));
        let output = fs::File::create(&log).map_err(|e| e.to_string())?;
        let mut command = self.command("jit-tests");
        command.env("MUTANT_HOOK", "1").env("MUTANT", mutant.to_string()).env("MUTANT_TESTS", &list).stdout(output);
        let time: Duration = tests.iter().map(|&t| coverage.tests[t].time).sum();
        let code = wait(command.spawn().map_err(|e| e.to_string())?, time * 6 + Duration::from_secs(30), ASLEEP)?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = (fs::remove_file(&list), fs::remove_file(&log));
        Ok(match code {
            Some(0) => Outcome::Missed,
            None | Some(3) => Outcome::TimedOut,
            Some(_) => {
                let by = text.lines().find_map(|line| line.strip_prefix("mutant-caught-by "));
                Outcome::Caught(by.unwrap_or("a crash").into())
            }
        })
    }

    /// The unit tests of this speed that reach a mutant, a few at a time, up to the first that fails.
    pub fn unit_tests(&self, mutant: u32, coverage: &Coverage, speed: Speed) -> Result<Outcome, String> {
        let Some(tests) = coverage.of(mutant, speed) else { return Ok(Outcome::NotReached) };
        let (mut rest, mut size) = (&tests[..], 2);
        while !rest.is_empty() {
            let (some, tail) = rest.split_at(size.min(rest.len()));
            (rest, size) = (tail, size * 3);
            let mut command = self.command("picajit");
            command.args(["--test-threads=1", "--exact"]).args(some.iter().map(|&t| &coverage.tests[t].name));
            let log = self.out.join(format!("log-{mutant}.txt"));
            let output = fs::File::create(&log).map_err(|e| e.to_string())?;
            command.env("MUTANT", mutant.to_string()).stdout(output);
            let time: Duration = some.iter().map(|&t| coverage.tests[t].time).sum();
            let code = wait(command.spawn().map_err(|e| e.to_string())?, time * 8 + Duration::from_secs(30), ASLEEP)?;
            let text = fs::read_to_string(&log).unwrap_or_default();
            let _ = fs::remove_file(&log);
            match code {
                Some(0) => {}
                None => return Ok(Outcome::TimedOut),
                Some(_) => {
                    let failed =
                        |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_string());
                    let by = text.lines().find_map(failed);
                    return Ok(Outcome::Caught(by.map_or("a crash".into(), |name| format!("unit test {name}"))));
                }
            }
        }
        Ok(Outcome::Missed)
    }

    /// `programs` random programs of a fixed seed, on tier 0 or on native code.
    pub fn sweep(&self, mutant: u32, tier0: bool, programs: u64) -> Result<Outcome, String> {
        let mut command = self.command("sweep");
        // Native code has four parts of that many programs, and two of half as many.
        let (test, part) = if tier0 { ("interpreters", programs) } else { ("native_code", programs.div_ceil(5)) };
        command.args([test, "--test-threads=1"]).stdout(Stdio::null());
        command.env("PICAJIT_SWEEP", part.to_string()).env("MUTANT", mutant.to_string());
        Ok(match wait(command.spawn().map_err(|e| e.to_string())?, Duration::from_secs(60 + programs / 5), ASLEEP)? {
            Some(0) => Outcome::Missed,
            Some(_) => Outcome::Caught("sweep".into()),
            None => Outcome::TimedOut,
        })
    }

    /// Random draws; random programs for code for GPUs; sources with findings for lint's rules; C and C++ hosts for
    /// mutants of the C interface and of what only they call. Not under tools, which take minutes.
    pub fn programs(&self, mutant: u32, file: &str) -> Result<Outcome, String> {
        let hosts =
            ["misuse_has", "the_c_host", "the_cpp_emulator", "calls_of_the", "c_and_rust_replay", "little_stack"];
        let is_for_hosts = ["src/capi", "src/gpu/hand_over", "src/gpu/placement", "src/gpu/fetch/streams"];
        let (binary, filters, asleep) = match file {
            _ if is_for_hosts.iter().any(|start| file.starts_with(start)) => ("capi", &hosts[..], COMPILING),
            _ if file.starts_with("src/gpu_code") => ("gpu-code", &[][..], ASLEEP),
            _ if file.starts_with("tools/lint") => ("jit-tests", &["lint/"][..], ASLEEP),
            _ => ("draws", &[][..], ASLEEP),
        };
        let mut command = self.command(binary);
        command.args(filters).env("MUTANT", mutant.to_string()).stdout(Stdio::null());
        Ok(match wait(command.spawn().map_err(|e| e.to_string())?, Duration::from_secs(300), asleep)? {
            Some(0) => Outcome::Missed,
            Some(_) => Outcome::Caught(format!("the programs of {binary}")),
            None => Outcome::TimedOut,
        })
    }
}

impl Coverage {
    /// Lines of a test's name, its milliseconds, whether it passed, and the mutants it reaches.
    fn parse(file: &Path, slow: Duration) -> Result<Coverage, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("the tests did not end: {e}"))?;
        let mut coverage = Coverage { tests: Vec::new(), slow, by_mutant: HashMap::new() };
        for line in text.lines() {
            let [name, time, passed, reached] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            if passed != "passed" {
                return Err(format!("{name} fails without a mutant"));
            }
            for mutant in reached.split(',').filter_map(|n| n.parse().ok()) {
                coverage.by_mutant.entry(mutant).or_default().push(coverage.tests.len());
            }
            let time = Duration::from_millis(time.parse().unwrap_or(0));
            coverage.tests.push(Test { name: name.into(), time });
        }
        coverage.order();
        Ok(coverage)
    }

    /// The tests of this speed that reach a mutant; `None` if no test does.
    fn of(&self, mutant: u32, speed: Speed) -> Option<Vec<usize>> {
        let is = |&test: &usize| (self.tests[test].time > self.slow) == (speed == Speed::Slow);
        Some(self.by_mutant.get(&mutant)?.iter().copied().filter(is).collect())
    }

    /// Puts the tests of each mutant in an order by a hash of their names, so that neighbours
    /// differ.
    fn order(&mut self) {
        let hash = |test: usize| {
            let name = self.tests[test].name.bytes();
            name.fold(5381u32, |h, b| h.wrapping_mul(33) ^ u32::from(b)).wrapping_mul(0x9E37_79B1)
        };
        for tests in self.by_mutant.values_mut() {
            tests.sort_by_key(|&test| hash(test));
        }
    }
}

/// A process that takes no processor time for so long waits for ever.
const ASLEEP: Duration = Duration::from_secs(20);
/// The same of one that waits for compilers.
const COMPILING: Duration = Duration::from_secs(900);

/// The exit code, or `None` after `limit` of processor time or `asleep`, or 20 times the limit of
/// waiting, so that other work on the machine doesn't count; a signal is 128.
fn wait(mut child: Child, limit: Duration, asleep: Duration) -> Result<Option<i32>, String> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    // When the processor time last changed, and to what.
    let (mut changed, mut last) = (start, Duration::ZERO);
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(Some(status.code().unwrap_or(128)));
        }
        let waited = start.elapsed();
        let used = processor_time(child.id()).unwrap_or(waited);
        if used != last {
            (changed, last) = (Instant::now(), used);
        }
        if used > limit || changed.elapsed() > asleep || waited > limit * 20 {
            let _ = (child.kill(), child.wait());
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Of a running process, where the system has `/proc`: Linux counts in hundredths of a second.
fn processor_time(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the command may hold spaces and parentheses; the rest is numbers.
    let numbers: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = numbers.get(11)?.parse::<u64>().ok()? + numbers.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}
