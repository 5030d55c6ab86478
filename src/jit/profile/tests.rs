//! Reads the files back, field by field, with a reader that shares no code with the writer.

use crate::engine::{Engine, Event, Options};
use crate::jit::profile::perf::Output;
use crate::jit::profile::{file, rows};
use crate::jit::{Jit, Settings, Variant};
use crate::kernel::{Config, Kernel};
use crate::profiler::{Profiler, ProfilerError};
use crate::program::{Entry, Program};
use crate::state::{Batch, NoEmitter, Registers, Uniforms, Unit};
use crate::testing::prerequisites::{skipped, temporary_folder};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = temporary_folder().join(format!("picajit-profile-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path.canonicalize().expect("it is there"))
    }

    fn dump(&self) -> PathBuf {
        self.0.join(format!("jit-{}.dump", std::process::id()))
    }

    fn profiler(&self) -> Profiler {
        Profiler::Jitdump { directory: self.0.clone() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn jit(variant: Variant, profiler: Profiler) -> Arc<Jit> {
    let settings = Settings { batch_threshold: 0, profiler, ..Settings::default() };
    Jit::with(variant, settings).expect("tests run where there is native code")
}

fn program(body: &str) -> (Arc<Program>, Entry) {
    let shbin = crate::text::assemble(&format!(".proc main\n{body}\n end\n.end")).expect("a good source").shbin;
    (Arc::new(shbin.program().expect("short")), shbin.dvles[0].entry())
}

/// A record of a dump.
#[derive(Debug, PartialEq)]
enum Record {
    Lines { at: u64, code: u64, rows: Vec<(u64, u32, String)> },
    Load { at: u64, ids: [u32; 2], vma: u64, code: u64, index: u64, name: String, bytes: Vec<u8> },
}

/// Reads fields one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> &[u8] {
        let (taken, left) = self.0.split_at(len);
        self.0 = left;
        taken
    }
    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take(4).try_into().expect("four"))
    }
    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take(8).try_into().expect("eight"))
    }
    fn text(&mut self) -> String {
        let len = self.0.iter().position(|&b| b == 0).expect("a zero byte at the end");
        let text = String::from_utf8(self.take(len).to_vec()).expect("text");
        self.take(1);
        text
    }
}

/// The header's time and all records. Panics on trailing bytes.
fn read(path: &Path) -> (u64, Vec<Record>) {
    let bytes = std::fs::read(path).expect("a dump");
    let mut r = Reader(&bytes);
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    assert_eq!(r.take(4), if cfg!(target_endian = "little") { b"DTiJ" } else { b"JiTD" });
    let fields = [(); 5].map(|()| r.u32());
    assert_eq!(fields, [1, 40, machine, 0, std::process::id()]);
    let begun = r.u64();
    assert_eq!(r.u64(), 0, "no flags");
    let mut records = Vec::new();
    while !r.0.is_empty() {
        let (id, size, at) = (r.u32(), r.u32(), r.u64());
        let mut body = Reader(r.take(size as usize - 16));
        records.push(match id {
            0 => {
                let (ids, vma, code) = ([body.u32(), body.u32()], body.u64(), body.u64());
                let (len, index, name) = (body.u64(), body.u64(), body.text());
                Record::Load { at, ids, vma, code, index, name, bytes: body.take(len as usize).to_vec() }
            }
            2 => {
                let (code, count) = (body.u64(), body.u64());
                let rows = (0..count).map(|_| {
                    let (address, line, discriminator) = (body.u64(), body.u32(), body.u32());
                    assert_eq!(discriminator, 0);
                    (address, line, body.text())
                });
                Record::Lines { at, code, rows: rows.collect() }
            }
            other => panic!("record {other}"),
        });
        assert!(body.0.is_empty(), "a record is as long as it says");
    }
    (begun, records)
}

