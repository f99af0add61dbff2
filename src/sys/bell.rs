//! A worker's bell: an eventfd(2) that wakes it. Watched edge-triggered, so each ring is an event
//! of its own and nobody has to read it.

use super::error::Result;
use super::uninterrupted;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsRawFd, RawFd};

pub struct Bell(EventFd);

impl Bell {
    pub fn new() -> Result<Bell> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Bell(EventFd::from_value_and_flags(0, flags)?))
    }

    /// Wakes whoever watches the bell. One write(2): safe in a signal handler and in any thread.
    pub fn ring(&self) {
        // Can fail only when 2^64 - 2 rings were never read: then an event is pending anyway.
        let _ = uninterrupted(|| self.0.write(1));
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
