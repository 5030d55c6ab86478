//! What an engine holds after `clear`, whatever it compiled, and for shaders that wait for a thread. A test binary of its own, because it
//! counts the bytes of the whole process.

#[path = "worst_compilation/counting.rs"]
mod counting;
#[path = "worst_compilation/recipe.rs"]
mod recipe;
mod stack;

use picajit::engine::{BackendChoice, Engine, Event, Options, Shader, Tier};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};
use picajit::state::{Batch, NoEmitter, Uniforms, Unit};
use recipe::Recipe;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// The most bytes that an engine holds after `clear`.
const HELD: isize = 8 << 20;

/// One test at a time, since bytes are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recipes of the worst compilations.
fn recipes() -> Vec<Recipe> {
    let lines = include_str!("worst_compilation/known.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.parse().expect("a recipe")).collect()
}

/// Anonymous executable pages of the process, in bytes.
fn code_pages() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let anonymous = |line: &&str| line.contains(" r-xp ") && line.split_whitespace().count() == 5;
    let bytes = |line: &str| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some(usize::from_str_radix(end, 16).ok()? - usize::from_str_radix(start, 16).ok()?)
    };
    maps.lines().filter(anonymous).filter_map(bytes).sum()
}

/// Runs `shader` in every way that makes it compile more code.
fn run(shader: &Shader, recipe: &Recipe) {
    let uniforms = Uniforms::new();
    if recipe.program().1.stage == Stage::Geometry {
        shader.run_geometry(&uniforms, &mut Unit::new(), &mut NoEmitter);
        return;
    }
    // Enough for code for groups.
    let many = if shader.tier() == Tier::Native { 1028 } else { 68 };
    // An infinity deoptimises, so that exact code is compiled too.
    for (value, count, preserve_unit) in
        [(1.5, 1, false), (f32::INFINITY, 1, false), (1.5, many, false), (1.5, many, true)]
    {
        let (inputs, mut outputs) = (vec![[[value; 4]; 16]; count], vec![[[0.0; 4]; 16]; count]);
        let mut batch = Batch {
            inputs: inputs.as_slice().into(),
            outputs: outputs.as_mut_slice().into(),
            input_mask: 0xFFFF,
            output_mask: 0xFFFF,
            preserve_unit,
        };
        (0..2).for_each(|_| _ = shader.run_batch(&uniforms, &mut Unit::new(), &mut batch));
    }
}

/// Compiles and runs the recipes with `threads` threads of the host and as many of the engine.
/// The shaders that were native.
fn exercise(engine: &Engine, threads: usize) -> usize {
    let recipes = recipes();
    let native = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let (recipes, native) = (&recipes, &native);
            scope.spawn(move || {
                for recipe in recipes.iter().cycle().skip(thread).take(recipes.len()) {
                    let (program, entry) = recipe.program();
                    let shader = engine.shader(&program, entry);
                    shader.compile_now();
                    run(&shader, recipe);
                    native.fetch_add(usize::from(shader.tier() == Tier::Native), Ordering::Relaxed);
                }
            })
        };
        // A scope waits for the work of its threads, not for the end of what is local to them.
        let all: Vec<_> = (0..threads).map(spawn).collect();
        all.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    engine.wait();
    native.into_inner()
}

fn options(precision: Precision, threads: usize) -> Options {
    let backend = BackendChoice::NativePreferred;
    Options {
        backend,
        precision,
        threads,
        fuel: 1000,
        geometry_fuel: 1000,
        events: Arc::new(|_| ()),
        ..Options::default()
    }
}

