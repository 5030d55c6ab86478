//! Recordings of guests' draws, on the oracle, on tier 0 and in native code.
//!
//! `regress/*.recording` are draws that once gave wrong triangles. Comments hold what is right, one line a triangle and
//! semantic: `; position: x y z w, x y z w, x y z w` and `; colour: ...`. Third-party recordings hold the number and a hash of
//! their triangles in docs/third-party-files.md.

mod prerequisites;

use picajit::engine::{BackendChoice, Engine, Options};
use picajit::gpu::recording::Recording;
use picajit::gpu::{Draw, DrawOptions, Gpu, Host, Regions, TriangleSink};
use picajit::semantics::Semantics;
use picajit::state::Exit;
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
        // File, hash and size of the file, program, draws, vertices, triangles, their hash.
        let Some(row) = rows.iter().find(|row| row.get(1) == Some(&name.as_str())) else { continue };
        let drawn = (triangles.len().to_string(), format!("{:016x}", hash(&triangles)));
        assert_eq!((row[7], row[8]), (drawn.0.as_str(), drawn.1.as_str()), "{name}");
    }
}
