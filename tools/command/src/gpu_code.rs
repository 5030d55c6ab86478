//! Code for a GPU as text.

use picajit::gpu_code::{
    Clip, Component, Depth, Device, Dialect, GpuCode, Interface, NoGpuCode, Outputs, Position, Promise,
};
use picajit::internals::kernel::Config;
use picajit::isa::numeric::Precision;
use picajit::program::{Entry, Program};

/// What surrounds the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Surroundings {
    /// A vertex stage: attributes and registers at their numbers
    #[default]
    Vertex,
    /// A vertex stage with o0 as its position
    Position,
    /// A compute program: storage buffers 1 and 2
    Compute,
}

/// The language of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// GLSL 4.50 for Vulkan
    #[default]
    Vulkan,
    /// GLSL 4.30
    Opengl,
    /// GLSL ES 3.10
    Es,
}

/// The code of an entry for a device that keeps what Vulkan can promise.
pub fn of(
    program: &Program,
    entry: Entry,
    precision: Precision,
    surroundings: Surroundings,
) -> Result<GpuCode, NoGpuCode> {
    let interface = match surroundings {
        Surroundings::Vertex => Interface::vertex(),
        Surroundings::Compute => Interface::compute(),
        Surroundings::Position => {
            let components = [0, 1, 2, 3].map(|c| Component::Register(0, c));
            let position = Position { components, depth: Depth::Negated, flip_y: false, clip: Clip::None };
            let outputs = Outputs::Mapped { varyings: Vec::new(), position: Some(position) };
            Interface { outputs, ..Interface::vertex() }
        }
    };
    let config = Config { precision, ..Config::default() };
    GpuCode::new(program, entry, &config, &interface, &Device::PLAIN)
}

/// The module's instructions, after what a host may rely on.
pub fn spirv(code: &GpuCode) -> String {
    use rspirv::binary::Disassemble;
    let module = rspirv::dr::load_words(code.spirv()).expect("the writer's modules are well formed");
    format!("{}{}\n", facts(code, ";"), module.disassemble())
}

/// The text of the shader.
pub fn glsl(code: &GpuCode, language: Language) -> String {
    let dialect = match language {
        Language::Vulkan => Dialect::Vulkan,
        Language::Opengl => Dialect::OpenGl,
        Language::Es => Dialect::OpenGlEs,
    };
    // The version must be the first line.
    format!("{}{}", code.glsl(dialect), facts(code, "//"))
}

fn facts(code: &GpuCode, comment: &str) -> String {
    let promise = match code.promise() {
        Promise::EqualBits => "equal bits",
        Promise::EqualButSubnormals => "equal bits but for subnormal numbers",
    };
    let mut text = format!("{comment} promise: {promise}\n");
    let assumed = code.assumed_zero();
    if !assumed.is_empty() {
        text += &format!("{comment} taken as zero, since no run writes it: {assumed}\n");
    }
    text
}
