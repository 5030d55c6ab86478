//! Frames -> instructions and distinct lines of code of each draw and its register writes.

use crate::frames::frame::{Frame, Kind};
use crate::frames::replay::{Library, Triangles, Way};
use crate::frames::{engine, prepare};
use crate::single_step::{section, sections};
use picajit::gpu::{Draw, Write};
use picajit::internals::registers::RESTART_PRIMITIVE;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::Command;

/// Bytes of a line of the instruction cache.
const LINE: u64 = 64;

/// A frame whose first draw is a strip of four vertices.
const FOUR: &str = include_str!("../../jit-tests/frames/four-draws.recording");

/// Most instructions and lines of a draw of four vertices: the counts of 2026-12-01 and a tenth more,
/// since compilers and processors differ. The aim is 1,600 instructions and 110 lines.
const LIMITS: [(&str, [usize; 2]); 2] = [("Gpu::draw", [2900, 120]), ("pj_gpu_draw", [3120, 140])];

/// Draws until batches have native code.
const WARM: usize = 3000;

/// Instructions and lines of a section.
fn counts(section: &[u64]) -> [usize; 2] {
    [section.len(), section.iter().map(|at| at / LINE).collect::<HashSet<_>>().len()]
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Steps of a frame that are counted, at equal distances: a stop for each instruction takes microseconds.
const COUNTED: usize = 48;

/// Every n-th step is counted.
fn counted(frame: &Frame) -> usize {
    frame.steps.len().div_ceil(COUNTED)
}

/// One pass: for some steps the addresses of its writes and of its draw.
fn pass<W: Way>(way: &mut W, frame: &Frame) -> Result<Vec<[Vec<u64>; 2]>, String> {
    let mut triangles = Triangles::with_capacity(1 << 14);
    let every = counted(frame);
    let sections = sections(|| {
        for (n, step) in frame.steps.iter().enumerate() {
            triangles.clear();
            let mut write = || frame.writes[step.writes.clone()].iter().for_each(|write| way.write(*write));
            if n % every == 0 {
                section(&mut write)
            } else {
                write()
            }
            let mut draw = || {
                if let Some(kind) = step.draw {
                    way.draw(kind, frame, &mut triangles).expect("it drew before");
                }
            };
            if n % every == 0 { section(&mut draw) } else { draw() }
        }
    })?;
    if sections.len() != 2 * frame.steps.len().div_ceil(every) {
        return Err(format!("{} sections of {} steps", sections.len(), frame.steps.len()));
    }
    let mut sections = sections.into_iter();
    Ok(std::iter::from_fn(|| Some([sections.next()?, sections.next()?])).collect())
}

/// Prints the medians of a recording, and on demand the functions of the median draw.
pub fn print(name: &str, text: &str, with_functions: bool) -> Result<(), String> {
    let frame = Frame::read(text).map_err(|error| error.to_string())?;
    let (mut library, mut lean) = prepare(&engine(), &frame).map_err(|error| error.to_string())?;
    let passes = [("picajit", pass(&mut library, &frame)?), ("lean reference", pass(&mut lean, &frame)?)];
    for (way, steps) in &passes {
        let drawn = frame.steps.iter().step_by(counted(&frame)).zip(steps).filter(|(step, _)| step.draw.is_some());
        let draws: Vec<[usize; 2]> = drawn.clone().map(|(_, [_, draw])| counts(draw)).collect();
        let [instructions, lines] = [0, 1].map(|n| median(draws.iter().map(|draw| draw[n]).collect()));
        let writes: usize = steps.iter().map(|[writes, _]| writes.len()).sum();
        let written = median(steps.iter().map(|[writes, _]| counts(writes)[1]).collect());
        println!(
            "{name:18}{way:16} a draw: {instructions:6} instructions, {lines:4} lines; a register write: {:5.1} instructions; \
             the writes of a draw: {written:4} lines",
            writes as f64 / written_by(&frame).max(1) as f64
        );
        if with_functions {
            let middle = drawn.map(|(_, [_, draw])| draw).filter(|draw| counts(draw)[1] == lines);
            let Some(draw) = middle.min_by_key(|draw| draw.len().abs_diff(instructions)) else { continue };
            functions(draw)?;
        }
    }
    Ok(())
}

/// Register writes of the counted steps.
fn written_by(frame: &Frame) -> usize {
    frame.steps.iter().step_by(counted(frame)).map(|step| step.writes.len()).sum()
}

/// Prints the functions of a section: instructions and lines, most lines first.
fn functions(section: &[u64]) -> Result<(), String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let mapped: BTreeMap<u64, (u64, &str)> = maps.lines().filter_map(mapping).collect();
    let find = |at: &u64| mapped.range(..=at).next_back().filter(|(_, (end, _))| at < end).map(|(_, (_, name))| *name);
    let symbols = symbols(&mapped)?;
    let mut all: HashMap<&str, (usize, HashSet<u64>)> = HashMap::new();
    for at in section {
        let name = symbols.range(..=at).next_back().filter(|(_, (end, _))| at < end).map(|(_, (_, name))| &**name);
        let (count, lines) = all.entry(name.or_else(|| find(at)).unwrap_or("native code of shaders")).or_default();
        *count += 1;
        lines.insert(at / LINE);
    }
    let mut all: Vec<(usize, usize, &str)> = all.iter().map(|(name, (n, lines))| (lines.len(), *n, *name)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.iter().for_each(|(lines, count, name)| println!("    {lines:4} lines {count:6} instructions  {name}"));
    Ok(())
}

/// A mapped file of a line of the system's list: start, end and path.
fn mapping(line: &str) -> Option<(u64, (u64, &str))> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, (number(end)?, rest.get(rest.find('/')?..)?)))
}

