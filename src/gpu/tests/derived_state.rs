//! What a GPU derives from its state is never stale: each draw equals that of a new GPU with the same
//! state. Any state is safe.

use super::*;
use crate::gpu::Memory as GuestMemory;
use crate::isa::numeric::Precision;

const START: u32 = 0x1000_0000;
/// Where the indices are.
const INDICES: u32 = 0x8000;

/// Small floats, and indices that are vertex counts too.
fn memory() -> Vec<u8> {
    let mut memory: Vec<u8> = (0..0x3000u32).flat_map(|n| ((n % 61) as f32 / 4.0 - 3.0).to_le_bytes()).collect();
    let indices = [3u16, 0, 1, 2, 4, 3, 4, 5, 6, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0];
    for (n, index) in indices.into_iter().enumerate() {
        memory[INDICES as usize + 2 * n..][..2].copy_from_slice(&index.to_le_bytes());
    }
    memory
}

/// A program of ten attributes and four outputs, and arrays of them.
fn base() -> List {
    let mut list = List::default();
    list.write(GEOSTAGE_CONFIG, 0).write(VSH_COM_MODE, 1);
    list.shader(VSH, "mov o0, v0\nmov o1, v1\nmov o2, v9\nmov o9, v1", 2, 0x207).outmap(2).topology(Topology::List);
    list.write(ATTRIBBUFFERS_LOC, START >> 3)
        .write(ATTRIBBUFFERS_FORMAT_LOW, u32::MAX)
        .write(ATTRIBBUFFERS_FORMAT_HIGH, 0xFFFF)
        .run(ATTRIBBUFFER0_OFFSET, &[0, 0x7654_3210, 12 << 28 | 192 << 16 | 0xBA98])
        .write(INDEXBUFFER_CONFIG, 1 << 31 | INDICES)
        .write(NUMVERTICES, 19)
        .write(VERTEX_OFFSET, 0);
    list
}

/// The base, with geometry programs in point and in variable mode.
fn bases() -> [List; 3] {
    let [plain, mut point, mut variable] = [base(), base(), base()];
    point.shader(GSH, TRIANGLE, 3, 1).geometry(0, 0, 3);
    let uniforms = TRIANGLE.replace("v2", "c3").replace("v1", "c2").replace("v0", "c1");
    variable.shader(GSH, &uniforms, 1, 1).geometry(1, 0, 2);
    variable.write(GSH + offset::INPUTBUFFER_CONFIG, 0x0800_0100);
    [plain, point, variable]
}

/// What a draw sends, and what it leaves.
fn drawn(gpu: &mut Gpu, draw: Draw, memory: &[u8]) -> String {
    let mut sink = Memory::default();
    let options = DrawOptions { limit: Some(24), vertex_cache: 8 };
    let report = gpu.draw(draw, &Regions(&[(START, memory)]), &options, &mut sink);
    let state = gpu.state();
    format!("{:?} {report:?} {:?} {:?} {:?}", sink.triangles, state.vertex.unit, state.assembly, state.geometry_input)
}

fn draws_as_new(gpu: &mut Gpu, memory: &[u8], context: &str) {
    for draw in [Draw::Arrays, Draw::Elements] {
        let mut new = Gpu::with_state(gpu.engine().clone(), gpu.state());
        let [old, new] = [&mut *gpu, &mut new].map(|gpu| drawn(gpu, draw, memory));
        assert_eq!(old, new, "{draw:?}, {context}");
    }
}

