//! Engines that write programs to a directory.

use super::*;
use crate::engine::{BackendChoice, Engine, NativeBackend, Options, Preloaded, Shader};
use crate::interp::Interp;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::state::{Exit, Uniforms, Unit};
use crate::testing::miri_or;

mod format;
mod warm_start;

/// The path of a directory for one test: not created yet, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("picajit-store-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    /// An engine that stores programs in it, and the engine's events.
    fn engine(&self, options: Options) -> (Arc<Mutex<Vec<Event>>>, Engine) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let to = events.clone();
        let handler: EventHandler = Arc::new(move |e: &Event| lock(&to).push(e.clone()));
        let store_directory = Some(self.0.clone());
        (events, Engine::new(Options { store_directory, events: handler, ..options }))
    }

    fn files(&self) -> Vec<PathBuf> {
        let listing = DirectoryListing::read(&self.0).expect("a directory or nothing");
        assert_eq!(listing.others, 0, "no temporary file is left");
        listing.files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn threaded(threads: usize) -> Options {
    Options { threads, ..Options::at_once() }
}

const END: u32 = 0x22 << 26;

/// `add o0, v0, v0`, then n times filler like `mul o0, v0, o0`, then END, then unreachable words.
fn program(n: u32, leftovers: &[u32]) -> Program {
    let mut code = vec![0];
    code.extend((0..n).map(|n| 0x08 << 26 | n << 21 & 0x01E0_0000));
    code.push(END);
    code.extend(leftovers);
    Program::from_words(&code, &[0x36F]).expect("short")
}

/// A program whose nested calls have more states than the limit: it never has native code.
fn too_many_states() -> Program {
    let mut x = 9u32;
    let word = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0x26 << 26 | (x >> 28) << 22 | (x >> 16 & 0xFFF) << 10 | (1 + (x >> 12 & 7))
    };
    let words: Vec<u32> = (0..4096).map(word).collect();
    Program::from_words(&words, &[]).expect("4096 words")
}

fn ran(shader: &Shader) -> (Exit, [u32; 4]) {
    let mut unit = Unit::new();
    unit.v[0] = [1.5, -2.0, 0.0, f32::INFINITY];
    let exit = shader.run(&Uniforms::new(), &mut unit);
    (exit, unit.outputs()[0].map(f32::to_bits))
}

#[test]
fn the_next_engine_preloads_the_programs_that_one_stored() {
    for threads in [0, 1, 3] {
        let folder = Folder::new(&format!("next-{threads}"));
        let (events, first) = folder.engine(threaded(threads));
        assert_eq!(first.preload().expect("no directory yet"), Preloaded::default());
        let requests = [(0, Entry::vertex(0)), (1, Entry::vertex(0)), (1, Entry::geometry(0)), (1, Entry::vertex(1))];
        let all = |engine: &Engine, leftovers: &[u32]| {
            let shader = |&(n, entry)| engine.shader(&program(n, leftovers), entry);
            requests.iter().map(shader).collect::<Vec<Shader>>()
        };
        let want: Vec<_> = all(&first, &[]).iter().map(ran).collect();
        first.wait();
        assert_eq!(folder.files().len(), requests.len());
        all(&first, &[END, 3, 5]);
        first.clear();
        all(&first, &[7]);
        first.wait();
        assert_eq!(folder.files().len(), requests.len(), "the same programs");
        drop(first);
        let (more, second) = folder.engine(threaded(threads));
        let found = second.preload().expect("a directory");
        assert_eq!(found, Preloaded { programs: requests.len(), rejected: 0, skipped: 0 });
        assert_eq!(second.preload().expect("again"), found);
        second.wait();
        let before = second.cache_stats();
        assert_eq!((before.entries, before.hits, before.misses), (requests.len(), 0, 0));
        let shaders = all(&second, &[1, 2, 3]);
        let after = second.cache_stats();
        assert_eq!((after.entries, after.hits, after.misses), (requests.len(), requests.len() as u64, 0));
        assert_eq!(after.bytes, before.bytes, "preloading compiled all of them");
        assert_eq!(shaders.iter().map(ran).collect::<Vec<_>>(), want);
        if cfg!(feature = "jit") {
            assert!(shaders.iter().all(|s| s.backend() == "batch"));
        }
        assert!([&events, &more].iter().all(|events| lock(events).iter().all(is_fallback)));
        drop(second);
        assert_eq!(folder.files().len(), requests.len());
    }
}

