//! A case -> nothing, or an abort with a test file of the divergence. Shared by the targets that
//! run programs.

use libfuzzer_sys::Corpus;
use picajit_fuzz::{Case, Engine, compare, filetest, report, shrink};
use picajit::internals::interp::Interp;
use picajit::internals::ir::cfg::{Cfg, Limits};
use picajit::internals::jit::{Interleave, Jit, Settings, Variant};
use picajit::internals::kernel::Backend;
use std::sync::{Arc, OnceLock};

/// Vertices of a case: enough for a whole batch, for three and a tail, and for one.
pub const VERTICES: u32 = 5;

/// Most states of control flow. Beyond, the checks that debug builds make after every stage take
/// seconds for one program; the sweep, without instrumentation, goes up to the engine's own limit.
const STATES: usize = 512;

/// Compares `case` on all engines.
pub fn judge(case: &Case) -> Corpus {
    if Cfg::build(&case.program, case.entry, Limits { states: STATES, ..Limits::default() }).is_err() {
        return Corpus::Reject;
    }
    let [batch, batch8, unoptimised] = jits();
    let engines = [
        Engine { name: "batch", backend: &**batch },
        Engine { name: "batch8", backend: &**batch8 },
        Engine { name: "unoptimised", backend: &**unoptimised },
    ];
    match compare(case, &engines) {
        Ok(outcome) => {
            for (rejected, Engine { name, .. }) in outcome.rejected.iter().zip(engines) {
                if let Some(reason) = rejected {
                    panic!("{name}: {reason}\n{}", filetest(case));
                }
            }
        }
        Err(found) => {
            // Shrinking runs the case many times and may hit libFuzzer's time limit, so this is
            // printed first.
            eprintln!("{}\n{}", found.summary(), filetest(case));
            panic!("\n{}", report(&shrink(found, &engines), &engines));
        }
    }
    Corpus::Keep
}

fn jits() -> &'static [Arc<dyn Backend>; 3] {
    static JITS: OnceLock<[Arc<dyn Backend>; 3]> = OnceLock::new();
    JITS.get_or_init(|| {
        let made = [
            (Variant::Batch, Interleave::Off),
            (Variant::Batch, Interleave::On),
            (Variant::Unoptimised, Interleave::Off),
        ];
        made.map(|(variant, groups)| {
            let settings = Settings { batch_threshold: 0, interleave: groups, ..Settings::default() };
            Jit::with(variant, settings).expect("this host runs native code").with_fallback(Arc::new(Interp))
        })
    })
}
