//! The measured part: which figures stand in which table, and which are drawn.

use super::plots::{self, Bar, Line};
use super::{number, table};
use crate::figures::{Results, median, spread};
use crate::measure::contender::{HERD, HERD_OTHERS, LIBRARIES, NGINX, RAW, is_ours};
use crate::measure::{GROWN_LISTENERS, GROWN_WORKERS, LISTENERS};
use std::path::Path;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}
use Better::{Less, More};

pub struct Column {
    pub metric: &'static str,
    pub title: &'static str,
    pub better: Better,
    /// The figure shown is the measured one times this.
    factor: f64,
}

const fn column(metric: &'static str, title: &'static str, better: Better) -> Column {
    Column { metric, title, better, factor: 1.0 }
}

pub struct Section {
    title: &'static str,
    text: &'static str,
    pub columns: &'static [Column],
    /// Title, unit and scale of a plot of the column with this number.
    plot: Option<(usize, &'static str, &'static str, bool)>,
}

pub const SECTIONS: [Section; 11] = [
    Section {
        title: "Short connections and keep-alive",
        text: "16 clients connect, ask, read the answer and the end, at full rate; 64 connections that are kept (wrk), on 4\n\
               workers and on one, which shows what the library costs for an event. CPU is the server's alone.",
        columns: &[
            column("short", "connections/s", More),
            Column { metric: "cpu", title: "CPU s of 10 000", better: Less, factor: 0.01 },
            column("keep_alive", "kept: requests/s", More),
            column("keep_alive_cpu", "kept: CPU us a request", Less),
            column("keep_alive_cpu_of_1", "on one worker", Less),
        ],
        plot: Some((
            1,
            "Server CPU for 10 000 short connections",
            "seconds, less is better",
            false,
        )),
    },
    Section {
        title: "Wake-ups",
        text: "At 1000 short connections a second: how often the server's processes went to sleep for a connection\n\
               (voluntary context switches), all context switches, and the sleeps of workers that do not push the client, which\n\
               shares their cores, off its core in the middle of a connect (SCHED_BATCH); system calls (strace, at 400 a second),\n\
               accepts that found nothing; with 8 and 64 idle workers, the sleeps of a connection and its request.",
        columns: &[
            column("rate_sleeps", "sleeps", Less),
            column("rate_switches", "switches", Less),
            column("patient_sleeps", "patient: sleeps", Less),
            column("system_calls", "system calls", Less),
            column("empty_accepts", "empty accepts", Less),
            column("w8_sleeps_request", "8 idle: sleeps", Less),
            column("w64_sleeps_request", "64 idle: sleeps", Less),
        ],
        plot: Some((
            2,
            "Sleeps of a server for one connection, 1000 a second, 4 workers that push no client off its core",
            "less is better",
            false,
        )),
    },
    Section {
        title: "Balance",
        text: "2000 connections that stay, 5000 a second and at full rate, and 400 at 2000 a second, on 4 workers. Jain's\n\
               index is 1 if all have the same, 0.25 if one has all.",
        columns: &[
            column("hold_jain", "Jain", More),
            column("hold_ratio", "max/min", Less),
            column("burst_jain", "full rate: Jain", More),
            column("burst_ratio", "full rate: max/min", Less),
            column("few_jain", "400: Jain", More),
            column("few_ratio", "400: max/min", Less),
        ],
        plot: Some((
            0,
            "Evenness of 2000 connections that stay, on 4 workers (Jain's index)",
            "1 is best",
            false,
        )),
    },
    Section {
        title: "Latency, idle",
        text: "A request at fixed times, 1000 and 4000 a second, from the planned time to the full answer, in us.",
        columns: &[
            column("rate_p50_us", "1000/s p50", Less),
            column("rate_p99_us", "p99", Less),
            column("rate_p999_us", "p99.9", Less),
            column("rate_worst_us", "worst", Less),
            column("fast_p50_us", "4000/s p50", Less),
            column("fast_p99_us", "p99", Less),
            column("fast_p999_us", "p99.9", Less),
            column("fast_worst_us", "worst", Less),
        ],
        plot: None,
    },
    Section {
        title: "Latency while workers are blocked",
        text: "2000 a second, and every 100th request blocks its worker for 20 ms; or 1000 a second, every 200th for 200 ms. The others' latency,\n\
               in us.",
        columns: &[
            column("slow20_p50_us", "20 ms: p50", Less),
            column("slow20_p99_us", "p99", Less),
            column("slow20_p999_us", "p99.9", Less),
            column("slow20_worst_us", "worst", Less),
            column("slow200_p50_us", "200 ms: p50", Less),
            column("slow200_p99_us", "p99", Less),
            column("slow200_p999_us", "p99.9", Less),
            column("slow200_worst_us", "worst", Less),
        ],
        plot: Some((
            5,
            "Latency, 99 %, while every 200th request blocks a worker for 200 ms",
            "us, logarithmic, less is better",
            true,
        )),
    },
    Section {
        title: "A blocked worker",
        text: "One of 4 workers at a time is blocked for 200 ms, every 210 to 420 ms, 800 clients a second: until they are\n\
               accepted, and the share that waits for more than 50 ms for the answer.",
        columns: &[
            column("stall_accept_p999_us", "accepted: p99.9 us", Less),
            column("stall_accept_worst_us", "worst us", Less),
            column("stall_over_50ms", "over 50 ms", Less),
        ],
        plot: None,
    },
    Section {
        title: "Outage",
        text: "The worker that accepted last gets SIGKILL or SIGSTOP, with the master alive and after the master was killed:\n\
               the longest wait of any client, in us (a client that was never answered counts until the end of the run, about\n\
               0.8 s), and clients that were lost from the backlog. libherd's accept_delay is 100 ms here; nginx's retry is 500 ms.",
        columns: &[
            column("kill_wait_worst_us", "kill", Less),
            column("stop_wait_worst_us", "stop", Less),
            column("orphan_kill_wait_worst_us", "no master: kill", Less),
            column("orphan_stop_wait_worst_us", "no master: stop", Less),
            column("kill_lost", "kill: lost", Less),
            column("orphan_kill_lost", "no master, kill: lost", Less),
            column("none_wait_worst_us", "no event", Less),
        ],
        plot: Some((
            2,
            "Longest wait after the master and then a worker is killed",
            "us, logarithmic, less is better",
            true,
        )),
    },
    Section {
        title: "Throughput of working handlers",
        text: "Each handler burns 500 us of CPU: what a way of sharing leaves unused of two cores.",
        columns: &[column("burn", "connections/s", More)],
        plot: None,
    },
    Section {
        title: "Memory of idle connections",
        text: "Resident memory that 2000 idle connections add to a server after one request each, the host's own objects\n\
               included (libherd's and the hand-written servers' are about 10 KB, of which mostly one page is touched).",
        columns: &[column("idle_bytes", "bytes a connection", Less)],
        plot: None,
    },
    Section {
        title: "Instructions of an event",
        text: "User-space instructions, counted by callgrind, so independent of the machine's mood: of a turn with one event, and of\n\
               one of 64 events in a turn, whose handlers do nothing; of a timer's start and stop among 10 000 to 20 000.",
        columns: &[
            column("turn_of_1_instructions", "turn with one event", Less),
            column("event_of_64_instructions", "event of 64", Less),
            column("timer_instructions", "timer", Less),
        ],
        plot: None,
    },
    Section {
        title: "A million timers",
        text: "Started at scattered times within 1000 s, and stopped again.",
        columns: &[
            column("timer_start_ns", "start, ns", Less),
            column("timer_stop_ns", "stop, ns", Less),
        ],
        plot: None,
    },
];

