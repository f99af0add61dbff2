//! A worker in a loop that the host has already. One turn of it is:
//!
//! ```c
//! int ms = herd_prepare(w, timeout_ms);
//! n = epoll_wait(epfd, events, most, ms);
//! herd_check(w);
//! while (herd_accept(w, &accepted) == 0) { }
//! ```

use super::handle::{with_loop, with_worker};
use crate::abi::*;
use std::ffi::c_int;

/// Lets a loop on an epoll set of the host's own wait for the worker: the library's descriptors are
/// watched in `epfd` itself from now on, and each of their events has `epoll_data` in `data.u64`. The
/// host passes over these; what they mean, `herd_check` finds out by itself. All modes work.
/// The host calls `herd_prepare` before and `herd_check` after every wait. `epfd` is waited on
/// directly, not through another epoll set, and has one worker; it stays open until
/// `herd_worker_destroy`, which takes the library's descriptors out. Make the set after the fork: one that
/// was inherited is shared, and where the parent or another child attached a worker, the answer is
/// -EEXIST, also after that process died without `herd_worker_destroy`.
///
/// A descriptor leaves `epfd` (EPOLL_CTL_DEL) before the host closes it: while another process has it, such
/// as a helper that was forked, or in HANDOFF for a moment the worker that sent it, close(2) leaves it in
/// the set, and its events go on.
///
/// Afterwards the host watches its descriptors by itself: `herd_event_add`, `herd_run_once`,
/// `herd_run` and `herd_process_events` answer HERD_EHOSTLOOP. Timers and posted events run in
/// `herd_check`.
///
/// Returns 0. -EBUSY: events are added, or the host's loop waits for this worker already; -EINVAL: NULL,
/// or `epfd` is no epoll set; -EBADF: it is not open; -EEXIST: it has another worker of this herd (one of
/// another herd's is not seen), or is what `herd_worker_fd` gave for one; -ENOMEM, -ENOSPC: see
/// epoll_ctl(2). Otherwise negative: see `struct herd_worker`. Thread: the worker's own, not from a
/// callback. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_attach_epoll(
    worker: *mut herd_worker,
    epfd: c_int,
    epoll_data: u64,
) -> c_int {
    with_loop(worker, |worker| worker.attach(epfd, epoll_data).map(|()| 0))
}

/// Lets a loop that only takes descriptors to poll (libev, libevent, libuv) wait for the worker:
/// the returned one is readable when the worker has something to do. It is an epoll set of the
/// library's: the host only watches it for reading, level-triggered, and does not close it. The
/// host calls `herd_prepare` before and `herd_check` after every wait. For HERD_MODE_MUTEX and
/// HERD_MODE_HANDOFF; every tick of the guard wakes all idle workers, and epoll allows 500 workers
/// at most. The other calls that `herd_attach_epoll` rules out are ruled out here too.
///
/// Returns the descriptor, the same in every call. HERD_ENESTED: in HERD_MODE_EXCLUSIVE (what
/// HERD_MODE_AUTO takes) and HERD_MODE_REUSEPORT each connection would wake all workers: create the herd
/// with HERD_MODE_MUTEX, or use `herd_attach_epoll`; in other modes -EBUSY: events are added;
/// HERD_EHOSTLOOP: after `herd_attach_epoll`; -ENOMEM, -ENOSPC: see epoll_ctl(2). Otherwise negative: see
/// `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_fd(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| Ok(worker.nest()? as usize))
}

/// The first half of a turn, right before the host's loop waits: tries for the accept right, arms the
/// listeners or disarms them, and tells the other workers that this one is about to wait.
/// `timeout_ms`: for how long the host would wait; -1: as long as it takes; 0: not at all.
///
/// Returns for how many milliseconds the host may wait at most, 2147483647 (INT_MAX) if there is no
/// limit: never more than `timeout_ms`, and less when a timer or a posted event is due before. After an
/// error the host may wait all the same, without accepting. Called again without `herd_check` in between,
/// the worker leaves accepting to others for a turn in MUTEX and HANDOFF; in other modes its listeners stay
/// armed, and what it was woken for waits for the guard. -EINVAL: NULL, or `timeout_ms` below -1;
/// HERD_EHOSTLOOP: neither `herd_attach_epoll` nor `herd_worker_fd` was called; HERD_EREAPED. Otherwise
/// negative: see `struct herd_worker`. Thread: the worker's own, not from a callback. nginx:
/// ngx_trylock_accept_mutex. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_prepare(worker: *mut herd_worker, timeout_ms: c_int) -> c_int {
    with_loop(worker, |worker| worker.prepare(timeout_ms))
}

/// The second half of a turn, right after the wait and before any handler of the host's: accepts what
/// waits, gives the accept right up, then runs accept callbacks, expired timers and posted events. Does
/// not wait. Until it is called the other workers count on this one to accept, so handlers that run
/// before it make clients wait. A host whose loop has no place right after the wait calls it first thing
/// in each of its handlers: without a `herd_prepare` before, it does nothing. What the last turn armed stays
/// so: a host that goes on waiting without `herd_prepare` is woken by what it never takes, in EXCLUSIVE and
/// REUSEPORT in place of workers that would, and such clients wait for the guard, accept_delay_ms.
///
/// Returns the number of connections, timers and events that were handled, and of connections to take
/// with `herd_accept`; 0 if there was no `herd_prepare` since the last. HERD_EHOSTLOOP: as
/// `herd_prepare`. Otherwise negative: as `herd_run_once`; the accept right is given up all the same.
/// Thread: the worker's own, not from a callback. nginx: ngx_process_events_and_timers after its wait.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_check(worker: *mut herd_worker) -> c_int {
    with_loop(worker, |worker| worker.check())
}
