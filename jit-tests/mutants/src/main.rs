//! Mutation testing with one build: copies the project to `target/mutants/tree`, writes all mutants
//! into the copy, builds its tests once, and runs for each mutant the tests that reach it.
//!
//! | file | turns | into |
//! |---|---|---|
//! | `generic` | source text | mutants of operators, conditions, exits, calls |
//! | `../../mutant_list.rs`, `place` | the committed list | semantic mutants |
//! | `schemata`, `tree` | mutants | one copy of the project, and its test binaries |
//! | `run` | a mutant and its tests | an outcome |
//! | `results` | outcomes | a file that a later run continues, and a table |

mod generic;
mod mutant;
#[path = "../../mutant_list.rs"]
mod mutant_list;
mod place;
mod results;
mod run;
mod schemata;
mod tree;

use mutant::Mutant;
use results::{Results, SLOW};
use run::{Speed, Tests};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use tree::Tree;

const USAGE: &str = "\
usage: picajit-mutants [semantic] [generic] [OPTION...]
  (none)         both kinds
  --list         prints the mutants, and runs nothing
  --table        prints the table of the results so far
  --only TEXT    mutants whose name contains TEXT; may occur several times
  --again        runs those again that were missed; the results file keeps the caught ones
  --slow         runs what the other tests miss on filetests that take more than 100 ms and unit
                 tests that take more than a second, too
  --sweep N      runs semantic mutants on N random programs too
  --shard K/N    of the generic mutants every N-th from the K-th on, K = 0, 1, ...
  --jobs N       processes at once (2)
Results are in target/mutants/results.txt; delete it to begin again.";

/// Sources with generic mutants; a folder stands for its files.
const SOURCES: [&str; 13] = [
    "src/ir/analysis",
    "src/jit/batch",
    "src/jit/vertex",
    "src/jit/runtime",
    "src/kernel/direct.rs",
    "src/cache.rs",
    "src/cache",
    "src/engine.rs",
    "src/engine",
    "src/isa/numeric.rs",
    "src/isa/flow.rs",
    "src/isa/decode.rs",
    "src/state/batch.rs",
];

#[derive(Default)]
struct Options {
    kinds: Vec<String>,
    list: bool,
    table: bool,
    only: Vec<String>,
    again: bool,
    slow: bool,
    sweep: Option<u64>,
    shard: Option<(usize, usize)>,
    jobs: Option<usize>,
}

fn options() -> Result<Options, String> {
    let mut o = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match &*argument {
            "semantic" | "generic" => o.kinds.push(argument),
            "--list" => o.list = true,
            "--table" => o.table = true,
            "--only" => o.only.push(value()?),
            "--again" => o.again = true,
            "--slow" => o.slow = true,
            "--sweep" => o.sweep = Some(value()?.parse().map_err(|_| "--sweep needs a number")?),
            "--jobs" => o.jobs = Some(value()?.parse().map_err(|_| "--jobs needs a number")?),
            "--shard" => {
                let text = value()?;
                let shard = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
                o.shard = Some(shard.filter(|(k, n)| k < n).ok_or("--shard needs K/N")?);
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(o)
}

/// The Rust files of [`SOURCES`], without tests.
fn sources(project: &Path) -> Vec<String> {
    let mut files = BTreeSet::new();
    for source in SOURCES {
        let path = project.join(source);
        if path.is_file() {
            files.insert(source.to_string());
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".rs") && name != "tests.rs" {
                files.insert(format!("{source}/{name}"));
            }
        }
    }
    files.into_iter().collect()
}

/// Reasons by the names of generic mutants that no test can tell; `*` stands for all of a function.
fn equivalents(project: &Path) -> Result<BTreeMap<String, String>, String> {
    let path = project.join("jit-tests/mutants/equivalent.txt");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut reasons = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("    ") {
            Some(reason) => names.drain(..).for_each(|name| _ = reasons.insert(name.into(), reason.into())),
            None => names.push(line),
        }
    }
    Ok(reasons)
}

/// All mutants, the semantic ones first.
fn mutants(project: &Path) -> Result<Vec<Mutant>, String> {
    let read = |file: &str| fs::read_to_string(project.join(file)).map_err(|e| format!("{file}: {e}"));
    let mut all = Vec::new();
    let mut misfits = Vec::new();
    for change in mutant_list::read(&project.join("jit-tests"))? {
        let source = read(&change.file)?;
        let place = |range| place::Places::new(&source)?.around(&source, range, &change.new).ok_or("no place".into());
        match change.find(&source).and_then(place) {
            Ok((range, form, new)) => {
                let line = 1 + source[..range.start].matches('\n').count();
                let mutant_list::Change { name: key, file, equivalent, .. } = change;
                all.push(Mutant { key, file, line, range, form, new, semantic: true, equivalent, by_function: false });
            }
            Err(misfit) => misfits.push(misfit),
        }
    }
    if !misfits.is_empty() {
        return Err(misfits.join("\n"));
    }
    let (mut reasons, mut used) = (equivalents(project)?, BTreeSet::new());
    for file in sources(project) {
        let mut generic = generic::mutants(&file, &read(&file)?)?;
        for mutant in &mut generic {
            mutant.equivalent = reasons.remove(&mutant.key);
            let function = mutant.key.split_once(": ").map(|(function, _)| format!("{function}: *"));
            if mutant.equivalent.is_none()
                && let Some(reason) = function.as_ref().and_then(|function| reasons.get(function))
            {
                (mutant.equivalent, mutant.by_function) = (Some(reason.clone()), true);
                used.extend(function);
            }
        }
        all.extend(generic);
    }
    let unknown = reasons.keys().filter(|name| !used.contains(*name));
    let unknown: Vec<String> = unknown.map(|name| format!("equivalent.txt: no such mutant: {name}")).collect();
    if unknown.is_empty() { Ok(all) } else { Err(unknown.join("\n")) }
}