fn is_fallback(event: &Event) -> bool {
    matches!(event, Event::Fallback { .. })
}

#[test]
fn a_program_is_preloaded_for_the_memory_that_it_was_requested_for() {
    use crate::layout::{Bools, Layout, Offsets};
    let layout = Layout::new(Offsets {
        unit_bytes: 1024,
        v: 0,
        r: 256,
        o: 512,
        geometry: None,
        a0: [768, 772],
        al: 776,
        cmp: [780, 781],
        uniforms_bytes: 2048,
        c: 0,
        i: 1600,
        b: Bools::Mask(1700),
    });
    let options = Options { layout: Some(layout.expect("a layout")), ..Options::at_once() };
    let folder = Folder::new("layout");
    let (_, first) = folder.engine(options.clone());
    first.shader(&program(0, &[]), Entry::vertex(0));
    first.own_shader(&program(1, &[]), Entry::vertex(0));
    let (_, second) = folder.engine(options);
    assert_eq!(second.preload().expect("a directory").programs, 2);
    second.shader(&program(0, &[]), Entry::vertex(0));
    second.own_shader(&program(1, &[]), Entry::vertex(0));
    assert_eq!((second.cache_stats().hits, second.cache_stats().misses), (2, 0));
    second.own_shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!(second.cache_stats().misses, 1);
    // Without a layout, both kinds of request give the same shader.
    let (_, plain) = folder.engine(Options::at_once());
    assert_eq!(plain.preload().expect("a directory").programs, 3);
    assert_eq!(plain.cache_stats().entries, 2);
}

#[test]
fn programs_without_native_code_are_stored_and_preloaded() {
    for options in [threaded(0), threaded(1), Options { backend: BackendChoice::NoNative, ..threaded(1) }] {
        let folder = Folder::new("never");
        let entry = Entry::vertex(0);
        let (_, first) = folder.engine(options.clone());
        let want = ran(&first.shader(&too_many_states(), entry));
        first.wait();
        let (_, second) = folder.engine(options);
        assert_eq!(second.preload().expect("a directory").programs, 1);
        second.wait();
        let shader = second.shader(&too_many_states(), entry);
        assert_eq!((second.cache_stats().hits, shader.backend()), (1, "tier0"));
        assert_eq!(ran(&shader), want);
    }
}

