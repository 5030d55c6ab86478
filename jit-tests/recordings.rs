//! Recordings of guests' draws, on the oracle, on tier 0 and in native code.
//!
//! `regress/*.recording` are draws that once gave wrong triangles. Comments hold what is right, one line a triangle and
//! semantic: `; position: x y z w, x y z w, x y z w` and `; colour: ...`. Third-party recordings hold the number and a hash of
//! their triangles in docs/third-party-files.md and in a MANIFEST.tsv beside them. Of each frame the lean reference of
//! `picajit bench --frames` draws the same triangles.

#[allow(dead_code)] // tests use a part
#[path = "../tools/command/src/frames.rs"]
mod frames;
mod prerequisites;

use picajit::engine::{BackendChoice, Engine, Options, Shader};
use picajit::gpu::{Draw, DrawOptions, Gpu, Host, Regions, TriangleSink};
use picajit::internals::float24::Rounding;
use picajit::internals::recording::Recording;
use picajit::isa::Stage;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program, ProgramHash};
use picajit::semantics::Semantics;
use picajit::state::Exit;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// A guest, and what it draws.
struct Player<'a> {
    address: u32,
    memory: &'a [u8],
    triangles: Vec<[Semantics; 3]>,
}

impl TriangleSink for Player<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.triangles.push(vertices.map(|vertex| *vertex));
    }
}

impl Host for Player<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let regions = [(self.address, self.memory)];
        let report = gpu.draw(draw, &Regions(&regions), &DrawOptions::default(), self);
        assert_eq!((report.vertex_exit, report.geometry_exit, report.limited), (Exit::End, Exit::End, false));
    }
}

/// The triangles of a recording, which every engine draws alike.
fn triangles(recording: &Recording) -> Vec<[Semantics; 3]> {
    let memory: Vec<u8> = recording.memory.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let native = cfg!(feature = "jit").then_some(BackendChoice::NativeRequired);
    let engines = [BackendChoice::Oracle, BackendChoice::NoNative].into_iter().chain(native);
    let mut drawn = engines.map(|backend| {
        let engine = Engine::new(Options { backend, compile_after: 0, ..Options::default() });
        let mut player = Player { address: recording.address, memory: &memory, triangles: Vec::new() };
        Gpu::new(Arc::new(engine)).execute(&recording.list.words, &mut player);
        (backend, player.triangles)
    });
    let (_, first) = drawn.next().expect("the oracle");
    for (backend, triangles) in drawn {
        assert_eq!(bits(&triangles), bits(&first), "{backend:?} and the oracle");
    }
    first
}

fn bits(triangles: &[[Semantics; 3]]) -> Vec<u32> {
    let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    triangles.iter().flatten().flatten().map(bits).collect()
}

/// The numbers after `; NAME: ` of each comment of that name: the triangles' vertices.
fn expected(text: &str, name: &str) -> Vec<[[f32; 4]; 3]> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("; ")?.strip_prefix(name)?.strip_prefix(": "));
    let vertex = |text: &str| -> [f32; 4] {
        let numbers: Vec<f32> = text.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        numbers.try_into().expect("four numbers")
    };
    let triangle = |line: &str| line.split(',').map(vertex).collect::<Vec<_>>().try_into().expect("three vertices");
    lines.map(triangle).collect()
}

#[test]
fn draws_that_were_wrong() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("jit-tests/regress");
    let paths = std::fs::read_dir(folder).expect("part of the package").map(|entry| entry.expect("readable").path());
    let mut met = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|e| e == "recording")) {
        let text = std::fs::read_to_string(&path).expect("readable");
        let triangles = triangles(&text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        for (name, semantic) in [("position", 0), ("colour", 8)] {
            let got: Vec<[[f32; 4]; 3]> =
                triangles.iter().map(|t| t.map(|v| std::array::from_fn(|c| v[semantic + c]))).collect();
            let want = expected(&text, name);
            assert!(want.is_empty() || got == want, "{}, {name}: {got:?}", path.display());
            met += want.len();
        }
    }
    assert!(met >= 4, "triangles with expectations: {met}");
}

