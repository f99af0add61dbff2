//! Steps beyond most promises: the cost of an event, latency, system calls, memory, and what grows with
//! workers and listeners.

use super::contender::{Setup, signal};
use super::steps::can_block;
use super::{
    Bench, Extent, GROWERS, GROWN_LISTENERS, GROWN_WORKERS, KEEPERS, LISTENERS_OF, WORKERS, proc,
};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The workers do not push the load generator, which shares their cores, off its core when it wakes them in the
/// middle of a connect (SCHED_BATCH, sched(7)). How often an ordinary worker does depends on what both used of the
/// processor just before, and decides whether the request is there when the connection has been accepted.
const PATIENT: &str = "patient";

fn after_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(prefix)).map(str::trim)
}

impl Bench {
    /// With one worker all have the same number of events in a wait, however they share accepts: what
    /// is left is the cost of an event.
    pub(super) fn measure_event(&mut self) {
        let promised = ["exclusive/spread", "mutex/spread", "raw-exclusive", "raw-mutex"];
        let names = self.names(&[&promised], &[&KEEPERS]);
        self.start(&names, Setup::of(1));
        // What is promised is less than what a round differs from the next.
        self.measure_keep_alive("_of_1", self.pace.short_rounds, &names);
        self.servers.clear();
    }

    /// A closed loop over 64 connections (wrk). Metrics get `suffix`.
    pub(super) fn measure_keep_alive(&mut self, suffix: &str, rounds: usize, names: &[String]) {
        if Command::new("wrk").arg("-v").output().is_err() {
            self.results.skipped.push("keep-alive: wrk is not installed".to_owned());
            return;
        }
        self.take_turns("keep-alive requests", rounds, names, |bench, name, address, pid| {
            let before = proc::usage(pid);
            let url = format!("http://{address}/");
            let output = Command::new("wrk").args(["-t1", "-c64", "-d1", &url]).output();
            let output = output.map_err(|e| format!("wrk: {e}"))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let used = proc::usage(pid).cpu_us - before.cpu_us;
            let rate = after_prefix(&text, "Requests/sec:").and_then(|t| t.parse::<f64>().ok());
            let total = text.lines().find_map(|line| line.trim().split_once(" requests in"));
            let total = total.and_then(|(count, _)| count.parse::<f64>().ok());
            let (Some(rate), Some(total)) = (rate, total) else {
                return Err(format!("wrk: {text}"));
            };
            bench.results.put(&format!("keep_alive{suffix}"), name, rate);
            bench.results.put(&format!("keep_alive_cpu{suffix}"), name, used / total);
            Ok(())
        });
    }

    pub(super) fn measure_latency(&mut self, names: &[String]) {
        let seconds = self.pace.rate_s;
        // Half a second is enough where there are many.
        let cases: [(&str, &str, f64, &[&str]); 5] = [
            ("rate", "1000", 1.0, &[]),
            (PATIENT, "1000", 0.5, &[]),
            ("fast", "4000", 0.5, &[]),
            ("slow20", "2000", 0.5, &["--slow-every", "100", "--slow-ms", "20"]),
            ("slow200", "1000", 1.0, &["--slow-every", "200", "--slow-ms", "200"]),
        ];
        for (case, rate, share, options) in cases {
            let seconds = (seconds * share).to_string();
            let names: Vec<String> = names
                .iter()
                .filter(|name| options.is_empty() || can_block(name))
                .cloned()
                .collect();
            let what = format!("latency at {rate} a second {}", options.join(" "));
            let metrics = ["p50", "p99", "p999", "worst"]
                .map(|q| (format!("{case}_{q}_us"), format!("latency_{q}_us")));
            self.take_turns(&what, self.pace.rounds, &names, |bench, name, address, pid| {
                let (pid_text, before) = (pid.to_string(), proc::usage(pid));
                let mut arguments = vec!["--mode", "rate", "--rate", rate, "--seconds", &seconds];
                arguments.extend_from_slice(options);
                arguments.extend(["--server-pid", &pid_text, &address]);
                let wanted: Vec<(&str, &str)> =
                    metrics.iter().map(|(m, k)| (m.as_str(), k.as_str())).collect();
                if case == PATIENT {
                    proc::schedule(pid, libc::SCHED_BATCH);
                }
                let report = bench.load_for(name, &arguments, &wanted);
                proc::schedule(pid, libc::SCHED_OTHER);
                let report = report?;
                if options.is_empty() {
                    let used = proc::usage(pid);
                    let connections = report["connections"].as_f64().unwrap_or(1.0);
                    let sleeps = report["sleeps_per_connection"].as_f64().unwrap_or_default();
                    let cpu = report["server_cpu_us_per_connection"].as_f64().unwrap_or_default();
                    let preempted = (used.preemptions - before.preemptions) / connections;
                    bench.results.put(&format!("{case}_sleeps"), name, sleeps);
                    bench.results.put(&format!("{case}_cpu"), name, cpu);
                    bench.results.put(&format!("{case}_switches"), name, sleeps + preempted);
                }
                Ok(())
            });
        }
    }

