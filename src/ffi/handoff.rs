//! Passing connections on that the host accepted elsewhere.

use super::handle::with_herd;
use crate::abi::*;
use crate::accept::listener::Acceptance;
use crate::sys::host::HostPointer;
use crate::sys::{Error, Result};
use std::ffi::{c_int, c_void};
use std::slice;

/// Says who gets the connections that come by `herd_handoff_send`, in the workers made from now on.
/// Without a callback, or with NULL, the host takes them with `herd_accept`. Call it in the parent,
/// before the workers are made.
///
/// Returns 0. -EINVAL: NULL herd; -EOPNOTSUPP: the mode is not HERD_MODE_HANDOFF; -EBUSY: a worker of
/// this process exists already and would not see it. Thread: as `herd_listen`. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_on_handoff(
    herd: *mut herd,
    handoff: herd_handoff_fn,
    handoff_data: *mut c_void,
) -> c_int {
    with_herd(herd, |handle| {
        if !handle.herd.has_queues() {
            return Err(Error::errno(libc::EOPNOTSUPP));
        }
        handle.refuse_with_workers()?;
        handle.herd.on_handoff(Acceptance::of_sent(handoff, HostPointer(handoff_data)))?;
        Ok(0)
    })
}

/// Sends a connection to a worker, for servers that accept elsewhere: to the one of `slot`, or
/// with HERD_PICK to the one that `pick_callback` or the balance policy chooses. It arrives there as an
/// accepted connection, with the `tag_bytes` bytes at `tag` (NULL if there are none), and counts as one
/// of its connections. Never blocks. On success the descriptor is closed in this process, without an
/// effect on the connection; on an error it stays the host's, and nothing was sent. A worker that dies
/// before it has taken the connection loses nothing: another one gets it. That `fd` is connected is not
/// checked, only that it is a socket: one whose client has gone looks like one that never had any. The
/// slot of a worker that only accepts (`acceptor_slot`) may be named, and it then serves this connection.
///
/// Returns the slot that it was sent to, >= 0. -EAGAIN: that worker, or with HERD_PICK every worker, is
/// full, has 32 connections on their way to it, backs off, drains, or was found not to take what it is
/// sent and has not gone on since, or there is none; or this user has more descriptors on their way than
/// RLIMIT_NOFILE (unix(7)), or the kernel no memory (ENOMEM, ENOBUFS): try again later. -ESRCH: no worker
/// has the slot; -EBADF: not open; -ENOTSOCK: not a socket; -EMSGSIZE: the tag is longer than
/// HERD_TAG_BYTES_MAX; -EOPNOTSUPP: the mode is not HERD_MODE_HANDOFF; -EINVAL: NULL, no such slot, or
/// tag bytes at NULL; other negated errno values of sendmsg(2). Any process of the herd, any thread.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_handoff_send(
    herd: *mut herd,
    slot: c_int,
    fd: c_int,
    tag: *const c_void,
    tag_bytes: usize,
) -> c_int {
    with_herd(herd, |handle| -> Result<usize> {
        let wanted = match slot {
            HERD_PICK => None,
            slot => Some(u16::try_from(slot).map_err(|_| Error::INVALID)?),
        };
        if tag_bytes > HERD_TAG_BYTES_MAX as usize {
            return Err(Error::errno(libc::EMSGSIZE));
        }
        let tag: &[u8] = match (tag.is_null(), tag_bytes) {
            (_, 0) => &[],
            (true, _) => return Err(Error::INVALID),
            // SAFETY: the host's memory of `tag_bytes` bytes, which it does not change meanwhile.
            (false, _) => unsafe { slice::from_raw_parts(tag.cast(), tag_bytes) },
        };
        handle.herd.send_tagged(wanted, fd, tag).map(usize::from)
    })
}