#[test]
fn files_that_are_no_programs_are_counted_and_stay_untouched() {
    let folder = Folder::new("others");
    let (_, engine) = folder.engine(Options::at_once());
    for n in 0..3 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    let files = folder.files();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).expect("written");
    let [good, other] = [0, 1].map(|n: usize| fs::read(&files[n]).expect("written"));
    // Truncated; under a wrong name; other sizes; other names.
    put(files[1].file_name().and_then(OsStr::to_str).expect("text"), &good[..good.len() - 1]);
    put("00000000000000000000000000000000.pica", &good);
    put("00000000000000000000000000000001.pica", &[]);
    put("00000000000000000000000000000002.pica", &[0; MAX_BYTES + 1]);
    put("readme.txt", b"not ours");
    put("0.pica", &good);
    fs::create_dir(folder.0.join("00000000000000000000000000000003.pica")).expect("created");
    // Too large to be read.
    let huge = File::create(folder.0.join("00000000000000000000000000000004.pica")).expect("created");
    huge.set_len(1 << 40).or_else(|_| huge.set_len(1 << 30)).expect("a sparse file");
    #[cfg_attr(not(unix), expect(unused_mut, reason = "links and pipes increment it"))]
    let mut rejected = 8;
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        // A pipe without a writer, and links to nothing, to themselves, and to an endless device.
        let at = |n: u32| folder.0.join(format!("{n:032}.pica"));
        if pipe(&at(5)) {
            rejected += 1;
        }
        for (n, to) in [(6, PathBuf::from("nowhere")), (7, at(7)), (8, PathBuf::from("/dev/zero"))] {
            symlink(to, at(n)).expect("created");
            rejected += 1;
        }
    }
    for threads in [0, 1] {
        let (events, engine) = folder.engine(threaded(threads));
        let found = engine.preload().expect("a directory");
        assert_eq!(found, Preloaded { programs: 2, rejected, skipped: 0 });
        engine.wait();
        // A request replaces the broken file.
        for n in 0..3 {
            engine.shader(&program(n, &[]), Entry::vertex(0));
        }
        engine.wait();
        assert_eq!(fs::read(&files[1]).expect("it exists"), other);
        assert!(lock(&events).iter().all(|e| !matches!(e, Event::StoreFailed { .. })));
        put(files[1].file_name().and_then(OsStr::to_str).expect("text"), &good[..good.len() - 1]);
    }
}

#[test]
fn an_unusable_directory_is_reported_once() {
    for threads in [0, 2] {
        let folder = Folder::new(&format!("nowhere-{threads}"));
        fs::write(&folder.0, b"a file").expect("written");
        for directory in [folder.0.clone(), folder.0.join("within")] {
            let below = Folder(directory.clone());
            let (events, engine) = below.engine(threaded(threads));
            let shaders: Vec<Shader> = (0..5).map(|n| engine.shader(&program(n, &[]), Entry::vertex(0))).collect();
            assert!(shaders.iter().all(|shader| ran(shader).0 == Exit::End));
            engine.wait();
            let reported: Vec<Event> =
                lock(&events).iter().filter(|e| !matches!(e, Event::Fallback { .. })).cloned().collect();
            let [Event::StoreFailed { reason: reason @ StoreError::Directory { path, .. } }] = &reported[..] else {
                panic!("{reported:?}")
            };
            assert_eq!(*path, directory);
            assert!(reason.to_string().starts_with("can't use "), "{reason}");
            // On Windows a path below a file is not found; Wine says the same of the file.
            assert!(cfg!(windows) || engine.preload().is_err());
            assert_eq!(ran(&engine.shader(&program(0, &[]), Entry::vertex(0))).0, Exit::End);
            // `folder` removes it.
            std::mem::forget(below);
        }
        fs::remove_file(&folder.0).expect("it exists");
    }
}

#[test]
fn a_file_that_can_not_be_written_is_reported_once() {
    let folder = Folder::new("taken");
    let (_, first) = folder.engine(Options::at_once());
    first.shader(&program(0, &[]), Entry::vertex(0));
    // A directory that is not empty: no file can replace it.
    let taken = folder.files().remove(0);
    fs::remove_file(&taken).expect("it exists");
    fs::create_dir_all(taken.join("within")).expect("created");
    let (events, engine) = folder.engine(Options::at_once());
    for n in 0..3 {
        assert_eq!(ran(&engine.shader(&program(n, &[]), Entry::vertex(0))).0, Exit::End);
    }
    let reported: Vec<Event> = lock(&events).iter().filter(|e| !matches!(e, Event::Fallback { .. })).cloned().collect();
    let [Event::StoreFailed { reason: StoreError::Write { path, .. } }] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!(*path, taken);
    assert_eq!(folder.files().len(), 1, "no temporary file is left, and no other file was written");
}

