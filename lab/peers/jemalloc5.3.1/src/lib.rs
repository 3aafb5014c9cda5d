//! jemalloc as a library to preload.

use tikv_jemalloc_sys as _;

#[path = "../../forward.rs"]
mod forward;

mod heap {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        #[link_name = "_rjem_malloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "_rjem_free"]
        pub fn free(block: *mut c_void);
        #[link_name = "_rjem_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "_rjem_realloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "_rjem_posix_memalign"]
        pub fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
        #[link_name = "_rjem_aligned_alloc"]
        pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "_rjem_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "_rjem_malloc_usable_size"]
        pub fn malloc_usable_size(block: *mut c_void) -> usize;
    }
}
