//! One entry of a program -> the kernel that runs it: native code once compiled, the interpreter
//! before that and as fallback.
//!
//! Invariant: every kernel gives the same bits, and published native code stays. This file must not
//! depend on the cache.

use super::compiler::Compiler;
use super::crosscheck::{Crosscheck, Pair};
use super::lock;
use crate::background::{Lazy, Queue};
use crate::cache::Exploration;
use crate::interp::Interp;
use crate::kernel::direct::DirectCode;
use crate::kernel::{Backend, Config, Kernel, Unsupported};
use crate::program::{Entry, Program};
use std::sync::{Arc, Mutex, OnceLock};

/// The result of compiling a shader.
enum Native {
    Code(Arc<dyn Kernel>),
    Unsupported(Unsupported),
    /// The host prefers the interpreter.
    NotPreferred,
}

/// The state of a [`Shader`](super::Shader). Aligned, so that no two reference counts share a cache
/// line.
// `repr(C)`: a run touches the first field only, and finds it at the address of the whole.
#[repr(C, align(64))]
pub(crate) struct Compiled {
    /// Empty while there is no native code, and for good if runs are crosschecked.
    direct: DirectCode,
    pub(super) entry: Entry,
    program: Arc<Program>,
    config: Config,
    /// `None`: the host prefers the interpreter.
    compiler: Option<Arc<Compiler>>,
    /// The graph for the compiler, until the shader is compiled.
    explored: Mutex<Option<Exploration>>,
    /// Requested when the engine first returns the shader; a preloaded one may be compiled before.
    native: Lazy<Native>,
    interpreter: OnceLock<Arc<dyn Kernel>>,
    crosscheck: Option<Crosscheck>,
}

impl Compiled {
    /// A shader that is not compiled yet.
    pub(super) fn new(
        program: Program,
        entry: Entry,
        config: Config,
        explored: Exploration,
        compiler: Option<Arc<Compiler>>,
        crosscheck: Option<Crosscheck>,
    ) -> Compiled {
        let compiles = compiler.as_ref().is_some_and(|compiler| compiler.queue().is_some());
        let explored = Mutex::new(compiles.then_some(explored));
        let (native, interpreter) = Default::default();
        let direct = DirectCode::new(config.layout);
        Compiled {
            direct,
            entry,
            program: Arc::new(program),
            config,
            compiler,
            explored,
            native,
            interpreter,
            crosscheck,
        }
    }

    /// Whether the engine has returned this shader to a caller.
    pub(super) fn requested(&self) -> bool {
        self.native.requested()
    }

    /// On the first request, compiles the shader and then calls `after`: in the background if that
    /// is possible and necessary.
    pub(super) fn request(self: &Arc<Compiled>, after: impl FnOnce(&Compiled) + Send + 'static) {
        self.native.request(self, self.queue(), |compiled| {
            compiled.compile();
            after(compiled);
        });
    }

    /// Compiles the shader on this thread, unless it is compiled. Of concurrent callers one
    /// compiles and the others wait.
    pub(super) fn compile_now(&self) {
        self.compile();
    }

    fn compile(&self) -> &Native {
        let native = self.native.get_or_init(|| {
            let explored = lock(&self.explored).take();
            let Some(compiler) = &self.compiler else { return Native::NotPreferred };
            match compiler.compile(explored, &self.program, self.entry, &self.config) {
                Ok(code) => Native::Code(code),
                Err(reason) => Native::Unsupported(reason),
            }
        });
        self.publish();
        if self.crosscheck().is_some() || !matches!(native, Native::Code(_)) {
            // Runs will need it. Created here, it is counted by the cache.
            self.interpreter();
        }
        if let (Native::Unsupported(reason), Some(compiler)) = (native, &self.compiler)
            // A preloaded shader that no caller requests is not worth a report; its first request
            // comes here again.
            && self.requested()
        {
            // Outside `get_or_init`: the handler may request this very shader.
            compiler.report(self.entry, reason);
        }
        native
    }

    /// Publishes the code that serves a run now. A run that deoptimised may have changed which.
    pub(super) fn publish(&self) {
        if self.crosscheck().is_none()
            && let Some(Native::Code(kernel)) = self.native.get()
        {
            self.direct.publish(kernel);
        }
    }

    /// [`Compiled::publish`] after a run that direct code did not serve.
    pub(super) fn republish(&self) {
        if self.direct.get().is_some() {
            self.publish();
        }
    }

    /// The words, entry and options that it is compiled from.
    #[cfg(feature = "capi")]
    pub(crate) fn source(&self) -> (&Program, Entry, &Config) {
        (&self.program, self.entry, &self.config)
    }

    /// The code that a run calls without its kernel.
    #[inline]
    pub(crate) fn direct(&self) -> &DirectCode {
        &self.direct
    }

    fn queue(&self) -> Option<&Queue> {
        self.compiler.as_ref()?.queue()
    }

    /// The crosscheck of its runs, if there is one. Always `None` in a build without native code,
    /// which then omits the comparison.
    #[inline]
    pub(super) fn crosscheck(&self) -> Option<&Crosscheck> {
        if cfg!(any(feature = "jit", test)) { self.crosscheck.as_ref() } else { None }
    }

    /// The kernels that a crosscheck compares. `None` while there is no native code.
    pub(super) fn pair(&self) -> Option<Pair<'_>> {
        Some(Pair { native: self.native()?, name: self.backend(), oracle: self.interpreter() })
    }

    /// The kernel that serves the next run.
    #[inline]
    pub(super) fn kernel(self: &Arc<Compiled>) -> &dyn Kernel {
        match self.native.get() {
            Some(Native::Code(native)) => &**native,
            _ => self.kernel_without_code(),
        }
    }

    /// The interpreter. If the threads that were to compile have ended with their engine, this
    /// compiles here.
    #[cold]
    #[inline(never)]
    fn kernel_without_code(self: &Arc<Compiled>) -> &dyn Kernel {
        match self.native.get_or_request(self, self.queue(), Compiled::compile) {
            Some(Native::Code(native)) => &**native,
            _ => self.interpreter(),
        }
    }

    fn native(&self) -> Option<&dyn Kernel> {
        match self.native.get()? {
            Native::Code(native) => Some(&**native),
            Native::Unsupported(_) | Native::NotPreferred => None,
        }
    }

    fn interpreter(&self) -> &dyn Kernel {
        let compile = || Interp.compile(&self.program, self.entry, &self.config).expect("it compiles every program");
        &**self.interpreter.get_or_init(compile)
    }
    /// The name of the backend that serves the next run.
    pub(super) fn backend(&self) -> &'static str {
        match &self.compiler {
            Some(compiler) if self.native().is_some() => compiler.name().unwrap_or(Interp.name()),
            _ => Interp.name(),
        }
    }

    /// Why there is no native code although the host prefers it.
    pub(super) fn fallback_reason(&self) -> Option<&Unsupported> {
        match self.native.get()? {
            Native::Unsupported(reason) => Some(reason),
            Native::Code(_) | Native::NotPreferred => None,
        }
    }

    /// Bytes of memory it occupies.
    pub(super) fn held_bytes(&self) -> usize {
        let native = self.native().map_or(0, |native| native.held_bytes());
        let interpreter = self.interpreter.get().map_or(0, |interpreter| interpreter.held_bytes());
        let graph = lock(&self.explored).as_ref().map_or(0, |explored| explored.as_ref().map_or(0, |e| e.bytes()));
        // Native code shares the program and counts it.
        native.max(self.program.bytes()) + interpreter + graph
    }
}
