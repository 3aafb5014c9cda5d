//! A workload of the lab over crossbeam-epoch: it does the work of lab/reclaim/set_work.h on a list
//! and a hash map of our own, and prints a result line with the same entries.
//!
//! Memory comes from the process's malloc (`System`), so the preloaded allocator serves it.
//! The exit status is that of every workload: 2 for wrong options, 3 if the proof fails.

mod list;
mod options;
mod set;
mod work;

use options::{Options, Structure};
use std::alloc::System;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::ExitCode;

#[global_allocator]
static MALLOC: System = System;

const SCHEME: &str = concat!("crossbeam-epoch ", env!("CARGO_PKG_VERSION"));

fn main() -> ExitCode {
    let options = match options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("crossbeam_set: {problem}");
            return ExitCode::from(2);
        }
    };
    let outcome = run(&options);
    report(&outcome);
    if outcome.verified {
        return ExitCode::SUCCESS;
    }
    eprintln!("crossbeam_set: the set does not hold what was put in");
    ExitCode::from(3)
}

fn run(options: &Options) -> work::Outcome {
    match options.structure {
        Structure::List => work::run(&list::List::new(), options),
        Structure::HashMap => work::run(&set::HashMap::new(options.buckets as usize), options),
        Structure::None => work::pin(options),
    }
}

fn report(outcome: &work::Outcome) {
    let work::Outcome {
        seconds,
        total,
        prefilled,
        size,
        verified,
    } = outcome;
    let operations = total.operations;
    let ops_per_s = operations as f64 / seconds;
    print!("{{\"name\":\"crossbeam_set\",\"seconds\":{seconds},\"operations\":{operations},");
    print!(
        "\"checksum\":\"{:016x}\",\"verified\":{verified},",
        total.checksum
    );
    print!(
        "\"malloc_from\":\"{}\",\"ops_per_s\":{ops_per_s},",
        malloc_from()
    );
    print!("\"scheme\":\"{SCHEME}\",\"inserted\":{},", total.inserted);
    print!("\"erased\":{},\"prefilled\":{prefilled},", total.erased);
    println!("\"size\":{size}}}");
}

/// The C library's layout, dladdr(3).
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The library that serves malloc in this process.
fn malloc_from() -> String {
    let mut info: DlInfo = unsafe { std::mem::zeroed() };
    let file = unsafe {
        let malloc = dlsym(std::ptr::null_mut(), c"malloc".as_ptr());
        if malloc.is_null() || dladdr(malloc, &mut info) == 0 {
            return "unknown".to_string();
        }
        CStr::from_ptr(info.file)
    };
    file.to_string_lossy().into_owned()
}
