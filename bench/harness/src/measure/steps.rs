//! The steps: what is done to each server, and which figures that gives.

use super::contender::{self, Setup, nginx_can_block, signal};
use super::{
    Bench, CRASH_ACCEPT_DELAY_MS, Extent, GROWERS, GROWN_LISTENERS, GROWN_WORKERS, KEEPERS,
    LISTENERS_OF, WORKERS, proc,
};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Metric, and the key of it in the report of c_examples/load.
type Wanted<'a> = &'a [(&'a str, &'a str)];

/// The workers do not push the load generator, which shares their cores, off its core when it wakes them in the
/// middle of a connect (SCHED_BATCH, sched(7)). How often an ordinary worker does depends on what both used of the
/// processor just before, and decides whether the request is there when the connection has been accepted.
const PATIENT: &str = "patient";

fn after_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(prefix)).map(str::trim)
}

impl Bench {
    fn load(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.run("examples/load", &[&["--json"], arguments].concat())?;
        serde_json::from_str(&text).map_err(|e| format!("load: {e}"))
    }

    fn load_for(
        &mut self,
        name: &str,
        arguments: &[&str],
        wanted: Wanted,
    ) -> Result<Value, String> {
        let report = self.load(arguments)?;
        for (metric, key) in wanted {
            if let Some(value) = report[key].as_f64() {
                self.results.put(metric, name, value);
            }
        }
        Ok(report)
    }

    fn clients(&mut self, name: &str, prefix: &str, arguments: &[&str]) -> Result<(), String> {
        let text = self.run("bench/clients", arguments)?;
        for line in text.lines() {
            let figure = line.split_once(' ').and_then(|(f, v)| Some((f, v.parse().ok()?)));
            let (figure, value) = figure.ok_or_else(|| format!("clients: {line}"))?;
            self.results.put(&format!("{prefix}_{figure}"), name, value);
        }
        Ok(())
    }

    // --- with idle workers ---

    pub(super) fn measure_wakeups(&mut self, idle: usize, names: &[String]) {
        let (rounds, count) = (self.pace.rounds, self.pace.wakeups.to_string());
        self.take_turns(
            &format!("wake-ups, {idle} idle workers"),
            rounds,
            names,
            |bench, name, address, pid| {
                let arguments = ["wakeups", &address, &pid.to_string(), &count, "1500"];
                bench.clients(name, &format!("w{idle}"), &arguments)?;
                if contender::is_ours(name) {
                    let arguments = [
                        "--mode",
                        "rate",
                        "--rate",
                        "400",
                        "--count",
                        &count,
                        "--counters",
                        &address,
                    ];
                    let metric = format!("w{idle}_wasted");
                    bench.load_for(
                        name,
                        &arguments,
                        &[(&metric, "wasted_wakeups_per_connection")],
                    )?;
                }
                Ok(())
            },
        );
    }

    pub(super) fn measure_idle(&mut self, workers: usize) {
        self.say(&format!("idle, {workers} workers"));
        sleep(Duration::from_millis(500));
        let servers = || self.servers.values().filter(|s| contender::is_ours(&s.name));
        let before: Vec<_> =
            servers().map(|s| (s.name.clone(), s.master, proc::usage(s.master))).collect();
        sleep(Duration::from_secs_f64(self.pace.idle_s));
        for (name, master, before) in before {
            let slept = proc::usage(master).sleeps - before.sleeps;
            self.results.put(&format!("idle{workers}"), &name, slept / self.pace.idle_s);
        }
    }

    // --- at work ---

    /// Metrics get `suffix`.
    pub(super) fn measure_short(&mut self, suffix: &str, rounds: usize, names: &[String]) {
        let seconds = self.pace.short_s.to_string();
        let metrics = ["cpu", "short"].map(|metric| format!("{metric}{suffix}"));
        self.take_turns(
            "short connections at full rate",
            rounds,
            names,
            |bench, name, address, pid| {
                let pid = pid.to_string();
                let arguments =
                    ["--mode", "short", "--seconds", &seconds, "--server-pid", &pid, &address];
                let keys = ["server_cpu_us_per_connection", "connections_per_second"];
                bench.load_for(
                    name,
                    &arguments,
                    &[(&metrics[0], keys[0]), (&metrics[1], keys[1])],
                )?;
                Ok(())
            },
        );
    }

