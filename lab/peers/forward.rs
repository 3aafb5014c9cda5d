// The malloc family under its C names, each a jump into the allocator that the crate binds as
// `crate::heap`. C++'s operators reach it through libstdc++.
//
// Invariant: nothing here allocates, keeps state or unwinds. Calls that the allocator does not
// provide (reallocarray, valloc, pvalloc, a wrong alignment) are built from those that it does.
// Thread-safety: any thread, at any time, even before the first constructor.

use crate::heap;
use core::ffi::{c_char, c_int, c_void};

const NO_MEMORY: c_int = 12; // ENOMEM
const INVALID: c_int = 22; // EINVAL

unsafe extern "C" {
    fn getpagesize() -> c_int;
    fn __errno_location() -> *mut c_int;
}

/// The version of the allocator inside, which is also the crate's version.
#[unsafe(no_mangle)]
pub extern "C" fn lab_peer_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    unsafe { heap::malloc(size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    unsafe { heap::free(block) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    unsafe { heap::calloc(count, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    unsafe { heap::realloc(block, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<*mut c_void>() {
        return INVALID; // some allocators do not return it, or change *out
    }
    unsafe { heap::posix_memalign(out, alignment, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    unsafe { heap::aligned_alloc(alignment, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    unsafe { heap::memalign(alignment, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    unsafe { heap::malloc_usable_size(block) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => unsafe { heap::realloc(block, bytes) },
        None => no_memory(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    unsafe { heap::memalign(getpagesize() as usize, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = unsafe { getpagesize() as usize };
    match size.max(1).checked_next_multiple_of(page) {
        Some(pages) => unsafe { heap::memalign(page, pages) },
        None => no_memory(),
    }
}

fn no_memory() -> *mut c_void {
    unsafe { *__errno_location() = NO_MEMORY };
    core::ptr::null_mut()
}
