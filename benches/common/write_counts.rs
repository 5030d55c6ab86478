//! Register writes of each kind, and lists of frames -> instructions of a write.

use crate::frames::engine;
use crate::single_step::{section, sections};
use picajit::gpu::{Commands, Draw, Effect, Gpu, Host, Limits, Sink, Write};
use picajit::internals::recording::Recording;
use picajit::internals::registers::{self as reg, VSH, offset};
use std::hint::black_box;

/// Writes that are counted together: whole vectors of three and of four words.
const COUNTED: u32 = 48;

/// A kind of write.
struct Kind {
    name: &'static str,
    /// The most instructions in Rust and in C: the counts of 2026-12-01 and a tenth more.
    limits: [f64; 2],
    /// Writes before.
    before: &'static [(u16, u32)],
    id: u16,
    mask: u8,
    /// The n-th value.
    value: fn(u32) -> u32,
}

const KINDS: [Kind; 11] = [
    Kind { name: "a register of no concern", limits: [15.0, 22.0], before: &[], id: 0x100, mask: 15, value: |n| n },
    Kind { name: "the same, two bytes", limits: [21.0, 29.0], before: &[], id: 0x100, mask: 3, value: |n| n },
    Kind { name: "a vertex count", limits: [15.0, 22.0], before: &[], id: reg::NUMVERTICES, mask: 15, value: |n| n },
    Kind {
        name: "an unchanged output map",
        limits: [25.0, 64.0],
        before: &[],
        id: reg::SH_OUTMAP_O0,
        mask: 15,
        value: |_| 0,
    },
    Kind { name: "an output map", limits: [142.0, 190.0], before: &[], id: reg::SH_OUTMAP_O0, mask: 15, value: |n| n },
    Kind { name: "a restart", limits: [40.0, 87.0], before: &[], id: reg::RESTART_PRIMITIVE, mask: 15, value: |_| 1 },
    Kind {
        name: "a word of float24",
        limits: [89.0, 128.0],
        before: &[(VSH + offset::FLOATUNIFORM_INDEX, 0)],
        id: VSH + offset::FLOATUNIFORM_DATA0,
        mask: 15,
        value: |n| 0x3F00_0040 + n,
    },
    Kind {
        name: "the same, own units",
        limits: [64.0, 102.0],
        before: &[(reg::VSH_COM_MODE, 1), (VSH + offset::FLOATUNIFORM_INDEX, 0)],
        id: VSH + offset::FLOATUNIFORM_DATA0,
        mask: 15,
        value: |n| 0x3F00_0040 + n,
    },
    Kind {
        name: "a word of f32",
        limits: [72.0, 110.0],
        before: &[(reg::VSH_COM_MODE, 0), (VSH + offset::FLOATUNIFORM_INDEX, 1 << 31)],
        id: VSH + offset::FLOATUNIFORM_DATA0,
        mask: 15,
        value: |n| 0x3F80_0000 + n,
    },
    Kind {
        name: "a word of code",
        limits: [194.0, 241.0],
        before: &[(VSH + offset::CODETRANSFER_INDEX, 0)],
        id: VSH + offset::CODETRANSFER_DATA0,
        mask: 15,
        value: |n| n,
    },
    Kind {
        name: "a word of a default",
        limits: [45.0, 88.0],
        before: &[(reg::FIXEDATTRIB_INDEX, 0)],
        id: reg::FIXEDATTRIB_DATA0,
        mask: 15,
        value: |n| 0x3F00_0040 + n,
    },
];

/// The instructions of a call of `write` for each kind, in the mean of other values than the registers
/// have. `nothing` is the same call of a function that only returns: two instructions.
fn count(mut nothing: impl FnMut(Write), mut write: impl FnMut(Write)) -> Result<Vec<f64>, String> {
    let writes: Vec<[Vec<Write>; 2]> = KINDS
        .iter()
        .map(|&Kind { id, mask, value, .. }| {
            [0, COUNTED].map(|from| (from..from + COUNTED).map(|n| Write { id, value: value(n), mask }).collect())
        })
        .collect();
    let sections = sections(|| {
        section(&mut || writes[0][0].iter().for_each(|&one| nothing(one)));
        for (kind, writes) in KINDS.iter().zip(&writes) {
            for (n, writes) in writes.iter().enumerate() {
                kind.before.iter().for_each(|&(id, value)| write(Write { id, value, mask: 15 }));
                let mut all = || writes.iter().for_each(|&one| write(one));
                if n == 1 { section(&mut all) } else { all() }
            }
        }
    })?;
    let [empty, counted @ ..] = &sections[..] else { return Err("no section".into()) };
    let mean = |section: &Vec<u64>| (section.len() as f64 - empty.len() as f64) / f64::from(COUNTED) + 2.0;
    Ok(counted.iter().map(mean).collect())
}

/// [`Gpu::write`] as a function.
#[inline(never)]
fn write(gpu: &mut Gpu, id: u16, value: u32, mask: u8) -> Effect {
    gpu.write(id, value, mask)
}

#[inline(never)]
fn nothing(_: &mut Gpu, _: u16, _: u32, _: u8) -> Effect {
    Effect::None
}

