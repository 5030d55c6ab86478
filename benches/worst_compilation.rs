//! The compilations that cost most: `cargo bench --bench worst-compilation -- [--seconds N] [--seed S]
//! [--cpu-times F]`, after the text of `jit-tests/worst_compilation/known.txt`, which it tries first.
//!
//! It searches for programs that take much processor time, memory or code to compile, in every
//! number format and for every kind of code. The best recipe of each family, format and kind stays,
//! and changes of good ones are tried. Fails if one compilation exceeds a limit; `--cpu-times`
//! multiplies that of processor time, for machines that other work slows down.

#[path = "../jit-tests/worst_compilation/cost.rs"]
mod cost;
#[path = "../jit-tests/worst_compilation/counting.rs"]
mod counting;
#[path = "../jit-tests/worst_compilation/recipe.rs"]
mod recipe;

use cost::{Cost, KINDS};
use picajit::internals::jit::Jit;
use picajit::isa::numeric::Precision;
use picajit_fuzz::choice::Choices;
use recipe::{Family, NUMBERS, Recipe};
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limits of one compilation.
const CPU: Duration = Duration::from_millis(150);
const MEMORY: usize = 32 << 20;
const CODE: usize = 256 << 10;

/// What a search maximises.
const OBJECTIVES: [&str; 3] = ["CPU", "memory", "code"];
/// Lines that each table prints.
const WORST: usize = 10;
/// A compilation that seems to exceed the limit of processor time is repeated, because other work
/// of the machine may have evicted the caches.
const REPEATS: usize = 4;

/// What is compiled: indices of number format and kind.
type Target = (usize, usize);

#[derive(Clone)]
struct Found {
    recipe: Recipe,
    target: Target,
    cost: Cost,
}

/// The cost as shares of the limits.
fn shares(cost: &Cost) -> [f64; 3] {
    [cost.cpu.as_secs_f64() / CPU.as_secs_f64(), cost.memory as f64 / MEMORY as f64, cost.code as f64 / CODE as f64]
}

struct Search {
    jit: Arc<Jit>,
    choices: Choices<'static>,
    /// The worst of each objective, family and target.
    worst: HashMap<(usize, Family, Target), Found>,
    compilations: u64,
    /// The most that all code of one shader took.
    shader: Option<(Cost, String)>,
}

impl Search {
    /// Measures all kinds of `recipe` in one format. The worst stay.
    fn measure(&mut self, recipe: &Recipe, format: usize, kinds: &[usize]) {
        let program = recipe.program();
        let costs = cost::costs(&self.jit, &program, Precision::ALL[format], kinds.iter().copied());
        let mut all = Cost::default();
        for (kind, mut cost) in costs {
            self.compilations += 1;
            for _ in 0..REPEATS {
                if cost.cpu <= CPU {
                    break;
                }
                let again = cost::costs(&self.jit, &program, Precision::ALL[format], [kind]);
                cost.cpu = again.iter().fold(cost.cpu, |least, (_, again)| least.min(again.cpu));
            }
            all = Cost { cpu: all.cpu + cost.cpu, memory: all.memory.max(cost.memory), code: all.code + cost.code };
            let found = Found { recipe: recipe.clone(), target: (format, kind), cost };
            for (objective, share) in shares(&cost).into_iter().enumerate() {
                let key = (objective, recipe.family, found.target);
                if self.worst.get(&key).is_none_or(|other| share > shares(&other.cost)[objective]) {
                    self.worst.insert(key, found.clone());
                }
            }
        }
        if kinds.len() == KINDS.len() && self.shader.as_ref().is_none_or(|(most, _)| all.cpu > most.cpu) {
            self.shader = Some((all, format!("{} {recipe}", Precision::ALL[format].name())));
        }
    }

