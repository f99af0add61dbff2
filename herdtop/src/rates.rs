//! What happened between two looks, or in the whole life of a herd that has ended. Pure.

use crate::percentile::{self, Percentiles};
use crate::snapshot::{Slot, Snapshot};
use libherd::abi::{herd_histogram, herd_stats};

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
    /// 0: of the whole life of a herd that has ended.
    pub interval_us: u64,
    pub all: SlotRates,
    /// In the order of the later snapshot's slots.
    pub slots: Vec<SlotRates>,
    pub wasted_per_accept: f64,
    pub right_held: Percentiles,
    pub accept_delay: Percentiles,
    pub handover: Percentiles,
    pub turn_work: Percentiles,
}

/// What there is to say of a herd at that look.
pub fn at(before: &Snapshot, now: &Snapshot) -> Figures {
    if now.is_alive { between(before, now) } else { of_life(now) }
}

/// An ended herd has no rates any more, but what it did.
fn of_life(now: &Snapshot) -> Figures {
    let busy = |stats: &herd_stats| SlotRates {
        busy: part(stats.busy_us as f64, stats.busy_us as f64 + stats.waiting_us as f64),
        ..Default::default()
    };
    let of = |times: &herd_histogram| percentile::between(&herd_histogram::default(), times);
    Figures {
        interval_us: 0,
        all: busy(&now.total),
        slots: now.slots.iter().map(|slot| busy(&slot.stats)).collect(),
        wasted_per_accept: part(now.total.wasted_wakeups as f64, now.total.accepted as f64),
        right_held: of(&now.right_held),
        accept_delay: of(&now.accept_delay),
        handover: of(&now.handover),
        turn_work: of(&now.turn_work),
    }
}

fn part(of: f64, whole: f64) -> f64 {
    if whole > 0.0 { of / whole } else { 0.0 }
}

fn between(before: &Snapshot, now: &Snapshot) -> Figures {
    let slot_before = |slot: &Slot| before.slots.iter().find(|was| was.number == slot.number);
    let slots = now.slots.iter();
    let slots = slots.map(|slot| match slot_before(slot) {
        Some(was) => rates(&was.stats, &slot.stats),
        None => SlotRates::default(),
    });
    let accepted = now.total.accepted.saturating_sub(before.total.accepted);
    let wasted = now.total.wasted_wakeups.saturating_sub(before.total.wasted_wakeups);
    Figures {
        interval_us: now.total.now_us.saturating_sub(before.total.now_us),
        all: rates(&before.total, &now.total),
        slots: slots.collect(),
        wasted_per_accept: part(wasted as f64, accepted as f64),
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
    fn an_ended_herd_is_told_of_as_a_whole() {
        let stats = herd_stats {
            accepted: 100,
            wasted_wakeups: 25,
            busy_us: 10,
            waiting_us: 30,
            ..Default::default()
        };
        let mut now = Snapshot { is_alive: true, total: stats, ..Default::default() };
        now.slots.push(Slot { stats, ..Default::default() });
        now.turn_work.counts[7] = 3;
        let figures = at(&now, &now);
        assert_eq!((figures.turn_work.count, figures.slots[0].busy), (0, 0.0));
        now.is_alive = false;
        let figures = at(&now, &now);
        assert_eq!((figures.turn_work.count, figures.turn_work.p99_us), (3, 7));
        assert_eq!((figures.all.busy, figures.slots[0].busy), (0.25, 0.25));
        assert_eq!((figures.wasted_per_accept, figures.interval_us), (0.25, 0));
        assert_eq!(figures.all.accepted_per_s, 0.0);
        assert_eq!(at(&now, &Snapshot::default()).all.busy, 0.0);
    }

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
