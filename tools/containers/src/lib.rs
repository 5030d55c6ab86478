//! Readers of other GPUs' shader containers, which hold no PICA200 program: Mali binaries (`MBS1`),
//! LibVega shaders (`VBC`) and Metal libraries (`MTLB`).
//!
//! Every reader treats its bytes as hostile: it checks each offset before use, and its memory stays
//! within a small multiple of the file's size. `picajit::container` recognises a file by its first
//! bytes.

pub mod cursor;
pub mod finding;
pub mod mbs;
pub mod metallib;
#[cfg(test)]
mod testing;
pub mod vbc;
