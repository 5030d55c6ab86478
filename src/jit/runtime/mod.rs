//! Machine code at run time: the memory it lies in, the calls into it, and the kernel that chooses
//! which code serves a run.

pub(super) mod call;
pub(super) mod code_memory;
mod emit_buffer;
mod emitting_batch;
pub(super) mod install;
pub(super) mod kernel;
mod last_writers;
pub(super) mod lazy_code;
#[cfg(any(test, all(target_os = "macos", target_arch = "aarch64")))]
mod map_jit;
mod outputs_batch;
