//! A worker's life and its loop.

use super::handle::{HerdHandle, Output, destroy_worker, with_herd, with_loop, with_worker};
use crate::abi::*;
use crate::herd::Remote;
use crate::sys::Error;
use crate::worker::{Phase, Worker};
use std::ffi::c_int;

/// `herd_worker_state`: the worker accepts and serves.
pub const HERD_WORKER_RUNNING: c_int = 0;
/// `herd_worker_state`: after `herd_drain`: it accepts no more, and serves the connections it has.
pub const HERD_WORKER_DRAINING: c_int = 1;
/// `herd_worker_state`: after `herd_drain`, no connection is open any more.
pub const HERD_WORKER_DRAINED: c_int = 2;
/// `herd_worker_state`: after `herd_stop`.
pub const HERD_WORKER_STOPPED: c_int = 3;

/// Makes a worker on a slot of the herd, for the calling process. Call it in the child after the
/// fork, or in the thread that is to run it. `slot` is 0 to max_workers - 1, or HERD_ANY_SLOT,
/// which is never the `acceptor_slot`. The worker serves the listeners that the herd has now.
///
/// Returns 0 and stores the worker in `*worker`. HERD_ENOSLOT: every slot is taken (that of
/// `acceptor_slot` aside); -EBUSY: this one is; -EINVAL: NULL, or no such slot; -ESTALE: in
/// HERD_MODE_MUTEX and HERD_MODE_HANDOFF, where all workers must have the same listeners, this
/// process was forked before they were changed, and in every mode it was forked while another thread
/// changed them; HERD_EDAMAGED: in HERD_MODE_MUTEX and HERD_MODE_HANDOFF, something has written to the
/// herd's shared memory; -ENOMEM; -EMFILE, -ENFILE: no descriptor (it uses one); -ENOSPC: see
/// epoll_ctl(2); other negated errno values of fcntl(2), and in HERD_MODE_REUSEPORT of listen(2).
/// Thread: any; afterwards the worker belongs to one thread at a time. Fork: a child of this process
/// cannot use it (HERD_EFORKED); a child makes its own, whatever other threads of the parent were
/// calling when it was forked. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_create(
    herd: *mut herd,
    slot: c_int,
    worker: *mut *mut herd_worker,
) -> c_int {
    with_herd(herd, |handle: &HerdHandle| {
        let created = Output::new(worker)?;
        let slot = match slot {
            HERD_ANY_SLOT => None,
            slot => Some(u16::try_from(slot).map_err(|_| Error::INVALID)?),
        };
        created.store(handle.create_worker(slot)?);
        Ok(0)
    })
}

/// Ends a worker: gives the accept right, its slot and its descriptors back and wakes another worker
/// to accept. Connections and events that the host has are the host's to close and free; an event
/// or timer that was in use here has to be initialised before it is used again. Connections that
/// were accepted but not yet handed over are closed. In a forked child, for a worker that the caller
/// had before the fork, it closes the child's copy of the worker's descriptor only; other memory and
/// accepted connections of the parent's worker stay in the child until it ends or execs.
///
/// Returns 0. -EINVAL: NULL; HERD_EDESTROYED: it was destroyed already; HERD_EREENTERED: called from
/// a callback of this worker. Thread: the worker's own, after all other calls on it have returned.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_destroy(worker: *mut herd_worker) -> c_int {
    destroy_worker(worker)
}

/// The worker's slot, >= 0. HERD_EREAPED: the slot is another's by now. Otherwise negative: see
/// `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_slot(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| worker.check_slot().map(|()| usize::from(worker.slot_number())))
}

/// How far the worker is: `HERD_WORKER_...`. A loop of the host's own goes on while it is 0 or above and
/// below HERD_WORKER_DRAINED. HERD_EREAPED after the slot was taken away, so that such a loop ends then.
/// Otherwise negative: see `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_state(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.check_slot()?;
        let state = match worker.phase() {
            Phase::Running => HERD_WORKER_RUNNING,
            Phase::Draining => HERD_WORKER_DRAINING,
            Phase::Drained => HERD_WORKER_DRAINED,
            Phase::Stopped => HERD_WORKER_STOPPED,
        };
        Ok(state as usize)
    })
}

/// One turn of the loop, in nginx's order: try for the accept right, wait, accept, give the right
/// up; then, without it, the accept callbacks, expired timers and ready events. Waits at most
/// `timeout_ms` milliseconds for something to do; -1: as long as it takes; 0: not at all. A signal
/// ends the wait.
///
/// Returns the number of connections, events and timers that were handled. -EINVAL: NULL, or
/// `timeout_ms` below -1; HERD_EREENTERED: called from a callback; HERD_EFORKED, HERD_EDESTROYED,
/// HERD_EREAPED, HERD_EPOISONED: the worker cannot be used, see there; HERD_EHOSTLOOP: a loop of the
/// host's waits for it; HERD_EINTERNAL; -EBADF, -EINVAL, -ENOTSOCK, -EOPNOTSUPP: accept4(2) says that
/// a listener cannot be used: the log names it, this worker leaves it out from now on, and everything
/// else goes on; -EBADF, -EINVAL of epoll_wait(2): the host has closed the worker's epoll set, and
/// HERD_EPOISONED is the answer from then on. No other system call that fails ends a turn: the log names
/// it, and where accepting needs it, the worker leaves that to others for accept_delay_ms. Thread: the
/// worker's own. nginx: ngx_process_events_and_timers. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_run_once(worker: *mut herd_worker, timeout_ms: c_int) -> c_int {
    with_loop(worker, |worker| worker.run_once(timeout_ms))
}

/// Runs turns until `herd_stop`, or until `herd_drain` and the last connection was closed.
///
/// Returns 0 then, and at once when called again. Negative: as `herd_run_once`; the host may call
/// it again after an error of a listener. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_run(worker: *mut herd_worker) -> c_int {
    with_loop(worker, Worker::run)
}

/// Makes `herd_run` return after the turn that is running, and wakes it if it waits. The worker
/// accepts no more; when it gives the accept right up is said at `herd_drain`. Any thread of this
/// process, and signal handlers. Since 0.1.
///
/// Returns 0. Negative: see `struct herd_worker`.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stop(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.request(Remote::STOP);
        Ok(0)
    })
}

/// Makes the worker stop accepting: it is woken, and in its turn gives the accept right up, wakes
/// another worker, and serves the connections that it has. In a turn of the host's own, between
/// `herd_prepare` or `herd_trylock` and `herd_check` or `herd_unlock`, the right is given up by the
/// latter; a client that comes before waits for that, accept_delay_ms + handover_delay_us at most
/// while another is idle. `herd_run` returns when the last one was closed. Any thread of this
/// process, and signal handlers. Since 0.1.
///
/// Returns 0. Negative: see `struct herd_worker`.
#[unsafe(no_mangle)]
pub extern "C" fn herd_drain(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.request(Remote::DRAIN);
        Ok(0)
    })
}
