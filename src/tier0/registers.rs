//! The registers of an entry's working set, and sets of their components.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

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

/// Components of everything that carries over from run to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Components {
    /// Bit `4 * n + c`: component `c` of `rn`.
    pub temps: u64,
    /// Bit `4 * n + c`: component `c` of `on`.
    pub outputs: u64,
    /// [`A0_X`] to [`CMP_Y`].
    pub state: u8,
}

/// `a0.x`
pub const A0_X: u8 = 1;
/// `a0.y`
pub const A0_Y: u8 = 2;
/// `aL`
pub const A_L: u8 = 4;
/// `cmp.x`
pub const CMP_X: u8 = 8;
/// `cmp.y`
pub const CMP_Y: u8 = 16;

impl Components {
    /// The empty set.
    pub const NONE: Components = Components { temps: 0, outputs: 0, state: 0 };

    /// Only these of address registers and flags.
    pub fn state(state: u8) -> Components {
        Components { state, ..Components::NONE }
    }

    /// Components of a register (bit 0 = x). Inputs and uniforms do not carry over.
    pub fn of(register: Register, mask: u8) -> Components {
        let bits = |n: u8| u64::from(mask) << (4 * n);
        match register {
            Register::Temp(n) => Components { temps: bits(n), ..Components::NONE },
            Register::Output(n) => Components { outputs: bits(n), ..Components::NONE },
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => Components::NONE,
        }
    }

    /// The components of a register that are in the set.
    pub fn mask(&self, register: Register) -> u8 {
        match register {
            Register::Temp(n) => (self.temps >> (4 * n)) as u8 & 0xF,
            Register::Output(n) => (self.outputs >> (4 * n)) as u8 & 0xF,
            Register::Input(_) | Register::Uniform(_) | Register::Fetched => 0,
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == Components::NONE
    }
}

impl BitOr for Components {
    type Output = Components;
    fn bitor(self, o: Components) -> Components {
        Components { temps: self.temps | o.temps, outputs: self.outputs | o.outputs, state: self.state | o.state }
    }
}

impl BitAnd for Components {
    type Output = Components;
    fn bitand(self, o: Components) -> Components {
        Components { temps: self.temps & o.temps, outputs: self.outputs & o.outputs, state: self.state & o.state }
    }
}

impl Not for Components {
    type Output = Components;
    fn not(self) -> Components {
        Components { temps: !self.temps, outputs: !self.outputs, state: !self.state }
    }
}

impl fmt::Display for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut item = |f: &mut fmt::Formatter<'_>, name: fmt::Arguments<'_>| {
            write!(f, "{separator}{name}")?;
            separator = ", ";
            Ok(())
        };
        for (file, set) in [('r', self.temps), ('o', self.outputs)] {
            for n in 0..16 {
                let mask = (set >> (4 * n)) as u8 & 0xF;
                if mask != 0 {
                    let letters: String = components(mask).map(|c| ['x', 'y', 'z', 'w'][c]).collect();
                    item(f, format_args!("{file}{n}.{letters}"))?;
                }
            }
        }
        for (bit, name) in [(A0_X, "a0.x"), (A0_Y, "a0.y"), (A_L, "aL"), (CMP_X, "cmp.x"), (CMP_Y, "cmp.y")] {
            if self.state & bit != 0 {
                item(f, format_args!("{name}"))?;
            }
        }
        Ok(())
    }
}
