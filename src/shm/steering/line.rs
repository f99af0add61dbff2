//! What is known of each slot to who steers, and whom that makes the best. The BPF program in
//! `steering` decides the same in the kernel.

use crate::shm::slot::State;
// The standard ones also in a build for the model checker: the kernel reads them.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One slot's part: two lines of the cache, as everything that is written often.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Line {
    /// The worker's `standing`, stored by its owner.
    pub(super) standing: AtomicU64,
    /// Connections that were sent there.
    pub(super) steered: AtomicU64,
    /// Those of them that are no longer on their way: accepted, or lost. Never above `steered`.
    pub(super) settled: AtomicU64,
    /// `steered` as it was at a time in the past, and that time.
    pub(super) marked: AtomicU64,
    pub(super) marked_us: AtomicU64,
}

/// What was sent this long ago and was not accepted has never been completed by its client, such as
/// a SYN flood's.
pub const LOST_AFTER_US: u64 = 1_000_000;

/// Slot numbers have this many bits in what is compared.
pub(super) const SLOT_BITS: u32 = 16;
/// The load in a standing; what is above it is the worker's kind.
pub(super) const LOAD_BITS: u32 = 40;
/// A standing that is never chosen: no worker, or one that does not accept.
pub(super) const ABSENT: u64 = 0x7f << LOAD_BITS;

/// The smaller, the better: idle before busy, then by load. A load that needs more bits counts as
/// the largest that leaves room for the connections on their way.
fn standing(state: State, load: u64) -> u64 {
    let kind: u64 = match state {
        State::Idle => 0,
        State::Busy => 1,
        State::Resting => return ABSENT,
    };
    kind << LOAD_BITS | load.min(1 << (LOAD_BITS - 1))
}

impl Line {
    /// How the slot's worker stands.
    pub fn publish(&self, state: State, load: u64) {
        self.standing.store(standing(state, load), Relaxed);
    }

    /// The slot has no worker.
    pub fn withdraw(&self) {
        self.standing.store(ABSENT, Relaxed);
    }

    /// Connections that were sent to the slot so far.
    fn steered(&self) -> u64 {
        self.steered.load(Relaxed)
    }

    /// A connection that was sent here was accepted. What was not sent here has no place in the sum.
    pub fn settle_one(&self) {
        let most = self.steered();
        let one_more = |settled: u64| settled.checked_add(1).filter(|&settled| settled <= most);
        let _ = self.settled.fetch_update(Relaxed, Relaxed, one_more);
    }

    /// Of the first `count` connections that were sent here none is on its way any more.
    fn settle_first(&self, count: u64) {
        self.settled.fetch_max(count, Relaxed);
    }

    /// Nothing is on its way to the slot.
    pub fn settle_all(&self) {
        self.settle_first(self.steered());
    }

    /// Counts off what is lost. To be called now and then.
    pub fn forget_lost(&self, now_us: u64) {
        // Far ahead is no time at which it was marked.
        if now_us.abs_diff(self.marked_us.load(Relaxed)) >= LOST_AFTER_US {
            self.settle_first(self.marked.swap(self.steered(), Relaxed));
            self.marked_us.store(now_us, Relaxed);
        }
    }
}

/// Steers one connection as the program does. None: nobody accepts, and the hash decides.
pub fn steer(lines: &[Line]) -> Option<usize> {
    let key = |(slot, line): (usize, &Line)| {
        let on_their_way = line.steered().wrapping_sub(line.settled.load(Relaxed));
        (line.standing.load(Relaxed).wrapping_add(on_their_way), slot)
    };
    let (standing, best) = lines.iter().enumerate().map(key).min()?;
    if standing >= ABSENT {
        return None;
    }
    lines[best].steered.fetch_add(1, Relaxed);
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_standing_is_the_better_worker() {
        let order = [
            standing(State::Idle, 0),
            standing(State::Idle, 1),
            standing(State::Idle, u64::MAX),
            standing(State::Busy, 0),
            standing(State::Busy, 7),
            standing(State::Busy, u64::MAX),
            standing(State::Resting, 0),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{order:x?}");
        assert_eq!(standing(State::Resting, 5), ABSENT);
    }

    #[test]
    fn whatever_stands_in_a_line_can_be_counted_on() {
        let line = Line::default();
        for word in [&line.steered, &line.settled, &line.marked, &line.marked_us] {
            word.store(u64::MAX, Relaxed);
        }
        line.settle_one();
        line.settle_all();
        line.forget_lost(LOST_AFTER_US);
        assert_eq!(line.marked_us.load(Relaxed), LOST_AFTER_US);
        assert_eq!(steer(&[line]), Some(0));
    }
}
