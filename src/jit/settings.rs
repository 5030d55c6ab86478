//! What a host or a test may choose about native code. No choice changes a result.

use crate::profiler::Profiler;

/// Which code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// One vertex a call; a PICA register is one SIMD register.
    Vec4,
    /// The same for single vertices. Batches of provably independent vertices run as groups: a SIMD
    /// register holds one component of four vertices.
    Batch,
    /// The same lowering as [`Variant::Vec4`] with every register in memory, stored after each
    /// instruction, and exact products: the second witness in tests, and the yardstick in
    /// benchmarks.
    Unoptimised,
}

/// The instructions that native code may use. Results never depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// Every extension of this CPU that Cranelift uses.
    #[default]
    Host,
    /// The least that native code needs: SSE4.1 on x86-64, no extension on aarch64. Tests use it to
    /// run old CPUs' code on new ones.
    Baseline,
}

/// The register allocator. Results never depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Allocator {
    /// Faster code.
    #[default]
    Backtracking,
    /// Less compile time; a second witness in tests.
    SinglePass,
}

/// Whether batch code interleaves two groups of four vertices in one loop body. Results never
/// depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interleave {
    /// Where the cost model expects it to be faster.
    #[default]
    Auto,
    /// Never: four vertices an iteration.
    Off,
    /// Always: eight vertices an iteration.
    On,
}

/// How native code is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Instructions that code may use.
    pub cpu: Cpu,
    /// Register allocator.
    pub allocator: Allocator,
    /// Groups in one loop body of batch code.
    pub interleave: Interleave,
    /// Vertices that a shader runs in batches before its batch code is compiled, which takes longer
    /// than code for one vertex. 0, for tests: every batch that can runs as groups, however small.
    pub batch_threshold: u32,
    /// The profiler that hears of code. The code is the same for each.
    pub profiler: Profiler,
    /// Whether kernels count bailouts by reason in [`KernelStats`](crate::kernel::KernelStats), for
    /// tests. It makes batch code larger.
    pub count_bailouts: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let (cpu, allocator, interleave, profiler, count_bailouts) = Default::default();
        Settings { cpu, allocator, interleave, batch_threshold: 1024, profiler, count_bailouts }
    }
}
