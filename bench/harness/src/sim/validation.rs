//! What the simulator says of a machine that can be measured, beside what was measured there. A
//! figure of a larger machine is worth no more than these.

use super::shapes::{Arrivals, MS, Stay, Times, US};
use super::{Outcome, Scenario, Way};
use crate::figures::{Values, mean, median};

#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// Of the measured figure.
    Share(f64),
    Absolute(f64),
}

pub struct Check {
    /// By the names that the harness gives them.
    pub metric: &'static str,
    pub contender: &'static str,
    pub simulated: f64,
    pub measured: f64,
    pub tolerance: Tolerance,
}

impl Check {
    pub fn holds(&self) -> bool {
        let allowed = match self.tolerance {
            Tolerance::Share(share) => share * self.measured,
            Tolerance::Absolute(allowed) => allowed,
        };
        (self.simulated - self.measured).abs() <= allowed
    }
}

/// 2000 connections that stay, one every 200 us; Poisson, since a client on the same cores does not keep
/// its times, and exact ones beat with the library's own.
fn hold(scenario: Scenario) -> Scenario {
    Scenario { stay: Stay::Forever, arrivals: Arrivals::Poisson { gap: 200 * US }, ..scenario }
}

/// 1000 short connections a second, of clients that get to send their request before a worker runs.
fn patient(scenario: Scenario) -> Scenario {
    Scenario {
        connections: 1_000,
        arrivals: Arrivals::Even { gap: 1_000 * US },
        request_after: Times::Fixed(0),
        ..scenario
    }
}

/// Eight idle workers; a connection, and much later its request.
fn idle(scenario: Scenario) -> Scenario {
    Scenario {
        workers: 8,
        connections: 120,
        arrivals: Arrivals::Even { gap: 1_500 * US },
        request_after: Times::Fixed(250 * MS),
        stay: Stay::Forever,
        ..scenario
    }
}

/// 800 a second, and one in 250 blocks its worker for 200 ms: as long as ten rounds of the measurement,
/// whose servers go on between them. Of new ones, whose losers try for nginx's mutex together, more
/// clients wait: 0.27, measured 0.31.
fn stall(scenario: Scenario) -> Scenario {
    Scenario {
        connections: 24_000,
        arrivals: Arrivals::Even { gap: 1_250 * US },
        block_every: 250,
        block: 200 * MS,
        ..scenario
    }
}

#[derive(Clone, Copy)]
struct Figure {
    metric: &'static str,
    scenario: fn(Scenario) -> Scenario,
    of_run: fn(&Outcome) -> f64,
    /// Of the measured rounds.
    of_rounds: fn(&[f64]) -> f64,
}

impl Figure {
    const fn new(
        metric: &'static str,
        scenario: fn(Scenario) -> Scenario,
        of_run: fn(&Outcome) -> f64,
    ) -> Figure {
        Figure { metric, scenario, of_run, of_rounds: median }
    }

    /// The mean of runs that differ in what is drawn.
    fn simulate(&self, way: Way) -> f64 {
        let run =
            |seed| (self.of_run)(&(self.scenario)(Scenario { seed, ..Scenario::new(way) }).run());
        mean(&(1..=SEEDS).map(run).collect::<Vec<f64>>())
    }
}

const SEEDS: u64 = 10;

const JAIN: Figure = Figure::new("hold_jain", hold, Outcome::jain);
const REORDERS: Figure = Figure::new("hold_reorders", hold, |o| o.per_connection(o.reorders));
const HANDOVERS: Figure = Figure::new("hold_handovers", hold, |o| o.per_connection(o.handovers));
const SLEEPS: Figure = Figure::new("patient_sleeps", patient, |o| o.per_connection(o.sleeps));
const IDLE: Figure = Figure::new("w8_sleeps_request", idle, |o| o.per_connection(o.sleeps));
const STALL: Figure =
    Figure { of_rounds: mean, ..Figure::new("stall_over_50ms", stall, |o| o.share_over(50 * MS)) };

