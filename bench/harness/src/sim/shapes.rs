//! What the simulated clients do: when they come, how much work they bring, how long they stay. All
//! times in nanoseconds; every draw comes from one generator, so that a seed repeats a run exactly.

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to draw arrivals from.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end as u64) as usize
    }

    fn exponential(&mut self, mean: u64) -> u64 {
        (-self.unit().ln() * mean as f64) as u64
    }
}

/// Gaps between arrivals, by their mean.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    Even {
        gap: u64,
    },
    Poisson {
        gap: u64,
    },
    /// So many at the same instant, the bursts Poisson.
    Bursts {
        gap: u64,
        size: u64,
    },
}

impl Arrivals {
    /// From arrival `number` (the first is 0) to the next.
    pub fn gap(self, random: &mut Random, number: u64) -> u64 {
        match self {
            Arrivals::Even { gap } => gap,
            Arrivals::Poisson { gap } => random.exponential(gap),
            Arrivals::Bursts { size, .. } if !(number + 1).is_multiple_of(size) => 0,
            Arrivals::Bursts { gap, size } => random.exponential(gap * size),
        }
    }
}

/// Times of service, or of staying.
#[derive(Clone, Copy, Debug)]
pub enum Times {
    Fixed(u64),
    Exponential {
        mean: u64,
    },
    /// One in a hundred takes fifty times as long.
    Bimodal {
        mean: u64,
    },
    /// Pareto with shape 1.5, cut at a thousand times the least: most are short, a few very long.
    HeavyTail {
        mean: u64,
    },
}

impl Times {
    pub fn draw(self, random: &mut Random) -> u64 {
        match self {
            Times::Fixed(time) => time,
            Times::Exponential { mean } => random.exponential(mean),
            Times::Bimodal { mean } => {
                let short = mean as f64 / 1.49;
                (if random.below(100) == 0 { 50.0 * short } else { short }) as u64
            }
            Times::HeavyTail { mean } => {
                // The cut lowers the mean of least * 3 by about a thirtieth.
                let least = mean as f64 / (3.0 - 2.0 / 1000f64.sqrt() + 1000.0 / 1000f64.powf(1.5));
                (least * random.unit().powf(-1.0 / 1.5).min(1000.0)) as u64
            }
        }
    }
}

/// What a connection does after its answer.
#[derive(Clone, Copy, Debug)]
pub enum Stay {
    /// The server closes it with the answer.
    No,
    /// The client closes it after this time.
    For(Times),
    Forever,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_mean_they_are_named_by() {
        let mut random = Random::new(1);
        let mean = |draw: &mut dyn FnMut(u64) -> u64| {
            (0..400_000).map(&mut *draw).sum::<u64>() as f64 / 400_000.0
        };
        for times in [
            Times::Fixed(1000 * US),
            Times::Exponential { mean: 1000 * US },
            Times::Bimodal { mean: 1000 * US },
            Times::HeavyTail { mean: 1000 * US },
        ] {
            let mean = mean(&mut |_| times.draw(&mut random));
            assert!((mean / MS as f64 - 1.0).abs() < 0.03, "{times:?}: {mean}");
        }
        for arrivals in [
            Arrivals::Even { gap: MS },
            Arrivals::Poisson { gap: MS },
            Arrivals::Bursts { gap: MS, size: 32 },
        ] {
            let mean = mean(&mut |number| arrivals.gap(&mut random, number));
            assert!((mean / MS as f64 - 1.0).abs() < 0.03, "{arrivals:?}: {mean}");
        }
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
