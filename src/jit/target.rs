//! A CPU -> Cranelift's description of it, with the flags that all code is compiled with.
//!
//! It must not know what is compiled.

use super::settings::{Allocator, Cpu, Settings};
use crate::kernel::Unsupported;
use crate::layout::Layout;
use cranelift_codegen::ir::{self, AbiParam, Signature, types};
use cranelift_codegen::isa::{self, CallConv, OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::settings::{self, Configurable};
use target_lexicon::{Architecture, HOST};

/// SSE4.1 and the extensions before it, which every x86-64 CPU since 2008 has.
const SSE41: [&str; 3] = ["has_sse3", "has_ssse3", "has_sse41"];

/// The CPU of this machine.
pub(crate) fn host(settings: &Settings) -> Result<OwnedTargetIsa, Unsupported> {
    match HOST.architecture {
        #[cfg(target_arch = "x86_64")]
        Architecture::X86_64 if !std::arch::is_x86_feature_detected!("sse4.1") => {
            // FLR and the blends need it.
            return Err(Unsupported::HostIsa { missing: "SSE4.1" });
        }
        Architecture::X86_64 | Architecture::Aarch64(_) => {}
        _ => return Err(Unsupported::HostIsa { missing: "a code generator for this architecture" }),
    }
    let detect = settings.cpu == Cpu::Host;
    let mut builder =
        cranelift_native::builder_with_options(detect).map_err(|missing| Unsupported::HostIsa { missing })?;
    if !detect && HOST.architecture == Architecture::X86_64 {
        enable(&mut builder, &SSE41)?;
    }
    finish(builder, settings.allocator)
}

/// What lowering knows of the CPU.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) frontend: TargetFrontendConfig,
    call_conv: CallConv,
    /// The layout of registers and uniforms.
    pub(crate) layout: Layout,
    /// 64-bit Arm: it has no comparison that is true for NaN, and other shuffles.
    pub(crate) aarch64: bool,
    /// The address of the [`CancelFlag`](crate::kernel::cancel::CancelFlag).
    pub(crate) cancel: usize,
}

impl Machine {
    /// `layout` is that of a host's memory, if it is not picajit's own.
    pub(crate) fn of(isa: &OwnedTargetIsa, layout: Option<Layout>, cancel: usize) -> Machine {
        Machine {
            frontend: isa.frontend_config(),
            call_conv: isa.default_call_conv(),
            layout: layout.unwrap_or(Layout::OWN),
            aarch64: matches!(isa.triple().architecture, Architecture::Aarch64(_)),
            cancel,
        }
    }

    pub(crate) fn pointer(&self) -> ir::Type {
        self.frontend.pointer_type()
    }

    /// The signature of compiled code: `(uniforms, unit, inputs, frame) -> exit`.
    pub(crate) fn signature(&self) -> Signature {
        let mut s = Signature::new(self.call_conv);
        s.params.extend([AbiParam::new(self.pointer()); 4]);
        s.returns.push(AbiParam::new(types::I32));
        s
    }
}

fn enable(builder: &mut isa::Builder, flags: &[&str]) -> Result<(), Unsupported> {
    flags.iter().try_for_each(|flag| builder.enable(flag)).map_err(|e| Unsupported::Codegen { message: e.to_string() })
}

fn finish(builder: isa::Builder, allocator: Allocator) -> Result<OwnedTargetIsa, Unsupported> {
    let mut flags = settings::builder();
    let allocator = match allocator {
        Allocator::Backtracking => "backtracking",
        Allocator::SinglePass => "single_pass",
    };
    // The IR arrives simplified and in a good order: Cranelift's optimiser costs more time than it
    // saves.
    for (name, value) in [
        ("opt_level", "none"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("enable_alias_analysis", "false"),
        ("regalloc_algorithm", allocator),
        ("is_pic", "false"),
        ("unwind_info", "false"),
        // A hostile program can make a frame larger than a guard page; stepping over one must
        // fault, not corrupt. Frames of real shaders are smaller than a page and pay nothing.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        flags.set(name, value).map_err(|e| Unsupported::Codegen { message: e.to_string() })?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|e| Unsupported::Codegen { message: e.to_string() })
}

/// A CPU that any host can compile for, to read the code.
#[cfg(feature = "targets")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// x86-64 with SSE4.1 and nothing newer.
    X86_64,
    /// x86-64 since 2013: AVX2, BMI, and FMA, which is never used.
    X86_64V3,
    /// 64-bit Arm without extensions.
    Aarch64,
}

#[cfg(feature = "targets")]
impl Target {
    /// Every target.
    pub const ALL: [Target; 3] = [Target::X86_64, Target::X86_64V3, Target::Aarch64];

    /// Its name on command lines and in snapshots.
    pub const fn name(self) -> &'static str {
        match self {
            Target::X86_64 => "x86-64",
            Target::X86_64V3 => "x86-64-v3",
            Target::Aarch64 => "aarch64",
        }
    }

    /// The description of the CPU, for code that is read and not run.
    pub(crate) fn isa(self) -> Result<OwnedTargetIsa, Unsupported> {
        let (triple, flags): (_, &[&str]) = match self {
            Target::X86_64 => (target_lexicon::triple!("x86_64-unknown-linux-gnu"), &[]),
            Target::X86_64V3 => (
                target_lexicon::triple!("x86_64-unknown-linux-gnu"),
                &["has_sse42", "has_popcnt", "has_avx", "has_avx2", "has_fma", "has_bmi1", "has_bmi2", "has_lzcnt"],
            ),
            Target::Aarch64 => (target_lexicon::triple!("aarch64-unknown-linux-gnu"), &[]),
        };
        let missing = |_| Unsupported::HostIsa { missing: "a code generator for this architecture" };
        let mut builder = isa::lookup(triple).map_err(missing)?;
        if self != Target::Aarch64 {
            enable(&mut builder, &SSE41)?;
        }
        enable(&mut builder, flags)?;
        finish(builder, Allocator::default())
    }
}