/// The figures here were measured on 2 cores that the load generator shares, Linux 6.18.
const CHECKS: [(Figure, &str, f64, Tolerance); 28] = [
    (JAIN, "raw-exclusive", 0.26, Tolerance::Absolute(0.1)),
    // In four of ten measured rounds, which last less than accept_delay, a loser's one try found the mutex
    // free: handlers, during which it is, take longer on cores that the clients share. Then 0.4 to 0.7.
    (JAIN, "raw-mutex", 0.25, Tolerance::Absolute(0.2)),
    (JAIN, "raw-rotate", 0.999, Tolerance::Absolute(0.005)),
    (JAIN, "exclusive/spread", 0.9998, Tolerance::Absolute(0.005)),
    (JAIN, "mutex/spread", 0.9993, Tolerance::Absolute(0.005)),
    // Measured in three runs: 0.39, 0.42, 0.52.
    (JAIN, "mutex/pack", 0.418, Tolerance::Absolute(0.12)),
    (JAIN, "reuseport/spread", 1.0, Tolerance::Absolute(0.005)),
    (JAIN, "handoff/spread", 1.0, Tolerance::Absolute(0.005)),
    (REORDERS, "exclusive/spread", 0.069, Tolerance::Share(0.1)),
    (HANDOVERS, "mutex/spread", 0.071, Tolerance::Share(0.25)),
    (SLEEPS, "raw-shared", 4.32, Tolerance::Share(0.12)),
    (SLEEPS, "raw-exclusive", 1.0, Tolerance::Share(0.12)),
    (SLEEPS, "raw-mutex", 1.0, Tolerance::Share(0.12)),
    (SLEEPS, "exclusive/spread", 1.0, Tolerance::Share(0.12)),
    (SLEEPS, "mutex/spread", 1.01, Tolerance::Share(0.12)),
    (SLEEPS, "reuseport/spread", 1.01, Tolerance::Share(0.12)),
    (SLEEPS, "handoff/spread", 1.01, Tolerance::Share(0.12)),
    (IDLE, "raw-shared", 8.9, Tolerance::Share(0.12)),
    (IDLE, "raw-exclusive", 2.0, Tolerance::Share(0.12)),
    (IDLE, "exclusive/spread", 2.0, Tolerance::Share(0.12)),
    (IDLE, "mutex/spread", 2.1, Tolerance::Share(0.12)),
    // Ten workers block in a round, and each time it is chance whether another tries for the mutex soon: of
    // 24 rounds the mean was 0.220, the standard deviation 0.085, so that of five rounds' mean is 0.04.
    (STALL, "raw-mutex", 0.22, Tolerance::Absolute(0.08)),
    (STALL, "raw-reuseport", 0.13, Tolerance::Absolute(0.03)),
    (STALL, "raw-pass", 0.13, Tolerance::Absolute(0.03)),
    (STALL, "exclusive/spread", 0.0, Tolerance::Absolute(0.01)),
    (STALL, "mutex/spread", 0.0, Tolerance::Absolute(0.01)),
    (STALL, "reuseport/spread", 0.0, Tolerance::Absolute(0.01)),
    (STALL, "handoff/spread", 0.0, Tolerance::Absolute(0.01)),
];

/// `measured` gives the rounds of a metric and contender, if there are newer ones.
pub fn validate<'a>(measured: impl Fn(&str, &str) -> Option<&'a Values>) -> Vec<Check> {
    let check = |(figure, contender, noted, tolerance): (Figure, _, _, _)| {
        let way = Way::named(contender).expect("a known way");
        let newer = measured(figure.metric, contender).map(|rounds| (figure.of_rounds)(rounds));
        Check {
            metric: figure.metric,
            contender,
            simulated: figure.simulate(way),
            measured: newer.unwrap_or(noted),
            tolerance,
        }
    };
    CHECKS.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_says_what_was_measured() {
        let say = |c: &Check| {
            let Check { metric, contender, simulated, measured, tolerance } = c;
            format!(
                "{contender} {metric}: {simulated} simulated, {measured} measured, {tolerance:?}"
            )
        };
        let wrong: Vec<String> =
            validate(|_, _| None).iter().filter(|c| !c.holds()).map(say).collect();
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}
