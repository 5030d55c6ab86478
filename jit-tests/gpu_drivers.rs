//! Code for a host's GPU on the machine's Vulkan drivers gives the oracle's outputs, as compute program and as vertex
//! stage, in every number format: built-in and third-party programs, random programs, every float24 argument.
//!
//! ```sh
//! VK_ADD_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json \
//!     cargo test --release --features gpu-tests --test gpu-drivers -- --nocapture
//! ```
//!
//! Debian has a driver without a GPU in each of `mesa-vulkan-drivers` and `chromium`. In single precision a driver may
//! replace subnormal numbers by zero: its results then are those of a CPU that does so, counted apart.
//! `PICAJIT_FULL=1` takes more vertices and programs.

mod prerequisites;
#[allow(dead_code)] // of its generators
mod special_values;
mod vulkan;

use picajit::container::shbin::Shbin;
use picajit::gpu_code::{Buffer, Control, GpuCode, Interface, Outputs, Promise};
use picajit::internals::fuzz::Case;
use picajit::internals::fuzz::generate::{Tier, case_from_seed};
use picajit::internals::generator;
use picajit::interp::Interp;
use picajit::isa::Stage;
use picajit::isa::numeric::{Precision, same};
use picajit::kernel::{Config, Kernel};
use picajit::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use picajit::{Entry, Program, text};
use prerequisites::{skipped, third_party_files};
use special_values::Noise;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vulkan::{Gpu, devices};

/// Vertices of one dispatch at most.
const MOST: usize = 1 << 14;

/// Drivers have threads of their own: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

struct Item {
    name: String,
    program: Arc<Program>,
    entry: Entry,
    uniforms: Uniforms,
}

/// Differences of one device, stage, format and mix of inputs.
#[derive(Default)]
struct Count {
    vertices: u64,
    components: u64,
    subnormal: u64,
    wrong: u64,
    refused: u64,
}

fn full() -> bool {
    std::env::var_os("PICAJIT_FULL").is_some()
}

fn on_each_device(test: impl Fn(&Gpu)) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices(MOST);
    if devices.is_empty() {
        skipped("tests of GPU code on drivers: no Vulkan device (mesa-vulkan-drivers has one without a GPU)");
    }
    for mut gpu in devices {
        println!("{}: {:?}", gpu.name, gpu.properties);
        // A host knows it from a test of its device, such as this one.
        if gpu.properties.rounding == Control::Unknown {
            gpu.properties.rounding = Control::Known;
        }
        test(&gpu);
    }
}

/// The vertex entries of the built-in shaders and of third-party files.
fn items() -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |name: String, shbin: &Shbin| {
        let program: Arc<Program> = shbin.program().unwrap().into();
        for dvle in shbin.dvles.iter().filter(|dvle| dvle.stage == Stage::Vertex) {
            let uniforms = generator::uniforms(dvle);
            items.push(Item { name: name.clone(), program: program.clone(), entry: dvle.entry(), uniforms });
        }
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/picajit/shaders");
    let mut sources: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        add(path.file_stem().unwrap().to_string_lossy().into_owned(), &text::assemble(&source).unwrap().shbin);
    }
    for path in third_party_files("shbin", "shbin") {
        let shbin = Shbin::parse(&std::fs::read(&path).unwrap()).unwrap();
        add(path.file_stem().unwrap().to_string_lossy().into_owned(), &shbin);
    }
    items
}

/// Runs `f` with subnormal operands and results replaced by zeros.
fn flushing<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, deprecated)]
    // SAFETY: the mode is restored, and nothing here depends on it but float operations.
    unsafe {
        use std::arch::x86_64::{_mm_getcsr, _mm_setcsr};
        let before = _mm_getcsr();
        _mm_setcsr(std::hint::black_box(before | 0x8040));
        let result = std::hint::black_box(f());
        _mm_setcsr(before);
        result
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}

/// Runs a program on a device and compares it with the oracle.
fn compare(gpu: &Gpu, item: &Item, precision: Precision, stage: Stage, inputs: &[Registers], count: &mut Count) {
    let mut uniforms = item.uniforms.clone();
    uniforms.narrow(precision);
    let mut interface = Interface::compute();
    if stage == Stage::Vertex {
        interface.inputs = Interface::vertex().inputs;
        interface.outputs = Outputs::Storage(Buffer { set: 0, binding: 2 });
    }
    let config = Config { precision, fuel: 1 << 13, ..Config::default() };
    let Ok(code) = GpuCode::new(&item.program, item.entry, &config, &interface, &gpu.properties) else {
        count.refused += 1;
        return;
    };
    let mask = (stage == Stage::Vertex).then_some(code.inputs());
    let start = Instant::now();
    let results = gpu.run(code.spirv(), mask, &uniforms, inputs);
    if start.elapsed() > Duration::from_secs(5) {
        let (name, words) = (&item.name, code.spirv().len());
        println!("  {name} {precision}: {words} words took {:.1} s", start.elapsed().as_secs_f64());
    }
    let kernel = Interp.kernel(&item.program, item.entry, &config);
    for (n, (&v, got)) in inputs.iter().zip(&results).enumerate() {
        let mut unit = Unit { v, ..Unit::new() };
        if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
            continue;
        }
        count.vertices += 1;
        let mut flushed = None;
        for register in (0..16).filter(|n| code.outputs() >> n & 1 != 0) {
            for c in 0..4 {
                let (want, got) = (unit.outputs()[register][c], got[register][c]);
                count.components += 1;
                if same(want, got) {
                    continue;
                }
                let also = flushed.get_or_insert_with(|| flushing(|| code.evaluate(&uniforms, &v)).unwrap());
                let is_flushed = same(also[register][c], got) || want.is_subnormal() && got == 0.0;
                if code.promise() == Promise::EqualButSubnormals && is_flushed {
                    count.subnormal += 1;
                    continue;
                }
                count.wrong += 1;
                if count.wrong <= 5 {
                    let name = &item.name;
                    println!(
                        "  {name} {precision}: vertex {n}: o{register}[{c}] is {got:e} ({:08X}), not {want:e} ({:08X})",
                        got.to_bits(),
                        want.to_bits()
                    );
                }
            }
        }
    }
}