fn now() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[test]
fn a_dump_holds_every_kind_of_code_with_its_lines() {
    let folder = Folder::new("kinds");
    let before = now();
    let jit = jit(Variant::Batch, folder.profiler());
    let (program, entry) = program(" mov r0, v1\n mul r1, v0, r0\n add o0, r1, v1\n nop");
    let kernel = jit.compile_native(&program, entry, &Config::default()).expect("native");
    let inputs: Vec<Registers> = vec![[[1.0; 4]; 16]; 16];
    let mut outputs = inputs.clone();
    let (uniforms, mut unit) = (Uniforms::new(), Unit::new());
    let mut batch = Batch {
        inputs: (&inputs).into(),
        outputs: (&mut outputs).into(),
        input_mask: !0,
        output_mask: 1,
        preserve_unit: false,
    };
    kernel.run_batch(&uniforms, &mut unit, &mut batch, &mut NoEmitter);
    (unit.v[0], unit.v[1]) = ([f32::INFINITY; 4], [0.0; 4]);
    kernel.run(&uniforms, &mut unit, &mut NoEmitter);
    assert_eq!(kernel.deoptimisations(), 1, "there is exact code");
    let after = now();

    let (begun, records) = read(&folder.dump());
    let hash = program.hash128().to_string();
    let source = folder.0.join(format!("jit-{}-{}.pica", std::process::id(), &hash[..16]));
    let listing = std::fs::read_to_string(&source).expect("a listing");
    let listing: Vec<_> = listing.lines().collect();
    assert_eq!(listing.len(), 1 + program.code().len());
    assert!(listing[0].contains(&hash) && listing[2].starts_with("001 ") && listing[2].ends_with("mul r1, v0, r0"));

    assert_eq!(records.len(), 6);
    let (mut bytes, mut last) = (0, begun);
    assert!(before <= begun);
    for (n, (pair, kind)) in records.chunks(2).zip(["vec4", "batch", "exact"]).enumerate() {
        let [Record::Lines { at, code: of, rows }, Record::Load { at: loaded, ids, vma, code, index, name, bytes: b }] =
            pair
        else {
            panic!("lines come before code: {pair:?}")
        };
        assert!(last <= *at && at == loaded && *loaded <= after);
        last = *at;
        assert_eq!(*ids, [std::process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32]);
        assert_eq!((of, vma, *index), (code, code, n as u64));
        assert_eq!(*name, format!("picajit:vertex@0x0:{kind}:{}", &hash[..8]));
        bytes += b.len();
        if n == 0 {
            assert_eq!((*code, &b[..]), (kernel.code.bytes().as_ptr() as u64, kernel.code.bytes()));
        }
        assert_eq!(rows[0].0, *code, "no byte without a line");
        assert!(rows.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 != w[1].1), "{rows:?}");
        assert!(rows.iter().all(|r| r.0 < code + b.len() as u64 && Path::new(&r.2) == source), "{rows:?}");
        assert!(rows.iter().all(|r| (1..=listing.len()).contains(&(r.1 as usize))), "{rows:?}");
        // MOV is a renaming and NOP nothing: the product and the sum remain.
        assert!([3, 4].iter().all(|line| rows.iter().any(|r| r.1 == *line)), "{rows:?}");
    }
    assert_eq!(bytes, kernel.native_bytes());
}

#[test]
fn a_dump_is_private_and_one_page_of_it_is_mapped_executable_and_not_writable() {
    let folder = Folder::new("mapped");
    let _jit = jit(Variant::Vec4, folder.profiler());
    let mode = folder.dump().metadata().expect("there before any shader").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    if let Some(size) = std::env::var_os("QEMU_PAGESIZE") {
        skipped(&format!("pages of code: an emulator told to have pages of {size:?} bytes lists no smaller one"));
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let path = folder.dump().display().to_string();
    let lines: Vec<_> = maps.lines().filter(|l| l.ends_with(&path)).collect();
    assert!(matches!(lines[..], [line] if line.split(' ').nth(1) == Some("r-xp")), "{lines:?}");
}

#[test]
fn engines_and_threads_share_a_dump_of_whole_records() {
    let folder = Folder::new("shared");
    let jits = [Variant::Vec4, Variant::Unoptimised].map(|variant| jit(variant, folder.profiler()));
    let config = Config::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (jits, config) = (&jits, &config);
            scope.spawn(move || {
                for n in 0..8 {
                    let body = " add r0, v0, r0\n".repeat(n + 1) + " mov o0, r0";
                    let (program, entry) = program(&body);
                    jits[thread % 2].compile_native(&program, entry, config).expect("native");
                }
            });
        }
    });
    let (mut last, records) = read(&folder.dump());
    let mut threads = std::collections::HashSet::new();
    for (n, pair) in records.chunks(2).enumerate() {
        let [Record::Lines { at, .. }, Record::Load { ids, index, name, .. }] = pair else { panic!("{pair:?}") };
        assert!(last <= *at && *index == n as u64 && name.contains("@0x0:"));
        last = *at;
        threads.insert(ids[1]);
    }
    assert_eq!((records.len(), threads.len()), (64, 4));
    let listings = std::fs::read_dir(&folder.0).expect("a folder").count() - 1;
    assert_eq!(listings, 8, "one a program");
}

#[test]
fn a_map_has_a_line_for_each_function() {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    let jit = jit(Variant::Unoptimised, Profiler::PerfMap);
    let (program, entry) = program(" mul o0, v0, v0");
    let config = Config { precision: crate::isa::numeric::Precision::ALL[1], ..Config::default() };
    let kernel = jit.compile_native(&program, entry, &config).expect("native");
    let text = std::fs::read_to_string(&path).expect("a map");
    let about = path.metadata().expect("it is there");
    std::fs::remove_file(&path).expect("one's own");
    assert!(about.permissions().mode() & 0o022 == 0, "not writable for others");
    let bytes = kernel.code.bytes();
    let name = format!("picajit:vertex@0x0:unoptimised-f24-nearest:{:.8}", program.hash128().to_string());
    let line = format!("{:x} {:x} {name}", bytes.as_ptr() as usize, bytes.len());
    assert!(text.ends_with('\n') && text.lines().any(|l| l == line), "{line} in\n{text}");
}