/// Counts writes of each kind through Rust and C. Returns whether all are below the limits.
pub fn kinds() -> Result<bool, String> {
    let (mut gpu, mut other) = (Gpu::new(engine()), Gpu::new(engine()));
    let call = |f: fn(&mut Gpu, u16, u32, u8) -> Effect, gpu: &mut Gpu, w: Write| {
        assert!(black_box(f)(gpu, w.id, w.value, w.mask) == Effect::None);
    };
    let rust = count(|one| call(nothing, &mut other, one), |one| call(write, &mut gpu, one))?;
    #[cfg(feature = "capi")]
    let c = Some(through_c::kinds()?);
    #[cfg(not(feature = "capi"))]
    let c: Option<Vec<f64>> = None;
    let mut is_below = true;
    for (n, kind) in KINDS.iter().enumerate() {
        let [most, most_in_c] = kind.limits;
        print!("{:26} Gpu::write {:6.1} instructions (limit {most})", kind.name, rust[n]);
        is_below &= rust[n] <= most;
        if let Some(c) = &c {
            print!(", pj_gpu_write {:6.1} (limit {most_in_c})", c[n]);
            is_below &= c[n] <= most_in_c;
        }
        println!();
    }
    Ok(is_below)
}

/// A host that draws nothing.
struct NoDraws;

impl Sink for NoDraws {
    fn triangles(&mut self, _: &[f32], _: &[[u32; 3]]) {}
}

impl Host for NoDraws {
    fn draw(&mut self, _: &mut Gpu, _: Draw) {}
}

/// The writes of a list, in sequence.
fn write_each(gpu: &mut Gpu, list: &[u32]) {
    let mut vertices = Vec::new();
    for Write { id, value, mask } in Commands::new(list) {
        if !vertices.is_empty() && !(reg::FIXEDATTRIB_DATA0..=reg::FIXEDATTRIB_DATA2).contains(&id) {
            gpu.draw_immediate(&vertices, &mut NoDraws);
            vertices.clear();
        }
        if gpu.write(id, value, mask) == Effect::Vertex {
            vertices.push(*gpu.immediate_vertex());
        }
    }
}

/// Prints the instructions of a write of a frame's list: in `Gpu::execute`, in a loop of writes, and in
/// `Gpu::write_list`. Nothing is drawn.
pub fn print(name: &str, text: &str) -> Result<(), String> {
    let list = text.parse::<Recording>().map_err(|error| error.to_string())?.list;
    let begin = list.notes.iter().find(|(_, note)| note == "the frame").map_or(0, |(word, _)| *word);
    let list = &list.words[begin..];
    let mut gpu = Gpu::new(engine());
    gpu.set_limits(Limits { draw: 0, list: u64::MAX });
    let mut execute = |gpu: &mut Gpu| _ = gpu.execute(list, &mut NoDraws);
    let mut each = |gpu: &mut Gpu| write_each(gpu, list);
    let mut parts = |gpu: &mut Gpu| {
        let mut commands = Commands::new(list);
        while !matches!(gpu.write_list(&mut commands), Effect::None) {}
    };
    let ways: [&mut dyn FnMut(&mut Gpu); 3] = [&mut execute, &mut each, &mut parts];
    let sections = sections(|| {
        for way in ways {
            way(&mut gpu);
            section(&mut || way(&mut gpu));
        }
    })?;
    let writes = Commands::new(list).count().max(1) as f64;
    let [execute, each, parts] = &sections[..] else { return Err("not three sections".into()) };
    let [execute, each, parts] = [execute, each, parts].map(|section| section.len() as f64 / writes);
    println!(
        "{name:18}a write of its list: Gpu::execute {execute:.1} instructions, a loop of writes {each:.1}, \
         Gpu::write_list {parts:.1}"
    );
    Ok(())
}

/// The C interface, called as a host does.
#[cfg(feature = "capi")]
mod through_c {
    #![allow(unsafe_code)] // the C interface

    use super::*;
    use picajit::capi::*;
    use picajit::state::Registers;
    use std::ptr::{null, null_mut};

    type WriteFn = unsafe extern "C" fn(*mut PjGpu, u16, u32, u8, *mut Registers) -> i32;

    #[inline(never)]
    unsafe extern "C" fn nothing(_: *mut PjGpu, _: u16, _: u32, _: u8, _: *mut Registers) -> i32 {
        PJ_EFFECT_NONE
    }

    pub(super) fn kinds() -> Result<Vec<f64>, String> {
        let (mut engine, mut gpu) = (null_mut(), null_mut());
        // SAFETY: null selects the defaults; the rest is valid.
        let status = unsafe { [pj_engine_new_for(pj_version(), null(), &mut engine), pj_gpu_new(engine, &mut gpu)] };
        assert_eq!(status, [PJ_OK; 2]);
        let mut vertex = [[0.0; 4]; 16];
        let vertex = &raw mut vertex;
        let call = |f: WriteFn, Write { id, value, mask }: Write| {
            // SAFETY: a live GPU, and room for a vertex.
            assert_eq!(unsafe { black_box(f)(gpu, id, value, mask, vertex) }, PJ_EFFECT_NONE);
        };
        let counted = count(|one| call(nothing, one), |one| call(pj_gpu_write, one));
        // SAFETY: both are live; the engine is freed last.
        unsafe { (pj_gpu_free(gpu), pj_engine_free(engine)) };
        counted
    }
}
