//! What the simulator says of a machine that can be measured, beside what was measured there. A
//! figure of a larger machine is worth no more than these.

use super::shapes::{Arrivals, MS, Stay, Times, US};
use super::{Outcome, Scenario, Way};

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

/// 1000 short connections a second.
fn rate(scenario: Scenario) -> Scenario {
    Scenario { connections: 1_000, arrivals: Arrivals::Even { gap: 1_000 * US }, ..scenario }
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

/// 800 a second, and every 200th blocks its worker for 200 ms.
fn stall(scenario: Scenario) -> Scenario {
    Scenario {
        connections: 1_200,
        arrivals: Arrivals::Even { gap: 1_250 * US },
        block_every: 200,
        block: 200 * MS,
        ..scenario
    }
}

type Figure = (&'static str, fn(Scenario) -> Scenario, fn(&Outcome) -> f64);
const JAIN: Figure = ("hold_jain", hold, Outcome::jain);
const REORDERS: Figure = ("hold_reorders", hold, |o| o.per_connection(o.reorders));
const HANDOVERS: Figure = ("hold_handovers", hold, |o| o.per_connection(o.handovers));
const SLEEPS: Figure = ("rate_sleeps", rate, |o| o.per_connection(o.sleeps));
const IDLE: Figure = ("w8_sleeps_request", idle, |o| o.per_connection(o.sleeps));
const STALL: Figure = ("stall_over_50ms", stall, |o| o.share_over(50 * MS));

/// The figures here were measured on 2 cores that the load generator shares, Linux 6.18.
const CHECKS: [(Figure, &str, f64, Tolerance); 20] = [
    (JAIN, "raw-exclusive", 0.26, Tolerance::Absolute(0.1)),
    (JAIN, "raw-mutex", 0.25, Tolerance::Absolute(0.05)),
    (JAIN, "raw-rotate", 0.999, Tolerance::Absolute(0.005)),
    (JAIN, "exclusive/spread", 0.9998, Tolerance::Absolute(0.005)),
    (JAIN, "mutex/spread", 0.9993, Tolerance::Absolute(0.005)),
    (JAIN, "mutex/pack", 0.517, Tolerance::Absolute(0.1)),
    (REORDERS, "exclusive/spread", 0.069, Tolerance::Share(0.1)),
    (HANDOVERS, "mutex/spread", 0.071, Tolerance::Share(0.25)),
    (SLEEPS, "raw-shared", 4.90, Tolerance::Share(0.12)),
    (SLEEPS, "raw-exclusive", 1.47, Tolerance::Share(0.12)),
    (SLEEPS, "raw-mutex", 1.40, Tolerance::Share(0.12)),
    (SLEEPS, "exclusive/spread", 1.53, Tolerance::Share(0.12)),
    (SLEEPS, "mutex/spread", 1.52, Tolerance::Share(0.12)),
    (IDLE, "raw-shared", 8.9, Tolerance::Share(0.12)),
    (IDLE, "raw-exclusive", 2.0, Tolerance::Share(0.12)),
    (IDLE, "exclusive/spread", 2.0, Tolerance::Share(0.12)),
    (IDLE, "mutex/spread", 2.1, Tolerance::Share(0.12)),
    (STALL, "raw-mutex", 0.36, Tolerance::Absolute(0.08)),
    (STALL, "exclusive/spread", 0.0, Tolerance::Absolute(0.01)),
    (STALL, "mutex/spread", 0.0, Tolerance::Absolute(0.01)),
];

/// `measured` gives a figure by metric and contender, if there is a newer one.
pub fn validate(measured: impl Fn(&str, &str) -> Option<f64>) -> Vec<Check> {
    let check = |((metric, scenario, figure), contender, noted, tolerance): (Figure, _, _, _)| {
        let way = Way::named(contender).expect("a known way");
        let simulated = figure(&scenario(Scenario::new(way)).run());
        let measured = measured(metric, contender).unwrap_or(noted);
        Check { metric, contender, simulated, measured, tolerance }
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
