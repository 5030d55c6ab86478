//! Compiled-shader containers.

pub mod shbin;
