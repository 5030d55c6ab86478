//! Another thread cancels runs that would take minutes, on every engine.

use super::*;
use std::thread;
use std::time::{Duration, Instant};

const BACKENDS: [BackendChoice; 3] = [BackendChoice::NativeRequired, BackendChoice::NoNative, BackendChoice::Oracle];

/// Generous: an idle machine needs less than 10 ms.
const LIMIT: Duration = Duration::from_secs(10);

/// Endless if `b0` is set. With the largest fuel a run takes minutes.
const LOOPS: [&str; 4] = [
    "again:\nnop\njmpu b0, again\nmov o0, v0",
    "again:\nfor i0\nfor i0\nadd r0, v0, r0\n.end\n.end\njmpu b0, again\nmov o0, r0",
    // Uniform in groups, whose vertices are independent. Slow, so that fuel does not end it first.
    "mov r0, v0\nagain:\nrcp r0, r0.x\njmpu b0, again\nmov o0, r0",
    // Divergent.
    "mov r0, v0\nagain:\nadd r0, v0, r0\ncmp c0.x, le, le, r0.x\njmpc cmp.x, again\nmov o0, r0",
];

fn engine(backend: BackendChoice, crosscheck: u32, precision: Precision) -> (Engine, Arc<Mutex<Vec<Event>>>) {
    let (events, handler) = collecting();
    let options = Options {
        backend,
        crosscheck,
        precision,
        fuel: u32::MAX,
        geometry_fuel: u32::MAX,
        events: handler,
        ..Options::at_once()
    };
    (Engine::new(options), events)
}

fn shader(engine: &Engine, source: &str) -> Shader {
    let shbin = crate::text::assemble(&format!(".proc main\n{source}\nend\n.end")).expect("a good source").shbin;
    engine.shader(&shbin.program().expect("short"), Entry::vertex(0))
}

fn uniforms() -> Uniforms {
    let mut uniforms = Uniforms::new();
    uniforms.b = 1;
    uniforms.i[0] = [255, 0, 1, 0];
    uniforms.c[0] = [-1.0; 4];
    uniforms
}

/// Runs a batch whose outputs are -1 before.
fn run_batch(shader: &Shader, unit: &mut Unit, count: usize, preserve_unit: bool) -> (BatchExit, Vec<f32>) {
    let (inputs, mut outputs) = (vec![[1.25; 4]; count], vec![[-1.0; 4]; count]);
    let mut batch = Batch {
        inputs: crate::state::Vertices::packed(&inputs, 1, count).expect("enough"),
        outputs: crate::state::VerticesMut::packed(&mut outputs, 1, count).expect("enough"),
        input_mask: 1,
        output_mask: 1,
        preserve_unit,
    };
    let ended = shader.run_batch(&uniforms(), unit, &mut batch);
    (ended, outputs.into_iter().map(|o| o[0]).collect())
}

/// Runs `work` while another thread cancels the engine after a delay, then resumes it.
fn cancelling<T>(engine: &Engine, milliseconds: u64, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(milliseconds));
            engine.cancel();
        });
        let result = work();
        while !engine.is_cancelled() {
            thread::yield_now();
        }
        engine.resume();
        result
    })
}

