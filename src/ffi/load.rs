//! What a worker carries.

use super::handle::with_worker;
use crate::abi::*;
use crate::sys::{Error, Result};
use std::ffi::c_int;

/// Counts a connection that the host opened or accepted itself, such as one to an upstream server:
/// it uses one of worker_connections. Those that the library accepted are counted already.
///
/// Returns the number of connections now open. Negative: HERD_EREAPED, or see `struct herd_worker`.
/// Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_conn_opened(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.check_slot()?;
        worker.connection_opened();
        Ok(worker.connections_open() as usize)
    })
}

/// Counts a connection as closed. To be called once for each that was accepted or reported with
/// `herd_conn_opened`.
///
/// Returns the number of connections still open. -ERANGE: none is open, and nothing was changed;
/// HERD_EREAPED. Otherwise negative: see `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_conn_closed(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| {
        worker.check_slot()?;
        worker.connection_closed()?;
        Ok(worker.connections_open() as usize)
    })
}

/// Sets the host's own figure of this worker's load, such as requests in flight, in place of the
/// number of open connections, when workers are compared. -1: back to the number of connections.
///
/// Returns 0. -EINVAL: NULL, or `load` below -1; HERD_EREAPED. Otherwise negative: see
/// `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_set_load(worker: *mut herd_worker, load: i64) -> c_int {
    with_worker(worker, |worker| -> Result<usize> {
        let load = match load {
            -1 => None,
            load => Some(u64::try_from(load).map_err(|_| Error::INVALID)?),
        };
        worker.check_slot()?;
        worker.set_load(load);
        Ok(0)
    })
}

/// Counts a request that the worker has served, for the figures (`herd_stats.requests`). What a
/// request is the host knows best; the library decides nothing by it.
///
/// Returns 0. Negative: HERD_EREAPED, or see `struct herd_worker`. Thread: the worker's own. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_request_done(worker: *mut herd_worker) -> c_int {
    with_worker(worker, |worker| worker.request_done().map(|()| 0))
}
