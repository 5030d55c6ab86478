//! Garbage from a fixed seed as registers, lists, draws and saved states. Every call ends, without
//! a panic.

use super::*;
use crate::testing::miri_or;

/// xorshift64*.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.word() % n
    }

    /// A value that is often meaningful.
    fn value(&mut self) -> u32 {
        match self.below(6) {
            0 => self.below(4),
            1 => self.below(0x100),
            2 => 1 << self.below(32),
            3 => u32::MAX,
            // END, EMIT, or a MOV between low registers.
            4 => [0x8800_0000, 0xA800_0000, 0x4C00_0000 | self.below(4) << 21 | self.below(0x20) << 12]
                [self.below(3) as usize],
            _ => self.word(),
        }
    }

    /// A register, usually one with an effect.
    fn id(&mut self) -> u16 {
        const PIPELINE: [u16; 14] = [
            SH_OUTMAP_TOTAL,
            SH_OUTMAP_O0,
            GEOSTAGE_CONFIG,
            DRAWARRAYS,
            DRAWELEMENTS,
            FIXEDATTRIB_INDEX,
            FIXEDATTRIB_DATA0,
            VSH_NUM_ATTR,
            VSH_COM_MODE,
            VSH_OUTMAP_TOTAL1,
            GSH_MISC0,
            GSH_MISC1,
            PRIMITIVE_CONFIG,
            RESTART_PRIMITIVE,
        ];
        match self.below(8) {
            0 => self.word() as u16,
            1..=3 => PIPELINE[self.below(PIPELINE.len() as u32) as usize],
            _ => GSH + self.below(2 * u32::from(BLOCK)) as u16,
        }
    }

    pub(super) fn list(&mut self) -> Vec<u32> {
        let mut words = Vec::new();
        for _ in 0..self.below(60) {
            let (extra, id) = (self.below(20), u32::from(self.id()));
            let mask = if self.below(4) == 0 { self.below(16) } else { 15 };
            words.push(self.value());
            words.push(self.below(2) << 31 | extra << 20 | mask << 16 | id);
            words.extend((0..extra + extra % 2).map(|_| self.value()));
        }
        // Sometimes misaligns the rest of the list.
        words.truncate(words.len().saturating_sub(self.below(3) as usize));
        words
    }
}

/// A host that draws garbage and counts results.
pub(super) struct Adversary {
    pub(super) noise: Noise,
    pub(super) triangles: u64,
    geometry_runs: u64,
    pub(super) draws: u32,
}

impl Adversary {
    pub(super) fn new(seed: u64) -> Adversary {
        Adversary { noise: Noise(seed), triangles: 0, geometry_runs: 0, draws: 0 }
    }
}

impl TriangleSink for Adversary {
    fn triangle(&mut self, _: [&Semantics; 3]) {
        self.triangles += 1;
    }
}

impl Host for Adversary {
    fn draw(&mut self, gpu: &mut Gpu, draw: Draw) {
        // A list may request hundreds of draws; a few suffice.
        self.draws += 1;
        if self.draws > 4 {
            return;
        }
        let count = self.noise.below(12);
        let mut noise = Noise(u64::from(self.noise.word()) | 1);
        let mut attributes =
            || -> Attributes { std::array::from_fn(|_| std::array::from_fn(|_| f32::from_bits(noise.value()))) };
        let report = match draw {
            Draw::Arrays => {
                let vertices: Vec<Attributes> = (0..count).map(|_| attributes()).collect();
                gpu.draw_arrays(&vertices, self)
            }
            Draw::Elements => {
                let indices: Vec<u32> = (0..count).map(|_| self.noise.value()).collect();
                gpu.draw_elements(indices, |_| attributes(), 3, self)
            }
        };
        assert!(report.vertices + report.reused <= u64::from(count));
        assert!(report.geometry_runs <= 16 * u64::from(count));
        self.geometry_runs += report.geometry_runs;
    }
}