/// FNV-1a over the bits of all numbers, little endian.
fn hash(triangles: &[[Semantics; 3]]) -> u64 {
    let bytes = triangles.iter().flatten().flatten().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

/// The triangles that the lean reference draws as the library does, in two passes; both on the fastest engine.
fn compare_with_the_lean_reference(name: &str, text: &str) {
    let frame = frames::frame::Frame::read(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    frames::prepare(&frames::engine(), &frame).unwrap_or_else(|e| panic!("{name}: {e}"));
}

/// The steps of a frame draw what the list draws as a whole.
fn compare_with_the_list(name: &str, text: &str, whole: &[[Semantics; 3]]) {
    let frame = frames::frame::Frame::read(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut triangles = Vec::new();
    let mut library = frames::replay::Library::new(&frames::engine(), &frame);
    frames::replay::replay(&mut library, &frame, |_, of_a_draw| triangles.extend(of_a_draw.iter().copied()))
        .unwrap_or_else(|(draw, e)| panic!("{name}, draw {draw}: {e}"));
    assert_eq!(bits(&triangles), bits(whole), "{name}");
}

#[test]
fn four_draws_of_each_kind() {
    let text = include_str!("frames/four-draws.recording");
    let triangles = triangles(&text.parse().expect("a recording"));
    assert_eq!(
        (triangles.len(), hash(&triangles)),
        (8, 0x939D_5EEF_1C41_0BAE),
        "a strip, a list, a fan, two by the geometry unit"
    );
    compare_with_the_list("four draws", text, &triangles);
    compare_with_the_lean_reference("four draws", text);
}

#[test]
fn texts_that_are_no_frames() {
    use frames::frame::{Frame, FrameError};
    let read = |list: &str| Frame::read(&format!("picajit recording 1\nlist\n{list}")).err();
    assert_eq!(read("1 000F0228"), Some(FrameError::NoDraw));
    assert_eq!(read("1 000F022E\n; the frame\n1 000F022E"), Some(FrameError::EarlyDraw));
    assert_eq!(read("00040000 000F0228 1 000F022E"), None, "the limit itself");
    assert_eq!(read("1 000F022E 00040001 000F0228 1 000F022F"), Some(FrameError::TooManyVertices { draw: 1 }));
    assert_eq!(read("x").map(|e| e.to_string()[..7].to_string()).as_deref(), Some("line 3:"));
    // A loop without end: `jmpu` to itself while b0 is not 1.
    let text = "picajit recording 1\nlist\n; the frame\n9C000001 000F02CC 1 000F0228 1 000F022E";
    let frame = Frame::read(text).expect("a draw");
    let error = frames::prepare(&frames::engine(), &frame).map(|_| ()).map_err(|e| e.to_string());
    assert_eq!(error, Err("draw 0: its vertex program does not reach END".into()));
}

#[test]
fn damaged_frames_are_drawn_or_rejected() {
    let text = include_str!("frames/four-draws.recording");
    let (mut seed, mut met) = (1u32, [0; 2]);
    let mut number = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let engine = frames::engine();
    for _ in 0..400 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..1 + number(3) {
            let at = number(bytes.len());
            bytes[at] = b"0123456789ABCDEF \n;x"[number(20)];
        }
        let frame = frames::frame::Frame::read(&String::from_utf8(bytes).expect("one byte each"));
        let is_drawn = frame.is_ok_and(|frame| frames::prepare(&engine, &frame).is_ok());
        met[usize::from(is_drawn)] += 1;
    }
    assert!(met.iter().all(|&n| n > 50), "{met:?}");
}

#[test]
fn frames_of_real_programs() {
    let rows: Vec<Vec<&str>> = include_str!("../docs/third-party-files.md")
        .lines()
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    for path in prerequisites::third_party_files("frames", "txt") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        let triangles = triangles(&text.parse().unwrap_or_else(|e| panic!("{name}: {e}")));
        compare_with_the_list(&name, &text, &triangles);
        compare_with_the_lean_reference(&name, &text);
        let drawn = (triangles.len().to_string(), format!("{:016x}", hash(&triangles)));
        // File, hash and size of the file, program, draws, vertices, triangles, their hash.
        if let Some(row) = rows.iter().find(|row| row.get(1) == Some(&name.as_str())) {
            assert_eq!((row[7], row[8]), (drawn.0.as_str(), drawn.1.as_str()), "{name}");
        }
        let manifest = std::fs::read_to_string(path.with_file_name("MANIFEST.tsv")).unwrap_or_default();
        let column = |row: &str, name: &str| row.split('\t').position(|title| title.starts_with(name));
        let titles = manifest.lines().next().unwrap_or_default();
        let row = manifest.lines().find(|row| row.split('\t').next() == Some(&name));
        if let (Some(row), Some(count), Some(hash)) = (row, column(titles, "triangles"), column(titles, "hash")) {
            let cells: Vec<&str> = row.split('\t').collect();
            assert_eq!((cells[count], cells[hash]), (drawn.0.as_str(), drawn.1.as_str()), "{name}");
        }
    }
}

/// What a frame shows in a number format, and what it costs native code.
#[derive(Default)]
struct Formatted {
    triangles: Vec<[Semantics; 3]>,
    /// Vertices of draws, vertices that exact code ran again, and those of groups that bailed out.
    vertices: u64,
    repeated: u64,
}

/// A guest whose shaders' runs are counted.
struct Counting<'a> {
    address: u32,
    memory: &'a [u8],
    shaders: HashMap<(ProgramHash, Entry), Shader>,
    drawn: Formatted,
}

