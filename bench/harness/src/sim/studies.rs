//! The simulated part of a report: what happens at sizes that this machine cannot run.

use super::shapes::{Arrivals, MS, Stay, Times, US};
use super::{Outcome, Scenario, Way, quantile};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Row {
    pub study: String,
    /// What is varied, in words.
    pub case: String,
    pub way: String,
    pub workers: usize,
    pub cores: usize,
    /// Evenness of open connections.
    pub jain: f64,
    /// Hand-overs and moves in the wait queue.
    pub moves_per_connection: f64,
    pub sleeps_per_connection: f64,
    pub accept_p999_us: f64,
    pub accept_worst_us: f64,
    pub answer_p999_us: f64,
    pub overhead_us: f64,
}

const SERVICE: u64 = 200 * US;
/// About what a connection takes beside its handler.
const OVERHEAD: u64 = 40 * US;

/// At which half of the cores are busy.
fn half_load(cores: usize) -> u64 {
    2 * (SERVICE + OVERHEAD) / cores as u64
}

fn row(study: &str, case: String, name: &str, scenario: Scenario) -> Row {
    let outcome: Outcome = scenario.run();
    let us = |sorted: &[u64], share| quantile(sorted, share) as f64 / US as f64;
    Row {
        study: study.to_owned(),
        case,
        way: name.to_owned(),
        workers: scenario.workers,
        cores: scenario.cores,
        jain: outcome.open_jain,
        moves_per_connection: outcome.per_connection(outcome.handovers + outcome.reorders),
        sleeps_per_connection: outcome.per_connection(outcome.sleeps),
        accept_p999_us: us(&outcome.accept_waits, 0.999),
        accept_worst_us: us(&outcome.accept_waits, 1.0),
        answer_p999_us: us(&outcome.answer_waits, 0.999),
        overhead_us: outcome.per_connection(outcome.overhead) / US as f64,
    }
}

/// `connections`: of one run; the herd of a plain shared listener gets fewer, since each wakes all.
pub fn run(connections: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, way) in Way::ALL {
        for (workers, cores) in
            [(1, 1), (2, 2), (4, 2), (16, 8), (64, 32), (128, 64), (256, 128), (1024, 128)]
        {
            let connections = match way {
                Way::Shared => connections.min(400_000 / workers as u64),
                _ => connections,
            };
            let scenario = Scenario {
                workers,
                cores,
                connections,
                arrivals: Arrivals::Poisson { gap: half_load(cores) },
                service: Times::Exponential { mean: SERVICE },
                stay: Stay::For(Times::Exponential {
                    mean: workers as u64 * 100 * half_load(cores),
                }),
                ..Scenario::new(way)
            };
            rows.push(row("size", format!("{workers} workers"), name, scenario));
        }
        let base = Scenario {
            workers: 64,
            cores: 16,
            connections: connections / 2,
            arrivals: Arrivals::Poisson { gap: half_load(16) },
            service: Times::Exponential { mean: SERVICE },
            ..Scenario::new(way)
        };
        let gap = half_load(16);
        let arrivals = [
            ("even", Arrivals::Even { gap }),
            ("Poisson", Arrivals::Poisson { gap }),
            ("bursts of 32", Arrivals::Bursts { gap, size: 32 }),
        ];
        let services = [
            ("fixed", Times::Fixed(SERVICE)),
            ("exponential", Times::Exponential { mean: SERVICE }),
            ("bimodal", Times::Bimodal { mean: SERVICE }),
            ("heavy-tailed", Times::HeavyTail { mean: SERVICE }),
        ];
        for (arrivals_name, arrivals) in arrivals {
            for (service_name, service) in services {
                let case = format!("{arrivals_name} arrivals, {service_name} service");
                rows.push(row("shape", case, name, Scenario { arrivals, service, ..base }));
            }
        }
        let blocking = Scenario { block_every: 1_000, block: 200 * MS, ..base };
        rows.push(row("blocked", "every 1000th blocks 200 ms".to_owned(), name, blocking));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_its_row_in_every_study() {
        let rows = run(400);
        assert_eq!(rows.len(), Way::ALL.len() * (8 + 12 + 1));
        assert!(rows.iter().all(|row| row.answer_p999_us > 0.0 && row.jain > 0.0), "{rows:#?}");
    }
}