pub fn contenders() -> String {
    format!(
        "\n## Contenders\n\n\
         - libherd by mode and policy: {}, {}.\n\
         - By hand on epoll, in C (bench/peers/raw_server.c): {}. `mutex` is nginx's accept_mutex, `rotate` its way since\n\
         \x20 1.21.6, `pass` a master that passes descriptors on in turn.\n\
         - nginx itself, from the distribution: {} (accept_mutex on; off, which is EPOLLEXCLUSIVE; reuseport).\n\
         - Small servers on the libraries (bench/peers): {}.\n\n",
        HERD.join(", "),
        HERD_OTHERS.join(", "),
        RAW.join(", "),
        NGINX.join(", "),
        LIBRARIES.join(", ")
    )
}

/// In the order of the tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    let parts = ["herd", "raw", "libevent", "libuv", "libev"];
    HERD.into_iter().chain(HERD_OTHERS).chain(RAW).chain(NGINX).chain(LIBRARIES).chain(parts)
}

fn cell(values: &[f64], factor: f64) -> String {
    let spread = spread(values).filter(|&spread| spread >= 0.005);
    let spread = spread.map_or(String::new(), |spread| format!(" ±{:.0} %", 100.0 * spread));
    format!("{}{spread}", number(median(values) * factor))
}