#[test]
fn a_directory_has_a_limit_on_programs() {
    let folder = Folder::new("full");
    fs::create_dir_all(&folder.0).expect("created");
    for n in 0..MAX_PROGRAMS + 2 {
        File::create(folder.0.join(format!("{n:032x}.pica"))).expect("created");
    }
    let (events, engine) = folder.engine(Options::at_once());
    for n in 0..3 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    let reported = lock(&events).clone();
    assert!(
        matches!(&reported[..], [.., Event::StoreFailed { reason: StoreError::Full { most: MAX_PROGRAMS, .. } }]),
        "{reported:?}"
    );
    assert_eq!(reported.iter().filter(|e| matches!(e, Event::StoreFailed { .. })).count(), 1);
    assert_eq!(engine.preload().expect("a directory"), Preloaded { programs: 0, rejected: MAX_PROGRAMS, skipped: 2 });
    let listing = DirectoryListing::read(&folder.0).expect("a directory");
    assert_eq!((listing.files.len(), listing.excess, listing.others), (MAX_PROGRAMS, 2, 0));
}

#[test]
fn a_broken_file_of_a_full_directory_is_replaced() {
    let folder = Folder::new("replaced");
    let (_, first) = folder.engine(Options::at_once());
    first.shader(&program(0, &[]), Entry::vertex(0));
    let broken = folder.files().remove(0);
    let whole = fs::read(&broken).expect("written");
    for n in 0..MAX_PROGRAMS - 1 {
        File::create(folder.0.join(format!("{n:032x}.pica"))).expect("created");
    }
    for known in [false, true] {
        fs::write(&broken, &whole[1..]).expect("written");
        let (events, engine) = folder.engine(Options::at_once());
        if known {
            // The engine counts the programs, and has room for one more.
            let other = folder.files().remove(0);
            fs::remove_file(other).expect("it exists");
            engine.shader(&program(1, &[]), Entry::vertex(0));
        }
        engine.shader(&program(0, &[]), Entry::vertex(0));
        assert_eq!(fs::read(&broken).expect("it exists"), whole);
        assert!(lock(&events).iter().all(is_fallback), "{events:?}");
        engine.shader(&program(2, &[]), Entry::vertex(0));
        let reported = lock(&events);
        assert!(matches!(&reported[..], [.., Event::StoreFailed { reason: StoreError::Full { .. } }]), "{reported:?}");
    }
    assert_eq!(folder.files().len(), MAX_PROGRAMS);
}

/// Creates a pipe; false if this system has none.
#[cfg(unix)]
fn pipe(at: &Path) -> bool {
    std::process::Command::new("mkfifo").arg(at).status().is_ok_and(|status| status.success())
}

/// The result of `work`, which must not block.
#[cfg(unix)]
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("it does not block")
}

#[test]
#[cfg(unix)]
fn opening_rejects_what_may_block() {
    let folder = Folder::new("place");
    let (_, engine) = folder.engine(Options::at_once());
    engine.shader(&program(0, &[]), Entry::vertex(0));
    let file = folder.files().remove(0);
    let at = |name: &str| folder.0.join(name);
    assert!(open(&file).is_some() && open(&at("none")).is_none());
    assert!(open(&folder.0).is_none(), "a directory");
    File::create(at("large")).and_then(|large| large.set_len(MAX_BYTES as u64 + 1)).expect("created");
    assert!(open(&at("large")).is_none());
    if OPEN_FLAGS == 0 {
        return;
    }
    std::os::unix::fs::symlink(&file, at("link")).expect("created");
    assert!(open(&at("link")).is_none());
    let name = at("pipe");
    if pipe(&name) {
        assert!(soon(move || open(&name)).is_none());
    }
}

