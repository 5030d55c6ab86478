//! One entry of a program in an engine: native code when it is there, the interpreter before that and where there is none.
//!
//! Invariant: whoever runs it, the bits are the same; native code, once there, stays. It must not know the cache.

use super::crosscheck::Crosscheck;
use super::{Event, EventHandler, lock};
use crate::background::Queue;
use crate::interp::Interp;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::program::{Entry, Program};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What makes native code for an engine and its shaders.
pub(super) struct Maker {
    /// Or why there is none.
    pub(super) backend: Result<Arc<dyn Backend>, Unsupported>,
    /// Where code is made. Closed: by whoever wants it.
    queue: Queue,
    reported: Mutex<HashSet<Unsupported>>,
    events: EventHandler,
}

impl Maker {
    pub(super) fn new(backend: Result<Arc<dyn Backend>, Unsupported>, queue: Queue, events: EventHandler) -> Maker {
        Maker { backend, queue, reported: Mutex::default(), events }
    }

    fn make(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        match &self.backend {
            Ok(backend) => backend.compile(program, entry, config),
            Err(reason) => Err(reason.clone()),
        }
    }

    /// Says why there is no native code, once for each reason.
    fn report(&self, entry: Entry, reason: &Unsupported) {
        if lock(&self.reported).insert(reason.clone()) {
            (self.events)(&Event::Fallback { entry, reason: reason.clone() });
        }
    }
}

/// What a [`Shader`](super::Shader) is.
pub(super) struct Compiled {
    pub(super) entry: Entry,
    program: Arc<Program>,
    config: Config,
    /// `None`: native code was not asked for.
    maker: Option<Arc<Maker>>,
    /// Whether somebody wants it: until then it was only offered.
    asked: AtomicBool,
    native: OnceLock<Result<Arc<dyn Kernel>, Unsupported>>,
    interp: OnceLock<Arc<dyn Kernel>>,
    check: Option<Crosscheck>,
}

impl Compiled {
    /// Nothing is compiled yet.
    pub(super) fn new(
        program: Program,
        entry: Entry,
        config: Config,
        maker: Option<Arc<Maker>>,
        check: Option<Crosscheck>,
    ) -> Compiled {
        let (asked, native, interp) = Default::default();
        Compiled { entry, program: Arc::new(program), config, maker, asked, native, interp, check }
    }

    /// Somebody asks for it. Whether nobody has before.
    pub(super) fn ask(&self) -> bool {
        // Looked at first, since who only reads leaves it to other threads too.
        !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed)
    }

    /// Compiles it here and now, if nobody has. Of those who do so at once one does, and the others wait.
    pub(super) fn make(&self) {
        if self.maker.is_none() || self.check().is_some() {
            // It will be wanted, and counts in the cache.
            self.interpreted();
        }
        if let Some(maker) = &self.maker {
            let made = self.native.get_or_init(|| maker.make(&self.program, self.entry, &self.config));
            if let Err(reason) = made {
                self.interpreted();
                // Not while it is being made: who hears of it may ask for this very shader. Nor for nobody: who asks later comes here.
                if self.asked.load(Ordering::Relaxed) {
                    maker.report(self.entry, reason);
                }
            }
        }
    }

    /// Leaves a job to make it, which then calls `after`. False if there is nothing to do, or that can't be: then it has to be made
    /// here and now.
    pub(super) fn make_later(self: &Arc<Compiled>, after: impl FnOnce(&Compiled) + Send + 'static) -> bool {
        let Some(Maker { backend: Ok(_), queue, .. }) = self.maker.as_deref() else { return false };
        if self.native.get().is_some() {
            return false;
        }
        let this = Arc::downgrade(self);
        queue.push(Box::new(move || {
            if let Some(this) = this.upgrade() {
                this.make();
                after(&this);
            }
        }))
    }

    /// What compares runs, if any are to be. Nothing in a build that compiles nothing, which then need not have what it takes.
    #[inline]
    pub(super) fn check(&self) -> Option<&Crosscheck> {
        if cfg!(any(feature = "jit", test)) { self.check.as_ref() } else { None }
    }

    /// Who runs it now.
    #[inline]
    pub(super) fn kernel(&self) -> &dyn Kernel {
        match self.native.get() {
            Some(Ok(native)) => &**native,
            _ => self.meanwhile(),
        }
    }

    /// Who runs it while there is no native code.
    fn meanwhile(&self) -> &dyn Kernel {
        if let Some(maker) = &self.maker
            && self.native.get().is_none()
            && !maker.queue.open()
        {
            // Those who were to make it have gone, with the engine.
            self.make();
            if let Some(native) = self.native() {
                return native;
            }
        }
        self.interpreted()
    }

    /// Native code, if it is there.
    pub(super) fn native(&self) -> Option<&dyn Kernel> {
        self.native.get()?.as_ref().ok().map(|native| &**native)
    }

    /// The interpreter's.
    pub(super) fn interpreted(&self) -> &dyn Kernel {
        let interp = || Interp.compile(&self.program, self.entry, &self.config).expect("it compiles everything");
        &**self.interp.get_or_init(interp)
    }

    /// Who runs it now, by name.
    pub(super) fn backend(&self) -> &'static str {
        match self.maker.as_deref() {
            Some(Maker { backend: Ok(backend), .. }) if self.native().is_some() => backend.name(),
            _ => Interp.name(),
        }
    }

    /// Why there is no native code although it was preferred.
    pub(super) fn reason(&self) -> Option<&Unsupported> {
        self.native.get()?.as_ref().err()
    }

    /// Bytes that it occupies.
    pub(super) fn held_bytes(&self) -> usize {
        let native = self.native().map_or(0, |native| native.held_bytes());
        let interp = self.interp.get().map_or(0, |interp| interp.held_bytes());
        // Native code counts the program, which it shares.
        native.max(self.program.bytes()) + interp
    }
}