fn run() -> Result<bool, String> {
    let options = options()?;
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().map_err(|e| e.to_string())?;
    let out = project.join("target/mutants");
    fs::create_dir_all(&out).map_err(|e| e.to_string())?;
    let mut all = mutants(&project)?;
    // Fewer mutants build faster.
    let kind = |m: &Mutant| options.kinds.is_empty() || options.kinds.iter().any(|k| (k == "semantic") == m.semantic);
    all.retain(kind);
    let named = |m: &Mutant| options.only.is_empty() || options.only.iter().any(|text| m.key.contains(text.as_str()));
    let mut selected: Vec<usize> = (0..all.len()).filter(|&i| named(&all[i])).collect();
    if let Some((k, n)) = options.shard {
        // All shards share one build.
        let mut generic = 0..;
        selected.retain(|&i| all[i].semantic || generic.next().is_some_and(|number: usize| number % n == k));
    }
    if options.list {
        selected.iter().for_each(|&i| println!("{}", all[i].key));
        println!("{} mutants", selected.len());
        return Ok(true);
    }
    let mut results = Results::open(&out.join("results.txt"));
    if !options.table {
        test(&options, &project, &out, &all, &mut selected, &mut results)?;
    }
    let shown: Vec<&Mutant> = selected.iter().map(|&i| &all[i]).collect();
    results::print(&shown, &results);
    Ok(true)
}

fn test(
    options: &Options,
    project: &Path,
    out: &Path,
    all: &[Mutant],
    selected: &mut Vec<usize>,
    results: &mut Results,
) -> Result<(), String> {
    let mutated: BTreeSet<&str> = all.iter().map(|m| &*m.file).collect();
    let tree = Tree::new(project, out, &mutated)?;
    // Mutants that did not compile in an earlier run.
    let dead_file = out.join("uncompilable.txt");
    let dead: BTreeSet<String> = fs::read_to_string(&dead_file).unwrap_or_default().lines().map(Into::into).collect();
    let mut alive: BTreeSet<usize> = (0..all.len()).filter(|&i| !dead.contains(&all[i].key)).collect();
    let binaries = tree.build(all, &mut alive)?;
    let dead: Vec<&str> = (0..all.len()).filter(|i| !alive.contains(i)).map(|i| &*all[i].key).collect();
    let generic: Vec<&str> =
        (0..all.len()).filter(|i| !alive.contains(i) && !all[*i].semantic).map(|i| &*all[i].key).collect();
    fs::write(&dead_file, generic.join("\n")).map_err(|e| e.to_string())?;
    selected.retain(|i| alive.contains(i));
    println!("{} mutants, {} do not compile", all.len(), dead.len());

    let tests = Tests::new(binaries, &tree.root, out);
    let (filetests, units) = std::thread::scope(|scope| {
        let units = scope.spawn(|| tests.unit_coverage());
        (tests.filetest_coverage(), units.join().map_err(|_| "a thread panicked".to_string()))
    });
    let (filetests, units) = (filetests?, units??);
    for file in ["src/capi", "src/gpu", "src/gpu_code"] {
        let outcome = tests.programs(0, file)?;
        if outcome != run::Outcome::Missed {
            return Err(format!("programs for {file} without a mutant: {outcome:?}"));
        }
    }
    let results = Mutex::new(results);
    let lock = || results.lock().expect("no thread panics");
    let wanted = |step: &str, i: usize| {
        let results = lock();
        let done = results.get(step, &all[i].key);
        let again = options.again && all[i].equivalent.is_none();
        done.is_none() || again && !results.is_caught(step, &all[i].key)
    };
    let queue = Mutex::new(selected.iter().copied());
    let work = || -> Result<(), String> {
        loop {
            let next = queue.lock().expect("no thread panics").next();
            let Some(i) = next else { return Ok(()) };
            let (mutant, number) = (&all[i], i as u32 + 1);
            let speeds = [(Speed::Quick, ""), (Speed::Slow, SLOW)];
            for (speed, prefix) in &speeds[..1 + usize::from(options.slow)] {
                for kind in ["filetests", "unit"] {
                    let step = format!("{prefix}{kind}");
                    // Equivalent mutants run quick filetests, in case that they are not equivalent.
                    let skips = mutant.equivalent.is_some() && step != "filetests";
                    if skips || lock().is_caught_by_tests(&mutant.key) || !wanted(&step, i) {
                        continue;
                    }
                    let outcome = match kind {
                        "unit" => tests.unit_tests(number, &units, *speed)?,
                        _ => tests.filetests(number, &filetests, *speed)?,
                    };
                    lock().put(&step, &mutant.key, &outcome)?;
                }
            }
            if mutant.semantic
                && mutant.equivalent.is_none()
                && !lock().is_caught_by_tests(&mutant.key)
                && wanted("programs", i)
            {
                let outcome = tests.programs(number, &mutant.file)?;
                lock().put("programs", &mutant.key, &outcome)?;
            }
            if let Some(programs) = options.sweep
                && mutant.semantic
                && mutant.equivalent.is_none()
                && wanted("sweep", i)
            {
                let outcome = tests.sweep(number, mutant.file.starts_with("src/tier0"), programs)?;
                lock().put("sweep", &mutant.key, &outcome)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.unwrap_or(2)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked".to_string())?)
    })
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
