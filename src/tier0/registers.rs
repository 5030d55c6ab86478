//! The registers of an entry's working set, and sets of their components.

/// A register of the entry's working set: its index in [`Code::registers`].
pub type Slot = u8;

/// The register that a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// `v`
    Input(u8),
    /// `r`
    Temp(u8),
    /// `o` of the current bank.
    Output(u8),
    /// `c` by its number in the word.
    Uniform(u8),
    /// A uniform by an address register, fetched right before its use.
    Fetched,
}

/// The components of a mask with bit 0 = x.
pub fn components(mask: u8) -> impl Iterator<Item = usize> {
    (0..4).filter(move |c| mask >> c & 1 != 0)
}

pub use crate::ir::register_set::RegisterSet as Components;

/// `a0.x`
pub const A0_X: u8 = Components::A0_X;
/// `a0.y`
pub const A0_Y: u8 = Components::A0_Y;
/// `aL`
pub const A_L: u8 = Components::A_L;
/// `cmp.x`
pub const CMP_X: u8 = Components::CMP_X;
/// `cmp.y`
pub const CMP_Y: u8 = Components::CMP_Y;

impl Components {
    /// Components of a register (bit 0 = x). Inputs and uniforms do not carry over.
    pub fn of(register: Register, mask: u8) -> Components {
        match register {
            Register::Temp(n) => Components::of_temp(n, mask),
            Register::Output(n) => Components::of_output(n, mask),
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => Components::NONE,
        }
    }

    /// The components of a register that are in the set.
    pub fn mask(&self, register: Register) -> u8 {
        match register {
            Register::Temp(n) => self.temp(n),
            Register::Output(n) => self.output(n),
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => 0,
        }
    }
}