#[test]
fn each_bit_of_a_register_reaches_the_next_draw() {
    let memory = memory();
    let blocks = [GSH, VSH].into_iter().flat_map(|block| (0x09..=0x0D).map(move |at| block + at));
    let ids = (SH_OUTMAP_TOTAL..=0x056).chain(ATTRIBBUFFERS_LOC..=0x208).chain(INDEXBUFFER_CONFIG..=VERTEX_OFFSET);
    let ids: Vec<u16> = ids.chain([VSH_OUTMAP_TOTAL1, GSH_MISC0, GSH_MISC1, PRIMITIVE_CONFIG]).chain(blocks).collect();
    // Code that is compiled later makes each GPU slow.
    let backend = if cfg!(feature = "jit") { BackendChoice::NativeRequired } else { BackendChoice::NoNative };
    for (n, base) in bases().iter().enumerate().take(crate::testing::miri_or(1, 3)) {
        let mut gpu = Gpu::new(engine(backend));
        gpu.execute(&base.0, &mut Memory::default());
        let mut results = std::collections::HashSet::new();
        for &id in &ids {
            for bit in (0..32).step_by(crate::testing::miri_or(31, 1)) {
                for _ in 0..2 {
                    let value = gpu.state().registers.get(id) ^ 1 << bit;
                    let _ = gpu.write(id, value, 15);
                    draws_as_new(&mut gpu, &memory, &format!("base {n}, bit {bit} of {id:#05X}"));
                }
                let _ = gpu.write(id, gpu.state().registers.get(id) ^ 1 << bit, 15);
                results.insert(drawn(&mut gpu, Draw::Elements, &memory));
                let _ = gpu.write(id, gpu.state().registers.get(id) ^ 1 << bit, 15);
            }
        }
        assert!(cfg!(miri) || results.len() > 60, "base {n}: {} bits change something", results.len());
    }
}

#[test]
fn changes_of_the_state_reach_the_next_draw() {
    let memory = memory();
    for (n, base) in bases().iter().enumerate() {
        let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
        gpu.execute(&base.0, &mut Memory::default());
        let change: [fn(&mut State); 4] = [
            |_| (),
            |state| state.vertex.code[0] = state.vertex.code[1],
            |state| state.geometry.code.swap(1, 4),
            |state| state.registers.0[usize::from(ATTRIBBUFFER0_OFFSET + 1)] = 0x7654_3201,
        ];
        for (k, change) in change.into_iter().enumerate() {
            change(gpu.state_mut());
            draws_as_new(&mut gpu, &memory, &format!("base {n}, change {k}"));
        }
    }
}

/// A GPU whose last draw left a run that is deferred: of a program that copies c0.
fn deferring() -> Gpu {
    let backend = if cfg!(feature = "jit") { BackendChoice::NativeRequired } else { BackendChoice::NoNative };
    let mut gpu = Gpu::new(engine(backend));
    let mut list = base();
    list.shader(VSH, "mul r0, c0, v0\nmov o0, v0\nmov o1, r0", 2, 0b11).float24(VSH, 0, &[[0.0; 4]]);
    gpu.execute(&list.0, &mut Memory::default());
    drawn(&mut gpu, Draw::Arrays, &memory());
    // `drawn` completes a copy.
    gpu
}

