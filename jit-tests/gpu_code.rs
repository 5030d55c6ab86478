//! Code for a host's GPU, evaluated on the CPU as a device that computes exactly, gives the oracle's outputs: random
//! programs in every number format.
//!
//! The short form has 3,000 programs of each kind; `PICAJIT_FULL=1` makes 100,000.

mod prerequisites;

use picajit::Entry;
use picajit::gpu_code::{
    Attribute, AttributeKind, Binding, Clip, Component, Control, Depth, Device, Dialect, GpuCode, Inputs, Integers,
    Interface, Member, NoGpuCode, Outputs, Position, SelfTest, UniformBlock, Varying,
};
use picajit::internals::kernel::{Config, Kernel};
use picajit::isa::Stage;
use picajit::isa::numeric::{Precision, same};
use picajit::state::{Exit, NoEmitter, Unit};
use picajit_fuzz::Case;
use picajit_fuzz::generate::{Tier, case_from_seed};
use prerequisites::skipped;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// What became of the programs.
#[derive(Default)]
struct Count {
    compared: u64,
    vertices: u64,
    refused: BTreeMap<&'static str, u64>,
}

fn kind(reason: &NoGpuCode) -> &'static str {
    match reason {
        NoGpuCode::Geometry => "geometry",
        NoGpuCode::ControlFlow(_) => "control flow",
        NoGpuCode::Carried(_) => "carried",
        NoGpuCode::Unstructured(_) => "unstructured",
        NoGpuCode::TooLarge(_) => "too large",
        _ => "device",
    }
}

/// Every vertex of a case, on a new unit.
fn compare(case: &Case, precision: Precision, count: &mut Count) {
    let config = Config { precision, ..case.config };
    let code = match GpuCode::new(&case.program, case.entry, &config, &Interface::compute(), &Device::PLAIN) {
        Ok(code) => code,
        Err(reason) => {
            *count.refused.entry(kind(&reason)).or_default() += 1;
            return;
        }
    };
    let mut uniforms = case.uniforms.clone();
    uniforms.narrow(precision);
    let case = Case { config, ..case.clone() };
    let kernel = case.interp();
    count.compared += 1;
    for (n, &v) in case.inputs.iter().enumerate() {
        let mut unit = Unit { v, ..Unit::new() };
        if kernel.run(&uniforms, &mut unit, &mut NoEmitter) == Exit::Fuel {
            continue;
        }
        count.vertices += 1;
        let outputs = code.evaluate(&uniforms, &v).expect("the code ends");
        for (register, (want, got)) in unit.outputs().iter().zip(&outputs).enumerate() {
            if code.outputs() >> register & 1 != 0 {
                let equal = want.iter().zip(got).all(|(want, got)| same(*want, *got));
                assert!(equal, "{} {precision}: vertex {n}: o{register} is {got:?}, not {want:?}", case.name);
            }
        }
    }
}

fn sweep(tier: Tier) {
    let programs = if std::env::var_os("PICAJIT_FULL").is_some() { 100_000 } else { 3_000 };
    let mut count = Count::default();
    for seed in 0..programs {
        let case = case_from_seed(seed, Some(tier), 4);
        if case.entry.stage == Stage::Vertex {
            Precision::ALL.into_iter().for_each(|precision| compare(&case, precision, &mut count));
        }
    }
    println!("{}: {} compared, {} vertices; refused: {:?}", tier.name(), count.compared, count.vertices, count.refused);
    assert!(count.compared > programs / 2, "most programs are compared");
}

#[test]
fn sensible_programs() {
    sweep(Tier::Programs);
}

#[test]
fn random_instructions() {
    sweep(Tier::Insts);
}

#[test]
fn random_words() {
    sweep(Tier::Words);
}

#[test]
fn independent_programs() {
    sweep(Tier::Groups);
}

/// Sends `input` to a tool that must accept it; false if the machine lacks it.
fn accepts(tool: &str, args: &[&str], input: &[u8], what: &str) -> bool {
    let child =
        Command::new(tool).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        skipped(&format!("tests of modules: no {tool}"));
        return false;
    };
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{tool} {what}: {}", String::from_utf8_lossy(&text));
    true
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A host's block of what it clips.
const CLIPPING: Binding = Binding { set: 0, binding: 1 };

/// [`mapped`] with the plane of a host's block.
fn clipped() -> Interface {
    let mut interface = mapped();
    if let Outputs::Mapped { position: Some(position), .. } = &mut interface.outputs {
        position.clip = Clip::Plane(CLIPPING);
    }
    interface
}

