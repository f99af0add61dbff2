//! Counters.

use super::handle::with_herd;
use super::sized;
use crate::abi::*;
use crate::sys::{Error, Result};
use std::ffi::c_int;

/// Reads the counters of one slot, 0 to max_workers - 1: those of all workers that have had it.
/// Plain loads from shared memory; figures of a running worker can be a moment apart.
///
/// Returns 0 and fills `*stats`. -EINVAL: NULL, or no such slot; HERD_EABI: `stats->size`. Any
/// process of the herd, any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_worker(
    herd: *const herd,
    slot: c_int,
    stats: *mut herd_stats,
) -> c_int {
    with_herd(herd, |handle| {
        let slot = usize::try_from(slot).map_err(|_| Error::INVALID)?;
        store(stats, handle.herd.stats(std::iter::once(handle.herd.slot(slot)?)))
    })
}

/// Reads the sums of all slots' counters.
///
/// Returns 0 and fills `*stats`. -EINVAL: NULL; HERD_EABI: `stats->size`. Any process of the herd,
/// any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_total(herd: *const herd, stats: *mut herd_stats) -> c_int {
    with_herd(herd, |handle| store(stats, handle.herd.stats(handle.herd.region.slots().iter())))
}

fn store(hosts: *mut herd_stats, stats: herd_stats) -> Result<usize> {
    sized::write(hosts, stats).map(|()| 0)
}
