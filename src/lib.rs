//! picajit

pub mod container;
pub mod isa;
pub mod program;
pub mod state;
