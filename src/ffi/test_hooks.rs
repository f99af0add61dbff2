//! Calls that tests need and that no installed library has.

use super::handle::with_worker;
use crate::abi::*;
use std::ffi::c_int;

/// Panics inside the library, as a defect of it would.
#[unsafe(no_mangle)]
pub extern "C" fn herd_test_panic(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |_| panic!("asked for by a test"))
}
