//! snmalloc as a library to preload.

use snmalloc_sys as _;

#[path = "../../forward.rs"]
mod forward;

mod heap {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        #[link_name = "sn_malloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "sn_free"]
        pub fn free(block: *mut c_void);
        #[link_name = "sn_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "sn_realloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "sn_posix_memalign"]
        pub fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
        #[link_name = "sn_aligned_alloc"]
        pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "sn_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "sn_malloc_usable_size"]
        pub fn malloc_usable_size(block: *mut c_void) -> usize;
    }
}
