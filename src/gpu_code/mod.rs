//! A vertex program -> code for a host's GPU that gives the bits of the other engines: SPIR-V words and GLSL text.
//!
//! ```
//! use picajit::gpu_code::{Device, GpuCode, Interface};
//! use picajit::engine::Config;
//! use picajit::{Entry, text};
//! let shbin = text::assemble(".proc main\nadd o0, c4, v0\nend\n.end\n").unwrap().shbin;
//! let (program, config) = (shbin.program().unwrap(), Config::default());
//! let code = GpuCode::new(&program, Entry::vertex(0), &config, &Interface::vertex(), &Device::PLAIN)?;
//! assert_eq!((code.spirv()[0], code.inputs(), code.outputs()), (0x0723_0203, 1, 1));
//! # Ok::<(), picajit::gpu_code::NoGpuCode>(())
//! ```
//!
//! | file | from | to |
//! |---|---|---|
//! | `structure` | a function's graph | nested `if`s and loops |
//! | `lower` | values, conditions, exits | structured code |
//! | `vector`, `scalar`, `scalar24`, `elementary24` | operations | integer operations, sums and products |
//! | `code` | | the structured code |
//! | `spirv`, `glsl` | structured code and an interface | words, text |
//! | `interface` | | what a host describes |
//! | `self_test` | | a program with inputs and results, for a host to test its device |
//! | `eval` | structured code | results, on the CPU, for tests |
//!
//! docs/gpu-code.md says what is promised and how a host embeds it.

mod code;
mod elementary24;
mod eval;
mod glsl;
mod interface;
mod lower;
mod scalar;
mod scalar24;
mod self_test;
mod spirv;
mod structure;
#[cfg(test)]
mod tests;
mod vector;

pub use glsl::Dialect;
pub use interface::{
    Attribute, AttributeKind, Binding, Clip, Component, Control, Depth, Device, Inputs, Integers, Interface, Member,
    Outputs, Position, UniformBlock, Varying,
};
pub use self_test::SelfTest;

use crate::ir::analysis::{Dependence, RegisterUse};
use crate::ir::cfg::{Cfg, Limits};
use crate::ir::register_set::RegisterSet;
use crate::ir::{Form, Func, Inst, Mem, Node};
use crate::isa::Stage;
use crate::isa::numeric::Precision;
use crate::kernel::{Config, Unsupported};
use crate::program::{Entry, Program};
use crate::state::Uniforms;
use code::Code;
use std::fmt;
use std::ops::Range;

/// Words that a run may execute on a GPU, whatever the engine's fuel: drivers may end a loop after 65,535 iterations.
pub const MOST_FUEL: u32 = 60_000;

/// Statements of code. Drivers take some microseconds for each; real programs have some hundred.
const MOST_STATEMENTS: usize = 1 << 16;

/// The code of a vertex program for a host's GPU.
#[derive(Clone, Debug)]
pub struct GpuCode {
    code: Code,
    interface: Interface,
    words: Vec<u32>,
    inputs: u16,
    outputs: u16,
    precision: Precision,
    promise: Promise,
    assumed: RegisterSet,
}

/// What a host may rely on, on devices as it described them. Any NaN equals any NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Each output has the bits that the CPU's engines give.
    EqualBits,
    /// The same, except that a subnormal number may be zero, as operand and as result.
    EqualButSubnormals,
}

/// Why a program has no code for a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoGpuCode {
    /// It is a geometry program.
    Geometry,
    /// Its control flow exceeds the limits of a graph.
    ControlFlow(Unsupported),
    /// Its vertices depend on each other, by these registers, while a GPU runs them in any order.
    Carried(RegisterSet),
    /// This many blocks of control flow do not nest, or nest too deeply.
    Unstructured(usize),
    /// The code exceeds this many statements.
    TooLarge(usize),
    /// The interface is none that a module can have.
    Interface(String),
    /// The device is not known to keep signed zeros, infinities and NaN.
    SpecialValues,
    /// The device is not known to round to nearest.
    Rounding,
}

