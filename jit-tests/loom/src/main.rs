//! Every order in which threads may run the code that they share, with the memory model of C11:
//! `cargo run --manifest-path jit-tests/loom/Cargo.toml`.
//!
//! | model | of |
//! |---|---|
//! | publish against run | `src/kernel/direct.rs` as it is |
//! | drop against compile | `src/background.rs` as it is |
//! | tier-up against bailout | both |
//! | evict against run | a miniature of the cache's slots: `arc-swap` can't run on loom |
//!
//! `build.rs` exchanges the standard library's primitives for loom's. Each model must pass, and each
//! defect must be found.

#[allow(dead_code)] // a part of it is used
#[path = "../../../src/fp_mode.rs"]
mod fp_mode;
mod primitives;
mod stubs;

pub use stubs::{layout, state};

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc as LoomArc, Mutex};
use primitives::Watched;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

/// A copy of `direct.rs` and the models that run it.
macro_rules! direct {
    ($module:ident, $file:literal) => {
        #[allow(dead_code, unused_imports, unsafe_op_in_unsafe_fn)]
        mod $module {
            use super::*;

            pub trait Kernel: Send + Sync {
                fn layout(&self) -> Option<&layout::Layout>;
                fn direct_functions(&self) -> direct::DirectFunctions;
            }

            pub mod direct {
                include!(concat!(env!("OUT_DIR"), "/", $file, ".rs"));
            }

            unsafe extern "C" fn first(
                _: *const u8,
                _: *mut u8,
                _: *const state::Vec4,
                _: *const direct::FrameConstants,
            ) -> u32 {
                0
            }

            unsafe extern "C" fn exact(
                _: *const u8,
                _: *mut u8,
                _: *const state::Vec4,
                _: *const direct::FrameConstants,
            ) -> u32 {
                1
            }

            /// Its code is memory that loom watches.
            #[derive(Default)]
            struct Code {
                first: Watched,
                exact: Watched,
                is_exact: loom::sync::atomic::AtomicBool,
            }

            impl Kernel for Code {
                fn layout(&self) -> Option<&layout::Layout> {
                    None
                }

                fn direct_functions(&self) -> direct::DirectFunctions {
                    let is_exact = self.is_exact.load(Ordering::Acquire);
                    let run: direct::Function = if is_exact { exact } else { first };
                    // SAFETY: the functions touch nothing.
                    unsafe { direct::DirectFunctions::new(Some(run), None, direct::Masks::default()) }
                }
            }

            /// A run: what it calls must be complete.
            fn run(code: &Code, shader: &direct::DirectCode) {
                let byte = std::cell::Cell::new(0);
                if let Some(exit) = shader.run_on(&layout::HostMemory::new(&byte)) {
                    let machine_code = if exit == state::Exit::End { &code.first } else { &code.exact };
                    assert_eq!(machine_code.read(), 7, "complete code");
                }
            }

            /// One thread compiles and publishes, another one runs.
            pub fn publish_against_run() {
                let code = Arc::new(Code::default());
                let shader = Arc::new(direct::DirectCode::new(None));
                let runner = {
                    let (code, shader) = (code.clone(), shader.clone());
                    loom::thread::spawn(move || (0..2).for_each(|_| run(&code, &shader)))
                };
                code.first.write(7);
                shader.publish(&(code.clone() as Arc<dyn Kernel>));
                runner.join().expect("no panic");
                run(&code, &shader);
            }

            /// The first code is published and bails out. One run compiles exact code and publishes it,
            /// another one runs and publishes again what it saw.
            pub fn tier_up_against_bailout() {
                let code = Arc::new(Code::default());
                code.first.write(7);
                let shader = Arc::new(direct::DirectCode::new(None));
                shader.publish(&(code.clone() as Arc<dyn Kernel>));
                let compiler = {
                    let (code, shader) = (code.clone(), shader.clone());
                    loom::thread::spawn(move || {
                        code.exact.write(7);
                        code.is_exact.store(true, Ordering::Release);
                        shader.publish(&(code as Arc<dyn Kernel>));
                    })
                };
                run(&code, &shader);
                shader.publish(&(code.clone() as Arc<dyn Kernel>));
                run(&code, &shader);
                compiler.join().expect("no panic");
                run(&code, &shader);
            }
        }
    };
}

direct!(direct_sound, "direct");
direct!(direct_relaxed_publication, "direct_relaxed_publication");
direct!(direct_relaxed_lookup, "direct_relaxed_lookup");

