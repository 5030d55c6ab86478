//! A set of the registers that carry over from run to run, component by component.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// Components of everything that one run can leave for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegisterSet {
    /// Bit `4 * n + c`: component `c` (0 = x) of `rn`.
    pub temps: u64,
    /// Bit `4 * n + c`: component `c` of `on`.
    pub outputs: u64,
    /// [`RegisterSet::A0_X`] to [`RegisterSet::B15`].
    pub state: u8,
}

impl RegisterSet {
    /// The empty set.
    pub const NONE: RegisterSet = RegisterSet { temps: 0, outputs: 0, state: 0 };
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
    /// The parameters that SETEMIT sets.
    pub const SETEMIT: u8 = 32;
    /// The vertex slots that EMIT fills.
    pub const SLOTS: u8 = 64;
    /// `b15`, which the hardware sets after each geometry invocation.
    pub const B15: u8 = 128;

    /// Only these of address registers, flags and emit state.
    pub const fn state(state: u8) -> RegisterSet {
        RegisterSet { temps: 0, outputs: 0, state }
    }
    /// Components (bit 0 = x) of temporary `n`.
    pub const fn of_temp(n: u8, components: u8) -> RegisterSet {
        RegisterSet { temps: (components as u64 & 0xF) << (4 * (n & 15)), outputs: 0, state: 0 }
    }
    /// Components (bit 0 = x) of output `n`.
    pub const fn of_output(n: u8, components: u8) -> RegisterSet {
        RegisterSet { temps: 0, outputs: (components as u64 & 0xF) << (4 * (n & 15)), state: 0 }
    }
    /// The components of temporary `n` in the set.
    pub const fn temp(&self, n: u8) -> u8 {
        (self.temps >> (4 * (n & 15))) as u8 & 0xF
    }
    /// The components of output `n` in the set.
    pub const fn output(&self, n: u8) -> u8 {
        (self.outputs >> (4 * (n & 15))) as u8 & 0xF
    }
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self == RegisterSet::NONE
    }
}

impl BitOr for RegisterSet {
    type Output = RegisterSet;
    fn bitor(self, o: RegisterSet) -> RegisterSet {
        RegisterSet { temps: self.temps | o.temps, outputs: self.outputs | o.outputs, state: self.state | o.state }
    }
}

impl BitAnd for RegisterSet {
    type Output = RegisterSet;
    fn bitand(self, o: RegisterSet) -> RegisterSet {
        RegisterSet { temps: self.temps & o.temps, outputs: self.outputs & o.outputs, state: self.state & o.state }
    }
}

impl Not for RegisterSet {
    type Output = RegisterSet;
    fn not(self) -> RegisterSet {
        RegisterSet { temps: !self.temps, outputs: !self.outputs, state: !self.state }
    }
}

/// `r1.xy, o0.w, cmp.x`
impl fmt::Display for RegisterSet {
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
                    let letters: String =
                        (0..4).filter(|c| mask >> c & 1 != 0).map(|c| ['x', 'y', 'z', 'w'][c]).collect();
                    item(f, format_args!("{file}{n}.{letters}"))?;
                }
            }
        }
        let names = ["a0.x", "a0.y", "aL", "cmp.x", "cmp.y", "the parameters of setemit", "the vertex slots", "b15"];
        for (bit, name) in names.into_iter().enumerate() {
            if self.state >> bit & 1 != 0 {
                item(f, format_args!("{name}"))?;
            }
        }
        Ok(())
    }
}
