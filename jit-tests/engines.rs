//! The engines under test, in one place.

use crate::hosted::Hosted;
use picajit::interp::Interp;
#[cfg(feature = "jit")]
use picajit::jit::{Interleave, Variant};
use picajit::kernel::Backend;
use std::sync::Arc;

/// An engine under test.
#[derive(Clone)]
pub struct Engine {
    /// Its name in test names and in `; skip` lines.
    pub name: &'static str,
    /// The engine itself.
    pub backend: Arc<dyn Backend>,
}

/// Every engine that must agree, the reference first.
pub fn engines() -> Vec<Engine> {
    let mut engines = vec![reference()];
    #[cfg(feature = "jit")]
    for (name, variant, groups) in [
        ("vec4", Variant::Vec4, Interleave::Auto),
        ("batch", Variant::Batch, Interleave::Auto),
        ("batch8", Variant::Batch, Interleave::On),
        ("unoptimised", Variant::Unoptimised, Interleave::Auto),
    ] {
        let settings = picajit::jit::Settings { batch_threshold: 0, interleave: groups, ..Default::default() };
        match picajit::jit::Jit::with(variant, settings, Arc::new(Interp)) {
            Ok(jit) => engines.push(Engine { name, backend: Arc::new(jit) }),
            Err(reason) => println!("skipped: {name}: {reason}"),
        }
    }
    let on_host = |name, of: &str| {
        let native = engines.iter().find(|e| e.name == of)?;
        Some(Engine { name, backend: Arc::new(Hosted::new(native.backend.clone())) })
    };
    let native = [on_host("batch-hosted", "batch"), on_host("unoptimised-hosted", "unoptimised")];
    let hosted: Vec<Engine> = native.into_iter().flatten().collect();
    if hosted.is_empty() {
        // With native code, its engines cover hosted memory.
        engines.extend(on_host("interp-hosted", "interp"));
    }
    engines.extend(hosted);
    engines
}

/// The engine that the others are compared with.
pub fn reference() -> Engine {
    Engine { name: "interp", backend: Arc::new(Interp) }
}
