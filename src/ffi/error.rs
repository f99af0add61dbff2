//! Explaining return codes.

use crate::sys::error::describe;
use std::ffi::{c_char, c_int};

/// Explains a return code of this library: static text in plain words, as strerror(3) has it for
/// negated errno values. Never NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_strerror(code: c_int) -> *const c_char {
    describe(code).as_ptr()
}