impl GpuCode {
    /// Code for an entry. `config` gives the number format and the fuel, of which [`MOST_FUEL`] count.
    pub fn new(
        program: &Program,
        entry: Entry,
        config: &Config,
        interface: &Interface,
        device: &Device,
    ) -> Result<GpuCode, NoGpuCode> {
        if device.special_values == Control::Unknown {
            return Err(NoGpuCode::SpecialValues);
        }
        if device.rounding == Control::Unknown {
            return Err(NoGpuCode::Rounding);
        }
        if let Some(fault) = interface.fault() {
            return Err(NoGpuCode::Interface(fault));
        }
        if entry.stage == Stage::Geometry {
            return Err(NoGpuCode::Geometry);
        }
        let cfg = Cfg::build(program, entry, Limits::default()).map_err(NoGpuCode::ControlFlow)?;
        if let Some(Dependence::Carried(carried)) = RegisterUse::new(&cfg).dependence {
            return Err(NoGpuCode::Carried(carried));
        }
        let precision = config.precision;
        let mut func = Func::build(&cfg, config.fuel.min(MOST_FUEL), Form::Ssa);
        func.simplify(precision);
        let func = func.outputs_only(precision);
        let kept = kept_outputs(&func);
        if !kept.is_empty() {
            return Err(NoGpuCode::Carried(kept));
        }
        let code = lower::lower(&func, precision).map_err(NoGpuCode::Unstructured)?;
        if code.body.len() > MOST_STATEMENTS {
            return Err(NoGpuCode::TooLarge(MOST_STATEMENTS));
        }
        let (inputs, outputs) = (func.inputs_read(), func.outputs_written());
        if let Some(fault) = interface.fault_of_inputs(inputs) {
            return Err(NoGpuCode::Interface(fault));
        }
        let words = spirv::write(&code, outputs, interface, device);
        let promise = match precision {
            Precision::F32 if device.subnormals == Control::Unknown => Promise::EqualButSubnormals,
            Precision::F32 | Precision::F24 { .. } => Promise::EqualBits,
        };
        let assumed = loaded(&func) | interface.outputs.named() & !written(outputs);
        Ok(GpuCode { code, interface: interface.clone(), words, inputs, outputs, precision, promise, assumed })
    }

    /// A SPIR-V 1.3 module with the entry point `main`.
    pub fn spirv(&self) -> &[u32] {
        &self.words
    }

    /// The same as text. Languages have no words for what the module demands of the device: a host that compiles the
    /// text must know that its driver keeps it.
    pub fn glsl(&self, dialect: Dialect) -> String {
        glsl::write(&self.code, self.outputs, &self.interface, dialect)
    }

    /// The registers that it reads; bit n is `vn`.
    pub fn inputs(&self) -> u16 {
        self.inputs
    }

    /// The registers that it writes; bit n is `on`.
    pub fn outputs(&self) -> u16 {
        self.outputs
    }

    /// The contents of the uniform block. In float24 they are narrowed.
    pub fn uniform_block(&self, uniforms: &Uniforms) -> Vec<u8> {
        let mut block = vec![0; self.uniform_block_size()];
        self.interface.uniforms.store(uniforms, self.precision, &mut block);
        block
    }

    /// Brings a block that holds other contents up to date, and returns the range of bytes that changed: what a host
    /// uploads anew. Bytes between members stay as they are. `None` if `block` is shorter than the uniform block.
    pub fn update_uniform_block(&self, uniforms: &Uniforms, block: &mut [u8]) -> Option<Range<usize>> {
        let block = block.get_mut(..self.uniform_block_size())?;
        Some(self.interface.uniforms.store(uniforms, self.precision, block))
    }

    /// The size of the uniform block in bytes.
    pub fn uniform_block_size(&self) -> usize {
        self.interface.uniforms.size() as usize
    }