fn best(results: &Results, column: &Column) -> Option<f64> {
    let medians = names().filter_map(|name| results.median(column.metric, name));
    medians.reduce(if column.better == More { f64::max } else { f64::min })
}

fn rows(results: &Results, columns: &[Column]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for name in names() {
        let mut row = vec![name.to_owned()];
        for column in columns {
            let values = results.values(column.metric, name);
            let text = values.map_or("-".to_owned(), |values| cell(values, column.factor));
            let is_best = values.is_some_and(|v| Some(median(v)) == best(results, column));
            row.push(if is_best { format!("**{text}**") } else { text });
        }
        if row[1..].iter().any(|text| text != "-") {
            rows.push(row);
        }
    }
    rows
}

pub fn sections(results: &Results, plots: &Path) -> Result<String, String> {
    let mut text = String::new();
    for section in &SECTIONS {
        let rows = rows(results, section.columns);
        if rows.is_empty() {
            continue;
        }
        text += &format!("## {}\n\n{}\n\n", section.title, section.text);
        let head = section.columns.iter().map(|column| column.title.to_owned());
        text += &table(&std::iter::once(String::new()).chain(head).collect::<Vec<_>>(), &rows);
        text += "\n";
        if let Some((at, title, unit, log)) = section.plot {
            let column = &section.columns[at];
            let bar = |name: &'static str| {
                let values = results.values(column.metric, name)?;
                let scaled: Vec<f64> = values.iter().map(|value| value * column.factor).collect();
                let least = scaled.iter().copied().fold(f64::MAX, f64::min);
                let most = scaled.iter().copied().fold(f64::MIN, f64::max);
                let value = median(&scaled);
                Some(Bar {
                    name: name.to_owned(),
                    is_ours: is_ours(name),
                    value,
                    range: [least, most],
                })
            };
            let bars: Vec<Bar> = names().filter_map(bar).collect();
            if !bars.is_empty() {
                let file = format!("{}.svg", column.metric);
                plots::bars(&plots.join(&file), title, unit, log, &bars)
                    .map_err(|e| format!("{file}: {e}"))?;
                text += &format!("![{title}](benchmarks/{file})\n\n");
            }
        }
    }
    text += &parts(results);
    text += &growths(results, plots)?;
    Ok(text)
}

