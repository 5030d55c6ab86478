//! The statuses, the exits and the version of the header.

#![allow(missing_docs)]

pub const PJ_OK: i32 = 0;
pub const PJ_NULL: i32 = -1;
pub const PJ_INVALID_ARGUMENT: i32 = -2;
pub const PJ_INVALID_LAYOUT: i32 = -3;
pub const PJ_PROGRAM_TOO_LONG: i32 = -4;
pub const PJ_NO_NATIVE: i32 = -5;
pub const PJ_MISALIGNED: i32 = -6;
pub const PJ_OVERLAP: i32 = -7;
pub const PJ_INTERNAL: i32 = -8;
pub const PJ_BUSY: i32 = -9;
pub const PJ_NO_GPU_CODE: i32 = -10;
pub const PJ_CPU_ONLY: i32 = -11;
pub const PJ_VERSION_MISMATCH: i32 = -12;
pub const PJ_NO_MEMORY: i32 = -13;
pub const PJ_END: i32 = 0;
pub const PJ_OUT_OF_FUEL: i32 = 1;
pub const PJ_BREAK_OUTSIDE_LOOP: i32 = 2;
pub const PJ_PAST_END: i32 = 3;
pub const PJ_STOPPED: i32 = 4;
pub const PJ_CANCELLED: i32 = 5;
pub const PJ_VERTEX_LIMIT: i32 = 6;

/// The version of the library, as `pj_version` returns it.
pub(super) const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
    | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
    | number(env!("CARGO_PKG_VERSION_PATCH"));

/// The number of one of cargo's texts.
const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("cargo's version numbers are numbers"),
    }
}
