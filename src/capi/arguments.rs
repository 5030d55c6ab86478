//! Pointers and structures of a call -> checked references and values, and results in the host's
//! memory.
//!
//! Invariant: null, misaligned and impossibly long memory is an error, not undefined behaviour.
//! This file must not know what the structures mean.

use super::Fault;
use super::types::{PJ_OK, largest};
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
pub(super) unsafe fn deref<'a, T>(pointer: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller guarantees it.
    unsafe { pointer.as_ref() }.ok_or(Fault::Null)
}

/// Checks a pointer to a result.
pub(super) fn out_pointer<T>(pointer: *mut T) -> Result<NonNull<T>, Fault> {
    check_pointer(pointer, 1)?;
    NonNull::new(pointer).ok_or(Fault::Null)
}

/// # Safety
/// `pointer` is null, or `len` of its type can be read there for `'a` and no other code writes
/// them.
pub(super) unsafe fn input_slice<'a, T>(pointer: *const T, len: usize) -> Result<&'a [T], Fault> {
    if len == 0 {
        return Ok(&[]);
    }
    check_pointer(pointer, len)?;
    // SAFETY: not null, aligned, no longer than a slice may be; the caller guarantees the rest.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

pub(super) fn check_pointer<T>(pointer: *const T, len: usize) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::Null);
    }
    if !pointer.is_aligned() {
        return Err(Fault::Misaligned);
    }
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Fault::InvalidArgument),
    }
}

/// Reads and checks a structure's declared size. Valid sizes are those in `known`, one for each
/// version, and larger ones of later headers.
///
/// # Safety
/// `pointer` is null or valid for reading its first field.
pub(super) unsafe fn declared_size<T>(pointer: *const T, known: &[usize]) -> Result<usize, Fault> {
    check_pointer(pointer, 1)?;
    // SAFETY: such structures begin with their size.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    // This version's size first, which nearly all hosts declare.
    let valid = bytes == size_of::<T>() || known.contains(&bytes) || (size_of::<T>()..=largest::<T>()).contains(&bytes);
    if valid { Ok(bytes) } else { Err(Fault::InvalidArgument) }
}

/// Reads a structure that begins with its size; `default` supplies the fields that the host does
/// not know. Sizes that no version had are errors: half a field, such as half a pointer, is worse
/// than none.
///
/// # Safety
/// `pointer` is null or valid for as many bytes as its first field says. Any bytes are a valid `T`.
pub(super) unsafe fn read_sized<T>(pointer: *const T, mut default: T, known: &[usize]) -> Result<T, Fault> {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { declared_size(pointer, known) }?;
    if bytes == size_of::<T>() {
        // A copy of fixed length, which costs less than one of any.
        // SAFETY: that many bytes are readable and aligned, and any bytes are a valid `T`.
        return Ok(unsafe { pointer.read() });
    }
    // SAFETY: no more bytes than either side has, and any bytes are a valid `T`.
    unsafe { (&raw mut default).cast::<u8>().copy_from_nonoverlapping(pointer.cast(), bytes.min(size_of::<T>())) };
    Ok(default)
}

/// Writes as much of `value` as the host's structure has room for. Its size field stays unchanged.
///
/// # Safety
/// `to` is null, or valid for writing as many bytes as its first field says.
pub(super) unsafe fn write_sized<T>(to: *mut T, value: &T, known: &[usize]) -> Result<i32, Fault> {
    let head = size_of::<usize>();
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { declared_size(to, known) }?.min(size_of::<T>()) - head;
    // SAFETY: after the size field, no more bytes than either side has. The structures have no
    // padding.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<u8>().add(head);
        to.cast::<u8>().add(head).copy_from_nonoverlapping(from, bytes);
    }
    Ok(PJ_OK)
}

/// Whether two ranges of addresses have a byte in common.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}
