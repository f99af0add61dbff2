//! The parts of a turn, for hosts that write it by hand as nginx does. One turn is:
//!
//! ```c
//! herd_trylock(w);
//! herd_process_events(w, timeout_ms, HERD_POST_EVENTS);
//! herd_process_posted(w, HERD_POSTED_ACCEPT);
//! herd_unlock(w);
//! herd_process_timers(w);
//! herd_process_posted(w, HERD_POSTED_EVENTS);
//! ```

use super::handle::{quickly, with_loop, with_worker};
use crate::abi::*;
use crate::reactor::Queue;
use crate::sys::{Error, Result};
use crate::worker::Worker;
use std::ffi::c_int;

/// A queue that events can be posted to.
fn host_queue(queue: u32) -> Result<Queue> {
    match queue {
        HERD_POSTED_EVENTS => Ok(Queue::Events),
        HERD_POSTED_NEXT => Ok(Queue::Next),
        _ => Err(Error::INVALID),
    }
}

/// Tries for the accept right. Held: the listeners are armed, and events should be posted and the
/// right given up before they are run. Not held: the listeners are disarmed, and another worker
/// accepts. Never blocks. Where workers do not compete for it (HERD_MODE_EXCLUSIVE,
/// HERD_MODE_REUSEPORT, HERD_MODE_SHARED, max_workers 1) the answer is 1 unless the worker steps back.
///
/// Returns 1: held; 0: not: another worker holds it, or this one steps back: it is full (where workers
/// compete: over 7/8 of its connections are in use), out of descriptors or of epoll watches, draining,
/// has just woken a less loaded worker, or the host has not taken all accepted connections; or in
/// HERD_MODE_HANDOFF it is not the worker of acceptor_slot, or no worker can take a connection. Negative:
/// HERD_EREAPED, or see `struct herd_worker`; then it is not held. Thread: the worker's own, not from a
/// callback. nginx: ngx_trylock_accept_mutex. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_trylock(worker: *mut herd_worker) -> c_int {
    quickly(worker, Worker::trylock_quickly).unwrap_or_else(|| trylock_in_full(worker))
}

#[inline(never)]
extern "C" fn trylock_in_full(worker: *mut herd_worker) -> c_int {
    with_loop(worker, |worker| Ok(usize::from(worker.trylock()?)))
}

/// Gives the accept right up. The listeners stay armed until the next `herd_trylock` fails, as in
/// nginx; a worker that steps back or has much more load than an idle one disarms them now and
/// wakes another worker. In HERD_MODE_HANDOFF what was accepted is passed on then. To be called in
/// every turn, whatever `herd_trylock` said; a worker that waits again without it gives the right
/// up then.
///
/// Returns 1: it was held until now; 0: it was not, or was taken away from this worker because it made no
/// progress. Negative: see `struct herd_worker`. Thread: the worker's own. nginx: ngx_shmtx_unlock. Since
/// 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_unlock(worker: *mut herd_worker) -> c_int {
    quickly(worker, Worker::unlock_quickly).unwrap_or_else(|| unlock_in_full(worker))
}

#[inline(never)]
extern "C" fn unlock_in_full(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| Ok(usize::from(worker.unlock())))
}

/// Arms the listeners without asking for the accept right, until the next `herd_trylock` decides.
///
/// Returns 0. -ENOMEM, -ENOSPC: see epoll_ctl(2); HERD_EREAPED. Otherwise negative: see
/// `struct herd_worker`. None is armed then that was not. Thread: the worker's own. nginx:
/// ngx_enable_accept_events. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_enable_accept(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| worker.enable_accept().map(|()| 0))
}

/// Disarms the listeners, until the next `herd_trylock` decides.
///
/// Returns 0. Negative: see `struct herd_worker`. Thread: the worker's own. nginx:
/// ngx_disable_accept_events. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_disable_accept(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.disable_accept();
        Ok(0)
    })
}

