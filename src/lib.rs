//! picajit runs PICA200 shaders: the vertex and geometry programs of the Nintendo 3DS's GPU,
//! recompiled just in time to native code. A fast interpreter, tier 0, serves before that and as
//! fallback, and a plain one is the oracle. All give the same bits.
//!
//! # From bytes to outputs
//! ```
//! use picajit::container::shbin::Shbin;
//! use picajit::engine::Engine;
//! use picajit::state::{Exit, Uniforms, Unit};
//!
//! # let bytes = picajit::text::assemble("
//! #     .fvec matrix[4]
//! #     .constf white(1, 1, 1, 1)
//! #     .in position
//! #     .out place position
//! #     .out tint color
//! #     .proc main
//! #         dp4 place.x, matrix[0], position
//! #         dp4 place.y, matrix[1], position
//! #         dp4 place.z, matrix[2], position
//! #         dp4 place.w, matrix[3], position
//! #         mov tint, white
//! #         end
//! #     .end").unwrap().shbin.write().unwrap();
//! // A file has one or more entries; an emulator makes a `Program` of the words a game uploads instead.
//! let shbin = Shbin::parse(&bytes)?;
//! let (program, entry) = (shbin.program()?, shbin.dvles[0].entry());
//!
//! // Ready at once; keep the shader until the program changes.
//! let engine = Engine::default();
//! let shader = engine.shader(&program, entry);
//!
//! let mut uniforms = Uniforms::new();
//! shbin.dvles[0].apply_constants(&mut uniforms);
//! for n in 0..4 {
//!     uniforms.c[n][n] = 2.0; // a matrix that doubles
//! }
//! let mut unit = Unit::new();
//! unit.v[0] = [1.0, 2.0, 3.0, 0.5];
//! assert_eq!(shader.run(&uniforms, &mut unit), Exit::End);
//! assert_eq!(unit.outputs()[0], [2.0, 4.0, 6.0, 1.0]);
//! assert_eq!(unit.outputs()[1], [1.0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//! | for | module |
//! |---|---|
//! | a host | [`engine`], [`program`], [`state`]; [`layout`] for registers in its own structures, [`gpu`] and [`semantics`] for draws, `gpu_code` for shaders on the host's GPU, [`executable`] and [`profiler`] for services of the system |
//! | a tool | [`container`] (files), [`isa`] (instructions, numbers), [`text`] (assembler, disassembler) |
//!
//! The types that nearly every host uses are also at the root of the crate.
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `jit` | yes | native code through Cranelift; without it every shader runs on tier 0 |
//! | `targets` | no | machine code of x86-64 and AArch64 as text on any host |
//! | `gpu-code` | no | code for the host's GPU, `gpu_code` |
//! | `capi` | no | the C interface, `include/picajit.h` |

pub mod analysis;
mod background;
mod cache;
#[cfg(feature = "capi")]
#[doc(hidden)]
pub mod capi;
pub mod container;
mod diff;
pub mod engine;
pub mod executable;
mod fp_mode;
mod generator;
pub mod gpu;
#[cfg(feature = "gpu-code")]
pub mod gpu_code;
#[cfg(any(feature = "jit", feature = "capi"))]
mod headroom;
mod interp;
mod ir;
pub mod isa;
#[cfg(feature = "jit")]
mod jit;
mod kernel;
pub mod layout;
pub mod profiler;
pub mod program;
pub mod semantics;
pub mod state;
#[cfg(test)]
mod testing;
pub mod text;
mod tier0;

// Random programs, for unit tests too: there `picajit` is the library under test.
#[cfg(test)]
extern crate self as picajit;
#[cfg(test)]
#[allow(dead_code, unused_imports)] // the crate `picajit-fuzz` uses all of it
#[path = "../tools/fuzz/src/lib.rs"]
mod fuzz;

pub use engine::{Engine, Options, Shader};
pub use isa::flow::Exit;
pub use isa::numeric::Precision;
pub use program::{Entry, Program};
pub use state::{Batch, Uniforms, Unit};

/// Parts of picajit that the workspace's other members, tests and benchmarks use. No version promises anything
/// about them.
#[doc(hidden)]
pub mod internals {
    /// What no run decides, for lint.
    pub mod analysis {
        pub use crate::analysis::{MOST_BLOCKS, assignment, carried, paths, ssa, tests_bool};
    }
    /// Cache keys.
    pub mod cache {
        pub use crate::cache::*;
    }
    /// Comparison of two kernels.
    pub mod diff {
        pub use crate::diff::*;
    }
    /// Compiled code that a run calls without its kernel.
    pub mod direct {
        pub use crate::kernel::direct::{FrameConstants, Function, MachineCode};
    }
    /// Uniforms and inputs of commands, benchmarks and pages.
    pub mod generator {
        pub use crate::generator::*;
    }
    /// The assembler's table of operand descriptors.
    pub mod descriptors {
        pub use crate::text::opdesc::{OpdescTable, Slot};
    }
    /// The oracle.
    pub mod interp {
        pub use crate::interp::*;
    }
    /// Control-flow graphs, SSA and its analyses.
    pub mod ir {
        pub use crate::ir::*;
    }
    /// Source texts in an editor.
    pub mod source {
        pub use crate::text::analysis::{Analysis, Diagnostic, DiagnosticKind, analyze, analyze_all};
        pub use crate::text::directive::PROPERTIES;
        pub use crate::text::recovery::{Statement, split_line};
        pub use crate::text::registers::reads_like_a_register;
        pub use crate::text::span::is_identifier;
        pub use crate::text::symbols::{OperandAt, Part, Place, Register, Symbol, SymbolKind};
    }
    /// Native code, apart from an engine.
    #[cfg(feature = "jit")]
    pub mod jit {
        pub use crate::jit::*;
    }
    /// The traits of backends and kernels.
    pub mod kernel {
        pub use crate::kernel::*;
    }
    /// Scopes and transfers of control flow.
    pub mod flow {
        pub use crate::isa::flow::*;
    }
    /// The hardware's number format, and its rounding.
    pub mod float24 {
        pub use crate::isa::float24::*;
    }
    /// Numbers in source texts.
    pub mod literal {
        pub use crate::text::literal::*;
    }
    /// Ids of the GPU's registers, and offsets in the blocks of its units.
    pub mod registers {
        pub use crate::gpu::registers::*;
    }
    /// Recorded draws and frames.
    pub mod recording {
        pub use crate::gpu::recording::*;
    }
    /// The fast interpreter.
    pub mod tier0 {
        pub use crate::tier0::*;
    }
    /// The elementary functions, step by step.
    pub mod elementary {
        pub use crate::isa::elementary::*;
    }
}

/// The examples of the README and of two chapters are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/gpu.md")]
#[doc = include_str!("../docs/embedding.md")]
#[cfg_attr(feature = "gpu-code", doc = include_str!("../docs/gpu-code.md"))]
struct Readme;