#[test]
fn planted_files_are_not_written() {
    let folder = Folder::new("planted");
    let at = |name: &str| folder.0.join(name);
    std::fs::write(at("victim"), "precious").expect("a folder");
    symlink(at("victim"), at("soft")).expect("a link");
    symlink(at("nothing"), at("dangling")).expect("a link");
    std::fs::hard_link(at("victim"), at("hard")).expect("a link");
    for name in ["soft", "dangling", "hard"] {
        let taken = Some(ProfilerError::Taken { path: at(name) });
        assert_eq!((file::new(&at(name)).err(), file::new_or_own(&at(name)).err()), (taken.clone(), taken), "{name}");
    }
    assert!(matches!(file::new_or_own(&folder.0), Err(ProfilerError::Create { .. })), "a folder is no file");
    assert!(!at("nothing").exists());
    assert_eq!(std::fs::read(at("victim")).expect("it is there"), b"precious");
    assert_eq!(at("victim").metadata().expect("it is there").nlink(), 2);

    // An existing dump is another process's, unless this process has it open.
    std::fs::write(folder.dump(), "older").expect("a folder");
    let said = Arc::new(Mutex::new(Vec::new()));
    let to = said.clone();
    jit(Variant::Vec4, folder.profiler()).on_profiler_error(move |why| to.lock().expect("no panic").push(why.clone()));
    assert_eq!(*said.lock().expect("no panic"), [ProfilerError::Taken { path: folder.dump() }]);
    assert_eq!(std::fs::read(folder.dump()).expect("it is there"), b"older");
}

#[test]
fn a_failed_open_is_reported_once_and_stops_nothing() {
    let folder = Folder::new("unwritable");
    std::fs::write(folder.0.join("file"), "").expect("a folder");
    let directory = folder.0.join("file/below");
    let events = Arc::new(Mutex::new(Vec::new()));
    let to = events.clone();
    let options = Options {
        profiler: Profiler::Jitdump { directory: directory.clone() },
        events: Arc::new(move |event| to.lock().expect("no panic").push(event.clone())),
        ..Options::at_once()
    };
    let engine = Engine::new(options);
    for body in [" mov o0, v0", " mov o0, v1"] {
        let (program, entry) = program(body);
        assert_eq!(engine.shader(&program, entry).backend(), "batch");
    }
    let events = events.lock().expect("no panic");
    let [Event::ProfilerFailed { reason: ProfilerError::Create { path, .. } }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*path, directory);
    assert!(events[0].to_string().contains("file/below"), "{}", events[0]);
}

#[test]
fn a_full_disk_is_reported_once_an_engine_and_stops_nothing() {
    let folder = Folder::new("full");
    let told = Arc::new(AtomicUsize::new(0));
    let jits = [(); 2].map(|()| jit(Variant::Vec4, folder.profiler()));
    let compile = |n: usize| {
        let (program, entry) = program([" mov o0, v0", " mov o0, v1", " mov o0, v2"][n]);
        jits.iter().for_each(|jit| drop(jit.compile_native(&program, entry, &Config::default()).expect("native")));
    };
    compile(0);
    let whole = read(&folder.dump());
    let Some(Output::Dump(file)) = &jits[0].profile.get().expect("set by the JIT").output else { panic!("a dump") };
    file.full();
    for jit in &jits {
        let told = told.clone();
        jit.on_profiler_error(move |why| {
            assert!(matches!(why, ProfilerError::Write { error: std::io::ErrorKind::StorageFull, .. }), "{why}");
            told.fetch_add(1, Ordering::Relaxed);
        });
    }
    compile(1);
    compile(2);
    assert_eq!(told.load(Ordering::Relaxed), 2);
    assert_eq!(read(&folder.dump()), whole);
}

#[test]
fn without_a_profiler_there_is_no_report() {
    let jit = Jit::new(Variant::Vec4).expect("native");
    assert!(jit.profile.get().is_some_and(|profile| profile.output.is_none()));
    jit.on_profiler_error(|why| panic!("{why}"));
}

#[test]
fn code_of_no_instruction_has_the_first_line() {
    let ranges = [(4..8, 0), (8..8, 1), (8..12, 0), (12..16, 2), (20..24, 2), (24..28, 9)];
    assert_eq!(
        rows(ranges.into_iter(), 32, 3),
        [(0, 1), (4, 2), (12, 4), (16, 1), (20, 4), (24, 1)],
        "before, between and after, and of an address that the program does not have"
    );
    assert_eq!(rows([].into_iter(), 4, 3), [(0, 1)]);
    assert_eq!(rows([].into_iter(), 0, 3), []);
}
