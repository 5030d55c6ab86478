//! The floating-point mode of a thread: what rounds, flushes and traps besides the instructions.
//!
//! All engines and Rust itself assume the default mode: round to nearest, subnormals preserved, no
//! traps. Audio code sets another one. Batches and draws on such a thread switch to the default for
//! the time of the call; a read of the mode is cheap, and a write is rare.
//!
//! | CPU | register | foreign if |
//! |---|---|---|
//! | x86-64 | MXCSR | it rounds otherwise, flushes (FZ, DAZ), or an exception is unmasked |
//! | aarch64 | FPCR | it rounds otherwise, flushes (FZ, FIZ), traps, or has AH or NEP of FEAT_AFP |
//! | others, Miri | none | never: they have no such mode, as WebAssembly, or it is not read |
//!
//! Default NaNs (aarch64's DN) are no matter: all NaNs are one value. Neither are half-precision
//! modes. The compiler moves no memory access over these instructions, and runs read and write
//! memory.

#![allow(unsafe_code)]

/// The default mode on this thread, until dropped; then the mode of before, also after a panic.
#[must_use]
pub(crate) struct DefaultMode {
    /// The foreign mode.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    before: Option<register::Word>,
}

impl DefaultMode {
    /// Switches to the default mode if the present one is foreign.
    #[inline]
    pub(crate) fn enter() -> DefaultMode {
        #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
        {
            let mode = register::read();
            let before = register::is_foreign(mode).then_some(mode);
            if let Some(mode) = before {
                register::write(register::to_default(mode));
            }
            DefaultMode { before }
        }
        #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
        DefaultMode {}
    }
}

impl Drop for DefaultMode {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
        if let Some(mode) = self.before {
            register::write(mode);
        }
    }
}

/// In debug builds, panics if the mode of this thread is foreign: single runs of native code do not
/// switch.
#[inline]
pub(crate) fn assert_default() {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri), debug_assertions))]
    assert!(
        !register::is_foreign(register::read()),
        "single runs need the default floating-point mode: round to nearest, subnormals preserved, no traps"
    );
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    use std::arch::asm;

    /// MXCSR.
    pub(super) type Word = u32;

    /// Without the flags of exceptions that happened: FZ, rounding, masks, DAZ.
    const MODE: Word = 0xFFC0;
    /// All exceptions masked.
    const DEFAULT: Word = 0x1F80;

    #[inline]
    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: stores four bytes at the address of `word`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: loads four bytes from the address of `word`, which has no reserved bit: it is the
        // thread's own of before, or that one with the default mode.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }

    #[inline]
    pub(super) fn is_foreign(word: Word) -> bool {
        word & MODE != DEFAULT
    }

    #[inline]
    pub(super) fn to_default(word: Word) -> Word {
        word & !MODE | DEFAULT
    }

    /// The other roundings; FZ and DAZ, alone, together and with a rounding; an unmasked exception.
    #[cfg(test)]
    pub(super) fn foreign_modes() -> [Word; 8] {
        [0x3F80, 0x5F80, 0x7F80, 0x9F80, 0x1FC0, 0x9FC0, 0xFFC0, 0x1F00]
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    use std::arch::asm;

    /// FPCR.
    pub(super) type Word = u64;

    /// FZ, rounding; the enabled traps; NEP, AH and FIZ. All are 0 by default.
    const MODE: Word = 7 << 22 | 0x9F00 | 7;

    #[inline]
    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: reads a register of the thread.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub(super) fn write(word: Word) {
        // SAFETY: writes a register of the thread: its own of before, or that with the default mode.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }

    #[inline]
    pub(super) fn is_foreign(word: Word) -> bool {
        word & MODE != 0
    }

    #[inline]
    pub(super) fn to_default(word: Word) -> Word {
        word & !MODE
    }

    /// The other roundings; FZ, alone and with each rounding; DN, which changes nothing.
    #[cfg(test)]
    pub(super) fn foreign_modes() -> [Word; 8] {
        [1 << 22, 2 << 22, 3 << 22, 4 << 22, 5 << 22, 6 << 22, 7 << 22, 1 << 25]
    }
}

/// Calls `work` in each of eight foreign modes. It must compute nothing with floats but by picajit.
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) fn in_foreign_modes(mut work: impl FnMut()) {
    /// Restores the mode also if an assertion fails.
    struct Restore(register::Word);
    impl Drop for Restore {
        fn drop(&mut self) {
            register::write(self.0);
        }
    }
    for mode in register::foreign_modes() {
        let _restore = Restore(register::read());
        register::write(mode);
        std::hint::black_box(&mut work)();
        let after = register::read();
        assert_eq!(after & !0x3F, mode & !0x3F, "the mode of before is restored");
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_mode_returns_after_a_panic() {
        let mut modes = 0;
        in_foreign_modes(|| {
            modes += 1;
            let panics = || {
                let _mode = DefaultMode::enter();
                assert_default();
                std::panic::resume_unwind(Box::new(()));
            };
            assert!(std::panic::catch_unwind(panics).is_err());
        });
        assert_eq!(modes, 8);
    }

    #[test]
    fn the_default_mode_is_left_alone() {
        assert_eq!(DefaultMode::enter().before, None);
    }
}
