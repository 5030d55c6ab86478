//! What an engine holds after `clear`, whatever it compiled. A test binary of its own, because it
//! counts the bytes of the whole process.

#[path = "worst_compilation/counting.rs"]
mod counting;
#[path = "worst_compilation/recipe.rs"]
mod recipe;
mod stack;

use picajit::engine::{BackendChoice, Engine, Options, Shader, Tier};
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::state::{Batch, NoEmitter, Uniforms, Unit};
use recipe::Recipe;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    let native = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let (recipes, native) = (&recipes, &native);
            scope.spawn(move || {
                for recipe in recipes.iter().cycle().skip(thread).take(recipes.len()) {
                    let (program, entry) = recipe.program();
                    let shader = engine.shader(&program, entry);
                    shader.compile_now();
                    run(&shader, recipe);
                    native.fetch_add(usize::from(shader.tier() == Tier::Native), std::sync::atomic::Ordering::Relaxed);
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
        events: std::sync::Arc::new(|_| ()),
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
