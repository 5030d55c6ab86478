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
mod verdict;
mod vulkan;

use picajit::container::shbin::Shbin;
use picajit::gpu_code::{Binding, Control, Dialect, GpuCode, Interface, Outputs, SelfTest};
use picajit::internals::generator;
use picajit::internals::interp::Interp;
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::numeric::{Precision, same};
use picajit::isa::{ScalarOp, Stage};
use picajit::state::{Exit, NoEmitter, Registers, Uniforms, Unit};
use picajit::{Entry, Program, text};
use picajit_fuzz::Case;
use picajit_fuzz::generate::{Tier, case_from_seed};
use prerequisites::{skipped, third_party_files};
use special_values::Noise;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use verdict::{Verdict, Vertex};
use vulkan::{Gpu, MESSAGES, devices};

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
    on_devices(false, test);
}

fn on_devices(validated: bool, test: impl Fn(&Gpu)) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices(MOST, validated);
    if devices.is_empty() {
        let what =
            if validated { "validation layer" } else { "Vulkan device (mesa-vulkan-drivers has one without a GPU)" };
        skipped(&format!("tests of GPU code on drivers: no {what}"));
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

/// The way of a module to the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    /// Through `spirv-opt -O`.
    Optimised,
    /// As GLSL, through `glslangValidator -V`.
    Text,
}

