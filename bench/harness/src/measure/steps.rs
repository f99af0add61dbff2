//! The steps that promises and the tables of all contenders need: what is done to each server, and which
//! figures that gives.

use super::contender::{self, Setup, nginx_can_block};
use super::{Bench, CRASH_ACCEPT_DELAY_MS, WORKERS, proc};
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

/// Metric, and the key of it in the report of c_examples/load.
type Wanted<'a> = &'a [(&'a str, &'a str)];

impl Bench {
    pub(super) fn load(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.run("examples/load", &[&["--json"], arguments].concat())?;
        serde_json::from_str(&text).map_err(|e| format!("load: {e}"))
    }

    pub(super) fn load_for(
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
}

pub(super) fn can_block(name: &str) -> bool {
    !name.starts_with("nginx-") || nginx_can_block()
}
