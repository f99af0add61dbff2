//! Events of the host's descriptors.

use super::fence::{code, fence};
use super::handle::with_worker;
use crate::abi::*;
use crate::reactor::init_event;
use std::ffi::{c_int, c_void};

/// Prepares the memory of an event, whatever it holds. Not for an event that is added or posted.
///
/// Returns 0. -EINVAL: `event` or `handler` is NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_event_init(
    event: *mut herd_event,
    handler: herd_event_fn,
    data: *mut c_void,
) -> c_int {
    code(fence(|| init_event(event, handler, data).map(|()| 0), |_| ()))
}

/// Watches `fd` for `interest` (HERD_READ, HERD_WRITE, HERD_PEER_CLOSED, HERD_EDGE): `event`'s
/// handler runs when something of it is so. The descriptor stays the host's; make it non-blocking.
/// No allocation while descriptor numbers are below worker_connections (65536 at most).
///
/// Returns 0. -EINVAL: NULL, not initialised, or an unknown interest; -EEXIST: the event is added
/// already, or another event watches `fd`; -EBUSY: in use at another worker; -EBADF: `fd` is not open;
/// -EPERM: epoll cannot watch it (a regular file); -ENOMEM, -ENOSPC: see epoll_ctl(2); HERD_EHOSTLOOP: a
/// loop of the host's waits for this worker, and watches the host's descriptors. Otherwise negative: see
/// `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_event_add(
    worker: *mut herd_worker,
    event: *mut herd_event,
    fd: c_int,
    interest: u32,
) -> c_int {
    with_worker(worker, |worker| {
        worker.refuse_host_loop()?;
        worker.reactor().add(event, fd, interest).map(|()| 0)
    })
}

/// Changes what an added event is interested in; 0: nothing but errors and hang-ups.
///
/// Returns 0. -ENOENT: it is not added; -EBADF: the host has closed its descriptor; others as
/// `herd_event_add`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_event_mod(
    worker: *mut herd_worker,
    event: *mut herd_event,
    interest: u32,
) -> c_int {
    with_worker(worker, |worker| worker.reactor().modify(event, interest).map(|()| 0))
}

/// Removes an event from the epoll set and from any posted queue. Its handler does not run any
/// more, and it may be freed, also in its own handler. To be called before the descriptor is closed:
/// while any other process has the file open, closing does not end the registration (epoll(7)).
///
/// Returns 0. -ENOENT: it is neither added nor posted; -EBADF: it was removed, but the host had closed
/// its descriptor before. -EBUSY: posted to another worker from outside, or in use there: nothing was
/// changed. -EINVAL: as `herd_event_add`. Otherwise negative: see `struct herd_worker`. Thread: the
/// worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_event_del(worker: *mut herd_worker, event: *mut herd_event) -> c_int {
    with_worker(worker, |worker| {
        worker.reactor().delete(event, &worker.remote().posted).map(|()| 0)
    })
}

/// Posts an initialised event to the worker's HERD_POSTED_EVENTS from any thread of its process, and
/// wakes the worker. Several posts before the handler runs are one. The event must not be
/// initialised or freed meanwhile, nor be added to or posted at another worker.
///
/// Returns 1: posted; 0: it was posted already and the worker has not taken it up yet. -EINVAL: NULL or
/// not initialised. Otherwise negative: see `struct herd_worker`. Any thread of this process, and signal
/// handlers. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_post_remote(worker: *mut herd_worker, event: *mut herd_event) -> c_int {
    with_worker(worker, |worker| Ok(usize::from(worker.post_remote(event)?)))
}
