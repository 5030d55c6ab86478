//! The example's recording and its picture, also with damaged commands.

#[path = "../../jit-tests/prerequisites.rs"]
mod prerequisites;

use super::console::{Rendering, VERTICES, play};
use super::{SIZE, png, scene};
use picajit::engine::{BackendChoice, Engine, Options};
use picajit::internals::recording::Recording;
use picajit::program::{Entry, Program};
use prerequisites::skipped;
use std::sync::{Arc, LazyLock};

const RECORDED: &str = include_str!("scene.txt");

fn recorded() -> Recording {
    RECORDED.parse().unwrap()
}

/// An engine on which no shader may silently fall back.
fn options(backend: BackendChoice) -> Options {
    Options { backend, events: Arc::new(|event| panic!("{event}")), ..Options::default() }
}

/// All tiers; on a host without native code its absence is a printed line.
static BACKENDS: LazyLock<Vec<BackendChoice>> = LazyLock::new(|| {
    let engine = Engine::new(Options { events: Arc::new(|_| ()), compile_after: 0, ..Options::default() });
    let end = Program::from_words(&[0x8800_0000], &[]).unwrap();
    match engine.shader(&end, Entry::vertex(0)).fallback_reason() {
        None => vec![BackendChoice::Oracle, BackendChoice::NoNative, BackendChoice::NativeRequired],
        Some(reason) => {
            skipped(&format!("the scene in native code: {reason}"));
            vec![BackendChoice::Oracle, BackendChoice::NoNative]
        }
    }
});

#[test]
fn the_recording_is_what_the_recorder_makes() {
    let made = scene::record().unwrap();
    assert_eq!(recorded(), made);
    assert!(RECORDED == made.to_string(), "the same words and comments, but printed in another way");
}

#[test]
fn native_code_and_interpreter_make_the_same_picture() {
    let pictures: Vec<_> = BACKENDS
        .iter()
        .map(|&backend| {
            let (picture, outcome) = play(&recorded(), options(backend), SIZE);
            (png(&picture).unwrap(), outcome)
        })
        .collect();
    let (file, outcome) = &pictures[0];
    assert!(pictures.iter().all(|(other, _)| other == file), "the files differ");
    assert!(pictures.iter().all(|(_, other)| other == outcome), "{pictures:?}");

    // 400 tiles of 4 corners, and 52 beads. The knot, twice: its strip names each vertex twice, and
    // the two where it closes again. Each vertex runs once.
    let (tiles, knot) = (20 * 20, 112 * 16);
    let expected = Rendering {
        vertices: 4 * tiles + 52 + 2 * knot,
        reused: 2 * tiles + 2 * (knot + 2),
        geometry_runs: 52,
        triangles: 4 + 2 * tiles + 2 * 2 * knot + 52 * 12,
        ..Rendering::default()
    };
    assert_eq!(*outcome, expected);

    // The file has the drawn picture.
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!([info.width as usize, info.height as usize], SIZE);
    assert!(pixels == play(&recorded(), options(BackendChoice::Oracle), SIZE).0.pixels());
}

/// Number of pixels of `rows` whose red, green and blue satisfy `is`.
fn count(pixels: &[u8], rows: std::ops::Range<usize>, is: impl Fn([i32; 3]) -> bool) -> usize {
    let row = 3 * SIZE[0];
    let colours = pixels[row * rows.start..row * rows.end].chunks(3);
    colours.filter(|c| is([0, 1, 2].map(|n| i32::from(c[n])))).count()
}

#[test]
fn the_picture_shows_every_object() {
    let pixels = play(&recorded(), options(BackendChoice::Oracle), SIZE).0.pixels();
    let all = 0..SIZE[1];
    let close = |a: [i32; 3], b: [i32; 3]| (0..3).all(|n| (a[n] - b[n]).abs() <= 3);
    let dark = |[r, g, b]: [i32; 3]| r < 110 && g < 110 && b < 120;
    let light = |[r, g, b]: [i32; 3]| r > 140 && g > 140 && b > 140;
    let last = SIZE[1] - 1..SIZE[1];
    let counts = [
        ("black, where nothing is drawn", count(&pixels, all.clone(), |c| c == [0; 3]), 0..=0),
        ("knot", count(&pixels, all.clone(), |[r, g, b]| r > g + 30 && g > b + 10), 30_000..=37_000),
        ("highlights", count(&pixels, all.clone(), |[r, g, b]| r > 240 && g > 190 && b < 200), 2_500..=5_000),
        ("shadow", count(&pixels, all.clone(), |c| close(c, [38, 41, 51])), 9_000..=11_000),
        ("green beads", count(&pixels, all.clone(), |[r, g, b]| g > r + 20 && g > b + 20), 700..=900),
        ("purple beads", count(&pixels, all, |[r, g, b]| r > g + 30 && b > g + 30), 3_800..=4_600),
        ("sky in the first row", count(&pixels, 0..1, |c| close(c, [41, 67, 128])), 800..=800),
        // The camera stands on the floor's tiles: tiles behind it are clipped at the near plane.
        ("dark tiles in the last row", count(&pixels, last.clone(), dark), 300..=330),
        ("light tiles in the last row", count(&pixels, last, light), 460..=490),
    ];
    for (what, count, range) in counts {
        assert!(range.contains(&count), "{what}: {count} pixels, not {range:?}");
    }
}

