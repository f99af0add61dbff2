//! A herd's figures as text for Prometheus (its text format 0.0.4, which OpenMetrics scrapers read as
//! well): what each metric is called is here, once.

use super::{histogram, total, worker_counted};
use crate::abi::*;
use crate::shm::Source;
use crate::shm::times::end_of;
use crate::sys::Result;
use crate::sys::clock::start_since_1970_us;
use std::fmt::{self, Display, Formatter, Write};

#[derive(Clone, Copy)]
enum Value {
    Count(u64),
    /// Prometheus has all times in seconds.
    Us(u64),
    Ratio(f64),
}

use Value::{Count, Ratio, Us};

impl Display for Value {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match *self {
            Count(count) => write!(f, "{count}"),
            Us(us) => write!(f, "{}.{:06}", us / 1_000_000, us % 1_000_000),
            Ratio(ratio) => write!(f, "{ratio}"),
        }
    }
}

type Read = fn(&herd_stats) -> Value;

/// A metric with a value for each slot, or several that a label tells apart.
struct PerSlot {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// The name of the further label; "": none.
    label: &'static str,
    values: &'static [(&'static str, Read)],
}

const fn metric(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    label: &'static str,
    values: &'static [(&'static str, Read)],
) -> PerSlot {
    PerSlot { name, kind, help, label, values }
}

const C: &str = "counter";
const G: &str = "gauge";

#[rustfmt::skip]
const PER_SLOT: &[PerSlot] = &[
    metric("herd_connections_open", G, "Connections open now.", "", &[("", |s| Count(s.connections_open))]),
    metric("herd_load", G, "The load by which workers are compared.", "", &[("", |s| Count(s.load))]),
    metric("herd_accepted_total", C, "Connections accepted.", "", &[("", |s| Count(s.accepted))]),
    metric("herd_opened_total", C, "Connections opened: accepted, or reported by the host.", "", &[("", |s| Count(s.opened))]),
    metric("herd_closed_total", C, "Connections closed.", "", &[("", |s| Count(s.closed))]),
    metric("herd_lost_total", C, "Connections that were open when their worker ended.", "", &[("", |s| Count(s.lost))]),
    metric("herd_requests_total", C, "Requests served, as the host counts them.", "", &[("", |s| Count(s.requests))]),
    metric("herd_turns_total", C, "Waits for events.", "", &[("", |s| Count(s.turns))]),
    metric("herd_wakeups_total", C, "Waits that ended with an event.", "", &[("", |s| Count(s.wakeups))]),
    metric("herd_wakeups_by_cause_total", C, "Wake-ups with an event of this kind among others.", "cause", &[
        ("listener", |s| Count(s.wakeups_by_listener)), ("event", |s| Count(s.wakeups_by_event)),
        ("bell", |s| Count(s.wakeups_by_bell)), ("guard", |s| Count(s.wakeups_by_guard))]),
    metric("herd_wasted_wakeups_total", C, "Wake-ups that led to nothing.", "cause", &[
        ("listener", |s| Count(s.wasted_wakeups)), ("bell", |s| Count(s.wasted_bells)),
        ("guard", |s| Count(s.wasted_ticks))]),
    metric("herd_accept_eagain_total", C, "Calls of accept4 that found no connection.", "", &[("", |s| Count(s.accept_eagain))]),
    metric("herd_accept_retries_total", C, "Calls of accept4 that failed for one connection only.", "", &[("", |s| Count(s.accept_retries))]),
    metric("herd_backoffs_total", C, "Times a worker stopped accepting for a while after an error.", "error", &[
        ("EMFILE", |s| Count(s.backoffs_emfile)), ("ENFILE", |s| Count(s.backoffs_enfile)),
        ("ENOBUFS", |s| Count(s.backoffs_enobufs)), ("ENOMEM", |s| Count(s.backoffs_enomem)),
        ("other", |s| Count(s.backoffs_other))]),
    metric("herd_acquisitions_total", C, "Times the accept right was acquired.", "", &[("", |s| Count(s.acquisitions))]),
    metric("herd_failed_tries_total", C, "Tries for the accept right that found it held.", "", &[("", |s| Count(s.failed_tries))]),
    metric("herd_handovers_total", C, "Times another worker was asked to accept instead.", "", &[("", |s| Count(s.handovers))]),
    metric("herd_handovers_received_total", C, "Times the worker was asked to accept.", "", &[("", |s| Count(s.handovers_received))]),
    metric("herd_reorders_total", C, "Times the worker moved to the end of a wait queue.", "", &[("", |s| Count(s.reorders))]),
    metric("herd_guard_ticks_total", C, "Ticks of the guard taken.", "", &[("", |s| Count(s.guard_ticks))]),
    metric("herd_guard_useful_total", C, "Ticks of the guard that found work.", "", &[("", |s| Count(s.guard_useful))]),
    metric("herd_blind_accepts_total", C, "Waiting connections found that no wake-up had told of.", "", &[("", |s| Count(s.blind_accepts))]),
    metric("herd_thefts_total", C, "Times the accept right was taken from a holder without progress.", "", &[("", |s| Count(s.thefts))]),
    metric("herd_reaps_total", C, "Times the slot was freed for a dead worker.", "", &[("", |s| Count(s.reaps))]),
    metric("herd_stale_events_total", C, "Events dropped, of descriptors closed too early.", "", &[("", |s| Count(s.stale_events))]),
    metric("herd_handoff_sent_total", C, "Connections passed on to the worker (HANDOFF).", "", &[("", |s| Count(s.handoff_sent))]),
    metric("herd_handoff_received_total", C, "Connections that it received.", "", &[("", |s| Count(s.handoff_received))]),
    metric("herd_handoff_rerouted_total", C, "Those that had been sent to another worker.", "", &[("", |s| Count(s.handoff_rerouted))]),
    metric("herd_handoff_deferred_total", C, "Times that it had to keep what it had accepted.", "", &[("", |s| Count(s.handoff_deferred))]),
    metric("herd_posted_events", G, "Posted events that wait to be run.", "", &[("", |s| Count(s.posted))]),
    metric("herd_posted_events_most", G, "The most that ever waited.", "", &[("", |s| Count(s.posted_most))]),
    metric("herd_busy_seconds_total", C, "Time not spent in waits.", "", &[("", |s| Us(s.busy_us))]),
    metric("herd_waiting_seconds_total", C, "Time spent in waits.", "", &[("", |s| Us(s.waiting_us))]),
    metric("herd_worker_state", G, "1 for the state that the worker is in.", "state", &[
        ("idle", |s| Count((s.state == HERD_STATE_IDLE).into())), ("busy", |s| Count((s.state == HERD_STATE_BUSY).into())),
        ("resting", |s| Count((s.state == HERD_STATE_RESTING).into()))]),
];