#[test]
fn a_cleared_engine_holds_little_whatever_it_compiled() {
    let alone = alone();
    // What the process sets up once belongs to no engine.
    drop(Engine::new(options(Precision::F32, 2)));
    for (precision, threads) in Precision::ALL.into_iter().zip([1, 4, 2]) {
        let (before, pages) = (counting::live(), code_pages());
        let engine = Engine::new(options(precision, if threads == 1 { 0 } else { threads }));
        let native = exercise(&engine, threads);
        assert!(native >= 3 * threads, "{native} native");
        let (used, used_pages) = (counting::live() - before, code_pages() - pages);
        let counted = engine.cache_stats().bytes;
        assert!(used > 1 << 20, "{used}");
        engine.clear();
        let held = counting::live() - before;
        println!(
            "{}, {threads} threads: {used} B + {used_pages} B of code, {counted} B counted; {held} B held",
            precision.name()
        );
        assert!(held <= HELD, "{}: {held}", precision.name());
        if cfg!(target_os = "linux") {
            assert!(used_pages > 100 << 10, "{used_pages}");
            assert_eq!(code_pages(), pages, "code is unmapped with its last shader");
        }
        assert_eq!((engine.cache_stats().entries, engine.cache_stats().bytes), (0, 0));
        drop(engine);
        let left = counting::live() - before;
        assert!(left < 64 << 10, "{left} B stay after the engine");
    }
    drop(alone);
}

/// Programs of many states and blocks, for the thread that compiles.
const WAITING: [&str; 2] = ["Loops 152 275 0 51475 11 63 3", "Backward 230 32 6 39517 32 1 5"];

/// A program with more states than a graph may have: nested calls of different lengths.
fn program_without_a_graph() -> Program {
    let call = |k: u32| 0x26 << 26 | k.wrapping_mul(0x9E37_79B9) >> 12 & 0x3F_FF00 | (1 + k % 7);
    Program::from_words(&(0..4096).map(call).collect::<Vec<u32>>(), &[]).expect("4,096 words")
}

/// The same program `n` times, with other descriptors.
fn variants(program: &Program, n: u32) -> impl Iterator<Item = Program> {
    let vary = |n: u32| {
        program.opdescs().iter().map(move |opdesc| opdesc ^ (n & 0xFF) << 5 ^ n >> 8 << 14).collect::<Vec<_>>()
    };
    (0..n).map(move |n| Program::from_words(program.code(), &vary(n)).expect("as many words"))
}

#[test]
fn shaders_that_wait_for_a_thread_hold_little() {
    let alone = alone();
    for recipe in WAITING {
        for (limit, count, held) in [(16 << 20, 400, 256), (1 << 30, 50, 50)] {
            // The thread waits in the handler of the first event.
            let (end, wait) = mpsc::channel::<()>();
            let wait = Mutex::new(wait);
            let events = Arc::new(move |_: &Event| _ = wait.lock().map(|wait| wait.recv()));
            let engine = Engine::new(Options { events, cache_bytes: limit, ..options(Precision::F32, 1) });
            let before = counting::live();
            let first = engine.shader(&program_without_a_graph(), Entry::vertex(0));
            let (program, entry) = recipe.parse::<Recipe>().expect("a recipe").program();
            let mut shaders = VecDeque::new();
            for program in variants(&program, count) {
                shaders.push_back(engine.shader(&program, entry));
                if shaders.len() > held {
                    shaders.pop_front();
                }
            }
            let (live, counted) = ((counting::live() - before) as usize, engine.cache_stats().bytes);
            println!("{recipe}, {held} held: {live} B, {counted} counted");
            assert!(shaders.iter().all(|shader| shader.tier() == Tier::Tier0));
            assert!(live < limit + (64 << 20), "{recipe}: {live}");
            // Here nothing is evicted.
            assert!(held == 256 || counted.abs_diff(live) < live / 10, "{recipe}: {live}, {counted} counted");
            drop((end, first, shaders));
        }
    }
    drop(alone);
}

#[test]
fn held_memory_is_noticed() {
    let alone = alone();
    let before = counting::live();
    let block = vec![1u8; 9 << 20];
    assert!(counting::live() - before > HELD);
    let ((), peak) = counting::peak(|| drop(vec![0u8; 5 << 20]));
    assert!((5 << 20..6 << 20).contains(&peak), "{peak}");
    drop((block, alone));
}
