//! Thin safe wrappers on the kernel, one unsafe block per call. They know errno and file
//! descriptors, and nothing of herds.

pub mod activation;
pub mod address;
pub mod bell;
pub mod bpf;
pub mod clock;
pub mod epoll;
pub mod error;
pub mod fork;
pub mod guard_timer;
pub mod host;
pub mod inherited;
pub mod memory;
pub mod named_memory;
pub mod of_process;
pub mod probes;
pub mod record_lock;
pub mod socket;
pub mod socket_file;
pub mod transfer;

pub use error::{Error, Result};

/// Turns the -1 of a system call into the error it left in errno.
fn check(result: i32) -> Result<i32> {
    if result < 0 { Err(Error::last()) } else { Ok(result) }
}

/// Makes a call again that a signal ended before it did anything (EINTR, signal(7)).
fn uninterrupted<T, E: Into<Error>>(
    mut call: impl FnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    loop {
        match call().map_err(Into::into) {
            Err(error) if error == Error::INTERRUPTED => {}
            result => return result,
        }
    }
}
