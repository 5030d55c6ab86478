//! Which runs a crosscheck compares, and with what inputs.

use super::*;
use crate::layout::Image;
use crate::layout::{HostMemory, Layout};
use crate::state::NoEmitter;

/// Runs and batches of native kernels, of the shader's own runs and of comparisons.
static COUNTED: AtomicUsize = AtomicUsize::new(0);
/// Tests that count exclude each other.
static TURN: Mutex<()> = Mutex::new(());

/// A kernel that counts, and is wrong where `v0.x` is 7.
struct Counting(Arc<dyn Kernel>);

impl UnitKernel for Counting {
    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        COUNTED.fetch_add(1, Ordering::Relaxed);
        let wrong = unit.v[0][0] == 7.0;
        let exit = self.0.run(uniforms, unit, emitter);
        unit.o[0][0][2] += f32::from(u8::from(wrong));
        exit
    }

    fn run_batch(&self, u: &Uniforms, unit: &mut Unit, b: &mut Batch<'_>, e: &mut dyn Emitter) -> BatchExit {
        COUNTED.fetch_add(1, Ordering::Relaxed);
        self.0.run_batch(u, unit, b, e)
    }
}

fn counting(crosscheck: u32) -> (Arc<Mutex<Vec<Event>>>, Engine) {
    crosschecking(crosscheck, |kernel| Arc::new(OnUnits(Counting(kernel))))
}

fn shader(engine: &Engine) -> Shader {
    engine.shader(&program(0, &[]), Entry::vertex(0))
}

/// How often kernels run during `work`.
fn counted(work: impl FnOnce()) -> usize {
    let before = COUNTED.load(Ordering::Relaxed);
    work();
    COUNTED.load(Ordering::Relaxed) - before
}

/// A batch of `count` vertices, all of `x`, on the types of picajit or on a host's memory.
fn run_batch(shader: &Shader, host: Option<&HostMemory<'_>>, count: usize, x: f32) {
    let inputs: Vec<Registers> = vec![[[x; 4]; 16]; count];
    let mut outputs = inputs.clone();
    let mut batch = Batch::of(&inputs, &mut outputs);
    match host {
        Some(host) => shader.run_batch_on(host, &mut batch),
        None => shader.run_batch(&Uniforms::new(), &mut Unit::new(), &mut batch),
    };
}

/// Calls `work` with a host's memory for `unit`.
fn with_host<T>(unit: &mut Unit, work: impl FnOnce(&HostMemory<'_>) -> T) -> T {
    Image::run(Layout::OWN, &Uniforms::new(), unit, &mut NoEmitter, |host, _| work(host))
}

#[test]
fn every_nth_run_is_compared() {
    let _turn = lock(&TURN);
    let (_, engine) = counting(1);
    let compared = counted(|| runs(&shader(&engine))) - 1;
    assert!(compared > 0);
    let (events, engine) = counting(3);
    let shader = shader(&engine);
    assert_eq!(counted(|| (0..7).for_each(|_| runs(&shader))), 7 + 3 * compared, "runs 0, 3 and 6");
    let run_on = || with_host(&mut Unit::new(), |host| assert_eq!(shader.run_on(host, &mut NoEmitter), Exit::End));
    assert_eq!(counted(|| (0..4).for_each(|_| run_on())), 4 + compared, "run 9");
    assert!(lock(&events).is_empty());
}

#[test]
fn samples_of_a_batch_do_not_overlap() {
    let _turn = lock(&TURN);
    // Vertices compared at once, each as a run, and the sample as a batch.
    let sample = |engine: &Engine, count: usize| counted(|| run_batch(&shader(engine), None, count, 1.0)) - 1;
    let [small, large] = [1, 16].map(|count| sample(&counting(1000).1, count));
    assert!(0 < small && small < large);
    assert_eq!(sample(&counting(1000).1, 64), large, "run 0 only");
    assert_eq!(sample(&counting(3).1, 64), 4 * large, "64 runs in four samples");
    let (_, engine) = counting(20);
    assert_eq!([sample(&engine, 16), sample(&engine, 3), sample(&engine, 2)], [large, 0, small], "runs 0 and 20");
}

#[test]
fn a_cancelled_engine_compares_no_batch() {
    let _turn = lock(&TURN);
    let (_, engine) = counting(1);
    let shader = shader(&engine);
    engine.cancel();
    assert_eq!(counted(|| run_batch(&shader, None, 64, 1.0)), 1, "the batch itself");
}

#[test]
fn comparisons_have_the_vertices_inputs() {
    let _turn = lock(&TURN);
    for (x, wrong) in [(1.0, false), (7.0, true)] {
        let on = |run: fn(&Shader, &HostMemory<'_>, f32)| {
            let (events, engine) = counting(1);
            let mut unit = Unit::new();
            unit.v[0] = [x; 4];
            with_host(&mut unit, |host| run(&shader(&engine), host, x));
            let found = matches!(lock(&events)[..], [Event::Divergence { .. }]);
            assert_eq!(found, wrong, "{x}");
        };
        on(|shader, _, x| run_batch(shader, None, 3, x));
        on(|shader, host, x| run_batch(shader, Some(host), 3, x));
        on(|shader, host, _| _ = shader.run_on(host, &mut NoEmitter));
    }
}

#[test]
fn a_handler_may_ask_for_the_difference() {
    let _turn = lock(&TURN);
    let slot: Arc<OnceLock<Shader>> = Arc::default();
    let (asked, text) = (Arc::downgrade(&slot), Arc::new(Mutex::new(None)));
    let answer = text.clone();
    let events: EventHandler = Arc::new(move |_: &Event| {
        let slot = asked.upgrade().expect("held by the test");
        *lock(&answer) = slot.get().expect("before the first run").divergence();
    });
    let engine = crosschecking_for(events, 1, |kernel| Arc::new(OnUnits(Counting(kernel))));
    let shader = slot.get_or_init(|| shader(&engine));
    run_batch(shader, None, 1, 7.0);
    assert!(lock(&text).as_ref().is_some_and(|text| text.contains("o0.z")), "{text:?}");
}