    /// strace slows a server down, but what it counts at 400 connections a second is exact.
    pub(super) fn measure_system_calls(&mut self, names: &[String]) {
        if Command::new("strace").arg("-V").output().is_err() {
            self.results.skipped.push("system calls: strace is not installed".to_owned());
            return;
        }
        self.take_turns("system calls", 1, names, |bench, name, address, pid| {
            let counts = bench.places.scratch.join("strace");
            let mut command = Command::new("strace");
            command.args(["-f", "-qq", "-c", "-U", "calls,errors,name", "-o"]).arg(&counts);
            for pid in proc::tree(pid) {
                command.args(["-p", &pid.to_string()]);
            }
            let tracer = command.stderr(Stdio::null()).spawn();
            let mut tracer = tracer.map_err(|e| format!("strace: {e}"))?;
            sleep(Duration::from_millis(300));
            let report =
                bench.load(&["--mode", "rate", "--rate", "400", "--count", "200", &address]);
            signal(tracer.id(), libc::SIGINT);
            tracer.wait().map_err(|e| format!("strace: {e}"))?;
            let connections = report?["connections"].as_f64().unwrap_or(1.0);
            let text = std::fs::read_to_string(&counts).map_err(|e| format!("strace: {e}"))?;
            let (calls, empty_accepts) = count_calls(&text);
            bench.results.put("system_calls", name, calls / connections);
            bench.results.put("empty_accepts", name, empty_accepts / connections);
            Ok(())
        });
    }

    /// What 2000 idle connections add to the resident memory of a new server, the host's objects included.
    pub(super) fn measure_memory(&mut self, names: &[String]) {
        for _ in 0..self.pace.rounds {
            self.start(names, Setup::of(WORKERS));
            self.take_turns("memory of idle connections", 1, names, |bench, name, address, pid| {
                let before = proc::usage(pid).resident_bytes;
                let mut command = Command::new(bench.places.program("examples/load"));
                command.args(["--mode", "hold", "--count", "2000", "--seconds", "0.6", &address]);
                let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
                let mut child = child.map_err(|e| format!("load: {e}"))?;
                sleep(Duration::from_millis(500));
                let grown = proc::usage(pid).resident_bytes - before;
                let _ = child.wait();
                bench.results.put("idle_bytes", name, grown / 2000.0);
                Ok(())
            });
            self.servers.clear();
        }
    }

    /// The cost of a connection as workers grow.
    pub(super) fn measure_workers(&mut self) {
        for workers in GROWN_WORKERS {
            self.measure_grown(&GROWERS, Setup::of(workers), &format!("_of_{workers}"));
        }
    }

    /// The same as listeners grow, of which one is used.
    pub(super) fn measure_listeners(&mut self) {
        for listeners in GROWN_LISTENERS {
            let setup = Setup { listeners, ..Setup::of(WORKERS) };
            self.measure_grown(&LISTENERS_OF, setup, &format!("_at_{listeners}"));
        }
    }

    /// Metrics get `suffix`.
    fn measure_grown(&mut self, names: &[&str], setup: Setup, suffix: &str) {
        debug_assert!(self.extent == Extent::All);
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.start(&names, setup);
        let rounds = self.pace.growth_rounds;
        self.measure_short(suffix, rounds, &names);
        self.take_turns("400 a second", rounds, &names, |bench, name, address, pid| {
            let pid = pid.to_string();
            let pace = ["--mode", "rate", "--rate", "400", "--count", "120"];
            let arguments = [&pace[..], &["--server-pid", &pid, &address]].concat();
            let metrics = ["sleeps", "calm_cpu"].map(|metric| format!("{metric}{suffix}"));
            let keys = ["sleeps_per_connection", "server_cpu_us_per_connection"];
            bench.load_for(name, &arguments, &[(&metrics[0], keys[0]), (&metrics[1], keys[1])])?;
            Ok(())
        });
        self.servers.clear();
    }
}

/// All calls, and accepts that failed, from strace's table: calls, errors (may be empty), name.
fn count_calls(text: &str) -> (f64, f64) {
    let (mut calls, mut empty_accepts) = (0.0, 0.0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(Ok(count)), Some(&name)) =
            (words.first().map(|w| w.parse::<f64>()), words.last())
        else {
            continue;
        };
        if name == "total" {
            continue;
        }
        calls += count;
        if name.starts_with("accept") && words.len() == 3 {
            empty_accepts += words[1].parse().unwrap_or(0.0);
        }
    }
    (calls, empty_accepts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_table_is_read() {
        let text = "    calls    errors syscall\n--------- --------- -------\n       30           epoll_wait\n\
                    \x20      12         2 accept4\n--------- --------- -------\n       42         2 total\n";
        assert_eq!(count_calls(text), (42.0, 2.0));
    }

    #[test]
    fn wrks_report_is_read() {
        let text = "  12345 requests in 1.00s, 1MB read\nRequests/sec:  12340.5\n";
        assert_eq!(after_prefix(text, "Requests/sec:"), Some("12340.5"));
    }
}
