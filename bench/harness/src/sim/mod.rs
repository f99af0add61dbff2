//! A simulator of servers that share accepts, at sizes that the machine at hand cannot run. Who
//! accepts is decided by the library's own code (`herd::policy`); what is simulated is the rest: the
//! kernel's wait queues, cores, timers, and the clients.
//!
//! `shapes` is what clients do, `cores` who runs, `engine` the events; `worker` what a worker remembers,
//! `turn` what it does, by means of `right`, `guard`, `passing`, and `peers` for the ways that are not
//! libherd's; `studies` the tables of a report, `validation` what it says of this machine beside what
//! was measured.

mod cores;
mod engine;
mod guard;
mod passing;
mod peers;
mod right;
pub mod shapes;
pub mod studies;
mod turn;
pub mod validation;
mod way;
mod worker;

use shapes::{Arrivals, MS, Stay, Times, US};
pub use way::Way;

/// CPU time of what a server does beside its handlers' own work, in nanoseconds. Measured on one
/// machine; at other places they scale together.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A turn of the loop: epoll_wait and sorting.
    pub turn: u64,
    /// accept4, EPOLL_CTL_ADD.
    pub accept: u64,
    /// A request read and answered, its connection closed.
    pub request: u64,
    /// Going to sleep and being woken.
    pub wake: u64,
    /// EPOLL_CTL_DEL and EPOLL_CTL_ADD of a listener.
    pub reorder: u64,
    /// EPOLL_CTL_MOD of it, or timerfd_settime, or a write to an eventfd.
    pub call: u64,
    /// sendmsg and recvmsg of a descriptor.
    pub pass: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            turn: 700,
            accept: 7_000,
            request: 22_000,
            wake: 4_000,
            reorder: 2_000,
            call: 800,
            pass: 6_000,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Scenario {
    pub way: Way,
    pub workers: usize,
    pub cores: usize,
    pub connections: u64,
    pub arrivals: Arrivals,
    /// From a connection's arrival to that of its request.
    pub request_after: Times,
    /// CPU time of a handler.
    pub service: Times,
    /// One in so many requests blocks its worker (0: none) ...
    pub block_every: u64,
    /// ... for so long.
    pub block: u64,
    pub stay: Stay,
    /// Connections of one worker.
    pub capacity: u64,
    pub accept_delay: u64,
    pub handover_delay: u64,
    pub costs: Costs,
    pub seed: u64,
}

impl Scenario {
    /// Four workers on two cores, one short connection every 2.5 ms.
    pub fn new(way: Way) -> Scenario {
        Scenario {
            way,
            workers: 4,
            cores: 2,
            connections: 2_000,
            arrivals: Arrivals::Even { gap: 2_500 * US },
            // What a client does between connect and send. Accepting takes about as long, so half of the
            // requests find their worker asleep again.
            request_after: Times::Exponential { mean: 12 * US },
            service: Times::Fixed(0),
            block_every: 0,
            block: 0,
            stay: Stay::No,
            capacity: 1 << 20,
            accept_delay: 500 * MS,
            handover_delay: 500 * US,
            costs: Costs::default(),
            seed: 1,
        }
    }

    pub fn run(self) -> Outcome {
        engine::Engine::new(self).run()
    }
}

/// What a run came to. Counts are of the whole run.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    pub accepted: Vec<u64>,
    /// Jain's index of open connections, the mean over the second half of the arrivals.
    pub open_jain: f64,
    /// From the arrival to accept and to the answer (of those that do not block), sorted, in ns.
    pub accept_waits: Vec<u64>,
    pub answer_waits: Vec<u64>,
    pub sleeps: u64,
    /// Wake-ups that found nothing to do.
    pub futile: u64,
    pub handovers: u64,
    pub reorders: u64,
    /// Connections that a worker sent to another.
    pub passed: u64,
    pub guard_ticks: u64,
    pub thefts: u64,
    /// CPU time without the handlers' own.
    pub overhead: u64,
}

pub fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&count| count as f64).sum();
    let squares: f64 = counts.iter().map(|&count| (count as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (counts.len() as f64 * squares) } else { 1.0 }
}

