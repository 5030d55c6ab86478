//! Registers outside the shader side. `picajit::gpu` only stores them.

/// 0: no culling. 1: culls the front, which is counter-clockwise. 2: culls the back.
pub const FACECULLING_CONFIG: u16 = 0x040;
/// Bit 0: depth test. Bits 6:4: comparison. Bits 11:8: written colour channels. Bit 12: depth write.
pub const DEPTH_COLOR_MASK: u16 = 0x107;