#[test]
fn a_zero_of_the_other_sign_comes_after_a_deferred_run() {
    let (mut gpu, mut twin) = (deferring(), deferring());
    let want = twin.state_mut().vertex.unit.r[0].map(f32::to_bits);
    let mut list = List::default();
    list.float24(VSH, 0, &[[-0.0; 4]]);
    gpu.execute(&list.0, &mut Memory::default());
    assert_eq!(gpu.state().vertex.unit.r[0].map(f32::to_bits), want);
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[test]
fn a_deferred_run_has_the_default_mode() {
    let memory = memory();
    let tiny = |gpu: &mut Gpu| {
        let mut list = base();
        list.shader(VSH, "mul r0, c0, v0\nmov o0, v0\nmov o1, r0", 2, 0b11);
        list.write(VSH + offset::FLOATUNIFORM_INDEX, 1 << 31)
            .queue(VSH + offset::FLOATUNIFORM_DATA0, &[0x0080_0001; 4]);
        gpu.execute(&list.0, &mut Memory::default());
        drawn(gpu, Draw::Arrays, &memory);
    };
    let (mut gpu, mut twin) = (deferring(), deferring());
    tiny(&mut twin);
    let want = twin.state().vertex.unit.r[0].map(f32::to_bits);
    assert!(want.iter().any(|&bits| bits << 1 != 0 && bits << 1 < 0x0100_0000), "{want:X?} has a subnormal number");
    crate::fp_mode::in_foreign_modes(|| {
        tiny(&mut gpu);
        assert_eq!(gpu.state_mut().vertex.unit.r[0].map(f32::to_bits), want);
    });
}

#[test]
fn states_of_float24_are_rounded() {
    let options = Options { precision: Precision::ALL[1], backend: BackendChoice::NoNative, ..Options::at_once() };
    let mut state = State::default();
    (state.vertex.uniforms.c[5], state.geometry.uniforms.c[7]) = ([0.1; 4], [0.1; 4]);
    let gpu = Gpu::with_state(Arc::new(Engine::new(options)), state);
    let want = Precision::ALL[1].operand(0.1);
    assert_ne!(want, 0.1);
    assert_eq!((gpu.state().vertex.uniforms.c[5], gpu.state().geometry.uniforms.c[7]), ([want; 4], [want; 4]));
}

#[test]
fn a_saved_state_may_count_and_point_anywhere() {
    let mut state = State::default();
    (state.vertex.float_words.count, state.geometry.float_words.count, state.fixed.words.count) = (200, 201, 202);
    let mut gpu = Gpu::with_state(engine(BackendChoice::Oracle), state);
    for id in [VSH + offset::FLOATUNIFORM_DATA0, GSH + offset::FLOATUNIFORM_DATA0, FIXEDATTRIB_DATA0] {
        (0..5).for_each(|n| _ = gpu.write(id, n, 15));
    }
    // Words of both units are the same, but not their formats.
    let mut state = State::default();
    let words = PartialVector { words: [0x3F80_0000, 0x4000_0000, 0x4040_0000], count: 3 };
    (state.vertex.float_words, state.vertex.float32) = (words, true);
    state.geometry.float_words = PartialVector { count: 2, ..words };
    let mut gpu = Gpu::with_state(engine(BackendChoice::Oracle), state);
    let _ = gpu.write(VSH + offset::FLOATUNIFORM_DATA0, 0x4080_0000, 15);
    let state = gpu.state();
    assert_eq!(state.vertex.uniforms.c[0], [4.0, 3.0, 2.0, 1.0]);
    let geometry = upload::f24_vector([0x3F80_0000, 0x4000_0000, 0x4080_0000]);
    assert_eq!(state.geometry.uniforms.c[0], geometry);
    // Only bit 0 of the oldest vertex of a strip counts.
    let strips = [0, 2, 254].map(|oldest| {
        let mut gpu = Gpu::new(engine(BackendChoice::Oracle));
        let mut list = base();
        list.topology(Topology::Strip);
        gpu.execute(&list.0, &mut Memory::default());
        gpu.state_mut().assembly = Assembly { vertices: [[2.0; 24], [3.0; 24]], count: 2, oldest };
        drawn(&mut gpu, Draw::Arrays, &memory())
    });
    assert!(strips.iter().all(|strip| *strip == strips[0]));
}

#[test]
fn the_programs_of_sixteen_entries_are_kept() {
    let mut gpu = Gpu::new(engine(BackendChoice::NoNative));
    let mut list = base();
    list.shader(VSH, &"mov o0, v0\n".repeat(30), 1, 1);
    gpu.execute(&list.0, &mut Memory::default());
    let memory = memory();
    let mut lookups = |entries: std::ops::Range<u32>| {
        for entry in entries {
            let _ = gpu.write(VSH + offset::ENTRYPOINT, entry, 15);
            drawn(&mut gpu, Draw::Arrays, &memory);
        }
        gpu.upload_stats().lookups
    };
    assert_eq!([lookups(0..16), lookups(0..16), lookups(16..17), lookups(0..1)], [16, 16, 17, 18]);
}

#[test]
fn arrays_end_with_the_last_address() {
    struct Last(std::cell::Cell<u64>);
    impl GuestMemory for Last {
        fn bytes(&self, address: u32, length: usize) -> &[u8] {
            self.0.set(self.0.get().max(u64::from(address) + length as u64));
            &[]
        }
    }
    let mut gpu = Gpu::new(engine(BackendChoice::Oracle));
    let mut list = base();
    list.write(ATTRIBBUFFERS_LOC, 0x1FFF_FFFE).write(ATTRIBBUFFER0_OFFSET, 0x0F);
    gpu.execute(&list.0, &mut Memory::default());
    let memory = Last(std::cell::Cell::new(0));
    let report = gpu.draw(Draw::Arrays, &memory, &DrawOptions::default(), &mut Memory::default());
    assert_eq!((report.vertices, memory.0.get()), (19, 1 << 32));
}
