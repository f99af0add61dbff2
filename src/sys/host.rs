//! What the host gives to get back in its callbacks.

use std::ffi::c_void;

/// A pointer of the host's, passed on and never followed.
#[derive(Clone, Copy)]
pub struct HostPointer(pub *mut c_void);

// SAFETY: it is never followed here; what other threads do with it is the host's affair, which the
// header tells it.
unsafe impl Send for HostPointer {}
// SAFETY: as above.
unsafe impl Sync for HostPointer {}
