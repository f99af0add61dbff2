//! Histograms of times: log-linear, of a fixed size, counted with plain stores by one writer. Pure
//! but for the atomics they are kept in.

use crate::abi::{HERD_HISTOGRAM_BUCKETS, herd_histogram};
use crate::atomics::{AtomicU64, Ordering::Relaxed};

/// Buckets to a power of two: a time is known to 1/8 of itself.
const SUB_BITS: u32 = 3;
const SUB: u64 = 1 << SUB_BITS;

const BUCKETS: usize = HERD_HISTOGRAM_BUCKETS as usize;

/// The bucket of a time: up to 8 us one for each microsecond, then eight for each power of two. The
/// last one takes everything from 62 s on.
pub fn bucket_of(us: u64) -> usize {
    if us < SUB {
        return us as usize;
    }
    let power = us.ilog2() - SUB_BITS;
    let bucket = u64::from(power + 1) * SUB + ((us >> power) & (SUB - 1));
    (bucket as usize).min(BUCKETS - 1)
}

/// The first time, in microseconds, that belongs to a later bucket.
pub fn end_of(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    if next < SUB {
        return next;
    }
    let power = next / SUB - 1;
    (SUB + next % SUB) << power
}

/// Zeroed memory is an empty histogram.
#[repr(C)]
pub struct Histogram {
    sum_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { sum_us: AtomicU64::new(0), buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Histogram {
    pub fn record(&self, us: u64) {
        let add = |to: &AtomicU64, more: u64| {
            to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
        };
        add(&self.buckets[bucket_of(us)], 1);
        add(&self.sum_us, us);
    }

    pub fn add_to(&self, total: &mut herd_histogram) {
        total.sum_us = total.sum_us.wrapping_add(self.sum_us.load(Relaxed));
        for (sum, bucket) in total.counts.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.load(Relaxed));
        }
    }
}

/// The times of one slot's workers.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Times {
    pub right_held: Histogram,
    pub accept_delay: Histogram,
    pub handover: Histogram,
    pub turn_work: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_buckets() {
        let table = [
            (0, 0),
            (1, 1),
            (7, 7),
            (8, 8),
            (9, 9),
            (15, 15),
            (16, 16),
            (17, 16),
            (18, 17),
            (31, 23),
            (32, 24),
            (1000, 63),
            (1_000_000, 143),
            (u64::from(u32::MAX), BUCKETS - 1),
            (u64::MAX, BUCKETS - 1),
        ];
        for (us, bucket) in table {
            assert_eq!(bucket_of(us), bucket, "{us} us");
        }
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut begin = 0;
        for bucket in 0..BUCKETS - 1 {
            let end = end_of(bucket);
            assert!(end > begin);
            assert_eq!((bucket_of(begin), bucket_of(end - 1)), (bucket, bucket));
            assert_eq!(bucket_of(end), bucket + 1);
            assert!(end - begin <= (begin / SUB).max(1));
            begin = end;
        }
        assert!(begin > 60_000_000);
    }
}
