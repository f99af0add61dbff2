//! What happened between two looks. Pure.

use crate::percentile::{self, Percentiles};
use crate::snapshot::{Slot, Snapshot};
use libherd::abi::herd_stats;

/// One slot's figures of an interval.
#[derive(Clone, Copy, Default, Debug)]
pub struct SlotRates {
    pub accepted_per_s: f64,
    pub requests_per_s: f64,
    pub handovers_per_s: f64,
    /// Of the time, 0 to 1.
    pub busy: f64,
}

#[derive(Clone, Default)]
pub struct Figures {
    pub all: SlotRates,
    /// In the order of the later snapshot's slots.
    pub slots: Vec<SlotRates>,
    pub wasted_per_accept: f64,
    pub right_held: Percentiles,
    pub accept_delay: Percentiles,
    pub handover: Percentiles,
    pub turn_work: Percentiles,
}

pub fn between(before: &Snapshot, now: &Snapshot) -> Figures {
    let slot_before = |slot: &Slot| before.slots.iter().find(|was| was.number == slot.number);
    let slots = now.slots.iter();
    let slots = slots.map(|slot| match slot_before(slot) {
        Some(was) => rates(&was.stats, &slot.stats),
        None => SlotRates::default(),
    });
    let accepted = now.total.accepted.saturating_sub(before.total.accepted);
    let wasted = now.total.wasted_wakeups.saturating_sub(before.total.wasted_wakeups);
    Figures {
        all: rates(&before.total, &now.total),
        slots: slots.collect(),
        wasted_per_accept: if accepted == 0 { 0.0 } else { wasted as f64 / accepted as f64 },
        right_held: percentile::between(&before.right_held, &now.right_held),
        accept_delay: percentile::between(&before.accept_delay, &now.accept_delay),
        handover: percentile::between(&before.handover, &now.handover),
        turn_work: percentile::between(&before.turn_work, &now.turn_work),
    }
}

/// A herd that was replaced begins anew: its counters are smaller, and nothing is said of it yet.
fn rates(before: &herd_stats, now: &herd_stats) -> SlotRates {
    let us = now.now_us.saturating_sub(before.now_us).max(1) as f64;
    let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 * 1e6 / us;
    let busy_us = now.busy_us.saturating_sub(before.busy_us) as f64;
    SlotRates {
        accepted_per_s: per_s(before.accepted, now.accepted),
        requests_per_s: per_s(before.requests, now.requests),
        handovers_per_s: per_s(before.handovers, now.handovers),
        busy: (busy_us / us / f64::from(now.workers.max(1))).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_and_never_negative() {
        let before =
            herd_stats { now_us: 1_000_000, accepted: 100, busy_us: 50, ..Default::default() };
        let now = herd_stats {
            now_us: 1_500_000,
            accepted: 150,
            busy_us: 250_050,
            workers: 1,
            ..Default::default()
        };
        let forward = rates(&before, &now);
        assert_eq!((forward.accepted_per_s, forward.busy), (100.0, 0.5));
        let replaced = rates(&now, &herd_stats { now_us: 2_000_000, ..Default::default() });
        assert_eq!((replaced.accepted_per_s, replaced.busy), (0.0, 0.0));
    }
}