/// The functions of this program: start, end and name.
fn symbols(mapped: &BTreeMap<u64, (u64, &str)>) -> Result<BTreeMap<u64, (u64, String)>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let base = mapped.iter().find(|(_, (_, path))| *path == program.to_string_lossy()).map(|(start, _)| *start);
    let base = base.ok_or("the program is not mapped")?;
    let nm = Command::new("nm").args(["-C", "-S", "--defined-only"]).arg(&program).output();
    let nm = nm.map_err(|error| format!("nm: {error}"))?;
    let symbol = |line: &str| {
        let (start, rest) = line.split_once(' ')?;
        let (size, rest) = rest.split_once(' ')?;
        let start = base + u64::from_str_radix(start, 16).ok()?;
        Some((start, (start + u64::from_str_radix(size, 16).ok()?, rest.get(2..)?.to_string())))
    };
    Ok(String::from_utf8_lossy(&nm.stdout).lines().filter_map(symbol).collect())
}

/// The counts of the frame's first draw, repeated.
fn strip_through_rust(frame: &Frame, with_functions: bool) -> Result<[usize; 2], String> {
    let mut library = Library::new(&engine(), frame);
    let first = &frame.steps[0];
    frame.writes[first.writes.clone()].iter().for_each(|write| library.write(*write));
    let mut triangles = Triangles::with_capacity(16);
    let mut draw = |library: &mut Library| {
        triangles.clear();
        library.draw(Kind::Guest(Draw::Arrays), frame, &mut triangles).expect("its program ends");
        assert_eq!(triangles.len(), 2);
    };
    let restart = Write { id: RESTART_PRIMITIVE, value: 1, mask: 15 };
    (0..WARM).for_each(|_| {
        library.write(restart);
        draw(&mut library);
    });
    let sections = sections(|| {
        library.write(restart);
        section(&mut || draw(&mut library));
    })?;
    counts_of_first(&sections, with_functions)
}

/// The counts of the first section, whose functions are printed on demand.
pub fn counts_of_first(sections: &[Vec<u64>], with_functions: bool) -> Result<[usize; 2], String> {
    let section = sections.first().ok_or("no section")?;
    if with_functions {
        functions(section)?;
    }
    Ok(counts(section))
}

