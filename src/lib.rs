//! picajit runs PICA200 shaders: the vertex and geometry programs of the Nintendo 3DS's GPU, recompiled just in time to
//! native code, with an interpreter as fallback and oracle. Both give the same bits.
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
//! // Compiled once; keep the shader until the program changes.
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
//! # Where things are
//! Each stage is a module with a value that prints: [`container`] (files), [`program`] (words), [`isa`] (instructions,
//! control flow, numbers), [`ir`] (blocks and SSA), `jit` (native code), [`interp`] (the oracle). [`engine`] puts them
//! together for a host, [`gpu`] turns register writes and vertices into triangles, [`semantics`] says what the rasteriser gets;
//! [`text`] is the assembler and the disassembler; [`diff`] compares engines.
//!
//! # Features
//! `jit` (default): native code through Cranelift. `cli` (default): the `picajit` command. `fuzz` (with `cli`): random programs,
//! comparison and shrinking. The library alone builds without them, and then interprets.

pub mod background;
pub mod cache;
#[cfg(feature = "capi")]
pub mod capi;
pub mod container;
pub mod diff;
pub mod engine;
pub mod executable;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod gpu;
pub mod interp;
pub mod ir;
pub mod isa;
#[cfg(feature = "jit")]
pub mod jit;
pub mod kernel;
pub mod layout;
pub mod profiler;
pub mod program;
pub mod semantics;
pub mod state;
#[cfg(test)]
mod testing;
pub mod text;

/// The README's example is a test, and so is that of the chapter on the GPU.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/gpu.md")]
#[doc = include_str!("../docs/embedding.md")]
struct Readme;