/// When something that still is so began, for `time() - x` in a query: seconds since 1970, as Prometheus
/// wants it ("timestamps, not time since"). A sample is there only while it is so.
const STATE_SINCE: (&str, &str) =
    ("herd_worker_state_since_timestamp_seconds", "When the worker came into its state.");
const RIGHT_SINCE: (&str, &str) = (
    "herd_accept_right_since_timestamp_seconds",
    "Since when the worker that has the accept right has it.",
);

/// Metrics of the herd as a whole.
#[rustfmt::skip]
const OF_HERD: &[(&str, &str, Read)] = &[
    ("herd_workers", "Workers.", |s| Count(s.workers.into())),
    ("herd_slots", "Worker slots.", |s| Count(s.slots.into())),
    ("herd_open_jain", "Jain's index of the connections open: 1: even; 1/workers: one has all.", |s| Ratio(s.open_jain)),
    ("herd_accepted_jain", "Jain's index of the connections accepted.", |s| Ratio(s.accepted_jain)),
    ("herd_open_least", "Connections open at the worker that has the fewest.", |s| Count(s.open_least)),
    ("herd_open_most", "Connections open at the worker that has the most.", |s| Count(s.open_most)),
];

const TIMES: &[(&str, &str, u32)] = &[
    ("herd_right_held_seconds", "How long the accept right was held.", HERD_HISTOGRAM_RIGHT_HELD),
    (
        "herd_accept_delay_seconds",
        "From the wake-up for a connection to its accept.",
        HERD_HISTOGRAM_ACCEPT_DELAY,
    ),
    (
        "herd_handover_seconds",
        "From asking a worker to accept to its having the right.",
        HERD_HISTOGRAM_HANDOVER,
    ),
    ("herd_turn_work_seconds", "Work between two waits.", HERD_HISTOGRAM_TURN_WORK),
];

/// Slots that never had a worker are left out, unless `all`.
pub fn text(source: &dyn Source, all: bool) -> Result<String> {
    let mut slots = Vec::new();
    for number in 0..source.identity().slots() {
        let stats = worker_counted(source, number)?;
        if all || stats.workers > 0 || stats.turns > 0 || stats.opened > 0 || stats.reaps > 0 {
            slots.push((number, stats));
        }
    }
    let total = total(source)?;
    let is_alive = source.is_alive()?;
    let mut text = String::new();
    write_slots(&mut text, &slots, total.holder)
        .and_then(|()| write_since(&mut text, &slots, &total, all))
        .and_then(|()| write_herd(&mut text, &total, is_alive))
        .expect("writing to a string does not fail");
    for &(name, help, which) in TIMES {
        let times = histogram(source, None, which)?;
        write_times(&mut text, name, help, &times).expect("as above");
    }
    Ok(text)
}

