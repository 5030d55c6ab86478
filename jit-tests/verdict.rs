//! A component of a device's results beside the oracle's: equal, a subnormal number that the device may replace, or wrong.

use picajit::gpu_code::{GpuCode, Promise};
use picajit::isa::numeric::same;
use picajit::state::{Registers, Uniforms};
use std::cell::OnceCell;

/// What a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Equal,
    /// What a device gives that replaces subnormal operands and results by zeros, as the code's promise allows.
    Subnormal,
    Wrong,
}

/// A vertex that ran on a device.
pub struct Vertex<'a> {
    code: &'a GpuCode,
    uniforms: &'a Uniforms,
    v: &'a Registers,
    /// The code's outputs on a CPU that replaces subnormal numbers by zeros.
    flushed: OnceCell<Registers>,
}

impl<'a> Vertex<'a> {
    /// A vertex with these inputs. The uniforms are narrowed.
    pub fn new(code: &'a GpuCode, uniforms: &'a Uniforms, v: &'a Registers) -> Vertex<'a> {
        Vertex { code, uniforms, v, flushed: OnceCell::new() }
    }

    /// Judges component `c` of `on`.
    pub fn verdict(&self, n: usize, c: usize, want: f32, got: f32) -> Verdict {
        if same(want, got) {
            return Verdict::Equal;
        }
        if self.code.promise() == Promise::EqualBits {
            return Verdict::Wrong;
        }
        let outputs = || flushing(|| self.code.evaluate(self.uniforms, self.v)).unwrap_or_default();
        let flushed = self.flushed.get_or_init(outputs)[n][c];
        let is_flushed = same(flushed, got) || want.is_subnormal() && got == 0.0;
        if is_flushed { Verdict::Subnormal } else { Verdict::Wrong }
    }
}

/// Runs `f` with subnormal operands and results replaced by zeros.
fn flushing<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, deprecated)]
    // SAFETY: the mode is restored, and nothing here depends on it but float operations.
    unsafe {
        use std::arch::x86_64::{_mm_getcsr, _mm_setcsr};
        let before = _mm_getcsr();
        _mm_setcsr(std::hint::black_box(before | 0x8040));
        let result = std::hint::black_box(f());
        _mm_setcsr(before);
        result
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}
