//! The error of every fallible call: a code as the C API returns it. Knows only the codes.

use crate::abi;
use nix::errno::Errno;
use std::ffi::CStr;

/// A negated errno, or one of the `HERD_E...` codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error(i32);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub const FORKED: Error = Error(abi::HERD_EFORKED);
    pub const POISONED: Error = Error(abi::HERD_EPOISONED);
    pub const REENTERED: Error = Error(abi::HERD_EREENTERED);
    pub const DESTROYED: Error = Error(abi::HERD_EDESTROYED);
    pub const INTERNAL: Error = Error(abi::HERD_EINTERNAL);
    pub const ABI: Error = Error(abi::HERD_EABI);
    pub const NO_SLOT: Error = Error(abi::HERD_ENOSLOT);
    pub const REAPED: Error = Error(abi::HERD_EREAPED);
    pub const NESTED: Error = Error(abi::HERD_ENESTED);
    pub const HOST_LOOP: Error = Error(abi::HERD_EHOSTLOOP);
    pub const VERSION: Error = Error(abi::HERD_EVERSION);
    pub const DAMAGED: Error = Error(abi::HERD_EDAMAGED);
    pub const OBSERVER: Error = Error(abi::HERD_EOBSERVER);
    pub const INVALID: Error = Error::errno(libc::EINVAL);
    pub const NO_MEMORY: Error = Error::errno(libc::ENOMEM);
    pub const BUSY: Error = Error::errno(libc::EBUSY);
    pub const NOT_FOUND: Error = Error::errno(libc::ENOENT);
    pub const EXISTS: Error = Error::errno(libc::EEXIST);
    pub const AGAIN: Error = Error::errno(libc::EAGAIN);
    pub const BAD_FD: Error = Error::errno(libc::EBADF);
    pub const INTERRUPTED: Error = Error::errno(libc::EINTR);

    pub const fn errno(errno: i32) -> Error {
        Error(-errno)
    }

    /// The errno that the last failed system call of this thread left.
    pub fn last() -> Error {
        Error::errno(Errno::last_raw())
    }

    /// The return code of the C API: always negative.
    pub const fn code(self) -> i32 {
        self.0
    }

    pub fn text(self) -> &'static CStr {
        describe(self.0)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error::errno(errno as i32)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.text().to_string_lossy())
    }
}

/// The text of a return code. Static, so that the C API can hand it out without an allocation.
pub fn describe(code: i32) -> &'static CStr {
    match code {
        0.. => c"success",
        abi::HERD_EFORKED => c"used in a process forked after it was made",
        abi::HERD_EPOISONED => c"worker is unusable: the log says why",
        abi::HERD_EREENTERED => c"called from inside a callback of the same worker",
        abi::HERD_EDESTROYED => c"worker was destroyed",
        abi::HERD_EINTERNAL => c"internal error of libherd",
        abi::HERD_EABI => c"struct size not known: use the struct's initialiser",
        abi::HERD_ENOSLOT => c"every worker slot is taken",
        abi::HERD_EREAPED => c"slot was taken away: the worker was found dead",
        abi::HERD_ENESTED => {
            c"this mode behind a polled descriptor: use HERD_MODE_MUTEX or herd_attach_epoll"
        }
        abi::HERD_EHOSTLOOP => c"not the call for who waits: the host's loop or herd_run_once",
        abi::HERD_EVERSION => c"herd runs another version of libherd",
        abi::HERD_EDAMAGED => c"no herd is in the file, or its memory is damaged",
        abi::HERD_EOBSERVER => c"herd was opened to be looked at only",
        -4095..=-1 => errno_text(-code),
        _ => c"unknown error code",
    }
}

fn errno_text(errno: i32) -> &'static CStr {
    if Errno::from_raw(errno) == Errno::UnknownErrno {
        return c"unknown error code";
    }
    // SAFETY: for an errno that it knows, strerror returns text of the C library's own table (or
    // its message catalogue), which is never freed or changed.
    unsafe { CStr::from_ptr(libc::strerror(errno)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let own = abi::HERD_EOBSERVER..=abi::HERD_EFORKED;
        let mut texts: Vec<_> = own.map(describe).collect();
        assert!(!texts.contains(&describe(i32::MIN)));
        texts.sort();
        let count = texts.len();
        texts.dedup();
        assert_eq!(texts.len(), count);
        assert_eq!(describe(-libc::EADDRINUSE), c"Address already in use");
        assert_eq!(describe(7), c"success");
    }
}
