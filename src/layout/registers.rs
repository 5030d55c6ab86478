//! Single registers and uniforms of a [`Host`], read and written in place.

use super::host::{Host, get, get_vector, put, put_vector};
use super::offsets::{Bools, VEC4};
use crate::state::{EmitState, Registers, Vec4};
use std::cell::Cell;

/// A file of registers or uniforms.
#[derive(Clone, Copy)]
pub(crate) enum File {
    /// `v`
    Inputs,
    /// `r`
    Temps,
    /// `o` of the current bank.
    Outputs,
    /// `c`
    Uniforms,
}

/// A file in a host's memory, and what follows it there.
#[derive(Clone, Copy)]
pub(crate) struct HostFile<'a>(&'a [[Cell<u8>; VEC4 as usize]]);

impl HostFile<'_> {
    /// Register `n`.
    #[inline(always)]
    pub(crate) fn get(self, n: u8) -> Vec4 {
        get_vector(&self.0[usize::from(n)])
    }

    /// Sets register `n`.
    #[inline(always)]
    pub(crate) fn set(self, n: u8, value: Vec4) {
        put_vector(&self.0[usize::from(n)], value);
    }
}

impl<'a> Host<'a> {
    /// A file, for access to several of its registers.
    #[inline]
    pub(crate) fn file(&self, file: File) -> HostFile<'a> {
        let o = self.offsets();
        let (memory, at) = match file {
            File::Inputs => (self.unit(), o.v),
            File::Temps => (self.unit(), o.r),
            File::Outputs => (self.unit(), self.current_bank()),
            File::Uniforms => (self.uniforms(), o.c),
        };
        HostFile(memory[at as usize..].as_chunks().0)
    }

    /// `v` register `n`.
    pub(crate) fn input(&self, n: u8) -> Vec4 {
        vector(self.unit(), self.offsets().v, n)
    }

    /// `r` register `n`.
    pub(crate) fn temp(&self, n: u8) -> Vec4 {
        vector(self.unit(), self.offsets().r, n)
    }

    /// `o` register `n` of the current bank.
    pub(crate) fn output(&self, n: u8) -> Vec4 {
        vector(self.unit(), self.current_bank(), n)
    }

    /// All `o` registers of the current bank.
    pub(crate) fn outputs(&self) -> Registers {
        std::array::from_fn(|n| self.output(n as u8))
    }

    /// `c` register `n`.
    pub(crate) fn uniform(&self, n: u8) -> Vec4 {
        vector(self.uniforms(), self.offsets().c, n)
    }

    /// Integer uniform `n`.
    pub(crate) fn int(&self, n: u8) -> [u8; 4] {
        get(self.uniforms(), self.offsets().i + 4 * u32::from(n))
    }

    /// The boolean uniforms; bit n is `bn`.
    pub(crate) fn bools(&self) -> u16 {
        match self.offsets().b {
            Bools::Mask(at) => u16::from_ne_bytes(get(self.uniforms(), at)),
            Bools::Bytes(at) => {
                let bytes: [u8; 16] = get(self.uniforms(), at);
                (0..16).filter(|&n| bytes[n] != 0).fold(0, |mask, n| mask | 1 << n)
            }
        }
    }

    /// `a0.x`, `a0.y` and `aL`.
    pub(crate) fn addresses(&self) -> [i32; 3] {
        let o = self.offsets();
        [o.a0[0], o.a0[1], o.al].map(|at| i32::from_ne_bytes(get(self.unit(), at)))
    }

    /// Sets `a0.x`, `a0.y` or `aL` (0, 1, 2).
    pub(crate) fn set_address(&self, n: usize, value: i32) {
        let o = self.offsets();
        put(self.unit(), [o.a0[0], o.a0[1], o.al][n], value.to_ne_bytes());
    }

    /// The flags.
    pub(crate) fn flags(&self) -> [bool; 2] {
        self.offsets().cmp.map(|at| get(self.unit(), at) != [0])
    }

    /// Sets a flag.
    pub(crate) fn set_flag(&self, n: usize, value: bool) {
        put(self.unit(), self.offsets().cmp[n], [u8::from(value)]);
    }

    /// The parameters of `EMIT`; the default without an offset for them.
    pub(crate) fn emit_state(&self) -> EmitState {
        self.offsets().geometry.map_or(EmitState::default(), |g| self.setemit(&g))
    }

    /// Sets the parameters of `EMIT`, if the layout has them.
    pub(crate) fn set_emit_state(&self, how: EmitState) {
        if let Some(g) = &self.offsets().geometry {
            put(self.unit(), g.vertex, [how.vertex]);
            put(self.unit(), g.primitive, [u8::from(how.primitive)]);
            put(self.unit(), g.winding, [u8::from(how.winding)]);
        }
    }

    /// Changes the output bank, if the layout has two.
    pub(crate) fn toggle_bank(&self) {
        if let Some(g) = &self.offsets().geometry {
            let [bank] = get(self.unit(), g.bank);
            put(self.unit(), g.bank, [bank & 1 ^ 1]);
        }
    }
}

fn vector(memory: &[Cell<u8>], file: u32, n: u8) -> Vec4 {
    get_vector(memory[(file + VEC4 * u32::from(n)) as usize..].first_chunk().expect("the layout has whole files"))
}
