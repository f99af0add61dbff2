//! Parts of the library by themselves: lock, arming, memory, timers.

use super::{Bench, LISTENERS};
use std::process::Command;

/// Who keeps timers. What is not installed was not built.
const TIMERS: [&str; 4] = ["herd", "libevent", "libuv", "libev"];

/// `word number...` lines.
fn lines(text: &str) -> impl Iterator<Item = (&str, Vec<f64>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        Some((name, words.filter_map(|word| word.parse().ok()).collect()))
    })
}

impl Bench {
    fn part(
        &mut self,
        program: &str,
        arguments: &[&str],
        mut keep: impl FnMut(&mut Bench, &str, &[f64]),
    ) {
        match self.run(program, arguments) {
            Ok(text) => lines(&text).for_each(|(name, numbers)| keep(self, name, &numbers)),
            Err(why) => self.fail(why),
        }
    }

    /// Counted by callgrind: they do not depend on the machine's mood.
    pub(super) fn count_instructions(&mut self) {
        self.say("instructions");
        let output = Command::new("sh")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../instructions.sh"))
            .arg(&self.places.build)
            .output();
        let counted = output.is_ok_and(|output| {
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                if let [figure, contender, count] = words[..]
                    && let Ok(count) = count.parse()
                {
                    self.results.put(&format!("{figure}_instructions"), contender, count);
                }
            }
            output.status.success()
        });
        if !counted {
            self.results.skipped.push("instructions: valgrind is not installed".to_owned());
        }
    }

    /// Takes some 30 ms.
    pub(super) fn measure_lock(&mut self) {
        self.part("bench/lock", &["5", "200000"], |bench, who, numbers| {
            // The median of the five, the least and the most follow.
            numbers.iter().take(1).for_each(|&ns| bench.results.put("lock", who, ns));
        });
    }

    pub(super) fn measure_parts(&mut self) {
        self.say("memory, arming, timers");
        self.part("bench/memory", &[], |bench, figure, numbers| {
            numbers.iter().for_each(|&value| bench.results.put(figure, "exclusive/spread", value));
        });
        for _ in 0..self.pace.rounds {
            for listeners in LISTENERS {
                let arguments = [&listeners.to_string(), "3", "1000"];
                self.part("bench/arming", &arguments.map(|a| a as &str), |bench, who, numbers| {
                    let who = if who == "herd" { "mutex/spread" } else { "nginx" };
                    let metrics = [format!("arming{listeners}"), format!("calls{listeners}")];
                    for (metric, &value) in metrics.iter().zip(numbers) {
                        bench.results.put(metric, who, value);
                    }
                });
            }
            for contender in TIMERS {
                let program = format!("peers/timers_{contender}");
                if !self.places.program(&program).exists() {
                    continue;
                }
                self.part(&program, &["1000000"], |bench, who, numbers| {
                    for (metric, &value) in ["timer_start_ns", "timer_stop_ns"].iter().zip(numbers)
                    {
                        bench.results.put(metric, who, value);
                    }
                });
            }
        }
    }
}
