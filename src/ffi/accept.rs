//! Accepting by pull.

use super::handle::with_worker;
use super::sized;
use crate::abi::*;
use crate::accept::handoff::{Origin, Tag};
use std::ffi::c_int;
use std::mem::size_of;
use std::os::fd::IntoRawFd;

/// Takes the next connection of the listeners that have no accept callback. Call it until -EAGAIN after
/// each `herd_run_once`, or in a hand-written turn instead of
/// `herd_process_posted(w, HERD_POSTED_ACCEPT)`. While connections are left that were accepted but not
/// taken, the worker does not accept more. The connection counts as open: call `herd_conn_closed` once
/// when it is closed. If you have added it to an epoll set, take it out (EPOLL_CTL_DEL) before you close
/// it: see `herd_attach_epoll`.
///
/// Returns 0 and fills `*accepted`, whose fd is the host's from then on. -EAGAIN: none, or accept_batch
/// were taken in this turn; -EINVAL: NULL; HERD_EABI: `accepted->size`; -EBADF, -EINVAL, -ENOTSOCK,
/// -EOPNOTSUPP: a listener cannot be used, as in `herd_run_once`; HERD_EREAPED. Otherwise negative: see
/// `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_accept(worker: *mut herd_worker, accepted: *mut herd_accepted) -> c_int {
    with_worker(worker, |worker| {
        sized::check_output(accepted)?;
        let taken = worker.accept_pulled()?;
        let (listener, tag) = match &taken.origin {
            Origin::Listener(number) => (u32::from(*number), None),
            Origin::Sent(tag) => (HERD_LISTENER_NONE, Some(tag)),
        };
        let filled = herd_accepted {
            size: size_of::<herd_accepted>() as u32,
            listener,
            tag_bytes: tag.map_or(0, |tag| tag.bytes().len() as u32),
            tag: tag.map_or([0; HERD_TAG_BYTES_MAX as usize], Tag::padded),
            peer_length: taken.connection.peer_length,
            peer: taken.connection.peer,
            fd: taken.connection.fd.into_raw_fd(),
        };
        sized::write(accepted, filled).map(|()| 0)
    })
}