/// Position in o0, the others at locations, o2 as a colour; integers as bytes; flipped.
fn mapped() -> Interface {
    let component = |n, c| if n == 2 { Component::Colour(n, c) } else { Component::Register(n, c) };
    let all = |n| [0, 1, 2, 3].map(|c| component(n, c));
    let varying = |n: u8| Varying { location: n.into(), components: all(n)[..1 + usize::from(n) % 4].to_vec() };
    let position = Position { components: all(0), depth: Depth::Negated, flip_y: true, clip: Clip::Depth };
    let mut attributes = [Attribute { location: 0, kind: AttributeKind::Float, fixed_w: false }; 16];
    for (n, attribute) in attributes.iter_mut().enumerate() {
        let kinds = [AttributeKind::Float, AttributeKind::Signed, AttributeKind::Unsigned];
        *attribute = Attribute { location: n as u32, kind: kinds[n % 3], fixed_w: n % 2 == 1 };
    }
    Interface {
        uniforms: UniformBlock {
            set: 1,
            binding: 3,
            members: [Member::Floats, Member::Integers, Member::Booleans],
            integers: Integers::Bytes,
        },
        inputs: Inputs::Attributes(attributes),
        outputs: Outputs::Mapped { varyings: (1..8).map(varying).collect(), position: Some(position) },
    }
}

#[test]
fn modules_and_texts_are_valid() {
    let everything =
        Device { special_values: Control::Declared, rounding: Control::Declared, subnormals: Control::Declared };
    let nothing = Device { special_values: Control::Known, rounding: Control::Known, subnormals: Control::Unknown };
    let mut unclipped = mapped();
    if let Outputs::Mapped { position: Some(position), .. } = &mut unclipped.outputs {
        position.clip = Clip::None;
    }
    let interfaces = [Interface::compute(), Interface::vertex(), mapped(), clipped(), unclipped];
    let mut valid = 0;
    for seed in 0..9 {
        for tier in [Tier::Programs, Tier::Words] {
            let case = case_from_seed(seed, Some(tier), 1);
            let precision = Precision::ALL[seed as usize % 3];
            let config = Config { precision, ..case.config };
            for (n, interface) in interfaces.iter().enumerate() {
                let device = if seed % 2 == 0 { everything } else { nothing };
                let Ok(code) = GpuCode::new(&case.program, case.entry, &config, interface, &device) else { continue };
                let what = format!("{} {precision}, interface {n}", case.name);
                if !accepts("spirv-val", &["--target-env", "vulkan1.1", "-"], &bytes(code.spirv()), &what) {
                    return;
                }
                valid += 1;
                let stage = if n == 0 { "comp" } else { "vert" };
                for (dialect, vulkan) in [(Dialect::Vulkan, true), (Dialect::OpenGl, false), (Dialect::OpenGlEs, false)]
                {
                    // glslang does not know GL_EXT_clip_cull_distance, which ES needs.
                    if (2..4).contains(&n) && dialect == Dialect::OpenGlEs {
                        continue;
                    }
                    let target: &[&str] =
                        if vulkan { &["-V", "--target-env", "vulkan1.1", "-o", "/dev/null"] } else { &[] };
                    let args = [&["--stdin", "-S", stage], target].concat();
                    accepts("glslangValidator", &args, code.glsl(dialect).as_bytes(), &what);
                }
            }
        }
    }
    assert!(valid > 15, "{valid} modules");
}

#[test]
fn the_self_test_s_outputs_are_those_of_the_code() {
    let devices = [Device::PLAIN, Device { subnormals: Control::Known, ..Device::PLAIN }];
    for (precision, device) in
        Precision::ALL.into_iter().flat_map(|precision| devices.map(|device| (precision, device)))
    {
        let test = SelfTest::new(precision, &Interface::compute(), &device).unwrap();
        let mut uniforms = picajit::state::Uniforms::new();
        // As the block says, in the default order.
        let word = |at: usize| u32::from_ne_bytes(test.block[at..][..4].try_into().unwrap());
        uniforms.b = word(0) as u16;
        uniforms.i = std::array::from_fn(|n| std::array::from_fn(|c| word(16 + 16 * n + 4 * c) as u8));
        uniforms.c = std::array::from_fn(|n| std::array::from_fn(|c| f32::from_bits(word(80 + 16 * n + 4 * c))));
        let outputs: Vec<_> = test.inputs.iter().map(|v| test.code.evaluate(&uniforms, v).unwrap()).collect();
        assert_eq!(test.differences(&outputs), 0);
        assert!(test.differences(&outputs[1..]) > 64, "missing and displaced vertices differ");
        assert_eq!(test.code.outputs(), 0xFFFF);
    }
}

