//! rpmalloc as a library to preload. With `preload` it starts itself at a thread's first call;
//! with `validate_args` calloc detects an overflow.

use rpmalloc_sys as _;

#[path = "../../forward.rs"]
mod forward;
mod threads;

mod heap {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        #[link_name = "rpmalloc"]
        pub fn malloc(size: usize) -> *mut c_void;
        #[link_name = "rpfree"]
        pub fn free(block: *mut c_void);
        #[link_name = "rpcalloc"]
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        #[link_name = "rprealloc"]
        pub fn realloc(block: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "rpposix_memalign"]
        pub fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
        #[link_name = "rpaligned_alloc"]
        pub fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "rpmemalign"]
        pub fn memalign(alignment: usize, size: usize) -> *mut c_void;
        #[link_name = "rpmalloc_usable_size"]
        pub fn malloc_usable_size(block: *mut c_void) -> usize;
    }
}
