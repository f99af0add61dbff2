//! One interval's figures as JSON: names are those of struct herd_stats where they are from it.

use crate::percentile::Percentiles;
use crate::rates::{Figures, SlotRates};
use crate::rows::Row;
use crate::snapshot::{Slot, Snapshot};
use libherd::abi::herd_stats;
use std::fmt::Write;

pub fn text(name: &str, now: &Snapshot, figures: &Figures) -> String {
    let total = &now.total;
    let mut text = String::new();
    // A name is of letters, digits, '_', '-', '.' and ':': nothing to escape.
    let _ = writeln!(
        text,
        "{{\n  \"name\": \"{name}\", \"is_alive\": {}, \"ended_for_us\": {}, \"interval_us\": {},\n  \
         \"mode\": \"{}\", \"balance\": \"{}\",",
        now.is_alive, now.ended_for_us, figures.interval_us, now.mode, now.balance
    );
    let _ = writeln!(
        text,
        "  \"slots\": {}, \"workers\": {}, \"holder\": {}, \"holder_for_us\": {},",
        total.slots,
        total.workers,
        total.holder,
        for_us(total.now_us, total.holder_since_us)
    );
    let _ = writeln!(
        text,
        "  \"open_jain\": {:.6}, \"open_least\": {}, \"open_most\": {},\n  \"accepted_jain\": {:.6}, \
         \"accepted_least\": {}, \"accepted_most\": {},",
        total.open_jain,
        total.open_least,
        total.open_most,
        total.accepted_jain,
        total.accepted_least,
        total.accepted_most
    );
    for (label, times) in [
        ("right_held", figures.right_held),
        ("accept_delay", figures.accept_delay),
        ("handover", figures.handover),
        ("turn_work", figures.turn_work),
    ] {
        let Percentiles { count, p50_us, p99_us } = times;
        let _ = writeln!(
            text,
            "  \"{label}\": {{\"count\": {count}, \"p50_us\": {p50_us}, \"p99_us\": {p99_us}}},"
        );
    }
    let _ = writeln!(text, "  \"total\": {{{}}},", members(total, figures.all));
    let _ = writeln!(text, "  \"workers_of_slots\": [");
    for (index, slot) in now.slots.iter().enumerate() {
        let rates = figures.slots.get(index).copied().unwrap_or_default();
        let comma = if index + 1 < now.slots.len() { "," } else { "" };
        let _ = writeln!(
            text,
            "    {{{}, {}}}{comma}",
            of_slot(slot, rates),
            members(&slot.stats, rates)
        );
    }
    text + "  ]\n}\n"
}

fn of_slot(slot: &Slot, rates: SlotRates) -> String {
    let row = Row { slot, rates };
    let stats = &slot.stats;
    format!(
        "\"slot\": {}, \"pid\": {}, \"state\": \"{}\", \"state_for_us\": {}, \"holds_right\": {}",
        slot.number,
        stats.pid,
        row.state(),
        for_us(stats.now_us, stats.state_since_us),
        row.holds_right()
    )
}

/// 0: not at all.
fn for_us(now_us: u64, since_us: u64) -> u64 {
    if since_us > 0 { now_us.saturating_sub(since_us) } else { 0 }
}

fn members(stats: &herd_stats, rates: SlotRates) -> String {
    let counters = [
        ("connections_open", stats.connections_open),
        ("load", stats.load),
        ("accepted", stats.accepted),
        ("opened", stats.opened),
        ("closed", stats.closed),
        ("lost", stats.lost),
        ("requests", stats.requests),
        ("turns", stats.turns),
        ("wakeups", stats.wakeups),
        ("wasted_wakeups", stats.wasted_wakeups),
        ("acquisitions", stats.acquisitions),
        ("failed_tries", stats.failed_tries),
        ("handovers", stats.handovers),
        ("handovers_received", stats.handovers_received),
        ("reorders", stats.reorders),
        ("guard_ticks", stats.guard_ticks),
        ("thefts", stats.thefts),
        ("reaps", stats.reaps),
        ("backoffs", stats.backoffs),
        ("posted", stats.posted),
        ("posted_most", stats.posted_most),
        ("busy_us", stats.busy_us),
        ("waiting_us", stats.waiting_us),
    ];
    let counters = counters.map(|(name, value)| format!("\"{name}\": {value}")).join(", ");
    format!(
        "{counters}, \"accepted_per_s\": {:.1}, \"requests_per_s\": {:.1}, \"handovers_per_s\": {:.1}, \
         \"busy\": {:.3}",
        rates.accepted_per_s, rates.requests_per_s, rates.handovers_per_s, rates.busy
    )
}