/// What a module declares, by rspirv's reader.
mod reflection {
    use super::*;
    use rspirv::dr::{Module, Operand};
    use rspirv::spirv::{Decoration, Op};

    fn module(interface: &Interface) -> Module {
        let source = ".proc main\nadd o0, c1, v0\nadd o1, c2, v1\nadd o2, c3, v2\njmpu b0, skip\nfor i1\nadd o3, c4, v0\n.end\nskip:\nmov o3, v0\nend\n.end\n";
        let program = picajit::text::assemble(source).unwrap().shbin.program().unwrap();
        let code = GpuCode::new(&program, Entry::vertex(0), &Config::default(), interface, &Device::PLAIN).unwrap();
        rspirv::dr::load_words(code.spirv()).unwrap()
    }

    /// The literal numbers of a decoration, by target, sorted.
    fn decorated(module: &Module, wanted: Decoration) -> Vec<u32> {
        let mut found: Vec<u32> = module
            .annotations
            .iter()
            .filter(|inst| inst.operands.contains(&Operand::Decoration(wanted)))
            .filter_map(|inst| match inst.operands.last() {
                Some(Operand::LiteralBit32(number)) => Some(*number),
                Some(Operand::BuiltIn(built_in)) => Some(*built_in as u32),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_desktop_host_s_layout() {
        // { uint b; uvec4 i[4]; vec4 f[96]; } at set 0, binding 0; attributes at register numbers; position and colour.
        let all = |n| [0, 1, 2, 3].map(|c| Component::Register(n, c));
        let position =
            Position { components: all(0), depth: Depth::Negated, flip_y: false, clip: Clip::Plane(CLIPPING) };
        let varyings = vec![Varying { location: 1, components: all(1).to_vec() }];
        let outputs = Outputs::Mapped { varyings, position: Some(position) };
        let interface = Interface { outputs, ..Interface::vertex() };
        assert_eq!(interface.uniforms.size(), 1616);
        let module = module(&interface);
        // Its own block, { uint enabled; uint flip; vec4 plane; }, is binding 1.
        assert_eq!(decorated(&module, Decoration::Offset), [0, 0, 4, 16, 16, 80]);
        assert_eq!(decorated(&module, Decoration::ArrayStride), [16, 16]);
        assert_eq!(
            (decorated(&module, Decoration::DescriptorSet), decorated(&module, Decoration::Binding)),
            (vec![0, 0], vec![0, 1])
        );
        // Inputs 0, 1, 2 and the output at 1.
        assert_eq!(decorated(&module, Decoration::Location), [0, 1, 1, 2]);
        // The position, and two clip distances.
        assert_eq!(decorated(&module, Decoration::BuiltIn), [0, 3]);
    }

    #[test]
    fn a_layout_with_packed_integers_at_the_end() {
        let module = module(&mapped());
        assert_eq!(decorated(&module, Decoration::Offset), [0, 1536, 1552]);
        assert_eq!(
            (decorated(&module, Decoration::DescriptorSet), decorated(&module, Decoration::Binding)),
            (vec![1], vec![3])
        );
        assert_eq!(mapped().uniforms.size(), 1568);
    }

    #[test]
    fn raw_registers_for_a_stage_of_the_host_s_own() {
        let interface = Interface { outputs: Outputs::Registers { first: 8 }, ..Interface::vertex() };
        assert_eq!(decorated(&module(&interface), Decoration::Location), [0, 1, 2, 8, 9, 10, 11]);
    }

    #[test]
    fn sums_and_products_are_not_contracted() {
        let module = module(&Interface::vertex());
        let rounded = module.all_inst_iter().filter(|inst| matches!(inst.class.opcode, Op::FAdd | Op::FSub | Op::FMul));
        let contracted =
            |inst: &&rspirv::dr::Instruction| inst.operands.contains(&Operand::Decoration(Decoration::NoContraction));
        let decorations = module.annotations.iter().filter(contracted).count();
        assert_eq!(rounded.count(), decorations);
        assert!(decorations > 0);
    }

    #[test]
    fn a_module_declares_what_it_uses() {
        // Neither uniforms nor inputs.
        let program = picajit::text::assemble(".proc main\nmov o0, v0\nend\n.end\n").unwrap().shbin.program().unwrap();
        let code =
            GpuCode::new(&program, Entry::vertex(0), &Config::default(), &Interface::vertex(), &Device::PLAIN).unwrap();
        let module = rspirv::dr::load_words(code.spirv()).unwrap();
        assert!(decorated(&module, Decoration::Binding).is_empty());
        assert_eq!(decorated(&module, Decoration::Location), [0, 0]);
    }
}
