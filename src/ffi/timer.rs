//! Timers. Start, stop and expiry cost at most O(log n) of n pending timers.

use super::fence::{code, fence};
use super::handle::with_worker;
use crate::abi::*;
use crate::reactor::init_timer;
use std::ffi::{c_int, c_void};

/// Prepares the memory of a timer, whatever it holds. Not for a timer that is pending.
///
/// Returns 0. -EINVAL: `timer` or `handler` is NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_timer_init(
    timer: *mut herd_timer,
    handler: herd_timer_fn,
    data: *mut c_void,
) -> c_int {
    code(fence(|| init_timer(timer, handler, data).map(|()| 0), |_| ()))
}

/// Starts a timer: its handler runs once, not before `after_ms` milliseconds from now on the
/// monotonic clock. A pending timer starts anew. Timers of the same time expire in the order of
/// their starts.
///
/// Returns 0. -EINVAL: NULL or not initialised; -EBUSY: pending at another worker; -ENOMEM: nothing was
/// changed. Otherwise negative: see `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_timer_start(
    worker: *mut herd_worker,
    timer: *mut herd_timer,
    after_ms: u64,
) -> c_int {
    with_worker(worker, |worker| worker.reactor().start_timer(timer, after_ms).map(|()| 0))
}

/// Stops a timer. It may be freed then.
///
/// Returns 1: it was pending; 0: it was not. -EINVAL, -EBUSY: as `herd_timer_start`. Otherwise negative:
/// see `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_timer_stop(worker: *mut herd_worker, timer: *mut herd_timer) -> c_int {
    with_worker(worker, |worker| Ok(usize::from(worker.reactor().stop_timer(timer)?)))
}
