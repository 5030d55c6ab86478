//! picajit

pub mod container;
pub mod isa;
pub mod kernel;
pub mod program;
pub mod state;