impl Way {
    /// The words that the driver gets; none without the tool.
    fn words(self, code: &GpuCode, stage: Stage) -> Option<Vec<u32>> {
        let stage = if stage == Stage::Vertex { "vert" } else { "comp" };
        let bytes: Vec<u8> = code.spirv().iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = code.glsl(Dialect::Vulkan);
        let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/gpu-drivers.spv");
        let (tool, args, input) = match self {
            Way::Direct => return Some(code.spirv().to_vec()),
            Way::Optimised => ("spirv-opt", vec!["-O", "-", "-o", target], &bytes[..]),
            Way::Text => (
                "glslangValidator",
                vec!["--stdin", "-S", stage, "-V", "--target-env", "vulkan1.1", "-o", target],
                text.as_bytes(),
            ),
        };
        let mut tool = Command::new(tool);
        let mut child = tool.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let bytes = std::fs::read(target).unwrap();
        Some(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
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
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/command/src/shaders");
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

/// Runs a program on a device and compares it with the oracle.
fn compare(gpu: &Gpu, item: &Item, precision: Precision, stage: Stage, inputs: &[Registers], count: &mut Count) {
    compare_by(gpu, Way::Direct, item, precision, stage, inputs, count);
}

fn compare_by(
    gpu: &Gpu,
    way: Way,
    item: &Item,
    precision: Precision,
    stage: Stage,
    inputs: &[Registers],
    count: &mut Count,
) {
    let mut uniforms = item.uniforms.clone();
    uniforms.narrow(precision);
    let mut interface = Interface::compute();
    if stage == Stage::Vertex {
        interface.inputs = Interface::vertex().inputs;
        interface.outputs = Outputs::Storage(Binding { set: 0, binding: 2 });
    }
    let config = Config { precision, fuel: 1 << 13, ..Config::default() };
    let Ok(code) = GpuCode::new(&item.program, item.entry, &config, &interface, &gpu.properties) else {
        count.refused += 1;
        return;
    };
    let mask = (stage == Stage::Vertex).then_some(code.inputs());
    let start = Instant::now();
    let Some(words) = way.words(&code, stage) else {
        count.refused += 1;
        return;
    };
    let (pipeline, block) = (gpu.pipeline(&words, mask), code.uniform_block(&uniforms));
    let results: Vec<Registers> = inputs.chunks(MOST).flat_map(|part| pipeline.run(&block, part)).collect();
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
        let vertex = Vertex::new(&code, &uniforms, &v);
        for register in (0..16).filter(|n| code.outputs() >> n & 1 != 0) {
            for c in 0..4 {
                let (want, got) = (unit.outputs()[register][c], got[register][c]);
                count.components += 1;
                match vertex.verdict(register, c, want, got) {
                    Verdict::Equal => continue,
                    Verdict::Subnormal => {
                        count.subnormal += 1;
                        continue;
                    }
                    Verdict::Wrong => {}
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
                let (mut count, mut noise) = (Count::default(), Noise::new(7));
                for item in &items {
                    let mixes = ["plain", "special", "tiny", "any"].map(|mix| inputs(&mut noise, mix, vertices));
                    compare(gpu, item, precision, stage, &mixes.concat(), &mut count);
                }
                let stage = if stage == Stage::Vertex { "vertex stage" } else { "compute" };
                report(&format!("{stage}, {precision}, four mixes"), &count);
            }
        }
    });
}

/// The drivers get the module of an optimiser, or the text by way of a compiler. The short form has each fourth entry.
#[test]
fn optimised_modules_and_texts() {
    let items: Vec<Item> = items().into_iter().step_by(if full() { 1 } else { 4 }).collect();
    let vertices = if full() { MOST / 4 } else { 64 };
    on_each_device(|gpu| {
        // SwiftShader takes 8 seconds for some of the compiler's float24 modules, which keep each value in a variable.
        let ways = if gpu.name.contains("SwiftShader") { 1 } else { 2 };
        for (way, name) in &[(Way::Optimised, "spirv-opt -O"), (Way::Text, "GLSL")][..ways] {
            for precision in Precision::ALL {
                let mut count = Count::default();
                let mut noise = Noise::new(9);
                for item in &items {
                    let mixes = ["plain", "special", "any"].map(|mix| inputs(&mut noise, mix, vertices));
                    compare_by(gpu, *way, item, precision, Stage::Vertex, &mixes.concat(), &mut count);
                }
                if count.vertices == 0 {
                    skipped(&format!("modules through {name}: no such tool"));
                }
                report(&format!("{name}, {precision}"), &count);
            }
        }
    });
}

#[test]
fn the_validation_layer_is_silent() {
    let items: Vec<Item> = items().into_iter().step_by(if full() { 1 } else { 4 }).collect();
    on_devices(true, |gpu| {
        for stage in [Stage::Geometry, Stage::Vertex] {
            for precision in Precision::ALL {
                let mut count = Count::default();
                for item in &items {
                    compare(gpu, item, precision, stage, &inputs(&mut Noise::new(3), "plain", 64), &mut count);
                }
                report(&format!("validated, {precision}"), &count);
            }
        }
        assert_eq!(MESSAGES.load(Ordering::Relaxed), 0);
    });
}

/// The self-test passes on every device, in both stages.
#[test]
fn self_tests() {
    on_each_device(|gpu| {
        for precision in Precision::ALL {
            let test = SelfTest::new(precision, &Interface::compute(), &gpu.properties).unwrap();
            let outputs = gpu.pipeline(test.code.spirv(), None).run(&test.block, &test.inputs);
            assert_eq!(test.differences(&outputs), 0, "{} {precision}", gpu.name);
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

/// RCP, RSQ, EX2 and LG2 of every single-precision number: 64 of them to a vertex, each function a program.
/// The short form takes 2^22 of each function.
#[test]
fn functions_in_single_precision() {
    let step = if full() { 1 } else { 1_021 };
    let axes = ['x', 'y', 'z', 'w'];
    on_each_device(|gpu| {
        for op in [ScalarOp::Rcp, ScalarOp::Rsq, ScalarOp::Ex2, ScalarOp::Lg2] {
            let name = format!("{op:?}").to_lowercase();
            let body: String = (0..64).map(|n| format!("{name} o{0}.{1}, v{0}.{1}\n", n / 4, axes[n % 4])).collect();
            let source = format!(".proc main\n{body}end\n.end\n");
            let program = text::assemble(&source).unwrap().shbin.program().unwrap();
            let config = Config::default();
            let interface = Interface::compute();
            let code = GpuCode::new(&program, Entry::vertex(0), &config, &interface, &gpu.properties).unwrap();
            let uniforms = Uniforms::new();
            let (pipeline, block) = (gpu.pipeline(code.spirv(), None), code.uniform_block(&uniforms));
            let (mut at, mut count) = (0u64, Count::default());
            while at < 1 << 32 {
                let next = |n: usize| f32::from_bits((at + n as u64 * step) as u32);
                let inputs: Vec<Registers> = (0..MOST)
                    .map(|vertex| std::array::from_fn(|n| std::array::from_fn(|c| next(64 * vertex + 4 * n + c))))
                    .collect();
                let results = pipeline.run(&block, &inputs);
                let numbers = inputs.as_flattened().as_flattened().iter().zip(results.as_flattened().as_flattened());
                for (&x, &got) in numbers {
                    let want = Precision::F32.scalar(op, x);
                    count.components += 1;
                    if same(want, got) {
                        continue;
                    }
                    let mut v = Registers::default();
                    v[0][0] = x;
                    match Vertex::new(&code, &uniforms, &v).verdict(0, 0, want, got) {
                        Verdict::Subnormal => count.subnormal += 1,
                        _ => {
                            count.wrong += 1;
                            if count.wrong <= 5 {
                                println!("  {name} of {x:e} is {got:e}, not {want:e}");
                            }
                        }
                    }
                }
                count.vertices += inputs.len() as u64;
                at += 64 * MOST as u64 * step;
            }
            report(&format!("{name} in single precision"), &count);
        }
    });
}
