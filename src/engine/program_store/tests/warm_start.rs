//! Preloading: cache space, budget, order of compilation, events.

use super::*;

#[test]
fn preloading_takes_free_cache_space_only() {
    let folder = Folder::new("room");
    let (_, first) = folder.engine(Options::at_once());
    for n in 0..60 {
        first.shader(&program(n, &[]), Entry::vertex(0));
    }
    let bytes = first.cache_stats().bytes;
    for threads in [0, 1, 2] {
        let (_, engine) = folder.engine(Options { cache_bytes: bytes / 3, ..threaded(threads) });
        let held = engine.own_shader(&program(5, &[9]), Entry::geometry(0));
        engine.wait();
        let found = engine.preload().expect("a directory");
        engine.wait();
        let stats = engine.cache_stats();
        assert!(stats.bytes <= bytes / 3 && stats.entries > 10, "{stats:?}");
        assert!(engine.shader(&program(5, &[]), Entry::geometry(0)).same_as(&held), "it was not evicted");
        assert_eq!((found.programs + found.skipped, found.rejected), (61, 0));
        if threads == 0 {
            assert!(found.skipped > 20 && stats.evictions == 0, "{found:?} {stats:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "explores a million states")]
fn preloading_has_a_budget_of_states() {
    let folder = Folder::new("states");
    fs::create_dir_all(&folder.0).expect("created");
    let most = 40;
    for n in 0..most {
        let mut code = too_many_states().code().to_vec();
        code.push(n);
        code.swap_remove(0);
        let program = Program::from_words(&code, &[]).expect("4096 words");
        let bytes = StoredProgram { program, entry: Entry::vertex(1), on_unit: false }.bytes();
        fs::write(folder.0.join(file_name(&bytes)), bytes).expect("written");
    }
    let (_, engine) = folder.engine(threaded(1));
    let found = engine.preload().expect("a directory");
    // Each takes 128 + 256 + ... + 8192 states of the budget.
    assert_eq!(found, Preloaded { programs: 32, rejected: 0, skipped: most as usize - 32 });
    // Each preload has a budget of its own.
    assert_eq!(engine.preload().expect("a directory"), found);
}

/// A backend whose compilations each wait for a message. It records their order.
struct Slow(Mutex<std::sync::mpsc::Receiver<()>>, Arc<Mutex<Vec<Entry>>>);

impl NativeBackend for Slow {}
impl Backend for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn compile(&self, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        lock(&self.1).push(e);
        lock(&self.0).recv().expect("sent");
        Interp.compile(p, e, c)
    }
}

#[test]
fn a_requested_shader_overtakes_preloaded_ones() {
    let folder = Folder::new("order");
    let (_, first) = folder.engine(Options::at_once());
    for n in 0..10 {
        first.shader(&program(n, &[]), Entry::vertex(0));
    }
    for clear in [false, true] {
        let (_, mut engine) = folder.engine(threaded(1));
        let ((go, may), order) = (std::sync::mpsc::channel(), Arc::default());
        let slow = Arc::new(Slow(Mutex::new(may), Arc::clone(&order)));
        engine.set_backend(slow);
        assert_eq!(engine.preload().expect("a directory").programs, 10);
        if clear {
            engine.clear();
        }
        let shader = engine.shader(&program(20, &[]), Entry::geometry(0));
        assert_eq!((ran(&shader).0, shader.backend()), (Exit::End, "tier0"), "it runs at once");
        (0..11).for_each(|_| go.send(()).expect("received"));
        engine.wait();
        assert_eq!(shader.backend(), "slow");
        let order = lock(&order);
        assert!(order.iter().position(|e| *e == Entry::geometry(0)).is_some_and(|at| at <= 2), "{order:?}");
        if clear {
            assert!(order.len() <= 3, "evicted shaders are not compiled: {order:?}");
        } else {
            assert_eq!(order.len(), 11);
        }
        drop(engine);
        // Restores the directory for the next round.
        assert_eq!(folder.files().len(), 11);
        let new = folder.files().into_iter().find(|f| load(f).is_some_and(|stored| stored.entry == Entry::geometry(0)));
        fs::remove_file(new.expect("stored")).expect("it exists");
    }
}

#[test]
fn a_requested_preloaded_shader_overtakes_the_others() {
    let folder = Folder::new("ahead");
    let (_, first) = folder.engine(Options::at_once());
    let count = 12;
    for n in 0..count {
        // The entry identifies the program.
        first.shader(&program(n, &[]), Entry::vertex(n as u16));
    }
    let last = load(folder.files().last().expect("stored")).expect("a program");
    let (_, mut engine) = folder.engine(threaded(1));
    let ((go, may), order) = (std::sync::mpsc::channel(), Arc::default());
    let slow = Arc::new(Slow(Mutex::new(may), Arc::clone(&order)));
    engine.set_backend(slow);
    assert_eq!(engine.preload().expect("a directory").programs, count as usize);
    // Repeated requests add no compilation.
    let shaders: Vec<Shader> = (0..5).map(|_| engine.shader(&last.program, last.entry)).collect();
    assert!(shaders.iter().all(|shader| shader.same_as(&shaders[0]) && ran(shader).0 == Exit::End));
    assert_eq!((engine.cache_stats().hits, shaders[0].backend()), (5, "tier0"), "it runs at once");
    (0..count).for_each(|_| go.send(()).expect("received"));
    engine.wait();
    assert_eq!(shaders[0].backend(), "slow");
    let order = lock(&order);
    assert!(order.iter().position(|e| *e == last.entry).is_some_and(|at| at <= 2), "{order:?}");
    assert_eq!(order.len(), count as usize, "each is compiled once: {order:?}");
}

#[test]
fn a_fallback_is_reported_when_its_shader_is_requested() {
    for threads in [0, 1] {
        let folder = Folder::new(&format!("fallback-{threads}"));
        let (first_events, first) = folder.engine(threaded(threads));
        first.shader(&too_many_states(), Entry::vertex(0));
        first.wait();
        let fallbacks = |events: &Mutex<Vec<Event>>| lock(events).iter().filter(|e| is_fallback(e)).count();
        assert_eq!(fallbacks(&first_events), 1);
        // Requested after its compilation, and before.
        for wait in [true, false] {
            let (events, engine) = folder.engine(threaded(threads));
            assert_eq!(engine.preload().expect("a directory").programs, 1);
            if wait {
                engine.wait();
                assert_eq!(fallbacks(&events), 0, "no request yet");
            }
            let shaders = [0, 1].map(|_| engine.shader(&too_many_states(), Entry::vertex(0)));
            engine.wait();
            assert_eq!((fallbacks(&events), engine.cache_stats().hits), (1, 2));
            assert!(shaders.iter().all(|shader| shader.fallback_reason().is_some()));
        }
    }
}
