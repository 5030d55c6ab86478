//! Pointers and structures of a call -> checked references and values, and results in the host's
//! memory.
//!
//! Invariant: null, misaligned and impossibly long memory is an error, not undefined behaviour.
//! This file must not know what the structures mean.

use super::Fault;
use super::status::PJ_OK;
use crate::headroom;
use std::ffi::c_char;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

/// Copies as many whole characters of a text as fit, and a final 0.
///
/// # Safety
/// `to` is null, or `bytes` bytes may be written there.
pub(super) unsafe fn copy_text(text: &str, to: *mut c_char, bytes: usize) {
    if to.is_null() || bytes == 0 {
        return;
    }
    let end = (0..bytes.min(text.len() + 1)).rev().find(|&n| text.is_char_boundary(n)).unwrap_or(0);
    // SAFETY: `end` is less than `bytes`, which the caller guarantees, and at most the text's
    // length.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end);
        to.add(end).write(0);
    }
}

/// # Safety
/// `pointer` is null or valid for `'a`.
pub(super) unsafe fn deref<'a, T>(pointer: *const T, name: &'static str) -> Result<&'a T, Fault> {
    // SAFETY: the caller guarantees it. Not `ok_or`, which calls the destructor of an unused fault.
    let Some(value) = (unsafe { pointer.as_ref() }) else { return Err(Fault::Null(name)) };
    Ok(value)
}

/// Checks a pointer to a result.
pub(super) fn out_pointer<T>(pointer: *mut T, name: &'static str) -> Result<NonNull<T>, Fault> {
    check_pointer(pointer, 1, name)?;
    NonNull::new(pointer).ok_or(Fault::Null(name))
}

/// Checks a pointer to a result that the host may leave out.
pub(super) fn optional_pointer<T>(pointer: *mut T, name: &'static str) -> Result<Option<NonNull<T>>, Fault> {
    if pointer.is_null() { Ok(None) } else { out_pointer(pointer, name).map(Some) }
}

/// # Safety
/// `pointer` is null, or `len` of its type can be read there for `'a` and no other code writes
/// them.
pub(super) unsafe fn input_slice<'a, T>(pointer: *const T, len: usize, name: &'static str) -> Result<&'a [T], Fault> {
    if len == 0 {
        return Ok(&[]);
    }
    check_pointer(pointer, len, name)?;
    // SAFETY: not null, aligned, no longer than a slice may be; the caller guarantees the rest.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

pub(super) fn check_pointer<T>(pointer: *const T, len: usize, name: &'static str) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::Null(name));
    }
    if !pointer.is_aligned() {
        return Err(Fault::Misaligned(name, align_of::<T>()));
    }
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Fault::TooLong(name, len)),
    }
}

/// A structure of the header that begins with its size.
///
/// # Safety
/// The first field is `struct_size`, any bytes are a valid value, and there is no padding.
pub(super) unsafe trait Structure {
    /// Its name in C.
    const NAME: &'static str;
}

/// Declares structures of the header that begin with their size, with their names in C.
macro_rules! structures {
    ($($structure:ident $name:literal)*) => {
        $(
            const _: () = assert!(std::mem::offset_of!($structure, struct_size) == 0);
            // SAFETY: the size is the first field. The fields are numbers, pointers, optional functions
            // and arrays of them; a test compares their offsets, which leave no gap.
            unsafe impl crate::capi::arguments::Structure for $structure {
                const NAME: &'static str = $name;
            }
        )*
    };
}
pub(super) use structures;

/// Checks a structure's declared size. One version of the library has one size; `pj_engine_new` checks
/// the version.
///
/// # Safety
/// `pointer` is null or valid for reading its first field.
pub(super) unsafe fn check_size<T: Structure>(pointer: *const T) -> Result<(), Fault> {
    check_pointer(pointer, 1, T::NAME)?;
    // SAFETY: such structures begin with their size.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    if bytes == size_of::<T>() { Ok(()) } else { Err(Fault::Size(T::NAME, bytes, size_of::<T>())) }
}

/// Reads a structure that begins with its size.
///
/// # Safety
/// `pointer` is null or valid for as many bytes as its first field says.
pub(super) unsafe fn read_sized<T: Structure>(pointer: *const T) -> Result<T, Fault> {
    // SAFETY: the caller guarantees it. Then that many bytes are readable and aligned, and any bytes are a
    // valid `T`.
    unsafe {
        check_size(pointer)?;
        Ok(pointer.read())
    }
}

/// [`read_sized`] through a field of another structure.
///
/// # Safety
/// As there.
pub(super) unsafe fn read_sized_field<T: Structure>(pointer: *const T, name: &'static str) -> Result<T, Fault> {
    check_pointer(pointer, 1, name)?;
    // SAFETY: the caller guarantees it.
    unsafe { read_sized(pointer) }
}

/// Writes a structure that begins with its size.
///
/// # Safety
/// `to` is null, or valid for writing as many bytes as its first field says.
pub(super) unsafe fn write_sized<T: Structure>(to: *mut T, value: T) -> Result<i32, Fault> {
    // SAFETY: the caller guarantees it.
    unsafe {
        check_size(to)?;
        to.write(value);
    }
    Ok(PJ_OK)
}

/// [`write_sized`] of a structure that the host may leave out, checked by [`check_optional`].
///
/// # Safety
/// As there.
pub(super) unsafe fn write_optional<T: Structure>(to: *mut T, value: T) -> Result<i32, Fault> {
    // SAFETY: the caller guarantees it.
    if to.is_null() { Ok(PJ_OK) } else { unsafe { write_sized(to, value) } }
}

/// Checks a structure that the host may leave out, before the call has effects.
///
/// # Safety
/// As for [`check_size`].
pub(super) unsafe fn check_optional<T: Structure>(pointer: *const T) -> Result<(), Fault> {
    // SAFETY: the caller guarantees it.
    if pointer.is_null() { Ok(()) } else { unsafe { check_size(pointer) } }
}

/// Checks that the process gets this much memory: the standard library aborts where an allocation fails.
pub(super) fn check_memory(bytes: usize) -> Result<(), Fault> {
    if headroom::has_memory(bytes) { Ok(()) } else { Err(Fault::NoMemory(bytes)) }
}

/// Checks a number against the largest that its place takes.
pub(super) fn at_most(value: impl Into<u64>, most: u64, name: &'static str, bounds: &'static str) -> Result<(), Fault> {
    let value = value.into();
    if value <= most { Ok(()) } else { Err(Fault::Range(name, value, bounds)) }
}

/// Whether two ranges of addresses have a byte in common.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
