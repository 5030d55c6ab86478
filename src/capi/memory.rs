//! A host's functions for executable memory -> [`ExecutableMemory`]. This file must not know what
//! is stored there.

use super::Fault;
use super::types::{PjInstallFn, PjMemory, PjReleaseFn, User};
use crate::executable::ExecutableMemory;
use std::io;
use std::ptr::NonNull;

/// Executable memory from the functions of `pj_memory`.
pub(super) struct HostPages {
    install: PjInstallFn,
    release: PjReleaseFn,
    user: User,
}

impl HostPages {
    /// Fails if a function is missing.
    pub(super) fn new(memory: &PjMemory) -> Result<HostPages, Fault> {
        let install = memory.install.ok_or(Fault::Null("pj_memory.install"))?;
        let release = memory.release.ok_or(Fault::Null("pj_memory.release"))?;
        Ok(HostPages { install, release, user: User::new(memory.user) })
    }
}

// SAFETY: the header requires of the two functions what the trait requires.
unsafe impl ExecutableMemory for HostPages {
    fn install(&self, code: &[u8]) -> io::Result<NonNull<u8>> {
        // SAFETY: the host's function gets the host's pointer, on any thread, as the header says.
        let at = unsafe { (self.install)(self.user.get(), code.as_ptr().cast(), code.len()) };
        NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    fn release(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: as above.
        unsafe { (self.release)(self.user.get(), at.as_ptr().cast(), bytes) };
    }
}

#[cfg(all(test, feature = "jit"))]
mod tests {
    use super::super::tests::{CODE, engine, shader, uniforms, unit};
    use super::super::*;
    use std::ptr::{from_mut, null_mut};

    /// A host that maps pages for each function.
    #[test]
    fn code_runs_in_memory_of_the_host() {
        type Pages = std::sync::Mutex<Vec<memmap2::Mmap>>;
        unsafe extern "C" fn install(user: *mut c_void, code: *const c_void, bytes: usize) -> *mut c_void {
            // SAFETY: the engine's `user` pointer, valid for its lifetime, and `bytes` bytes.
            let (pages, code) =
                unsafe { (&*user.cast::<Pages>(), std::slice::from_raw_parts(code.cast::<u8>(), bytes)) };
            let mut page = memmap2::MmapMut::map_anon(bytes).expect("a page");
            page.copy_from_slice(code);
            let page = page.make_exec().expect("executable");
            let at = page.as_ptr().cast_mut().cast();
            pages.lock().expect("no panic").push(page);
            at
        }
        unsafe extern "C" fn nothing(_: *mut c_void, _: *const c_void, _: usize) -> *mut c_void {
            null_mut()
        }
        unsafe extern "C" fn release(user: *mut c_void, code: *mut c_void, bytes: usize) {
            // SAFETY: as above.
            let pages = unsafe { &*user.cast::<Pages>() };
            pages
                .lock()
                .expect("no panic")
                .retain(|page| !(page.as_ptr().cast() == code.cast_const() && page.len() == bytes));
        }
        // Only on x86-64 does code become executable without cache maintenance.
        if cfg!(not(target_arch = "x86_64")) {
            return;
        }
        let pages: Pages = Pages::default();
        let user = (&raw const pages).cast_mut().cast();
        let memory =
            PjMemory { struct_size: size_of::<PjMemory>(), install: Some(install), release: Some(release), user };
        let required = PjOptions { backend: PJ_NATIVE_REQUIRED, ..PjOptions::ZERO };
        let made = engine(&PjOptions { memory: &memory, ..required }).expect("native code is possible");
        let one = shader(made, &CODE, PJ_VERTEX).expect("a shader");
        assert_eq!(pages.lock().expect("no panic").len(), 1);
        let (mut unit, mut uniforms) = (unit(), uniforms());
        unit.v[0] = [3.0, 1.0, 2.0, 0.5];
        let (u, c) = (from_mut(&mut *unit).cast(), from_mut(&mut *uniforms).cast_const().cast());
        // SAFETY: all are valid.
        unsafe {
            assert_eq!(pj_run(one, u, c, None, null_mut()), PJ_END);
            pj_engine_free(made);
            assert_eq!(pj_run(one, u, c, None, null_mut()), PJ_END);
            pj_shader_release(one);
        }
        assert_eq!(unit.o[0][1], [6.0; 4]);
        assert!(pages.lock().expect("no panic").is_empty(), "all memory is released");
        let none = PjMemory { install: Some(nothing), ..memory };
        let made = engine(&PjOptions { memory: &none, ..required }).expect("not known yet");
        let (status, text) = shader(made, &CODE, PJ_VERTEX).expect_err("but there is no room");
        assert_eq!(status, PJ_NO_NATIVE);
        assert!(text.contains("the memory that the host lends has no room: `install` failed: out of memory"), "{text}");
        // SAFETY: the last use.
        unsafe { pj_engine_free(made) };
        let half = PjMemory { release: None, ..none };
        assert_eq!(engine(&PjOptions { memory: &half, ..PjOptions::ZERO }).expect_err("wrong").0, PJ_NULL);
    }
}