#[test]
#[cfg_attr(miri, ignore = "it waits for a thread")]
fn another_thread_cancels_endless_runs_and_batches() {
    for backend in BACKENDS {
        let all = if cfg!(debug_assertions) { &Precision::ALL[..2] } else { &Precision::ALL[..] };
        for &precision in all {
            let engine = engine(backend, 0, precision).0;
            for source in LOOPS {
                let shader = shader(&engine, source);
                let start = Instant::now();
                let exit = cancelling(&engine, 5, || shader.run(&uniforms(), &mut Unit::new()));
                assert_eq!(exit, Exit::Cancelled, "{backend:?} {source}");
                // Code for groups serves the later ones.
                for (n, count) in [2, 64, 1028, 1028, 4096].into_iter().enumerate() {
                    let preserve_unit = n % 2 != 0;
                    let mut unit = Unit::new();
                    unit.r[0] = [0.5; 4];
                    let (ended, outputs) =
                        cancelling(&engine, 5, || run_batch(&shader, &mut unit, count, preserve_unit));
                    assert_eq!(ended.exit, Exit::Cancelled, "{backend:?} {source}");
                    assert!(ended.ran <= 1, "{backend:?} {source}: {ended:?}");
                    assert!(outputs.iter().skip(4).all(|&o| o == -1.0), "{backend:?} {source}");
                    assert!(!preserve_unit || unit.r[0] == [0.5; 4] && unit.v[0] == [0.0; 4], "{backend:?} {source}");
                }
                assert!(start.elapsed() < LIMIT, "{backend:?} {source}: {:?}", start.elapsed());
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a long batch")]
fn another_thread_cancels_batches_without_backward_transfers() {
    // Vertices in order, and in groups.
    let body = format!("mov r1, v0\n{}", "mul r1, v0, r1\n".repeat(200));
    for (source, least) in [("add r0, r1, r0\nmov o0, r0", 0), ("mov o0, r1", 64)] {
        for backend in BACKENDS {
            let engine = engine(backend, 0, Precision::F32).0;
            let shader = shader(&engine, &format!("{body}{source}"));
            (0..3).for_each(|_| _ = run_batch(&shader, &mut Unit::new(), 1024, false));
            let count = if backend == BackendChoice::NativeRequired { 1 << 20 } else { 1 << 18 };
            // A busy machine may cancel before the first vertex or after the last one.
            let in_the_middle = (0..50).any(|n| {
                let batch = || run_batch(&shader, &mut Unit::new(), count, n % 4 < 2);
                let ended = cancelling(&engine, 5 + n % 20 * 10, batch);
                let (BatchExit { exit, ran }, outputs) = ended;
                if exit == Exit::End {
                    return false;
                }
                assert_eq!(exit, Exit::Cancelled);
                assert!(outputs[..ran].iter().all(|&o| o != -1.0), "{backend:?} {source}: {ran}");
                assert!(outputs[ran..].iter().all(|&o| o == -1.0), "{backend:?} {source}: {ran}");
                least < ran && ran < count
            });
            assert!(in_the_middle, "{backend:?} {source}");
        }
    }
}

#[test]
fn cancelled_engines_run_no_batch_until_they_resume() {
    for backend in BACKENDS {
        let engine = engine(backend, 0, Precision::F32).0;
        let shader = shader(&engine, "add r0, v0, r0\nmov o0, v0");
        assert!(!engine.is_cancelled());
        engine.cancel();
        for count in [2, 8, 100] {
            for preserve_unit in [false, true] {
                let (ended, outputs) = run_batch(&shader, &mut Unit::new(), count, preserve_unit);
                assert_eq!(ended, BatchExit { exit: Exit::Cancelled, ran: 0 }, "{backend:?} {count}");
                assert!(outputs.iter().all(|&o| o == -1.0));
            }
        }
        engine.resume();
        let (ended, outputs) = run_batch(&shader, &mut Unit::new(), 100, false);
        assert_eq!(ended, BatchExit { exit: Exit::End, ran: 100 });
        assert!(outputs.iter().all(|&o| o == 1.25));
    }
}

#[test]
fn shaders_of_a_cancelled_engine_outlive_it() {
    for backend in BACKENDS {
        let engine = engine(backend, 0, Precision::F32).0;
        let shader = shader(&engine, LOOPS[1]);
        engine.cancel();
        drop(engine);
        assert_eq!(shader.run(&uniforms(), &mut Unit::new()), Exit::Cancelled, "{backend:?}");
    }
}

#[test]
fn a_crosscheck_ignores_cancelled_runs() {
    // A build without native code reports that.
    let native = cfg!(feature = "jit").then_some(BackendChoice::NativeRequired);
    for backend in native.into_iter().chain([BackendChoice::NoNative]) {
        let (engine, events) = engine(backend, 1, Precision::F32);
        let [endless, straight] = [LOOPS[1], "add r0, v0, r0\nmov o0, r0"].map(|source| shader(&engine, source));
        engine.cancel();
        assert_eq!(endless.run(&uniforms(), &mut Unit::new()), Exit::Cancelled, "{backend:?}");
        assert_eq!(straight.run(&uniforms(), &mut Unit::new()), Exit::End, "{backend:?}");
        for shader in [endless, straight] {
            let ended = run_batch(&shader, &mut Unit::new(), 100, false).0;
            assert_eq!(ended, BatchExit { exit: Exit::Cancelled, ran: 0 }, "{backend:?}");
        }
        let events: Vec<String> = lock(&events).iter().map(Event::to_string).collect();
        assert!(events.is_empty(), "{events:?}");
    }
}

#[test]
fn single_runs_without_backward_transfers_are_never_cancelled() {
    for backend in BACKENDS {
        let engine = engine(backend, 0, Precision::F32).0;
        let shader = shader(&engine, "mov o0, v0\njmpu b0, over\nmov o0, c0\nover:\nnop");
        engine.cancel();
        assert_eq!(shader.run(&uniforms(), &mut Unit::new()), Exit::End, "{backend:?}");
    }
}

#[test]
#[cfg(feature = "jit")]
fn cancelled_runs_compile_nothing() {
    let options = Options { compile_after: 8, events: collecting().1, ..Options::default() };
    let engine = Engine::new(options);
    let shader = shader(&engine, "mul r0, v0, v0.yxzw\nmov o0, r0");
    let run = |count| run_batch(&shader, &mut Unit::new(), count, false).0.exit;
    engine.cancel();
    (0..3).for_each(|_| assert_eq!(run(100), Exit::Cancelled));
    assert_eq!(shader.tier(), Tier::Tier0);
    engine.resume();
    assert_eq!((run(8), shader.tier()), (Exit::End, Tier::Native));
    let single = engine.cache_stats().bytes;
    let compiled = || shader.native_bytes();
    let before = compiled();
    engine.cancel();
    (0..3).for_each(|_| assert_eq!(run(1 << 14), Exit::Cancelled));
    let mut unit = Unit::new();
    unit.v[0] = [f32::INFINITY, 0.0, 0.0, 0.0];
    shader.run(&uniforms(), &mut unit);
    assert_eq!((compiled(), engine.cache_stats().bytes), (before, single), "neither code for groups nor exact code");
    engine.resume();
    (0..3).for_each(|_| assert_eq!(run(1 << 14), Exit::End));
    assert!(compiled() > before, "code for groups");
}

/// Tier 0 serves the run, since a cancelled engine compiles no exact code. Only then does a compiled shader decode for
/// tier 0.
#[test]
#[cfg(feature = "jit")]
fn a_run_that_deoptimises_is_cancelled_on_tier_0() {
    let engine = Engine::new(Options { backend: BackendChoice::NativeRequired, ..Options::at_once() });
    let shader =
        shader(&engine, "mul r0, v0, v0.yxzw\ncmp c1.x, eq, eq, r0.x\nagain:\nnop\njmpu b0, again\nmov o0, r0");
    let mut unit = Unit::new();
    unit.v[0] = [f32::INFINITY, 0.0, 0.0, 0.0];
    engine.cancel();
    assert_eq!(shader.run(&uniforms(), &mut unit), Exit::Cancelled);
}