/// A link is rejected by name, before `open`, even if it leads to a program and has its name.
#[test]
#[cfg(unix)]
fn a_link_to_a_program_is_rejected() {
    let folder = Folder::new("link");
    let (_, first) = folder.engine(Options::at_once());
    first.shader(&program(0, &[]), Entry::vertex(0));
    let (file, elsewhere) = (folder.files().remove(0), folder.0.join("elsewhere"));
    fs::rename(&file, &elsewhere).expect("it exists");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("created");
    assert!(load(&file).is_none());
    // A request replaces the link by the program.
    let (_, second) = folder.engine(Options::at_once());
    assert_eq!(second.preload().expect("a directory"), Preloaded { programs: 0, rejected: 2, skipped: 0 });
    second.shader(&program(0, &[]), Entry::vertex(0));
    assert!(fs::symlink_metadata(&file).expect("it exists").is_file() && load(&file).is_some());
}

#[test]
#[cfg(all(target_os = "linux", feature = "jit"))]
fn open_flags_are_those_of_the_system() {
    use rustix::fs::OFlags;
    if OPEN_FLAGS != 0 {
        assert_eq!(OPEN_FLAGS, (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32);
    }
}

#[test]
fn two_engines_and_many_threads_share_a_directory() {
    for threads in [0, 2] {
        let folder = Folder::new(&format!("shared-{threads}"));
        let (first_events, first) = folder.engine(threaded(threads));
        let (second_events, second) = folder.engine(threaded(threads));
        let oracle = Engine::new(Options { backend: BackendChoice::Oracle, ..Options::at_once() });
        std::thread::scope(|scope| {
            for engine in [&first, &second, &first, &second] {
                let oracle = &oracle;
                scope.spawn(move || {
                    for n in 0..40 {
                        let shader = engine.shader(&program(n % 20, &[]), Entry::vertex(0));
                        assert_eq!(ran(&shader), ran(&oracle.shader(&program(n % 20, &[]), Entry::vertex(0))));
                        if n % 10 == 9 {
                            // Concurrent writes may add programs or not.
                            assert!(engine.preload().expect("a directory").programs <= 20);
                        }
                    }
                });
            }
        });
        first.wait();
        second.wait();
        let no_failure = |e: &Event| !matches!(e, Event::StoreFailed { .. });
        assert!([first_events, second_events].iter().all(|events| lock(events).iter().all(no_failure)));
        assert_eq!(folder.files().len(), 20);
        let (_, third) = folder.engine(Options::at_once());
        assert_eq!(third.preload().expect("a directory").programs, 20);
    }
}

#[test]
fn a_handler_of_a_store_failure_may_request_shaders() {
    for threads in [0, 1] {
        let folder = Folder::new(&format!("heard-{threads}"));
        fs::write(&folder.0, b"a file").expect("written");
        let slot: Arc<std::sync::OnceLock<Engine>> = Arc::default();
        let (weak, received) = (Arc::downgrade(&slot), Arc::new(AtomicU32::new(0)));
        let count = received.clone();
        let events: EventHandler = Arc::new(move |event: &Event| {
            if matches!(event, Event::StoreFailed { .. }) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let engine = weak.upgrade().expect("the engine exists");
            let engine = engine.get().expect("initialised");
            assert_eq!(ran(&engine.shader(&program(1, &[]), Entry::vertex(0))).0, Exit::End);
            assert!(cfg!(windows) || engine.preload().is_err());
        });
        let options = Options { store_directory: Some(folder.0.clone()), events, ..threaded(threads) };
        let engine = slot.get_or_init(|| Engine::new(options));
        engine.shader(&program(0, &[]), Entry::vertex(0));
        engine.wait();
        assert_eq!(received.load(Ordering::Relaxed), 1);
        fs::remove_file(&folder.0).expect("it exists");
    }
}

#[test]
fn the_key_determines_the_file() {
    let key = |leftovers: &[u32]| ShaderKey::new(&program(1, leftovers), Entry::vertex(0), Config::default());
    let bytes = |key: ShaderKey| StoredProgram { program: key.program(), entry: key.entry(), on_unit: false }.bytes();
    assert_eq!(bytes(key(&[])), bytes(key(&[1, 2, 3])));
    assert_eq!(StoredProgram::parse(&bytes(key(&[9]))).map(|a| a.program), Some(program(1, &[])));
}