fn parts(results: &Results) -> String {
    let figure = |metric: &str, who: &str| {
        results.values(metric, who).map_or("-".to_owned(), |values| cell(values, 1.0))
    };
    let mut text = String::from("## Lock and arming\n\n");
    let head = ["", "herd", "bare CAS pair", "CAS and store", "pthread mutex"];
    let row = vec![
        "trylock + unlock, ns".to_owned(),
        figure("lock", "herd"),
        figure("lock", "bare"),
        figure("lock", "store"),
        figure("lock", "pthread"),
    ];
    text += &table(&head.map(str::to_owned), &[row]);
    let row = ["herd", "bare", "store", "pthread"].map(|who| figure("lock_instructions", who));
    text += &format!("| the same, instructions | {} |\n", row.join(" | "));
    text += "\nTaking the right, arming, giving it up and disarming, by the number of listeners, beside nginx's way, which is one\n\
             epoll_ctl for each:\n\n";
    let head = ["listeners", "herd, ns", "epoll_ctl calls", "nginx's way, ns", "epoll_ctl calls"];
    let rows: Vec<Vec<String>> = LISTENERS
        .iter()
        .map(|n| {
            let (ns, calls) = (format!("arming{n}"), format!("calls{n}"));
            let cells = [
                (&ns, "mutex/spread"),
                (&calls, "mutex/spread"),
                (&ns, "nginx"),
                (&calls, "nginx"),
            ];
            std::iter::once(n.to_string())
                .chain(cells.map(|(metric, who)| figure(metric, who)))
                .collect()
        })
        .collect();
    text + &table(&head.map(str::to_owned), &rows) + "\n"
}

const GUARD: &str = "While others are idle and connections come slowly, MUTEX pulls its guard in before handlers and pushes it back\n\
                     after them: two timerfd_settime in such a turn. EXCLUSIVE has no need of it.\n\n";

/// What grows, by which suffix of a metric its size is told.
struct Growth {
    what: &'static str,
    suffix: &'static str,
    sizes: [usize; 4],
    /// Metric and title.
    cases: &'static [(&'static str, &'static str)],
}

const FULL_RATE: (&str, &str) = ("cpu", "Server CPU for a short connection at full rate, us");
const CALM: (&str, &str) = ("calm_cpu", "Server CPU for a short connection at 400 a second, us");
const CALM_SLEEPS: (&str, &str) = ("sleeps", "Sleeps of a server for one connection, 400 a second");

const GROWTHS: [Growth; 2] = [
    Growth {
        what: "workers",
        suffix: "_of_",
        sizes: GROWN_WORKERS,
        cases: &[FULL_RATE, CALM, CALM_SLEEPS],
    },
    Growth { what: "listeners", suffix: "_at_", sizes: GROWN_LISTENERS, cases: &[FULL_RATE, CALM] },
];

fn growths(results: &Results, plots: &Path) -> Result<String, String> {
    let mut text = String::new();
    for growth in &GROWTHS {
        let cases = growth.cases.iter().map(|case| grown(results, plots, growth, case));
        let cases = cases.collect::<Result<Vec<_>, _>>()?.concat();
        if !cases.is_empty() {
            text += &format!("## As {} grow\n\n{GUARD}{cases}", growth.what);
        }
    }
    Ok(text)
}

fn grown(
    results: &Results,
    plots: &Path,
    growth: &Growth,
    &(metric, title): &(&str, &str),
) -> Result<String, String> {
    let &Growth { what, suffix, sizes, .. } = growth;
    let of = |name: &str, size: usize| results.values(&format!("{metric}{suffix}{size}"), name);
    let known = |name: &&str| sizes.iter().any(|&size| of(name, size).is_some());
    let known: Vec<&str> = names().filter(known).collect();
    if known.is_empty() {
        return Ok(String::new());
    }
    let row = |name: &&str| {
        let cells = sizes.map(|n| of(name, n).map_or("-".to_owned(), |values| cell(values, 1.0)));
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    let head = std::iter::once(String::new()).chain(sizes.map(|n| format!("{n} {what}")));
    let head: Vec<String> = head.collect();
    let mut text = format!("{title}:\n\n");
    text += &table(&head, &known.iter().map(row).collect::<Vec<_>>());
    let points =
        |name: &str| sizes.iter().filter_map(|&n| Some((n as f64, median(of(name, n)?)))).collect();
    let lines: Vec<Line> =
        known.iter().map(|name| Line { name: (*name).to_owned(), points: points(name) }).collect();
    let file = format!("{metric}{suffix}{what}.svg");
    plots::lines(&plots.join(&file), title, [what, "less is better"], true, &lines)
        .map_err(|e| format!("{file}: {e}"))?;
    Ok(text + &format!("\n![{title}](benchmarks/{file})\n\n"))
}
