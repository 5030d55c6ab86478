//! The engines under test, in one place.

use picajit::interp::Interp;
use picajit::kernel::Backend;
use std::sync::Arc;

/// A way to run programs.
#[derive(Clone)]
pub struct Engine {
    /// Its name in test names and in `; skip` lines.
    pub name: &'static str,
    /// The engine itself.
    pub backend: Arc<dyn Backend>,
}

/// Every engine that must agree, the reference first.
pub fn engines() -> Vec<Engine> {
    #[allow(unused_mut)] // without native code it is the only one
    let mut engines = vec![reference()];
    #[cfg(feature = "jit")]
    for (name, variant) in [
        ("vec4", picajit::jit::Variant::Vec4),
        ("lanes", picajit::jit::Variant::Lanes),
        ("unoptimised", picajit::jit::Variant::Unoptimised),
    ] {
        let settings = picajit::jit::Settings { lanes_after: 0, ..Default::default() };
        match picajit::jit::Jit::with(variant, settings, Arc::new(Interp)) {
            Ok(jit) => engines.push(Engine { name, backend: Arc::new(jit) }),
            Err(reason) => println!("skipped: {name}: {reason}"),
        }
    }
    engines
}

/// What the others are compared with.
pub fn reference() -> Engine {
    Engine { name: "interp", backend: Arc::new(Interp) }
}
