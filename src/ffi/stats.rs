//! Figures: counters and times.

use super::handle::{with_source, write_text};
use super::sized;
use crate::abi::*;
use crate::observe::{self, text};
use crate::shm::times::end_of;
use crate::sys::{Error, Result};
use std::ffi::{c_char, c_int};

/// Reads the figures of one slot, 0 to max_workers - 1: those of all workers that have had it.
/// Plain loads from shared memory; figures of a running worker can be a moment apart. Here and in the
/// next two a struct of another version is filled as far as it goes, and what this library does not
/// know is set to 0: its `size` is a multiple of 8, 8 to 4096.
///
/// Returns 0 and fills `*stats`. -EINVAL: NULL, or no such slot; HERD_EABI: `stats->size`;
/// HERD_EDAMAGED: the memory of a herd that was opened has become shorter. Any process of the herd,
/// or one that has opened it; any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_worker(
    herd: *const herd,
    slot: c_int,
    stats: *mut herd_stats,
) -> c_int {
    with_source(herd, |source| {
        let slot = usize::try_from(slot).map_err(|_| Error::INVALID)?;
        store(stats, observe::worker(source, slot)?)
    })
}

/// Reads the sums of all slots' figures, and how evenly the workers are loaded.
///
/// Returns 0 and fills `*stats`. -EINVAL: NULL; HERD_EABI: `stats->size`; HERD_EDAMAGED: as
/// `herd_stats_worker`. Any process of the herd, or one that has opened it; any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_total(herd: *const herd, stats: *mut herd_stats) -> c_int {
    with_source(herd, |source| store(stats, observe::total(source)?))
}

/// Reads a histogram of times, `HERD_HISTOGRAM_...`, of one slot or of HERD_ALL_SLOTS together.
///
/// Returns 0 and fills `*histogram`. -EINVAL: NULL, or no such slot or histogram; HERD_EABI:
/// `histogram->size`; HERD_EDAMAGED: as `herd_stats_worker`. Any process of the herd, or one that
/// has opened it; any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_histogram(
    herd: *const herd,
    slot: c_int,
    which: u32,
    histogram: *mut herd_histogram,
) -> c_int {
    with_source(herd, |source| {
        let slot = match slot {
            HERD_ALL_SLOTS => None,
            slot => Some(usize::try_from(slot).map_err(|_| Error::INVALID)?),
        };
        store(histogram, observe::histogram(source, slot, which)?)
    })
}

/// The end of a bucket of a histogram: the shortest time in microseconds that belongs to the next
/// one. UINT64_MAX for the last bucket, which has no end, and beyond. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_histogram_end_us(bucket: u32) -> u64 {
    if bucket >= HERD_HISTOGRAM_BUCKETS - 1 { u64::MAX } else { end_of(bucket as usize) }
}

/// Writes all figures as text for Prometheus (its text format, version 0.0.4) into `buffer` of
/// `buffer_bytes`, NUL-terminated: to be served as `text/plain; version=0.0.4`. The metrics of a slot
/// have its number as label `slot`; slots that never had a worker are left out. Each metric's HELP line
/// says what it is. Not for every turn: it allocates memory for the text, about 100 bytes for each of
/// some 50 lines a slot.
///
/// Returns the length of the text without the NUL. With NULL and 0 it returns a number of bytes in
/// which the text fits for as long as the herd lives. -ENOSPC: it does not fit, and nothing was
/// written; -EINVAL: NULL; HERD_EDAMAGED: as `herd_stats_worker`. Any process of the herd, or one that
/// has opened it; any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_stats_text(
    herd: *const herd,
    buffer: *mut c_char,
    buffer_bytes: usize,
) -> c_int {
    with_source(herd, |source| {
        if buffer.is_null() && buffer_bytes == 0 {
            return Ok(text::room_for(source)? + 1);
        }
        write_text(&text::text(source, false)?, buffer, buffer_bytes)
    })
}

fn store<T: sized::Sized32>(hosts: *mut T, value: T) -> Result<usize> {
    sized::write(hosts, value).map(|()| 0)
}
