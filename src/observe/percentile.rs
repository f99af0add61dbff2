//! Percentiles of a histogram. Pure.

use crate::abi::herd_histogram;
use crate::shm::times::end_of;

/// Fills what follows from the counts.
pub fn fill(histogram: &mut herd_histogram) {
    let count = histogram.counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
    histogram.count = count;
    histogram.p50_us = at(histogram, 500);
    histogram.p90_us = at(histogram, 900);
    histogram.p99_us = at(histogram, 990);
    histogram.p999_us = at(histogram, 999);
    histogram.longest_us = at(histogram, 1000);
}

/// The longest time of the bucket in which the time of that rank, in thousandths, lies.
fn at(histogram: &herd_histogram, thousandths: u64) -> u64 {
    let rank = (u128::from(histogram.count) * u128::from(thousandths)).div_ceil(1000);
    let mut seen = 0u128;
    for (bucket, &count) in histogram.counts.iter().enumerate() {
        seen += u128::from(count);
        if count > 0 && seen >= rank {
            return end_of(bucket) - 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::times::Histogram;

    fn filled(times: &[(u64, u32)]) -> herd_histogram {
        let recorded = Histogram::default();
        for &(us, times) in times {
            (0..times).for_each(|_| recorded.record(us));
        }
        let mut histogram = herd_histogram::default();
        recorded.add_to(&mut histogram);
        fill(&mut histogram);
        histogram
    }

    #[test]
    fn percentiles_by_rank() {
        type Row<'a> = (&'a [(u64, u32)], [u64; 5]);
        let table: [Row; 5] = [
            (&[], [0, 0, 0, 0, 0]),
            (&[(5, 1)], [5, 5, 5, 5, 5]),
            (&[(0, 50), (7, 50)], [0, 7, 7, 7, 7]),
            (&[(1, 989), (3, 10), (6, 1)], [1, 1, 3, 3, 6]),
            (&[(2, 1), (1000, 1)], [2, 1023, 1023, 1023, 1023]),
        ];
        for (times, [p50, p90, p99, p999, longest]) in table {
            let h = filled(times);
            let got = [h.p50_us, h.p90_us, h.p99_us, h.p999_us, h.longest_us];
            assert_eq!(got, [p50, p90, p99, p999, longest], "{times:?}");
            assert_eq!(h.count, times.iter().map(|&(_, n)| u64::from(n)).sum::<u64>());
            assert_eq!(h.sum_us, times.iter().map(|&(us, n)| us * u64::from(n)).sum::<u64>());
        }
    }
}