fn report(what: &str, count: &Count) {
    let Count { vertices, components, subnormal, wrong, refused } = count;
    println!(
        "  {what}: {vertices} vertices, {components} components: {wrong} differ, {subnormal} subnormal; {refused} refused"
    );
    assert_eq!(*wrong, 0, "{what}");
}

/// Ordinary numbers, special ones among them, or small ones.
fn inputs(noise: &mut Noise, mix: &str, count: usize) -> Vec<Registers> {
    let mut number = || match mix {
        "plain" => noise.bits() as f32 / 2f32.powi(31) - 1.0,
        "special" => noise.float(),
        "tiny" => f32::from_bits(noise.bits() & 0x8FFF_FFFF | noise.bits() & 0x1000_0000),
        _ => f32::from_bits(noise.bits()),
    };
    (0..count).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| number()))).collect()
}

#[test]
fn programs() {
    let items = items();
    let vertices = if full() { MOST } else { 256 };
    on_each_device(|gpu| {
        for stage in [Stage::Geometry, Stage::Vertex] {
            for precision in Precision::ALL {
                for mix in ["plain", "special", "tiny", "any"] {
                    let mut count = Count::default();
                    let mut noise = Noise::new(7);
                    for item in &items {
                        compare(gpu, item, precision, stage, &inputs(&mut noise, mix, vertices), &mut count);
                    }
                    let stage = if stage == Stage::Vertex { "vertex stage" } else { "compute" };
                    report(&format!("{stage}, {precision}, {mix} inputs"), &count);
                }
            }
        }
    });
}

#[test]
fn random_programs() {
    let programs = if full() { 3_000 } else { 60 };
    on_each_device(|gpu| {
        for tier in [Tier::Groups, Tier::Programs, Tier::Insts, Tier::Words] {
            let mut count = Count::default();
            for seed in 0..programs {
                let case = case_from_seed(seed, Some(tier), 64);
                if case.entry.stage == Stage::Vertex {
                    let Case { program, entry, uniforms, .. } = case;
                    let item = Item { name: case.name, program, entry, uniforms };
                    for precision in Precision::ALL {
                        compare(gpu, &item, precision, Stage::Geometry, &case.inputs, &mut count);
                    }
                }
            }
            report(&format!("random programs ({})", tier.name()), &count);
        }
    });
}

#[test]
fn every_float24_argument() {
    let step = if full() { 1 } else { 61 };
    let source = ".proc main\nrcp o0, v0.x\nrsq o1, v0.x\nex2 o2, v0.x\nlg2 o3, v0.x\nend\n.end\n";
    let program: Arc<Program> = text::assemble(source).unwrap().shbin.program().unwrap().into();
    let item = Item { name: "functions".into(), program, entry: Entry::vertex(0), uniforms: Uniforms::new() };
    on_each_device(|gpu| {
        for precision in Precision::ALL.into_iter().filter(|&precision| precision != Precision::F32) {
            let mut count = Count::default();
            let numbers: Vec<u32> = (0..1 << 24).step_by(step).collect();
            for part in numbers.chunks(MOST) {
                let inputs: Vec<Registers> = part
                    .iter()
                    .map(|&bits| {
                        let mut v = Registers::default();
                        v[0][0] = picajit::container::float24::f24_to_f32(bits);
                        v
                    })
                    .collect();
                compare(gpu, &item, precision, Stage::Geometry, &inputs, &mut count);
            }
            report(&format!("RCP, RSQ, EX2, LG2 in {precision}"), &count);
        }
    });
}

#[test]
fn functions_in_single_precision() {
    let step = if full() { 1_009 } else { 100_003 };
    let source = ".proc main\nrcp o0, v0.x\nrsq o1, v0.x\nex2 o2, v0.x\nlg2 o3, v0.x\nend\n.end\n";
    let program: Arc<Program> = text::assemble(source).unwrap().shbin.program().unwrap().into();
    let item = Item { name: "functions".into(), program, entry: Entry::vertex(0), uniforms: Uniforms::new() };
    on_each_device(|gpu| {
        let mut count = Count::default();
        let numbers: Vec<u32> = (0..=u32::MAX).step_by(step).collect();
        for part in numbers.chunks(MOST) {
            let inputs: Vec<Registers> = part
                .iter()
                .map(|&bits| {
                    let mut v = Registers::default();
                    v[0][0] = f32::from_bits(bits);
                    v
                })
                .collect();
            compare(gpu, &item, Precision::F32, Stage::Geometry, &inputs, &mut count);
        }
        report("RCP, RSQ, EX2, LG2 in single precision", &count);
    });
}