/// xorshift64*.
struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    fn below(&mut self, n: usize) -> usize {
        self.word() as usize % n
    }
}

const SMALL: [usize; 2] = [48, 30];

/// A bound of everything that is counted; and nothing is drawn otherwise by the other engine.
fn check(recording: &Recording, what: &str) -> (Vec<u8>, Rendering) {
    let results: Vec<_> = BACKENDS
        .iter()
        .map(|&backend| {
            // Native code may reject a damaged program.
            let events = Arc::new(|_: &_| ());
            let (picture, outcome) = play(recording, Options { backend, events, ..Options::default() }, SMALL);
            (picture.pixels(), outcome)
        })
        .collect();
    let (_, outcome) = &results[0];
    assert!(results.iter().all(|result| *result == results[0]), "engines differ: {what}");
    assert!(outcome.vertices + outcome.reused <= u64::from(VERTICES), "{what}: {outcome:?}");
    results.into_iter().next().unwrap()
}

/// How much less is tried where code is emulated.
fn slower() -> u32 {
    std::env::var("PICAJIT_SLOW").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn damaged_lists_end_and_both_engines_draw_the_same() {
    let (whole, mut noise) = (recorded(), Noise(1));
    let (intact, _) = check(&whole, "the whole list");
    let [mut other, mut early, mut short] = [0; 3];
    let rounds = 150 / slower();
    for round in 0..rounds {
        let mut spoilt = whole.clone();
        let list = &mut spoilt.list.words;
        let at = noise.below(list.len());
        match round % 5 {
            0 => list.truncate(at),
            1 => list[at] = noise.word(),
            2 => list[at] ^= 1 << noise.below(32),
            // Out of step from here on.
            3 => drop(list.remove(at)),
            // Something happens many times over: 256 values go to the register.
            _ => list[at | 1] |= 0x0FF0_0000,
        }
        let (pixels, outcome) = check(&spoilt, &format!("round {round}, word {at}"));
        other += u32::from(pixels != intact);
        early += u32::from(outcome.ended_early);
        short += u32::from(outcome.cut_short);
    }
    println!(
        "of {rounds} spoilt lists {other} give another picture, {early} end a program early, {short} are cut short"
    );
    let enough = other >= rounds / 2 && (rounds < 150 || (early >= 1 && short >= 1));
    assert!(enough, "the list is hardly spoilt: {other} {early} {short}");
}

#[test]
fn a_list_beyond_the_limits_is_truncated() {
    let mut spoilt = recorded();
    let draws: Vec<usize> = (1..spoilt.list.words.len()).filter(|&n| spoilt.list.words[n] == 0x000F_0228).collect();
    draws.iter().for_each(|&n| spoilt.list.words[n - 1] = u32::MAX);
    let (_, outcome) = check(&spoilt, "as many vertices as can be said");
    assert!(outcome.cut_short && draws.len() == 4);
}

#[test]
fn damaged_texts_are_read_or_rejected() {
    let (text, mut noise) = (RECORDED.as_bytes(), Noise(2));
    let (mut read, mut refused) = (0, 0);
    for round in 0..60 {
        let mut spoilt = text.to_vec();
        let at = noise.below(text.len());
        match round % 3 {
            0 => spoilt.truncate(at),
            1 => spoilt[at] = b" ;x9\n+"[noise.below(6)],
            _ => (0..5).for_each(|_| spoilt[noise.below(text.len())] = b"0123456789ABCDEF \n"[noise.below(18)]),
        }
        match String::from_utf8(spoilt).unwrap().parse::<Recording>() {
            Ok(recording) => {
                read += 1;
                check(&recording, &format!("round {round}, byte {at}"));
            }
            Err(error) => {
                refused += 1;
                assert!(error.line <= RECORDED.lines().count() + 5, "{error}");
            }
        }
    }
    assert!(read >= 10 && refused >= 10, "{read} read, {refused} refused");
}