/// A copy of `background.rs` and the models that run it.
macro_rules! background {
    ($module:ident, $file:literal) => {
        #[allow(dead_code)]
        mod $module {
            use super::*;

            #[allow(dead_code, unused_imports)]
            mod background {
                include!(concat!(env!("OUT_DIR"), "/", $file, ".rs"));
            }

            use background::{Background, Hotness, Lazy, Priority};

            /// A kernel: code that is compiled when a run first wants it.
            #[derive(Default)]
            struct Kernel {
                hotness: Hotness,
                exact: Lazy<Watched>,
                compilations: AtomicUsize,
            }

            fn compile(kernel: &Kernel) -> &Watched {
                kernel.compilations.fetch_add(1, Ordering::Relaxed);
                kernel.exact.get_or_init(|| {
                    let code = Watched::default();
                    code.write(7);
                    code
                })
            }

            /// A thread compiles while the engine is dropped. After the drop nothing compiles any more.
            pub fn drop_against_compile() {
                let background = Background::new(1);
                let (kernel, touched) = (Arc::new(Kernel::default()), Arc::new(Watched::default()));
                let memory = touched.clone();
                let place = (background.queue(), Priority::TierUp(&kernel.hotness));
                kernel.exact.request(&kernel, Some(place), move |kernel| {
                    memory.write(1);
                    compile(kernel);
                });
                drop(background);
                touched.write(2);
                // A run goes on without the threads.
                assert_eq!(kernel.exact.get_or_request(&kernel, None, compile).expect("no queue").read(), 7);
            }

            /// Two runs bail out and want exact code, which one thread compiles.
            pub fn tier_up_against_bailout() {
                let background = Background::new(1);
                let kernel = Arc::new(Kernel::default());
                let queue = background.queue().clone();
                let other = {
                    let (kernel, queue) = (kernel.clone(), queue.clone());
                    loom::thread::spawn(move || {
                        if let Some(code) = kernel.exact.get_or_request(
                            &kernel,
                            Some((&queue, Priority::TierUp(&kernel.hotness))),
                            compile,
                        ) {
                            assert_eq!(code.read(), 7, "complete code");
                        }
                    })
                };
                if let Some(code) =
                    kernel.exact.get_or_request(&kernel, Some((&queue, Priority::TierUp(&kernel.hotness))), compile)
                {
                    assert_eq!(code.read(), 7, "complete code");
                }
                other.join().expect("no panic");
                queue.wait();
                assert_eq!(kernel.exact.get().expect("the thread compiled it").read(), 7);
                assert_eq!(kernel.compilations.load(Ordering::Relaxed), 1, "one run requests");
                drop(background);
            }
        }
    };
}

background!(background_sound, "background");
background!(background_no_join, "background_no_join");
background!(background_no_wake, "background_no_wake");
background!(background_two_requests, "background_two_requests");

/// A shader in the cache. Its code is unmapped with its last user: here, written.
struct Mapped(Arc<Watched>);

impl Drop for Mapped {
    fn drop(&mut self) {
        self.0.write(0);
    }
}

/// One thread looks a shader up and runs it, another one evicts it. `keeps` is whether a lookup
/// takes a reference of its own, as the cache's do.
fn evict_against_run(keeps: bool) {
    let code = Arc::new(Watched::default());
    code.write(7);
    let slot = LoomArc::new(Mutex::new(Some(LoomArc::new(Mapped(code)))));
    let evicting = {
        let slot = slot.clone();
        loom::thread::spawn(move || {
            let evicted = slot.lock().expect("no panic").take();
            // Outside the lock, as in `Cache::evict`.
            drop(evicted);
        })
    };
    let found = slot.lock().expect("no panic").as_ref().map(|shader| (keeps.then(|| shader.clone()), shader.0.clone()));
    if let Some((_shader, code)) = found {
        assert_eq!(code.read(), 7);
    }
    evicting.join().expect("no panic");
}

/// A model, and whether loom must find an error.
struct Model {
    name: &'static str,
    defect: Option<&'static str>,
    run: fn(),
}

const MODELS: [Model; 12] = [
    Model { name: "publish against run", defect: None, run: direct_sound::publish_against_run },
    Model {
        name: "publish against run",
        defect: Some("relaxed publication"),
        run: direct_relaxed_publication::publish_against_run,
    },
    Model {
        name: "publish against run",
        defect: Some("relaxed lookup"),
        run: direct_relaxed_lookup::publish_against_run,
    },
    Model { name: "drop against compile", defect: None, run: background_sound::drop_against_compile },
    Model {
        name: "drop against compile",
        defect: Some("threads are not joined"),
        run: background_no_join::drop_against_compile,
    },
    Model {
        name: "drop against compile",
        defect: Some("threads are not woken"),
        run: background_no_wake::drop_against_compile,
    },
    Model { name: "tier-up against bailout", defect: None, run: direct_sound::tier_up_against_bailout },
    Model {
        name: "tier-up against bailout",
        defect: Some("relaxed publication"),
        run: direct_relaxed_publication::tier_up_against_bailout,
    },
    Model {
        name: "tier-up against bailout, in the background",
        defect: None,
        run: background_sound::tier_up_against_bailout,
    },
    Model {
        name: "tier-up against bailout, in the background",
        defect: Some("every run requests"),
        run: background_two_requests::tier_up_against_bailout,
    },
    Model { name: "evict against run", defect: None, run: || evict_against_run(true) },
    Model { name: "evict against run", defect: Some("a lookup takes no reference"), run: || evict_against_run(false) },
];

fn main() -> ExitCode {
    let mut failed = false;
    // Each line has the message of its panic.
    std::panic::set_hook(Box::new(|_| ()));
    for Model { name, defect, run } in MODELS {
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = count.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                run();
            });
        }));
        let orders = count.load(std::sync::atomic::Ordering::Relaxed);
        let message = |panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
            text.lines().find(|line| !line.trim().is_empty()).unwrap_or("a panic").trim().to_string()
        };
        let (right, text) = match (outcome, defect) {
            (Ok(()), None) => (true, "no error".to_string()),
            (Ok(()), Some(_)) => (false, "NOT FOUND".to_string()),
            (Err(panic), None) => (false, format!("ERROR: {}", message(panic))),
            (Err(panic), Some(_)) => (true, format!("found: {}", message(panic))),
        };
        failed |= !right;
        let defect = defect.map_or(String::new(), |defect| format!(", defect: {defect}"));
        println!("{name}{defect}: {orders} orders, {text}");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