/// Of sorted values; the one below which the share lies.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Outcome {
    pub fn jain(&self) -> f64 {
        jain(&self.accepted)
    }

    pub fn max_min(&self) -> f64 {
        let least = *self.accepted.iter().min().unwrap_or(&0);
        let most = *self.accepted.iter().max().unwrap_or(&0);
        if least > 0 { most as f64 / least as f64 } else { f64::INFINITY }
    }

    pub fn per_connection(&self, count: u64) -> f64 {
        count as f64 / self.accepted.iter().sum::<u64>().max(1) as f64
    }

    /// The share of answers that took longer.
    pub fn share_over(&self, limit: u64) -> f64 {
        let over =
            self.answer_waits.len() - self.answer_waits.partition_point(|&wait| wait <= limit);
        over as f64 / self.answer_waits.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herd::policy::Balance;

    #[test]
    fn every_connection_is_accepted_once_and_answered() {
        for (name, way) in Way::ALL {
            for workers in [1, 2, 7, 64] {
                for stay in [Stay::No, Stay::Forever, Stay::For(Times::HeavyTail { mean: 50 * MS })]
                {
                    let arrivals = Arrivals::Bursts { gap: 100 * US, size: 8 };
                    let service = Times::Exponential { mean: 100 * US };
                    let scenario =
                        Scenario { workers, stay, arrivals, service, ..Scenario::new(way) };
                    let outcome = scenario.run();
                    assert_eq!(outcome.accepted.iter().sum::<u64>(), 2_000, "{name} {workers}");
                    assert_eq!(outcome.answer_waits.len(), 2_000, "{name} {workers}");
                }
            }
        }
    }

    #[test]
    fn a_seed_repeats_a_run() {
        let run = |seed| {
            let arrivals = Arrivals::Poisson { gap: 100 * US };
            let way = Way::HerdMutex(Balance::Spread);
            Scenario { arrivals, seed, ..Scenario::new(way) }.run().answer_waits
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn a_full_worker_leaves_the_rest_to_others() {
        for (name, way) in Way::ALL.into_iter().filter(|(_, way)| way.balance().is_some()) {
            let scenario = Scenario { capacity: 600, stay: Stay::Forever, ..Scenario::new(way) };
            let outcome = scenario.run();
            assert!(outcome.accepted.iter().all(|&count| count <= 600), "{name} {outcome:?}");
        }
    }

    #[test]
    fn nobody_waits_for_a_blocked_worker_of_libherds() {
        for (name, way) in Way::ALL.into_iter().filter(|(_, way)| way.balance().is_some()) {
            let alone = Arrivals::Poisson { gap: 500 * US };
            // More than the others take at once.
            let together = Arrivals::Bursts { gap: 500 * US, size: 32 };
            for arrivals in [alone, together] {
                let scenario = Scenario {
                    cores: 4,
                    connections: 20_000,
                    arrivals,
                    service: Times::Exponential { mean: 100 * US },
                    block_every: 1_000,
                    block: 200 * MS,
                    ..Scenario::new(way)
                };
                let worst = quantile(&scenario.run().accept_waits, 1.0);
                assert!(worst < 20 * MS, "{name}, {arrivals:?}: {worst} ns");
            }
        }
    }

    #[test]
    fn connections_are_steered_or_passed_on_where_the_way_has_it_so() {
        for (name, way) in Way::ALL {
            let scenario = Scenario { stay: Stay::Forever, ..Scenario::new(way) };
            let outcome = scenario.run();
            assert_eq!(outcome.passed > 0, way.passes_on(), "{name}: {}", outcome.passed);
            if way.passes_on() || way.is_steered() {
                let moves = outcome.handovers + outcome.reorders;
                let spread = &outcome.accepted;
                assert!(outcome.max_min() < 1.01 && moves < 20, "{name}: {spread:?}, {moves}");
            }
        }
    }

    #[test]
    fn cores_bound_what_is_served() {
        let way = Way::HerdExclusive(Balance::Spread);
        let arrivals = Arrivals::Even { gap: 100 * US };
        let service = Times::Fixed(390 * US);
        let busy = |cores| {
            let scenario = Scenario { workers: 16, cores, arrivals, service, ..Scenario::new(way) };
            quantile(&scenario.run().answer_waits, 0.5)
        };
        assert!(busy(2) > 100 * MS, "four cores' work on two must queue");
        assert!(busy(8) < MS, "on eight it must not");
    }

    #[test]
    fn indices_of_evenness_and_quantiles() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[20, 0, 0, 0]), 0.25);
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!([0.5, 0.999, 1.0].map(|share| quantile(&sorted, share)), [501, 1000, 1000]);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
