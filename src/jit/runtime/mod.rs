//! Machine code at run time: the memory it lies in, the calls into it, and the kernel that chooses
//! which code serves a run.

pub(super) mod call;
pub(super) mod code_memory;
mod emit_buffer;
pub(super) mod install;
pub(super) mod kernel;
pub(super) mod lazy_code;
mod outputs_batch;
pub(super) mod run_memory;
mod soa_batch;