    fn any(&mut self) -> Recipe {
        let family = self.choices.pick(&Family::ALL);
        let choices = &mut self.choices;
        let number = |choices: &mut Choices<'_>| match choices.below(4) {
            0 => choices.below(16) as u16,
            1 => choices.below(64) as u16,
            2 => choices.below(300) as u16,
            _ => choices.below(4096) as u16,
        };
        let mut numbers = [0; NUMBERS];
        numbers.iter_mut().for_each(|n| *n = number(choices));
        // Parts times operations fit the memory.
        numbers[1] = numbers[1].min(4096 / numbers[0].max(1)).max(1);
        (numbers[2], numbers[3]) = (choices.below(24) as u16, choices.word() as u16);
        numbers[6] = choices.below(17) as u16;
        Recipe { family, numbers, patches: Vec::new() }
    }

    fn change(&mut self, recipe: &mut Recipe) {
        let choices = &mut self.choices;
        for _ in 0..1 + choices.below(3) {
            let n = choices.below(NUMBERS as u32) as usize;
            let number = &mut recipe.numbers[n];
            match choices.below(8) {
                0 => *number = number.saturating_add(1),
                1 => *number = number.saturating_sub(1),
                2 => *number = number.saturating_add(*number / 8 + 1).min(4096),
                3 => *number -= *number / 8,
                4 => recipe.numbers[3] ^= 1 << choices.below(16),
                5 => recipe.numbers[2] = choices.below(24) as u16,
                6 => {
                    // A word of a random program, or any word.
                    let seed = u64::from(choices.word());
                    let case = picajit_fuzz::case_from_seed(seed, None, 1);
                    let word = if choices.percent(90) && !case.program.code().is_empty() {
                        choices.pick(case.program.code())
                    } else {
                        choices.word()
                    };
                    recipe.patches.push((choices.below(4096) as u16, word));
                }
                _ => _ = recipe.patches.pop(),
            }
        }
        recipe.patches.truncate(40);
    }

    /// One of the worst so far; the higher its rank, the more likely.
    fn good(&mut self) -> Option<Found> {
        let objective = self.choices.below(3) as usize;
        let ranked = self.ranked(objective);
        let n = self.choices.below(ranked.len().max(1) as u32) as usize;
        let n = n * self.choices.below(100) as usize / 100;
        ranked.get(n * self.choices.below(100) as usize / 100).cloned()
    }

    fn ranked(&self, objective: usize) -> Vec<Found> {
        let mut all: Vec<_> = self.worst.iter().filter(|(key, _)| key.0 == objective).collect();
        // The key decides between equal ones, so a search depends on measured times only.
        all.sort_by(|(ka, a), (kb, b)| {
            let by_share = shares(&b.cost)[objective].total_cmp(&shares(&a.cost)[objective]);
            by_share.then((ka.1 as u8, ka.2).cmp(&(kb.1 as u8, kb.2)))
        });
        all.into_iter().map(|(_, found)| found.clone()).collect()
    }

    fn step(&mut self) {
        let from = if self.choices.percent(20) { None } else { self.good() };
        let Some(Found { mut recipe, target: (mut format, kind), .. }) = from else {
            let recipe = self.any();
            let format = self.choices.below(Precision::ALL.len() as u32) as usize;
            return self.measure(&recipe, format, &(0..KINDS.len()).collect::<Vec<_>>());
        };
        self.change(&mut recipe);
        if self.choices.percent(20) {
            format = self.choices.below(Precision::ALL.len() as u32) as usize;
        }
        // Single code comes first anyway.
        self.measure(&recipe, format, &[1, kind][usize::from(kind == 1)..]);
    }
}

fn known() -> Vec<Recipe> {
    let lines = include_str!("../jit-tests/worst_compilation/known.txt").lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.parse().unwrap_or_else(|bad| panic!("known.txt: {bad}"))).collect()
}

fn print(found: &Found) {
    let Found { recipe, target: (format, kind), cost } = found;
    println!(
        "| {:6.1} | {:5.2} | {:5.1} | {:11} | {:13} | {recipe} |",
        cost.cpu.as_secs_f64() * 1e3,
        cost.memory as f64 / 1048576.0,
        cost.code as f64 / 1024.0,
        Precision::ALL[*format].name(),
        KINDS[*kind].1
    );
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse::<u64>().ok()
    };
    // `cargo test --benches` only checks that this starts.
    let seconds = number("--seconds").unwrap_or(if args.iter().any(|arg| arg == "--bench") { 60 } else { 0 });
    let times = number("--cpu-times").unwrap_or(1) as f64;
    let (jit, choices) = (cost::jit(), Choices::from_seed(number("--seed").unwrap_or(1)));
    let mut search = Search { jit, choices, worst: HashMap::new(), compilations: 0, shader: None };
    let start = Instant::now();
    let goes_on = || start.elapsed() < Duration::from_secs(seconds);
    for recipe in known() {
        for format in 0..Precision::ALL.len() {
            if goes_on() {
                search.measure(&recipe, format, &(0..KINDS.len()).collect::<Vec<_>>());
            }
        }
    }
    while goes_on() {
        search.step();
    }
    println!("{} compilations in {:.0} s", search.compilations, start.elapsed().as_secs_f64());
    let mut exceeded = false;
    for (objective, name) in OBJECTIVES.into_iter().enumerate() {
        let ranked = search.ranked(objective);
        println!("\nmost {name}\n| ms CPU |    MB |    KB | format      | code          | recipe |");
        ranked.iter().take(WORST).for_each(print);
        let limit = if objective == 0 { times } else { 1.0 };
        exceeded |= ranked.first().is_some_and(|found| shares(&found.cost)[objective] > limit);
    }
    if let Some((Cost { cpu, code, .. }, recipe)) = &search.shader {
        let (ms, kb) = (cpu.as_secs_f64() * 1e3, *code as f64 / 1024.0);
        println!("\nall code of one shader, most CPU: {ms:.1} ms, {kb:.1} KB: {recipe}");
    }
    if exceeded {
        println!("\nFAILED: the limits of one compilation are 150 ms (times {times}), 32 MB and 256 KB");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
