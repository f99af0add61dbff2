//! Percentiles of the times of one interval: of the difference of two histograms.

use libherd::abi::herd_histogram;
use libherd::ffi::stats::herd_histogram_end_us;

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Percentiles {
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
}

/// What was counted between the two.
pub fn between(before: &herd_histogram, now: &herd_histogram) -> Percentiles {
    let counts: Vec<u64> =
        now.counts.iter().zip(&before.counts).map(|(now, was)| now.saturating_sub(*was)).collect();
    let count = counts.iter().fold(0u64, |sum, more| sum.saturating_add(*more));
    let at = |rank: u64| {
        let mut seen = 0u64;
        for (bucket, more) in counts.iter().enumerate() {
            seen = seen.saturating_add(*more);
            if seen >= rank.max(1) {
                // The last bucket has no end: its beginning is said.
                let end_us = herd_histogram_end_us(bucket as u32);
                let begin_us = bucket.checked_sub(1).map_or(0, |b| herd_histogram_end_us(b as u32));
                return if end_us == u64::MAX { begin_us } else { end_us - 1 };
            }
        }
        0
    };
    Percentiles { count, p50_us: at(count.div_ceil(2)), p99_us: at(count - count / 100) }
}

/// A time as a person reads it, in five columns at most.
pub fn time(us: u64) -> String {
    let (value, unit) = match us {
        0..1_000 => return format!("{us}us"),
        1_000..1_000_000 => (us as f64 / 1e3, "ms"),
        _ => (us as f64 / 1e6, "s"),
    };
    if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_interval_counts() {
        let (mut before, mut now) = (herd_histogram::default(), herd_histogram::default());
        before.counts[190] = 1000;
        now.counts[190] = 1000;
        assert_eq!(between(&before, &now), Percentiles::default());
        now.counts[2] = 98;
        now.counts[5] = 2;
        assert_eq!(between(&before, &now), Percentiles { count: 100, p50_us: 2, p99_us: 5 });
        now.counts[191] = 100;
        assert_eq!(between(&before, &now).p99_us, herd_histogram_end_us(190));
    }

    #[test]
    fn times_are_short() {
        let table = [
            (0, "0us"),
            (999, "999us"),
            (1000, "1.0ms"),
            (12_345, "12ms"),
            (999_999, "1000ms"),
            (1_500_000, "1.5s"),
        ];
        for (us, text) in table {
            assert_eq!(time(us), text);
        }
    }
}
