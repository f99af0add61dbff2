//! Calls that tests need and that no installed library has.

use super::handle::{with_any_herd, with_worker};
use crate::abi::*;
use std::ffi::c_int;

/// Panics inside the library, as a defect of it would.
#[unsafe(no_mangle)]
pub extern "C" fn herd_test_panic(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |_| panic!("asked for by a test"))
}

/// The same, inside a call of a herd.
#[unsafe(no_mangle)]
pub extern "C" fn herd_test_panic_of_herd(herd: *mut herd) -> c_int {
    with_any_herd(herd, |_| panic!("asked for by a test"))
}
