//! Files of programs, whole and broken, and engines that share a directory of them.

use super::*;
use crate::engine::{Engine, Maker, Options, Prefer, Preloaded, Shader};
use crate::interp::Interp;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::state::{Exit, Uniforms, Unit};
use crate::testing::miri_or;

/// A folder of one test, not there yet, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("picajit-kept-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    /// An engine that keeps programs in it, and what it says.
    fn engine(&self, options: Options) -> (Arc<Mutex<Vec<Event>>>, Engine) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let to = events.clone();
        let handler: EventHandler = Arc::new(move |e: &Event| lock(&to).push(e.clone()));
        let store_directory = Some(self.0.clone());
        (events, Engine::new(Options { store_directory, events: handler, ..options }))
    }

    fn files(&self) -> Vec<PathBuf> {
        let found = Found::look(&self.0).expect("a folder or nothing");
        assert_eq!(found.others, 0, "nothing else is left behind");
        found.files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn threaded(threads: usize) -> Options {
    Options { threads, ..Options::default() }
}

const END: u32 = 0x22 << 26;

/// `add o0, v0, v0` and then n times `mul o0, v0, o0`-like filler, then END, then leftovers.
fn program(n: u32, leftovers: &[u32]) -> Program {
    let mut code = vec![0];
    code.extend((0..n).map(|n| 0x08 << 26 | n << 21 & 0x01E0_0000));
    code.push(END);
    code.extend(leftovers);
    Program::from_words(&code, &[0x36F]).expect("short")
}

/// A program whose calls in calls have more states than are explored: it is never native.
fn endless() -> Program {
    let mut x = 9u32;
    let word = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0x26 << 26 | (x >> 28) << 22 | (x >> 16 & 0xFFF) << 10 | (1 + (x >> 12 & 7))
    };
    let words: Vec<u32> = (0..4096).map(word).collect();
    Program::from_words(&words, &[]).expect("as long as may be")
}

fn ran(shader: &Shader) -> (Exit, [u32; 4]) {
    let mut unit = Unit::new();
    unit.v[0] = [1.5, -2.0, 0.0, f32::INFINITY];
    let exit = shader.run(&Uniforms::new(), &mut unit);
    (exit, unit.outputs()[0].map(f32::to_bits))
}

/// Arbitrary words, the same each time.
fn words(seed: u32, count: usize) -> Vec<u32> {
    let mut x = seed | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    };
    (0..count).map(next).collect()
}

fn asked(code: usize, opdescs: usize) -> Asked {
    let program = Program::from_words(&words(1, code), &words(2, opdescs)).expect("short");
    Asked { program, entry: Entry::geometry(0xFFFF), own: true }
}