/// Room for the text, however its numbers grow and whatever slots are used for the first time.
pub fn room_for(source: &dyn Source) -> Result<usize> {
    let text = text(source, true)?;
    Ok(text.len() + text.lines().count() * MOST_DIGITS)
}

/// Digits of the largest number.
const MOST_DIGITS: usize = 20;

fn write_head(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// The holder is read once for all slots: one text never shows two.
fn write_slots(text: &mut String, slots: &[(usize, herd_stats)], holder: i32) -> fmt::Result {
    for metric in PER_SLOT {
        let PerSlot { name, label, .. } = metric;
        write_head(text, name, metric.kind, metric.help)?;
        for (number, stats) in slots {
            for (value, read) in metric.values {
                write!(text, "{name}{{slot=\"{number}\"")?;
                if !label.is_empty() {
                    write!(text, ",{label}=\"{value}\"")?;
                }
                writeln!(text, "}} {}", read(stats))?;
            }
        }
    }
    let name = "herd_accept_right_held";
    write_head(text, name, G, "1 for the worker that has the accept right.")?;
    for (number, _) in slots {
        let holds = usize::try_from(holder) == Ok(*number);
        writeln!(text, "{name}{{slot=\"{number}\"}} {}", u8::from(holds))?;
    }
    Ok(())
}

fn write_since(
    text: &mut String,
    slots: &[(usize, herd_stats)],
    total: &herd_stats,
    all: bool,
) -> fmt::Result {
    let start_us = start_since_1970_us();
    // To the millisecond: the start is read anew each time, which must not look like a change.
    let since = |us: u64| Us(us.saturating_add(start_us) / 1000 * 1000);
    let (name, help) = STATE_SINCE;
    write_head(text, name, G, help)?;
    for (number, stats) in slots {
        if all || stats.workers > 0 {
            writeln!(text, "{name}{{slot=\"{number}\"}} {}", since(stats.state_since_us))?;
        }
    }
    let (name, help) = RIGHT_SINCE;
    write_head(text, name, G, help)?;
    if all || total.holder_since_us > 0 {
        writeln!(text, "{name} {}", since(total.holder_since_us))?;
    }
    Ok(())
}

fn write_herd(text: &mut String, total: &herd_stats, is_alive: bool) -> fmt::Result {
    let name = "herd_alive";
    write_head(text, name, G, "1 while a process of the herd lives; 0: its last figures.")?;
    writeln!(text, "{name} {}", u8::from(is_alive))?;
    for (name, help, read) in OF_HERD {
        write_head(text, name, G, help)?;
        writeln!(text, "{name} {}", read(total))?;
    }
    Ok(())
}

/// With a bucket for each power of two: eight times as many would be more than a scraper likes.
fn write_times(text: &mut String, name: &str, help: &str, times: &herd_histogram) -> fmt::Result {
    write_head(text, name, "histogram", help)?;
    let mut sum = 0u64;
    for (bucket, &count) in times.counts.iter().enumerate() {
        sum = sum.saturating_add(count);
        let end_us = end_of(bucket);
        let is_last = bucket + 1 == times.counts.len();
        if end_us.is_power_of_two() && !is_last {
            writeln!(text, "{name}_bucket{{le=\"{}\"}} {sum}", Us(end_us))?;
        }
    }
    writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {}", times.count)?;
    writeln!(text, "{name}_sum {}\n{name}_count {}", Us(times.sum_us), times.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_seconds_and_names_say_what_they_are() {
        assert_eq!(Us(1_500_000).to_string(), "1.500000");
        assert_eq!(Us(u64::MAX).to_string().len(), MOST_DIGITS + 1);
        assert_eq!(Ratio(1.0).to_string(), "1");
        for metric in PER_SLOT {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == C, "{}", metric.name);
            assert_eq!(metric.values.len() > 1, !metric.label.is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn a_histogram_is_cumulative() {
        let mut times = herd_histogram::default();
        (times.counts[0], times.counts[3], times.counts[191], times.count) = (5, 2, 1, 8);
        let mut text = String::new();
        write_times(&mut text, "x", "Help.", &times).unwrap();
        for line in [
            "x_bucket{le=\"0.000001\"} 5\n",
            "x_bucket{le=\"0.000002\"} 5\n",
            "x_bucket{le=\"0.000004\"} 7\n",
            "x_bucket{le=\"33.554432\"} 7\n",
            "x_bucket{le=\"+Inf\"} 8\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("67.1"));
    }
}
