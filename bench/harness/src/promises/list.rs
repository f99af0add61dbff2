//! What is promised: which figure, how it comes from the rounds, and its limits.

use crate::measure::{BURN_US, CRASH_ACCEPT_DELAY_MS, WORKERS};

/// How a figure comes from the rounds.
#[derive(Clone, Copy)]
pub enum How {
    Median,
    /// Of all rounds.
    Worst,
    Mean,
    /// Of all rounds of all four crashes.
    Lost,
    /// To the median of that contender, by column.
    Ratio([Option<&'static str>; 4]),
    /// Of the column's contender with `-late`, to the median of this one.
    Late(&'static str),
    /// The library's own figure, by the name of a part, to that of another part, both of the same moment.
    Over(&'static str, Option<&'static str>),
    /// To the median of another metric of the same contender.
    Against(&'static str),
}

#[derive(Clone, Copy)]
pub enum Limit {
    None,
    AtMost(f64),
    AtLeast(f64),
}
use Limit::{AtLeast, AtMost};

pub struct Promise {
    pub of: &'static str,
    pub what: String,
    /// EXCLUSIVE's and MUTEX's.
    pub limits: [Limit; 2],
    /// PACK does not promise balance.
    pub only_spread: bool,
    pub metric: &'static str,
    pub how: How,
    pub peer: Option<&'static str>,
}

/// Of which promise, what, limits, metric, how, peer.
type Line<'a> = (&'static str, &'a str, [Limit; 2], &'static str, How, Option<&'static str>);

pub fn promises() -> Vec<Promise> {
    use How::*;
    let late = 1000.0 * f64::from(CRASH_ACCEPT_DELAY_MS) + 10_000.0;
    let crash = [AtMost(10_000.0), AtMost(late)];
    let both = |limit: Limit| [limit, limit];
    let same = |name| Ratio([Some(name); 4]);
    let raw =
        Ratio([Some("raw-rotate"), Some("raw-exclusive"), Some("raw-mutex"), Some("raw-mutex")]);
    let raw_del = Ratio([
        Some("raw-rotate-del"),
        Some("raw-exclusive-del"),
        Some("raw-mutex-del"),
        Some("raw-mutex-del"),
    ]);
    let raw_event = Ratio([Some("raw-exclusive"), None, Some("raw-mutex"), None]);
    let pack = Ratio([None, None, Some("mutex/pack"), None]);
    let rotation = Ratio([Some("raw-rotate"), None, None, None]);
    let none = both(Limit::None);
    let burn = format!("{BURN_US} us handlers, of raw EXCLUSIVE");
    let held = format!("2000 on {WORKERS}, 5000/s");
    let rows: Vec<Line> = vec![
        (
            "wake-ups",
            "8 idle: sleeps a connection",
            both(AtMost(1.5)),
            "w8_sleeps_open",
            Median,
            Some("raw-exclusive"),
        ),
        (
            "wake-ups",
            "8 idle: with its request",
            both(AtMost(2.2)),
            "w8_sleeps_request",
            Median,
            Some("raw-exclusive"),
        ),
        ("wake-ups", "8 idle: wasted a connection", both(AtMost(0.01)), "w8_wasted", Median, None),
        (
            "wake-ups",
            "64 idle: sleeps a connection",
            both(AtMost(1.5)),
            "w64_sleeps_open",
            Median,
            Some("raw-exclusive"),
        ),
        (
            "wake-ups",
            "64 idle: with its request",
            both(AtMost(2.2)),
            "w64_sleeps_request",
            Median,
            Some("raw-exclusive"),
        ),
        (
            "wake-ups",
            "64 idle: wasted a connection",
            both(AtMost(0.01)),
            "w64_wasted",
            Median,
            None,
        ),
        ("balance", &held, both(AtLeast(0.995)), "hold_jain", Median, Some("raw-rotate")),
        (
            "balance",
            "the same: max/min",
            both(AtMost(1.15)),
            "hold_ratio",
            Median,
            Some("raw-rotate"),
        ),
        (
            "balance",
            "2000 at full rate: Jain",
            both(AtLeast(0.995)),
            "burst_jain",
            Median,
            Some("raw-rotate"),
        ),
        (
            "balance",
            "2000 at full rate: max/min",
            both(AtMost(1.15)),
            "burst_ratio",
            Median,
            Some("raw-rotate"),
        ),
        (
            "balance",
            "400, 2000/s: Jain",
            both(AtLeast(0.995)),
            "few_jain",
            Median,
            Some("raw-rotate"),
        ),
        (
            "balance",
            "400, 2000/s: max/min",
            both(AtMost(1.15)),
            "few_ratio",
            Median,
            Some("raw-rotate"),
        ),
        (
            "stall",
            "accepted within, worst us",
            both(AtMost(5000.0)),
            "stall_accept_worst_us",
            Worst,
            Some("raw-mutex"),
        ),
        (
            "stall",
            "accepted within, 99.9 % us",
            both(AtMost(2000.0)),
            "stall_accept_p999_us",
            Median,
            Some("raw-mutex"),
        ),
        (
            "stall",
            "share that waits above 50 ms",
            both(AtMost(0.002)),
            "stall_over_50ms",
            Mean,
            Some("raw-mutex"),
        ),
        (
            "crash",
            "kill -9: worst wait us",
            both(AtMost(10_000.0)),
            "kill_wait_worst_us",
            Worst,
            Some("raw-exclusive"),
        ),
        (
            "crash",
            "SIGSTOP: worst wait us",
            crash,
            "stop_wait_worst_us",
            Worst,
            Some("raw-exclusive"),
        ),
        (
            "crash",
            "no master, kill -9: us",
            crash,
            "orphan_kill_wait_worst_us",
            Worst,
            Some("raw-exclusive"),
        ),
        (
            "crash",
            "no master, SIGSTOP: us",
            crash,
            "orphan_stop_wait_worst_us",
            Worst,
            Some("raw-exclusive"),
        ),
        ("crash", "lost from the backlog", both(AtMost(0.0)), "lost", Lost, Some("raw-exclusive")),
        (
            "crash",
            "nothing happens: worst us",
            none,
            "none_wait_worst_us",
            Worst,
            Some("raw-exclusive"),
        ),
        ("overhead", "server CPU us, short connection", none, "cpu", Median, Some("raw-rotate")),
        ("overhead", "of raw epoll of its way", both(AtMost(1.05)), "cpu", raw, None),
        ("overhead", "of one that removes before close", none, "cpu", raw_del, None),
        (
            "overhead",
            "of that, without hand-over if busy",
            none,
            "cpu",
            Late("raw-mutex-del"),
            None,
        ),
        ("overhead", "mutex/spread of mutex/pack", both(AtMost(1.05)), "cpu", pack, None),
        ("overhead", "exclusive/spread of rotation", both(AtMost(1.0)), "cpu", rotation, None),
        ("overhead", "short connections a second", none, "short", Median, Some("raw-rotate")),
        ("overhead", &burn, both(AtLeast(1.0)), "burn", same("raw-exclusive"), Some("raw-mutex")),
        ("event", "request of one that is kept, CPU us", none, "keep_alive_cpu_of_1", Median, None),
        ("event", "of raw epoll", both(AtMost(1.02)), "keep_alive_cpu_of_1", raw_event, None),
        ("lock", "trylock + unlock ns", none, "lock", Over("herd", None), None),
        ("lock", "of a bare CAS pair", both(AtMost(1.5)), "lock", Over("herd", Some("bare")), None),
        ("arming", "turn with 1 listener, ns", none, "arming1", Median, Some("nginx")),
        ("arming", "turn with 1000 listeners, ns", none, "arming1000", Median, Some("nginx")),
        (
            "arming",
            "16 listeners of 1",
            both(AtMost(2.0)),
            "arming16",
            Against("arming1"),
            Some("nginx"),
        ),
        (
            "arming",
            "256 listeners of 1",
            both(AtMost(2.0)),
            "arming256",
            Against("arming1"),
            Some("nginx"),
        ),
        (
            "arming",
            "1000 listeners of 1",
            both(AtMost(2.0)),
            "arming1000",
            Against("arming1"),
            Some("nginx"),
        ),
        ("arming", "epoll_ctl calls with 1000", none, "calls1000", Median, Some("nginx")),
        ("memory", "bytes a watched fd", both(AtMost(128.0)), "bytes_per_fd", Median, None),
        ("memory", "grown by 10^6 del + add, bytes", both(AtMost(0.0)), "grown", Median, None),
        ("idle", "4 workers: wake-ups a second", both(AtMost(2.5)), "idle4", Mean, None),
        ("idle", "16 workers: wake-ups a second", both(AtMost(2.5)), "idle16", Mean, None),
        ("idle", "64 workers: wake-ups a second", both(AtMost(2.5)), "idle64", Mean, None),
    ];
    let promise = |(of, what, limits, metric, how, peer): Line| Promise {
        of,
        what: what.to_owned(),
        limits,
        only_spread: of == "balance",
        metric,
        how,
        peer,
    };
    rows.into_iter().map(promise).collect()
}

impl Limit {
    pub fn holds(self, figure: f64) -> Option<bool> {
        match self {
            Limit::None => None,
            AtMost(limit) => Some(figure <= limit),
            AtLeast(limit) => Some(figure >= limit),
        }
    }

    pub fn text(self) -> String {
        match self {
            Limit::None => "-".to_owned(),
            AtMost(limit) => format!("<= {limit}"),
            AtLeast(limit) => format!(">= {limit}"),
        }
    }
}
