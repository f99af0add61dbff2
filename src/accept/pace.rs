//! How fast one worker accepts, and what is done otherwise at a fast pace. Pure: times in, an answer out.

use super::balance::Cost;
use std::cell::Cell;

/// Below this mean time between the accepts of one worker, a wake-up more in each turn shows in the
/// cost of a connection.
const FAST_ACCEPT_GAP_US: u64 = 500;

/// From this mean time on it does not: what the worker does between two accepts takes much longer than
/// to ring another.
const UNHURRIED_ACCEPT_GAP_US: u64 = 200;

/// One long pause makes the pace slow, however fast it was before.
const LONGEST_GAP_US: u64 = 2_000;

/// At a fast pace the guard is pulled in to so many times handover_delay. Each of its ticks moves the
/// right to another worker, which at full rate costs more than it gains: 1.13 of the CPU that a
/// connection takes with nginx's mutex instead of 1.09 (medians of 25 interleaved rounds).
const FAST_PULL_IN_FACTOR: u64 = 4;

/// A mean over about the last eight turns that accepted.
pub struct Pace {
    last_accept_us: Cell<u64>,
    mean_gap_us: Cell<u64>,
}

impl Default for Pace {
    /// That of a worker which has not accepted for long.
    fn default() -> Pace {
        Pace { last_accept_us: Cell::new(0), mean_gap_us: Cell::new(1_000_000) }
    }
}

impl Pace {
    /// To be called once in a turn that accepts.
    pub fn note_accept(&self, now_us: u64) {
        let gap_us = now_us - self.last_accept_us.replace(now_us);
        let mean_us = self.mean_gap_us.get();
        self.mean_gap_us.set(mean_us - mean_us / 8 + gap_us.min(LONGEST_GAP_US) / 8);
    }

    pub fn is_fast(&self) -> bool {
        self.mean_gap_us.get() < FAST_ACCEPT_GAP_US
    }

    /// Whether another worker may be woken for each connection that waits behind this one's handlers.
    pub fn affords_a_bell(&self) -> bool {
        self.mean_gap_us.get() >= UNHURRIED_ACCEPT_GAP_US
    }

    pub fn handover_cost(&self) -> Cost {
        if self.is_fast() { Cost::FastWakeUp } else { Cost::WakeUp }
    }

    pub fn pull_in_delay_us(&self, handover_delay_us: u64) -> u64 {
        if self.is_fast() { FAST_PULL_IN_FACTOR * handover_delay_us } else { handover_delay_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_fast_after_a_run_of_short_gaps_and_slow_after_long_ones() {
        let pace = Pace::default();
        let mut now_us = 1_000_000;
        let mut accept_after = |gap_us: u64, times: u32| {
            for _ in 0..times {
                now_us += gap_us;
                pace.note_accept(now_us);
            }
            let bell = pace.affords_a_bell();
            (pace.is_fast(), bell, pace.handover_cost(), pace.pull_in_delay_us(500))
        };
        assert_eq!(accept_after(1_000, 1), (false, true, Cost::WakeUp, 500));
        assert_eq!(accept_after(100, 80), (true, false, Cost::FastWakeUp, 2_000));
        assert_eq!(accept_after(400, 80), (true, true, Cost::FastWakeUp, 2_000));
        assert_eq!(accept_after(3_600_000_000, 3), (false, true, Cost::WakeUp, 500));
        assert_eq!(accept_after(600, 80), (false, true, Cost::WakeUp, 500));
    }
}