    pub(super) fn measure_hold(&mut self, names: &[String]) {
        let slots = WORKERS.to_string();
        self.take_turns(
            "connections that stay",
            self.pace.rounds,
            names,
            |bench, name, address, _| {
                let both = |prefix: &str| [format!("{prefix}_jain"), format!("{prefix}_ratio")];
                // At the other paces it is only the library's promise.
                let is_promised = contender::is_ours(name) || name == "raw-rotate";
                let cases =
                    [("hold", "2000", "200"), ("burst", "2000", "0"), ("few", "400", "500")];
                for (prefix, count, gap_us) in
                    cases.into_iter().take(if is_promised { 3 } else { 1 })
                {
                    let mut arguments = vec![
                        "--mode", "hold", "--count", count, "--slots", &slots, "--gap-us", gap_us,
                    ];
                    if contender::is_ours(name) {
                        arguments.push("--counters");
                    }
                    arguments.push(&address);
                    let [jain, ratio] = both(prefix);
                    let wanted = [(jain.as_str(), "jain"), (ratio.as_str(), "max_min_ratio")];
                    let report = bench.load_for(name, &arguments, &wanted)?;
                    let moved = ["reorders", "handovers"]
                        .map(|key| (key, report["counters"][key].as_f64()));
                    for (key, count) in moved {
                        if let (Some(count), Some(connections)) =
                            (count, report["connections"].as_f64())
                        {
                            bench.results.put(
                                &format!("{prefix}_{key}"),
                                name,
                                count / connections,
                            );
                        }
                    }
                    // What was closed is gone before the next one counts.
                    sleep(Duration::from_millis(100));
                }
                Ok(())
            },
        );
    }

    pub(super) fn measure_stall(&mut self, names: &[String]) {
        let wait_ms = self.pace.wait_ms.to_string();
        let names: Vec<String> = names.iter().filter(|name| can_block(name)).cloned().collect();
        self.take_turns("stall", self.pace.rounds, &names, |bench, name, address, pid| {
            let pid = pid.to_string();
            bench.clients(name, "stall", &["wait", &address, &pid, "800", &wait_ms, "250", "200"])
        });
    }

    pub(super) fn measure_burn(&mut self, names: &[String]) {
        let seconds = self.pace.short_s.to_string();
        self.take_turns("working handlers", self.pace.rounds, names, |bench, name, address, _| {
            let arguments =
                ["--mode", "short", "--seconds", &seconds, "--path", "/slow?ms=1", &address];
            bench.load_for(name, &arguments, &[("burn", "connections_per_second")])?;
            Ok(())
        });
    }

    pub(super) fn measure_crash(&mut self, names: &[String]) {
        let delay = CRASH_ACCEPT_DELAY_MS.to_string();
        let ms = self.pace.crash_ms.to_string();
        self.say(&format!("crash, {} rounds", self.pace.crash_rounds));
        for _ in 0..self.pace.crash_rounds {
            for event in ["kill", "stop", "orphan_kill", "orphan_stop", "none"] {
                for name in names {
                    let options = &["--accept-delay-ms", delay.as_str()];
                    let setup = Setup { options, ..Setup::of(WORKERS) };
                    // Why it cannot be started was said before.
                    let Ok(server) = contender::start(&self.places, name, setup) else { continue };
                    let pid = server.master.to_string();
                    let arguments = ["wait", &server.address, &pid, "500", &ms, event];
                    if let Err(why) = self.clients(name, event, &arguments) {
                        self.fail(format!("crash, {event}, {name}: {why}"));
                    }
                }
            }
        }
    }

    // --- beyond the promises ---

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

fn can_block(name: &str) -> bool {
    !name.starts_with("nginx-") || nginx_can_block()
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
