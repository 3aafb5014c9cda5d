//! Returns a thread's heap when the thread ends, as rpmalloc's own preload library does.
//!
//! Invariant: every thread that pthread_create starts has a heap before its first call, and the
//! destructor of one key returns it. Thread-safety: any thread.

use core::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(*mut c_void, *const c_void, Start, *mut c_void) -> c_int;

const NEXT: *mut c_void = -1isize as *mut c_void; // RTLD_NEXT
const TRY_AGAIN: c_int = 11; // EAGAIN

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_key_create(key: *mut u32, at_exit: unsafe extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
    fn rpmalloc_thread_initialize();
    fn rpmalloc_thread_finalize(release_caches: c_int);
}

struct Thread {
    start: Start,
    argument: *mut c_void,
}

unsafe extern "C" fn leave(_: *mut c_void) {
    unsafe { rpmalloc_thread_finalize(1) }
}

fn key() -> u32 {
    static KEY: OnceLock<u32> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        if unsafe { pthread_key_create(&mut key, leave) } != 0 {
            std::process::abort();
        }
        key
    })
}

unsafe extern "C-unwind" fn run(thread: *mut c_void) -> *mut c_void {
    unsafe {
        rpmalloc_thread_initialize();
        pthread_setspecific(key(), NEXT); // any value but null
        let Thread { start, argument } = thread.cast::<Thread>().read();
        crate::heap::free(thread);
        start(argument)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    unsafe {
        let found = dlsym(NEXT, c"pthread_create".as_ptr());
        let create: Create = core::mem::transmute(found);
        let record = crate::heap::malloc(size_of::<Thread>()).cast::<Thread>();
        if record.is_null() {
            return TRY_AGAIN;
        }
        record.write(Thread { start, argument });
        let error = create(thread, attributes, run, record.cast());
        if error != 0 {
            crate::heap::free(record.cast());
        }
        error
    }
}
