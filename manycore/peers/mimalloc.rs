//! mimalloc as a library to preload.

use libmimalloc_sys as _;

#[path = "../../lab/peers/forward.rs"]
mod forward;

mod heap {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        #[link_name = "mi_malloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "mi_free"]
        pub fn free(block: *mut c_void);
        #[link_name = "mi_calloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_realloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "mi_posix_memalign"]
        pub fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
        #[link_name = "mi_aligned_alloc"]
        pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_memalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "mi_malloc_usable_size"]
        pub fn malloc_usable_size(block: *mut c_void) -> usize;
    }
}