impl TriangleSink for Counting<'_> {
    fn triangle(&mut self, vertices: [&Semantics; 3]) {
        self.drawn.triangles.push(vertices.map(|vertex| *vertex));
    }
}

impl Host for Counting<'_> {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        let state = gpu.state();
        for (stage, unit) in [(Stage::Vertex, &state.vertex), (Stage::Geometry, &state.geometry)] {
            let program = Program::from_words(&unit.code, &unit.opdescs).expect("a unit's memory");
            let entry = state.registers.entry(stage);
            let find = || gpu.engine().shader(&program, entry);
            self.shaders.entry((program.hash128(), entry)).or_insert_with(find);
        }
        let regions = [(self.address, self.memory)];
        let report = gpu.draw(draw, &Regions(&regions), &DrawOptions::default(), self);
        self.drawn.vertices += report.vertices;
    }
}

/// The frame in a number format, in native code. Groups run from the first vertex on.
fn in_format(recording: &Recording, precision: Precision) -> Formatted {
    let memory: Vec<u8> = recording.memory.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let engine = Engine::new(Options { precision, compile_after: 0, ..Options::default() });
    let (shaders, drawn) = (HashMap::new(), Formatted::default());
    let mut guest = Counting { address: recording.address, memory: &memory, shaders, drawn };
    Gpu::new(Arc::new(engine)).execute(&recording.list.words, &mut guest);
    let stats = guest.shaders.values().map(|shader| shader.stats());
    guest.drawn.repeated = stats.map(|stats| u64::from(stats.deoptimised) + 4 * u64::from(stats.bailouts)).sum();
    guest.drawn
}

/// The planes of the console's clip volume that exclude a position: |x| <= w, |y| <= w, -w <= z <= 0.
fn outside(position: &[f32]) -> [bool; 6] {
    let &[x, y, z, w] = position else { unreachable!("four components") };
    [x < -w, x > w, y < -w, y > w, z < -w, z > 0.0]
}

/// The pixel of a position on the upper screen.
fn pixel(position: &[f32]) -> [i64; 2] {
    let &[x, y, _, w] = position else { unreachable!("four components") };
    [(x / w * 200.0 + 200.0).floor() as i64, (y / w * 120.0 + 120.0).floor() as i64]
}

/// How frames of real programs differ from single precision in the console's format, as docs/numerics.md shows it.
#[test]
fn frames_in_the_console_s_format() {
    let recordings = prerequisites::third_party_files("frames", "txt");
    if recordings.is_empty() || cfg!(not(feature = "jit")) {
        return;
    }
    let mut rows = String::new();
    for path in recordings {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        let recording: Recording = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
        let single = in_format(&recording, Precision::F32);
        let vertices = 3 * single.triangles.len();
        let mut row = format!("| {name} | {vertices} |");
        for rounding in [Rounding::Nearest, Rounding::TowardZero] {
            let other = in_format(&recording, Precision::F24 { rounding });
            assert_eq!(other.triangles.len(), single.triangles.len(), "{name}");
            let pairs = || single.triangles.iter().flatten().zip(other.triangles.iter().flatten());
            let components = pairs().flat_map(|(a, b)| a.iter().zip(b)).filter(|(a, b)| a.to_bits() != b.to_bits());
            let clipped = pairs().filter(|(a, b)| outside(&a[..4]) != outside(&b[..4])).count();
            let moved = pairs().filter(|(a, b)| pixel(&a[..4]) != pixel(&b[..4])).count();
            let share = 100.0 * components.count() as f64 / (vertices * single.triangles[0][0].len()) as f64;
            write!(row, " {share:.1} | {clipped} | {moved} |").expect("a string");
            assert!(
                100 * other.repeated <= other.vertices,
                "{name}, {rounding:?}: {} of {} vertices are outside of the band",
                other.repeated,
                other.vertices
            );
        }
        writeln!(rows, "{row}").expect("a string");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/numerics.md");
    let page = std::fs::read_to_string(&path).expect("part of the package");
    let start = page.find(TABLE).expect("the page has the table") + TABLE.len();
    let end = start + page[start..].find("\n\n").map_or(page.len() - start, |end| end + 1);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page[..start].to_owned() + &rows + &page[end..]).expect("writable");
    } else {
        assert_eq!(&page[start..end], rows, "BLESS=1 rewrites the table");
    }
}

/// The head of the table in docs/numerics.md.
const TABLE: &str = "| frame | vertices | components, % | clipped | moved | components, % | clipped | moved |\n\
    |---|---|---|---|---|---|---|---|\n";