pub(super) fn console(backend: BackendChoice, state: State) -> Gpu {
    let options = Options {
        backend,
        fuel: 3,
        geometry_fuel: 3,
        cache_bytes: 1 << 20,
        events: Arc::new(|_| ()),
        ..Options::at_once()
    };
    Gpu::with_state(Arc::new(Engine::new(options)), state)
}

#[test]
fn garbage_lists_end_without_a_panic() {
    let mut host = Adversary::new(0x9E37_79B9_7F4A_7C15);
    let mut all = 0;
    for _ in 0..miri_or(1, 40) {
        let mut gpu = console(BackendChoice::Oracle, State::default());
        for _ in 0..miri_or(1, 25) {
            let list = host.noise.list();
            gpu.execute(&list, &mut host);
            all += std::mem::take(&mut host.draws);
        }
    }
    let done = (all, host.geometry_runs, host.triangles);
    assert!(cfg!(miri) || done.0 > 500 && done.1 > 500 && done.2 > 1000, "draws, geometry runs, triangles: {done:?}");
}

#[test]
fn garbage_states_are_safe_to_draw_with() {
    let mut host = Adversary::new(0x0123_4567_89AB_CDEF);
    for round in 0..miri_or(2, 60) {
        let noise = &mut host.noise;
        let mut state = State::default();
        state.registers.0.iter_mut().for_each(|word| *word = noise.word());
        let lengths = [0, 1, 127, 512, 4096, 5000].map(|n: usize| n);
        for unit in [&mut state.vertex, &mut state.geometry] {
            unit.code = (0..lengths[noise.below(6) as usize]).map(|_| noise.value()).collect();
            unit.opdescs = (0..lengths[noise.below(6) as usize]).map(|_| noise.value()).collect();
            (unit.code_index, unit.opdesc_index) = (noise.word() as u16, noise.word() as u16);
            (unit.float_index, unit.float_words.count) = (noise.word() as u8, noise.word() as u8);
            (unit.unit.bank, unit.unit.setemit.vertex) = (noise.word() as u8, noise.word() as u8);
            (unit.unit.a0, unit.unit.al) = ([noise.word() as i32; 2], noise.word() as i32);
        }
        (state.fixed.index, state.fixed.count) = (noise.word() as u8, noise.word() as u8);
        state.fixed.words.count = noise.word() as u8;
        let [vertices, expected] = [noise.value(), noise.value()];
        state.geometry_input = GeometryInput {
            count: noise.word() as u8,
            vertices,
            expected,
            uniform: noise.word() as u8,
            ..GeometryInput::default()
        };
        (state.assembly.count, state.assembly.oldest) = (noise.word() as u8, noise.word() as u8);
        // Usually with the geometry unit and an incomplete input.
        state.registers.0[usize::from(GEOSTAGE_CONFIG)] = 2 * u32::from(round % 4 != 0);
        state.registers.0[usize::from(GSH_MISC0)] = noise.word() & !0xFF | noise.below(3);
        let mut gpu = console(BackendChoice::Oracle, state);
        gpu.draw_immediate(&[Attributes::default(); 5], &mut host);
        let list = host.noise.list();
        gpu.execute(&list, &mut host);
        host.draws = 0;
        gpu.clone().draw_arrays([Attributes::default(); 5], &mut host);
    }
}

#[test]
fn garbage_has_the_same_results_on_both_engines() {
    let mut seeds = Noise(77);
    for _ in 0..miri_or(1, 4) {
        let seed = u64::from(seeds.word()) | 1;
        let [native, interpreted] = [BackendChoice::NativeRequired, BackendChoice::Oracle].map(|backend| {
            let mut host = Adversary::new(seed);
            let mut gpu = console(backend, State::default());
            for _ in 0..miri_or(1, 6) {
                let list = host.noise.list();
                gpu.execute(&list, &mut host);
                host.draws = 0;
            }
            (host.triangles, gpu.state().registers, gpu.state().geometry.uniforms.b)
        });
        assert_eq!(native, interpreted);
    }
}