/// A file with this head and these bytes behind it, and the right sum.
fn forged(head: [u32; 5], body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(head.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(body);
    bytes.extend(sum(&bytes).to_le_bytes());
    bytes
}

#[test]
fn what_is_written_is_what_is_read() {
    let plain = Asked { program: program(2, &[]), entry: Entry::vertex(1), own: false };
    for asked in [plain, asked(0, 0), asked(1, 0), asked(0, 128), asked(7, 3)] {
        assert_eq!(Asked::parse(&asked.bytes()), Some(asked));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of words, hashed byte by byte")]
fn so_is_the_largest_program() {
    let largest = asked(MAX_CODE_WORDS, OPDESCS);
    assert_eq!(largest.bytes().len(), MOST_BYTES);
    assert_eq!(Asked::parse(&largest.bytes()), Some(largest));
}

/// Whoever changes this changes [`MAGIC`] too, or old files are taken for something else.
#[test]
fn the_format_is_as_written_down() {
    let asked = Asked { program: program(0, &[]), entry: Entry::geometry(0x102), own: true };
    let bytes = asked.bytes();
    assert_eq!(bytes[..8], *b"picaprg1");
    let head = [1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(bytes[8..28], head);
    assert_eq!(bytes[28..40], [0, 0, 0, 0, 0, 0, 0, 0x88, 0x6F, 3, 0, 0]);
    assert_eq!((bytes.len(), name(&bytes).as_str()), (56, "434cda54f17be9e39f48206c7cb0f87c.pica"));
}

#[test]
fn every_truncation_and_every_changed_byte_is_refused() {
    let whole = asked(5, 2).bytes();
    for len in 0..whole.len() {
        assert_eq!(Asked::parse(&whole[..len]), None, "{len} bytes");
    }
    for more in 1..9 {
        assert_eq!(Asked::parse(&[&whole[..], &vec![0; more]].concat()), None, "{more} bytes more");
    }
    for at in 0..whole.len() {
        for change in (1..=255).step_by(miri_or(85, 1)) {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            assert_eq!(Asked::parse(&bytes), None, "byte {at} changed by {change}");
        }
    }
}

#[test]
fn a_right_sum_does_not_help_what_is_no_program() {
    let body = [0; 8];
    assert!(Asked::parse(&forged([0, 0, 0, 1, 1], &body)).is_some());
    let heads = [
        [2, 0, 0, 1, 1],
        [0, 2, 0, 1, 1],
        [0, 0, 0x10000, 1, 1],
        [0, 0, 0, 2, 1],
        [0, 0, 0, 1, 2],
        [0, 0, 0, u32::MAX, 1],
        [0, 0, 0, 1, u32::MAX],
        [0, 0, 0, u32::MAX, u32::MAX],
        [0, 0, 0, 0, 0],
        [u32::MAX; 5],
    ];
    for head in heads {
        assert_eq!(Asked::parse(&forged(head, &body)), None, "{head:?}");
    }
    assert_eq!(Asked::parse(&forged([0, 0, 0, 1, 1], &body[..7])), None, "half a word");
    let mut other = forged([0, 0, 0, 1, 1], &body);
    other[7] = b'2';
    let len = other.len() - TAIL;
    let sum = sum(&other[..len]).to_le_bytes();
    other[len..].copy_from_slice(&sum);
    assert_eq!(Asked::parse(&other), None, "another version");
    if !cfg!(miri) {
        assert_eq!(Asked::parse(&forged([0, 0, 0, 4097, 0], &[0; 4 * 4097])), None);
        assert_eq!(Asked::parse(&forged([0, 0, 0, 0, 129], &[0; 4 * 129])), None);
    }
}

#[test]
fn random_bytes_are_a_program_that_is_written_so_or_none() {
    for seed in 1..miri_or(100, 4000) {
        let mut bytes: Vec<u8> = words(seed, (seed % 40) as usize).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(Asked::parse(&bytes), None);
        // The same with a head that may be right, and a right sum.
        bytes.truncate(seed as usize % 97);
        let head = [seed % 3, seed / 3 % 3, seed % 70_000, bytes.len() as u32 / 4 / (1 + seed % 2), seed % 5];
        let bytes = forged(head, &bytes);
        if let Some(asked) = Asked::parse(&bytes) {
            assert_eq!(asked.bytes(), bytes);
        }
    }
}

#[test]
fn names_are_told_from_others() {
    let digits = "0123456789abcdef0123456789abcdef";
    assert!(is_name(OsStr::new(&format!("{digits}.pica"))));
    for other in ["", ".pica", digits, "0.pica", &digits.to_uppercase(), "å.pica"] {
        assert!(!is_name(OsStr::new(other)), "{other}");
    }
    for other in [format!("{digits}.PICA"), format!("{digits}0.pica"), format!("{digits}.1-0.new")] {
        assert!(!is_name(OsStr::new(&other)), "{other}");
    }
    assert!(!is_name(OsStr::new(&format!("{}.pica", digits.to_uppercase()))));
}

#[test]
fn what_one_engine_was_asked_for_the_next_one_knows() {
    for threads in [0, 1, 3] {
        let folder = Folder::new(&format!("next-{threads}"));
        let (events, first) = folder.engine(threaded(threads));
        assert_eq!(first.preload().expect("no folder yet"), Preloaded::default());
        let asked = [(0, Entry::vertex(0)), (1, Entry::vertex(0)), (1, Entry::geometry(0)), (1, Entry::vertex(1))];
        let all = |engine: &Engine, leftovers: &[u32]| {
            let shader = |&(n, entry)| engine.shader(&program(n, leftovers), entry);
            asked.iter().map(shader).collect::<Vec<Shader>>()
        };
        let want: Vec<_> = all(&first, &[]).iter().map(ran).collect();
        first.wait();
        assert_eq!(folder.files().len(), asked.len());
        all(&first, &[END, 3, 5]);
        first.clear();
        all(&first, &[7]);
        first.wait();
        assert_eq!(folder.files().len(), asked.len(), "the same programs");
        drop(first);
        let (more, second) = folder.engine(threaded(threads));
        let found = second.preload().expect("a folder");
        assert_eq!(found, Preloaded { programs: asked.len(), rejected: 0, skipped: 0 });
        assert_eq!(second.preload().expect("again"), found);
        second.wait();
        let before = second.cache_stats();
        assert_eq!((before.entries, before.hits, before.misses), (asked.len(), 0, 0));
        let shaders = all(&second, &[1, 2, 3]);
        let after = second.cache_stats();
        assert_eq!((after.entries, after.hits, after.misses), (asked.len(), asked.len() as u64, 0));
        assert_eq!(after.bytes, before.bytes, "all was made before");
        assert_eq!(shaders.iter().map(ran).collect::<Vec<_>>(), want);
        if cfg!(feature = "jit") {
            assert!(shaders.iter().all(|s| s.backend() == "batch"));
        }
        assert!([&events, &more].iter().all(|said| lock(said).iter().all(is_fallback)));
        drop(second);
        assert_eq!(folder.files().len(), asked.len());
    }
}

fn is_fallback(event: &Event) -> bool {
    matches!(event, Event::Fallback { .. })
}

#[test]
fn a_program_is_made_for_the_memory_that_it_was_asked_for() {
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
    let options = Options { layout: Some(layout.expect("a layout")), ..Options::default() };
    let folder = Folder::new("layout");
    let (_, first) = folder.engine(options.clone());
    first.shader(&program(0, &[]), Entry::vertex(0));
    first.own_shader(&program(1, &[]), Entry::vertex(0));
    let (_, second) = folder.engine(options);
    assert_eq!(second.preload().expect("a folder").programs, 2);
    second.shader(&program(0, &[]), Entry::vertex(0));
    second.own_shader(&program(1, &[]), Entry::vertex(0));
    assert_eq!((second.cache_stats().hits, second.cache_stats().misses), (2, 0));
    second.own_shader(&program(0, &[]), Entry::vertex(0));
    assert_eq!(second.cache_stats().misses, 1);
    // Without a layout there is one kind of memory: the same program asked for in both ways is one.
    let (_, plain) = folder.engine(Options::default());
    assert_eq!(plain.preload().expect("a folder").programs, 3);
    assert_eq!(plain.cache_stats().entries, 2);
}

#[test]
fn what_is_never_native_is_kept_and_does_no_harm() {
    for options in [threaded(0), threaded(1), Options { backend: Prefer::Interpreter, ..threaded(1) }] {
        let folder = Folder::new("never");
        let entry = Entry::vertex(0);
        let (_, first) = folder.engine(options.clone());
        let want = ran(&first.shader(&endless(), entry));
        first.wait();
        let (_, second) = folder.engine(options);
        assert_eq!(second.preload().expect("a folder").programs, 1);
        second.wait();
        let shader = second.shader(&endless(), entry);
        assert_eq!((second.cache_stats().hits, shader.backend()), (1, "interp"));
        assert_eq!(ran(&shader), want);
    }
}

#[test]
fn what_is_no_program_is_counted_and_left_alone() {
    let folder = Folder::new("others");
    let (_, engine) = folder.engine(Options::default());
    for n in 0..3 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    let files = folder.files();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).expect("written");
    let [good, other] = [0, 1].map(|n: usize| fs::read(&files[n]).expect("written"));
    // Broken, and under a name that is not its own.
    put(files[1].file_name().and_then(OsStr::to_str).expect("text"), &good[..good.len() - 1]);
    put("00000000000000000000000000000000.pica", &good);
    put("00000000000000000000000000000001.pica", &[]);
    put("00000000000000000000000000000002.pica", &[0; MOST_BYTES + 1]);
    put("readme.txt", b"not ours");
    put("0.pica", &good);
    fs::create_dir(folder.0.join("00000000000000000000000000000003.pica")).expect("made");
    // As large as it says, and so never read.
    let huge = File::create(folder.0.join("00000000000000000000000000000004.pica")).expect("made");
    huge.set_len(1 << 40).or_else(|_| huge.set_len(1 << 30)).expect("a file of nothing");
    #[cfg_attr(not(unix), expect(unused_mut, reason = "links and pipes add to it"))]
    let mut refused = 8;
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        // A pipe that nobody writes to, and names that lead nowhere, round in circles, and to a device without an end.
        let at = |n: u32| folder.0.join(format!("{n:032}.pica"));
        if pipe(&at(5)) {
            refused += 1;
        }
        for (n, to) in [(6, PathBuf::from("nowhere")), (7, at(7)), (8, PathBuf::from("/dev/zero"))] {
            symlink(to, at(n)).expect("made");
            refused += 1;
        }
    }
    for threads in [0, 1] {
        let (events, engine) = folder.engine(threaded(threads));
        let found = engine.preload().expect("a folder");
        assert_eq!(found, Preloaded { programs: 2, rejected: refused, skipped: 0 });
        engine.wait();
        // What was broken is asked for, and written again.
        for n in 0..3 {
            engine.shader(&program(n, &[]), Entry::vertex(0));
        }
        engine.wait();
        assert_eq!(fs::read(&files[1]).expect("there"), other);
        assert!(lock(&events).iter().all(|e| !matches!(e, Event::StoreFailed { .. })));
        put(files[1].file_name().and_then(OsStr::to_str).expect("text"), &good[..good.len() - 1]);
    }
}

#[test]
fn where_nothing_can_be_written_is_said_once() {
    for threads in [0, 2] {
        let folder = Folder::new(&format!("nowhere-{threads}"));
        fs::write(&folder.0, b"a file").expect("written");
        for directory in [folder.0.clone(), folder.0.join("within")] {
            let below = Folder(directory.clone());
            let (events, engine) = below.engine(threaded(threads));
            let shaders: Vec<Shader> = (0..5).map(|n| engine.shader(&program(n, &[]), Entry::vertex(0))).collect();
            assert!(shaders.iter().all(|shader| ran(shader).0 == Exit::End));
            engine.wait();
            let said: Vec<Event> =
                lock(&events).iter().filter(|e| !matches!(e, Event::Fallback { .. })).cloned().collect();
            let [Event::StoreFailed { reason: reason @ StoreError::Directory { path, .. } }] = &said[..] else {
                panic!("{said:?}")
            };
            assert_eq!(*path, directory);
            assert!(reason.to_string().starts_with("can't use "), "{reason}");
            // Windows says of what is below a file that it is not there, and Wine of a file that is no directory.
            assert!(cfg!(windows) || engine.preload().is_err());
            assert_eq!(ran(&engine.shader(&program(0, &[]), Entry::vertex(0))).0, Exit::End);
            // It is the outer one's.
            std::mem::forget(below);
        }
        fs::remove_file(&folder.0).expect("there");
    }
}

#[test]
fn a_file_that_can_not_be_written_is_said_once() {
    let folder = Folder::new("taken");
    let (_, first) = folder.engine(Options::default());
    first.shader(&program(0, &[]), Entry::vertex(0));
    // Something that no file can take the place of.
    let taken = folder.files().remove(0);
    fs::remove_file(&taken).expect("there");
    fs::create_dir_all(taken.join("within")).expect("made");
    let (events, engine) = folder.engine(Options::default());
    for n in 0..3 {
        assert_eq!(ran(&engine.shader(&program(n, &[]), Entry::vertex(0))).0, Exit::End);
    }
    let said: Vec<Event> = lock(&events).iter().filter(|e| !matches!(e, Event::Fallback { .. })).cloned().collect();
    let [Event::StoreFailed { reason: StoreError::Write { path, .. } }] = &said[..] else { panic!("{said:?}") };
    assert_eq!(*path, taken);
    assert_eq!(folder.files().len(), 1, "nothing half done is left, and nothing more was tried");
}

#[test]
fn a_directory_has_an_end() {
    let folder = Folder::new("full");
    fs::create_dir_all(&folder.0).expect("made");
    for n in 0..MOST + 2 {
        File::create(folder.0.join(format!("{n:032x}.pica"))).expect("made");
    }
    let (events, engine) = folder.engine(Options::default());
    for n in 0..3 {
        engine.shader(&program(n, &[]), Entry::vertex(0));
    }
    let said = lock(&events).clone();
    assert!(matches!(&said[..], [.., Event::StoreFailed { reason: StoreError::Full { most: MOST, .. } }]), "{said:?}");
    assert_eq!(said.iter().filter(|e| matches!(e, Event::StoreFailed { .. })).count(), 1);
    assert_eq!(engine.preload().expect("a folder"), Preloaded { programs: 0, rejected: MOST, skipped: 2 });
    let found = Found::look(&folder.0).expect("a folder");
    assert_eq!((found.files.len(), found.more, found.others), (MOST, 2, 0));
}

#[test]
fn a_broken_file_of_a_full_directory_is_written_again() {
    let folder = Folder::new("mended");
    let (_, first) = folder.engine(Options::default());
    first.shader(&program(0, &[]), Entry::vertex(0));
    let broken = folder.files().remove(0);
    let whole = fs::read(&broken).expect("written");
    for n in 0..MOST - 1 {
        File::create(folder.0.join(format!("{n:032x}.pica"))).expect("made");
    }
    for known in [false, true] {
        fs::write(&broken, &whole[1..]).expect("written");
        let (events, engine) = folder.engine(Options::default());
        if known {
            // It looks how many there are, and may have one more.
            let other = folder.files().remove(0);
            fs::remove_file(other).expect("there");
            engine.shader(&program(1, &[]), Entry::vertex(0));
        }
        engine.shader(&program(0, &[]), Entry::vertex(0));
        assert_eq!(fs::read(&broken).expect("there"), whole);
        assert!(lock(&events).iter().all(is_fallback), "{events:?}");
        engine.shader(&program(2, &[]), Entry::vertex(0));
        let said = lock(&events);
        assert!(matches!(&said[..], [.., Event::StoreFailed { reason: StoreError::Full { .. } }]), "{said:?}");
    }
    assert_eq!(folder.files().len(), MOST);
}

/// Makes a pipe, if this system has them.
#[cfg(unix)]
fn pipe(at: &Path) -> bool {
    std::process::Command::new("mkfifo").arg(at).status().is_ok_and(|status| status.success())
}

/// What `work` gives, which must not wait for ever.
#[cfg(unix)]
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("it does not wait")
}

#[test]
#[cfg(unix)]
fn what_takes_the_place_of_a_file_before_it_is_opened_keeps_nobody_waiting() {
    let folder = Folder::new("place");
    let (_, engine) = folder.engine(Options::default());
    engine.shader(&program(0, &[]), Entry::vertex(0));
    let file = folder.files().remove(0);
    let at = |name: &str| folder.0.join(name);
    assert!(open(&file).is_some() && open(&at("none")).is_none());
    assert!(open(&folder.0).is_none(), "a directory");
    File::create(at("large")).and_then(|large| large.set_len(MOST_BYTES as u64 + 1)).expect("made");
    assert!(open(&at("large")).is_none());
    if OPEN_FLAGS == 0 {
        return;
    }
    std::os::unix::fs::symlink(&file, at("link")).expect("made");
    assert!(open(&at("link")).is_none());
    let name = at("pipe");
    if pipe(&name) {
        assert!(soon(move || open(&name)).is_none());
    }
}

/// A link is no file of ours, even to one that is, under its name: `open` is not asked.
#[test]
#[cfg(unix)]
fn a_link_to_a_program_is_none() {
    let folder = Folder::new("link");
    let (_, first) = folder.engine(Options::default());
    first.shader(&program(0, &[]), Entry::vertex(0));
    let (file, elsewhere) = (folder.files().remove(0), folder.0.join("elsewhere"));
    fs::rename(&file, &elsewhere).expect("there");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("made");
    assert!(load(&file).is_none());
    // It gives way to the program.
    let (_, second) = folder.engine(Options::default());
    assert_eq!(second.preload().expect("a folder"), Preloaded { programs: 0, rejected: 2, skipped: 0 });
    second.shader(&program(0, &[]), Entry::vertex(0));
    assert!(fs::symlink_metadata(&file).expect("there").is_file() && load(&file).is_some());
}

#[test]
#[cfg(all(target_os = "linux", feature = "jit"))]
fn the_numbers_of_open_are_the_system_s() {
    use rustix::fs::OFlags;
    if OPEN_FLAGS != 0 {
        assert_eq!(OPEN_FLAGS, (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32);
    }
}

#[test]
fn no_more_is_loaded_than_there_is_room_for() {
    let folder = Folder::new("room");
    let (_, first) = folder.engine(Options::default());
    for n in 0..60 {
        first.shader(&program(n, &[]), Entry::vertex(0));
    }
    let bytes = first.cache_stats().bytes;
    for threads in [0, 1, 2] {
        let (_, engine) = folder.engine(Options { cache_bytes: bytes / 3, ..threaded(threads) });
        let held = engine.own_shader(&program(5, &[9]), Entry::geometry(0));
        engine.wait();
        let found = engine.preload().expect("a folder");
        engine.wait();
        let stats = engine.cache_stats();
        assert!(stats.bytes <= bytes / 3 && stats.entries > 10, "{stats:?}");
        assert!(engine.shader(&program(5, &[]), Entry::geometry(0)).same_as(&held), "it was not driven out");
        assert_eq!((found.programs + found.skipped, found.rejected), (61, 0));
        if threads == 0 {
            assert!(found.skipped > 20 && stats.evictions == 0, "{found:?} {stats:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "explores a million states")]
fn exploring_has_an_end() {
    let folder = Folder::new("states");
    fs::create_dir_all(&folder.0).expect("made");
    let most = 40;
    for n in 0..most {
        let mut code = endless().code().to_vec();
        code.push(n);
        code.swap_remove(0);
        let program = Program::from_words(&code, &[]).expect("as long as may be");
        let bytes = Asked { program, entry: Entry::vertex(1), own: false }.bytes();
        fs::write(folder.0.join(name(&bytes)), bytes).expect("written");
    }
    let (_, engine) = folder.engine(threaded(1));
    let found = engine.preload().expect("a folder");
    // Each takes 128 states, twice as many, and so on to 8192.
    assert_eq!(found, Preloaded { programs: 32, rejected: 0, skipped: most as usize - 32 });
    // Once more is as much again.
    assert_eq!(engine.preload().expect("a folder"), found);
}

#[test]
fn two_engines_and_many_threads_share_a_directory() {
    for threads in [0, 2] {
        let folder = Folder::new(&format!("shared-{threads}"));
        let (first_events, first) = folder.engine(threaded(threads));
        let (second_events, second) = folder.engine(threaded(threads));
        let oracle = Engine::new(Options { backend: Prefer::Interpreter, ..Options::default() });
        std::thread::scope(|scope| {
            for engine in [&first, &second, &first, &second] {
                let oracle = &oracle;
                scope.spawn(move || {
                    for n in 0..40 {
                        let shader = engine.shader(&program(n % 20, &[]), Entry::vertex(0));
                        assert_eq!(ran(&shader), ran(&oracle.shader(&program(n % 20, &[]), Entry::vertex(0))));
                        if n % 10 == 9 {
                            // What is being written meanwhile counts as no program, and may be there or not.
                            assert!(engine.preload().expect("a folder").programs <= 20);
                        }
                    }
                });
            }
        });
        first.wait();
        second.wait();
        let kept = |e: &Event| !matches!(e, Event::StoreFailed { .. });
        assert!([first_events, second_events].iter().all(|events| lock(events).iter().all(kept)));
        assert_eq!(folder.files().len(), 20);
        let (_, third) = folder.engine(Options::default());
        assert_eq!(third.preload().expect("a folder").programs, 20);
    }
}

#[test]
fn who_hears_that_nothing_is_kept_may_ask_for_shaders() {
    for threads in [0, 1] {
        let folder = Folder::new(&format!("heard-{threads}"));
        fs::write(&folder.0, b"a file").expect("written");
        let made: Arc<std::sync::OnceLock<Engine>> = Arc::default();
        let (asked, heard) = (Arc::downgrade(&made), Arc::new(AtomicU32::new(0)));
        let count = heard.clone();
        let events: EventHandler = Arc::new(move |event: &Event| {
            if matches!(event, Event::StoreFailed { .. }) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let engine = asked.upgrade().expect("still there");
            let engine = engine.get().expect("made");
            assert_eq!(ran(&engine.shader(&program(1, &[]), Entry::vertex(0))).0, Exit::End);
            assert!(cfg!(windows) || engine.preload().is_err());
        });
        let options = Options { store_directory: Some(folder.0.clone()), events, ..threaded(threads) };
        let engine = made.get_or_init(|| Engine::new(options));
        engine.shader(&program(0, &[]), Entry::vertex(0));
        engine.wait();
        assert_eq!(heard.load(Ordering::Relaxed), 1);
        fs::remove_file(&folder.0).expect("there");
    }
}

/// Compiles one program for each word that it is given, and notes which.
struct Slow(Mutex<std::sync::mpsc::Receiver<()>>, Arc<Mutex<Vec<Entry>>>);

impl Backend for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }
    fn compile(&self, p: &Arc<Program>, e: Entry, c: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        lock(&self.1).push(e);
        lock(&self.0).recv().expect("told");
        Interp.compile(p, e, c)
    }
}

#[test]
fn what_is_asked_for_does_not_wait_for_all_that_is_loaded() {
    let folder = Folder::new("order");
    let (_, first) = folder.engine(Options::default());
    for n in 0..10 {
        first.shader(&program(n, &[]), Entry::vertex(0));
    }
    for clear in [false, true] {
        let (_, mut engine) = folder.engine(threaded(1));
        let ((go, may), order) = (std::sync::mpsc::channel(), Arc::default());
        let slow = Arc::new(Slow(Mutex::new(may), Arc::clone(&order)));
        let queue = engine.background.queue().clone();
        engine.maker = Some(Arc::new(Maker::new(Ok(slow), queue, engine.options.events.clone())));
        assert_eq!(engine.preload().expect("a folder").programs, 10);
        if clear {
            engine.clear();
        }
        let shader = engine.shader(&program(20, &[]), Entry::geometry(0));
        assert_eq!((ran(&shader).0, shader.backend()), (Exit::End, "interp"), "it runs at once");
        (0..11).for_each(|_| go.send(()).expect("heard"));
        engine.wait();
        assert_eq!(shader.backend(), "slow");
        let order = lock(&order);
        assert!(order.iter().position(|e| *e == Entry::geometry(0)).is_some_and(|at| at <= 2), "{order:?}");
        if clear {
            assert!(order.len() <= 3, "what has gone is not made: {order:?}");
        } else {
            assert_eq!(order.len(), 11);
        }
        drop(engine);
        // For the next round there are as many as before.
        assert_eq!(folder.files().len(), 11);
        let kept = folder.files().into_iter().find(|f| load(f).is_some_and(|a| a.entry == Entry::geometry(0)));
        fs::remove_file(kept.expect("kept")).expect("there");
    }
}

#[test]
fn what_is_loaded_and_asked_for_does_not_wait_for_the_others() {
    let folder = Folder::new("ahead");
    let (_, first) = folder.engine(Options::default());
    let count = 12;
    for n in 0..count {
        // The entry tells which it is.
        first.shader(&program(n, &[]), Entry::vertex(n as u16));
    }
    let last = load(folder.files().last().expect("kept")).expect("a program");
    let (_, mut engine) = folder.engine(threaded(1));
    let ((go, may), order) = (std::sync::mpsc::channel(), Arc::default());
    let slow = Arc::new(Slow(Mutex::new(may), Arc::clone(&order)));
    let queue = engine.background.queue().clone();
    engine.maker = Some(Arc::new(Maker::new(Ok(slow), queue, engine.options.events.clone())));
    assert_eq!(engine.preload().expect("a folder").programs, count as usize);
    // However often it is asked for.
    let shaders: Vec<Shader> = (0..5).map(|_| engine.shader(&last.program, last.entry)).collect();
    assert!(shaders.iter().all(|shader| shader.same_as(&shaders[0]) && ran(shader).0 == Exit::End));
    assert_eq!((engine.cache_stats().hits, shaders[0].backend()), (5, "interp"), "it runs at once");
    (0..count).for_each(|_| go.send(()).expect("heard"));
    engine.wait();
    assert_eq!(shaders[0].backend(), "slow");
    let order = lock(&order);
    assert!(order.iter().position(|e| *e == last.entry).is_some_and(|at| at <= 2), "{order:?}");
    assert_eq!(order.len(), count as usize, "each is made once: {order:?}");
}

#[test]
fn why_there_is_no_native_code_is_said_to_who_asks() {
    for threads in [0, 1] {
        let folder = Folder::new(&format!("said-{threads}"));
        let (first_events, first) = folder.engine(threaded(threads));
        first.shader(&endless(), Entry::vertex(0));
        first.wait();
        let said = |events: &Mutex<Vec<Event>>| lock(events).iter().filter(|e| is_fallback(e)).count();
        assert_eq!(said(&first_events), 1);
        // Asked for when its turn has come, and before.
        for wait in [true, false] {
            let (events, engine) = folder.engine(threaded(threads));
            assert_eq!(engine.preload().expect("a folder").programs, 1);
            if wait {
                engine.wait();
                assert_eq!(said(&events), 0, "nobody has asked");
            }
            let shaders = [0, 1].map(|_| engine.shader(&endless(), Entry::vertex(0)));
            engine.wait();
            assert_eq!((said(&events), engine.cache_stats().hits), (1, 2));
            assert!(shaders.iter().all(|shader| shader.fallback_reason().is_some()));
        }
    }
}

#[test]
fn a_key_says_what_is_kept() {
    let key = |leftovers: &[u32]| ShaderKey::new(&program(1, leftovers), Entry::vertex(0), Config::default());
    let bytes = |key: ShaderKey| Asked { program: key.program(), entry: key.entry(), own: false }.bytes();
    assert_eq!(bytes(key(&[])), bytes(key(&[1, 2, 3])));
    assert_eq!(Asked::parse(&bytes(key(&[9]))).map(|a| a.program), Some(program(1, &[])));
}