/// Counts a strip of four vertices through Rust and C. Returns whether all is below the limits.
pub fn strip(with_functions: bool) -> Result<bool, String> {
    let frame = Frame::read(FOUR).map_err(|error| error.to_string())?;
    let rust = strip_through_rust(&frame, with_functions)?;
    #[cfg(feature = "capi")]
    let all = [Some(rust), Some(through_c::strip(&frame, with_functions)?)];
    #[cfg(not(feature = "capi"))]
    let all = [Some(rust), None];
    let mut is_below = true;
    for ((name, limits), counted) in LIMITS.iter().zip(all) {
        let Some(counted) = counted else { continue };
        is_below &= counted[0] <= limits[0] && counted[1] <= limits[1];
        println!(
            "strip of four, {name:12} {:6} instructions (limit {}), {:4} lines (limit {})",
            counted[0], limits[0], counted[1], limits[1]
        );
    }
    Ok(is_below)
}

/// The C interface, called as a host does.
#[cfg(feature = "capi")]
mod through_c {
    #![allow(unsafe_code)] // the C interface

    use super::*;
    use picajit::capi::*;
    use picajit::semantics::Semantics;
    use std::ffi::c_void;
    use std::ptr::{null, null_mut};
    use std::slice;

    unsafe extern "C" fn store(to: *mut c_void, vertices: *const f32, count: usize, ids: *const u32, triangles: usize) {
        // SAFETY: `user` is a live vector; the arrays are valid during the call.
        unsafe {
            let to = &mut *to.cast::<Triangles>();
            let vertices: &[Semantics] = slice::from_raw_parts(vertices.cast(), count);
            let ids: &[[u32; 3]] = slice::from_raw_parts(ids.cast(), triangles);
            to.extend(ids.iter().map(|ids| ids.map(|n| vertices[n as usize])));
        }
    }

    /// The counts of the frame's first draw.
    pub(super) fn strip(frame: &Frame, with_functions: bool) -> Result<[usize; 2], String> {
        let (mut engine, mut gpu) = (null_mut(), null_mut());
        // SAFETY: null selects the defaults; the rest is valid.
        let status = unsafe { [pj_engine_new_for(pj_version(), null(), &mut engine), pj_gpu_new(engine, &mut gpu)] };
        assert_eq!(status, [PJ_OK; 2]);
        let first = &frame.steps[0];
        assert_eq!(first.draw, Some(Kind::Guest(Draw::Arrays)));
        // SAFETY: a live GPU, and room for a vertex.
        let write = |id, value, mask| unsafe { pj_gpu_write(gpu, id, value, mask, &mut [[0.0; 4]; 16]) };
        let (list, _) = FOUR.split_once("; the frame").expect("it has one");
        let recording: picajit::internals::recording::Recording = list.parse().expect("a recording");
        for w in picajit::gpu::Commands::new(&recording.list.words).chain(frame.writes[first.writes.clone()].to_vec()) {
            assert!(write(w.id, w.value, w.mask) >= 0);
        }
        let (bytes, length) = (frame.memory.as_ptr(), frame.memory.len());
        let region = PjRegion { bytes, length, address: frame.address, reserved: 0 };
        let mut triangles = Triangles::with_capacity(16);
        let mut draw = || {
            triangles.clear();
            let draw = PjGuestDraw {
                struct_size: size_of::<PjGuestDraw>(),
                regions: &region,
                region_count: 1,
                memory: None,
                triangles: Some(store),
                offsets: null(),
                user: (&raw mut triangles).cast(),
                stride: 0,
                limit: u32::MAX,
                vertex_cache_entries: 64,
                effect: PJ_EFFECT_DRAW_ARRAYS,
            };
            // SAFETY: all pointers are valid, and null is no report.
            assert_eq!(unsafe { pj_gpu_draw(gpu, &draw, null_mut()) }, PJ_OK);
            assert_eq!(triangles.len(), 2);
        };
        let restart = || assert!(write(RESTART_PRIMITIVE, 1, 15) >= 0);
        (0..WARM).for_each(|_| {
            restart();
            draw();
        });
        let sections = sections(|| {
            restart();
            section(&mut draw);
        })?;
        // SAFETY: both are live; the engine is freed last.
        unsafe { (pj_gpu_free(gpu), pj_engine_free(engine)) };
        counts_of_first(&sections, with_functions)
    }
}