    /// What a host may rely on.
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Registers that the program reads, or whose components the interface names, and no run writes. The code takes
    /// them as zero, as they are in a new unit.
    pub fn assumed_zero(&self) -> RegisterSet {
        self.assumed
    }

    /// The same with plain products, for which zero times infinity is NaN: to measure what exact products cost.
    #[doc(hidden)]
    pub fn with_plain_products(mut self, device: &Device) -> GpuCode {
        self.code.make_products_plain();
        self.words = spirv::write(&self.code, self.outputs, &self.interface, device);
        self
    }

    /// Runs the code on the CPU, as a device that computes exactly: outputs that it does not write are zero.
    #[doc(hidden)]
    pub fn evaluate(&self, uniforms: &Uniforms, v: &crate::state::Registers) -> Option<crate::state::Registers> {
        let mut o = Default::default();
        eval::run(&self.code, uniforms, v, &mut o)?;
        Some(o)
    }
}

/// The outputs that some vertices write and others keep: these have the value of an earlier vertex.
fn kept_outputs(func: &Func) -> RegisterSet {
    let kept = func.kept_components();
    kept.iter().flat_map(|kept| &kept.components).fold(RegisterSet::NONE, |all, &(mem, c)| match mem {
        Mem::Out { n, .. } => all | RegisterSet::of_output(n, 1 << c),
        _ => all,
    })
}

/// All components of these outputs.
fn written(outputs: u16) -> RegisterSet {
    (0..16).filter(|n| outputs >> n & 1 != 0).fold(RegisterSet::NONE, |all, n| all | RegisterSet::of_output(n, 0xF))
}

/// The registers whose contents at the start show in outputs.
fn loaded(func: &Func) -> RegisterSet {
    let live = func.live_components();
    let insts = func.blocks.iter().flat_map(|block| &block.insts);
    insts.fold(RegisterSet::NONE, |all, (_, inst)| {
        let Inst::Def(value) = *inst else { return all };
        let Node::Load(mem) = *func.node(value) else { return all };
        let components = live[value.0 as usize];
        all | match mem {
            _ if components == 0 => RegisterSet::NONE,
            Mem::Temp(n) => RegisterSet::of_temp(n, components),
            Mem::Out { n, .. } => RegisterSet::of_output(n, components),
            Mem::Address(0) => RegisterSet::state(RegisterSet::A0_X),
            Mem::Address(_) => RegisterSet::state(RegisterSet::A0_Y),
            Mem::LoopCounter => RegisterSet::state(RegisterSet::A_L),
            Mem::Flag(0) => RegisterSet::state(RegisterSet::CMP_X),
            Mem::Flag(_) => RegisterSet::state(RegisterSet::CMP_Y),
            Mem::Bank => RegisterSet::NONE,
        }
    })
}

impl fmt::Display for NoGpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoGpuCode::Geometry => f.write_str("a geometry program has no code for a GPU\nhelp: run it on the CPU"),
            NoGpuCode::ControlFlow(reason) => write!(f, "{reason}"),
            NoGpuCode::Carried(registers) => {
                write!(f, "{registers} may hold values of an earlier vertex\nhelp: run the program on the CPU")
            }
            NoGpuCode::Unstructured(blocks) => {
                write!(f, "{blocks} blocks of control flow do not nest, or nest too deeply\nhelp: run it on the CPU")
            }
            NoGpuCode::TooLarge(most) => write!(f, "the code exceeds {most} statements\nhelp: run it on the CPU"),
            NoGpuCode::Interface(fault) => write!(f, "{fault}\nhelp: correct the interface"),
            NoGpuCode::SpecialValues => f.write_str(
                "the device is not known to keep signed zeros, infinities and NaN\nhelp: query \
                 shaderSignedZeroInfNanPreserveFloat32, or test the device",
            ),
            NoGpuCode::Rounding => f.write_str(
                "the device is not known to round to nearest\nhelp: query shaderRoundingModeRTEFloat32, or test the device",
            ),
        }
    }
}

impl std::error::Error for NoGpuCode {}