/// Waits for events for at most `timeout_ms` milliseconds (-1: as long as it takes) and sorts them:
/// ready listeners to HERD_POSTED_ACCEPT, others to HERD_POSTED_EVENTS. Does not wait if events are
/// posted already, and not beyond the next timer. With HERD_POST_EVENTS in `flags` that is all.
/// Without (0), it also accepts, gives the accept right up, and runs the accept callbacks and the
/// events.
///
/// Returns the number of events and ready listeners. -EINVAL: NULL, unknown flags, or `timeout_ms`
/// below -1. Otherwise negative: as `herd_run_once`. Thread: the worker's own, not from a callback.
/// nginx: ngx_epoll_process_events. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_process_events(
    worker: *mut herd_worker,
    timeout_ms: c_int,
    flags: u32,
) -> c_int {
    with_loop(worker, |worker| worker.process_events(timeout_ms, flags))
}

/// Works a posted queue off. HERD_POSTED_ACCEPT: accepts up to accept_batch connections; their
/// callbacks run later, when HERD_POSTED_EVENTS or the timers are worked off, so that they run
/// without the accept right. The other queues: hands over accepted connections, then runs all events
/// that the queue has now and a bounded number of those that their handlers add; what is left stays
/// for the next turn.
///
/// Returns the number of connections accepted, or of connections handed over and events run. -EINVAL:
/// NULL or no such queue; with HERD_POSTED_ACCEPT HERD_EREAPED, and the errno values of a listener as
/// `herd_run_once`. Otherwise negative: see `struct herd_worker`. Thread: the worker's own, not from a
/// callback. nginx: ngx_event_process_posted. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_process_posted(worker: *mut herd_worker, queue: u32) -> c_int {
    with_loop(worker, |worker| match queue {
        HERD_POSTED_ACCEPT => worker.accept_posted(),
        queue => Ok(worker.run_posted(host_queue(queue)?)),
    })
}

/// Runs the timers that have expired, after handing over accepted connections.
///
/// Returns the number of both. Negative: see `struct herd_worker`. Thread: the worker's own, not from a
/// callback. nginx: ngx_event_expire_timers. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_process_timers(worker: *mut herd_worker) -> c_int {
    with_loop(worker, |worker| Ok(worker.process_timers()))
}

/// Posts an initialised event: its handler runs when HERD_POSTED_EVENTS (this turn) or
/// HERD_POSTED_NEXT (the next turn, which then does not wait) is worked off. An event is in one
/// queue at a time: posted to the other, it moves.
///
/// Returns 1: posted; 0: it was in that queue already. -EINVAL: NULL, not initialised, or no queue for
/// events; -EBUSY: in use at another worker. Otherwise negative: see `struct herd_worker`. Thread: the
/// worker's own; see `herd_post_remote` for others. nginx: ngx_post_event. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_post(worker: *mut herd_worker, event: *mut herd_event, queue: u32) -> c_int {
    with_worker(worker, |worker| Ok(usize::from(worker.reactor().post(event, host_queue(queue)?)?)))
}

/// Takes an event out of the queue that it was posted to, by whoever it was.
///
/// Returns 1: it was posted; 0: it was not. Negative: as `herd_post`. Thread: the worker's own.
/// nginx: ngx_delete_posted_event. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_unpost(worker: *mut herd_worker, event: *mut herd_event) -> c_int {
    with_worker(worker, |worker| {
        Ok(usize::from(worker.reactor().unpost(event, &worker.remote().posted)?))
    })
}

/// How much a queue holds: events, or for HERD_POSTED_ACCEPT ready listeners.
///
/// Returns the number. -EINVAL: NULL or no such queue. Otherwise negative: see `struct herd_worker`.
/// Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_posted_count(worker: *mut herd_worker, queue: u32) -> c_int {
    with_worker(worker, |worker| match queue {
        HERD_POSTED_ACCEPT => Ok(worker.ready_listeners()),
        queue => Ok(worker.reactor().posted_count(host_queue(queue)?)),
    })
}

/// How many tries for the accept right the worker still leaves to others. Computed at each
/// connection opened as worker_connections / 8 - free connections, not below 0, and counted down at
/// each try; in effect where workers compete.
///
/// Returns the number. Negative: see `struct herd_worker`. Thread: the worker's own. nginx:
/// ngx_accept_disabled. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_accept_disabled(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| Ok(worker.accept_disabled() as usize))
}
