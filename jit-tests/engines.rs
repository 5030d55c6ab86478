//! The engines under test, in one place.

use crate::hosted::Hosted;
#[cfg(feature = "jit")]
use crate::prerequisites::skipped;
use picajit::internals::interp::Interp;
#[cfg(feature = "jit")]
use picajit::internals::jit::{Interleave, Variant};
use picajit::internals::kernel::Backend;
use picajit::internals::tier0::{Cpu, Tier0};
use std::sync::Arc;

/// An engine under test.
#[derive(Clone)]
pub struct Engine {
    /// Its name in test names and in `; skip` lines.
    pub name: &'static str,
    /// The engine itself.
    pub backend: Arc<dyn Backend>,
}

impl Engine {
    /// Whether another engine differs only by CPU, by the memory that it runs on, or by how many
    /// groups interleave.
    #[allow(dead_code)]
    pub fn is_variant(&self) -> bool {
        ["-baseline", "8"].iter().any(|end| self.name.ends_with(end))
    }
}

/// Engines that run on memory which a host has laid out.
const ON_A_HOST: [&str; 3] = ["tier0-baseline", "batch8", "unoptimised"];

/// Every engine that must agree, the reference first.
#[allow(dead_code)] // not every test binary has programs for all memory
pub fn engines() -> Vec<Engine> {
    let mut engines = on_units();
    for engine in engines.iter_mut().filter(|engine| ON_A_HOST.contains(&engine.name)) {
        engine.backend = Arc::new(Hosted::new(engine.backend.clone()));
    }
    engines.insert(0, reference());
    engines
}

/// All engines but the reference, on units.
pub fn on_units() -> Vec<Engine> {
    let mut engines = Vec::new();
    for (name, cpu) in [("tier0", Cpu::Detected), ("tier0-baseline", Cpu::Baseline)] {
        engines.push(Engine { name, backend: Arc::new(Tier0::new(cpu)) });
    }
    #[cfg(feature = "jit")]
    for (name, variant, groups) in [
        ("vec4", Variant::Vec4, Interleave::Auto),
        ("batch", Variant::Batch, Interleave::Auto),
        ("batch8", Variant::Batch, Interleave::On),
        ("unoptimised", Variant::Unoptimised, Interleave::Auto),
    ] {
        let settings =
            picajit::internals::jit::Settings { batch_threshold: 0, interleave: groups, ..Default::default() };
        match picajit::internals::jit::Jit::with(variant, settings) {
            Ok(jit) => engines.push(Engine { name, backend: jit.with_fallback(Arc::new(Interp)) }),
            Err(reason) => skipped(&format!("engines of native code: {reason}")),
        }
    }
    engines
}

/// The engine that the others are compared with.
#[allow(dead_code)]
pub fn reference() -> Engine {
    Engine { name: "interp", backend: Arc::new(Interp) }
}
