//! Lookups of known programs through C -> times in warm and cold caches, instructions, lines of code.

#![allow(unsafe_code)] // the C interface

use crate::frame_counts::counts_of_first;
use crate::frames::displace::Displacer;
use crate::single_step::{section, sections};
use picajit::capi::*;
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Instant;

/// Programs that the engine knows, as of a game that alternates between some.
const PROGRAMS: u32 = 24;
/// Times of each state of the caches.
const ROUNDS: usize = 51;

/// Memory sizes of a vertex unit and of the geometry unit, and their stages.
const KINDS: [(usize, u32); 2] = [(512, PJ_VERTEX), (4096, PJ_GEOMETRY)];
/// The most instructions and lines of code of a lookup and of a question whether a shader serves: the
/// counts of 2026-11-28 and a tenth more.
const LIMITS: [(&str, [usize; 2]); 2] = [("pj_shader_get", [940, 50]), ("pj_shader_serves", [700, 30])];

/// Code memory after an upload of program `n`: some 40 words up to its END, and leftovers after it.
fn code(words: usize, n: u32) -> Vec<u32> {
    const MOV: u32 = 0x13 << 26;
    const END: u32 = 0x22 << 26;
    let program = |at: u32| MOV | (at % 16) << 21 | ((at * 7 + n) % 16) << 12;
    (0..words as u32).map(|at| if at == 40 { END } else { program(at) }).collect()
}

/// The least time and the median.
fn least_and_median(mut ns: Vec<u64>) -> [u64; 2] {
    ns.sort_unstable();
    [ns[0], ns[ns.len() / 2]]
}

/// Nanoseconds of a call for some program, less those of a call that does nothing: the least and the
/// median.
fn time(mut before: Option<&mut Displacer>, way: &dyn Fn(usize)) -> [u64; 2] {
    let mut of = |way: &dyn Fn(usize)| least_and_median(times(before.as_deref_mut(), way));
    let [nothing, all] = [of(&|n| _ = black_box(n)), of(way)];
    [0, 1].map(|n| all[n].saturating_sub(nothing[n]))
}

fn times(mut before: Option<&mut Displacer>, way: &dyn Fn(usize)) -> Vec<u64> {
    let once = |n: usize| {
        if let Some(displacer) = &mut before {
            displacer.run();
        }
        black_box(Instant::now());
        let start = [Instant::now(), Instant::now()];
        way(n % PROGRAMS as usize);
        let end = Instant::now();
        ((end - start[1]).saturating_sub(start[1] - start[0])).as_nanos() as u64
    };
    (0..ROUNDS).map(once).collect()
}

/// Prints the costs of a lookup. Returns whether all counts are below the limits.
pub fn lookups(with_functions: bool) -> Result<bool, String> {
    let mut displacer = Displacer::new();
    let mut is_below = true;
    for (words, stage) in KINDS {
        let mut engine = null_mut();
        // SAFETY: null selects the defaults.
        assert_eq!(unsafe { pj_engine_new_for(pj_version(), null(), &mut engine) }, PJ_OK);
        let memories: Vec<Vec<u32>> = (0..PROGRAMS).map(|n| code(words, n)).collect();
        let opdescs = [0x36Fu32; 128];
        let get = |n: usize| {
            let (code, mut shader) = (&memories[n], null_mut());
            let (at, count) = (code.as_ptr(), code.len());
            // SAFETY: a live engine, arrays of these lengths, and a place for the shader.
            let status = unsafe { pj_shader_get(engine, at, count, opdescs.as_ptr(), 128, 0, stage, &mut shader) };
            assert_eq!(status, PJ_OK);
            shader
        };
        let shaders: Vec<_> = (0..memories.len()).map(get).collect();
        let release = |shader: *mut PjShader| {
            // SAFETY: live, and released once.
            unsafe { pj_shader_release(black_box(shader)) }
        };
        let serves = |n: usize| {
            let (code, shader) = (&memories[n], shaders[n]);
            let (at, count) = (code.as_ptr(), code.len());
            // SAFETY: a live shader, and arrays of these lengths.
            assert_eq!(unsafe { pj_shader_serves(shader, at, count, opdescs.as_ptr(), 128, 0) }, 1);
        };
        let ways: [&dyn Fn(usize); 2] = [&|n| release(get(n)), &serves];
        for ((name, [most, most_lines]), way) in LIMITS.iter().zip(ways) {
            let [hot, cold] = [time(None, way), time(Some(&mut displacer), way)];
            let sections = sections(|| section(&mut || way(3)))?;
            let [instructions, lines] = counts_of_first(&sections, with_functions)?;
            println!(
                "{words:4} known words, {name:16} {:5} ns hot, {:5} (least {}) cold; {instructions:6} instructions (limit {most}), \
                 {lines:4} lines (limit {most_lines})",
                hot[1], cold[1], cold[0]
            );
            is_below &= instructions <= *most && lines <= *most_lines;
        }
        shaders.into_iter().for_each(release);
        // SAFETY: live, freed once.
        unsafe { pj_engine_free(engine) };
    }
    Ok(is_below)
}
