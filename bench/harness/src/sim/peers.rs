//! The simulated ways that are not libherd's, where they differ: nginx's mutex and its rotation, queues
//! filled by a hash or a master.

use super::engine::{Engine, Event};
use super::{Scenario, Way};

/// nginx re-adds its listener after so many accepts (ngx_event_accept.c).
const ACCEPTS_PER_ROTATION: u64 = 16;

impl Engine {
    pub fn try_right(&mut self, worker: usize) {
        match self.scenario.way {
            Way::NginxMutex => self.try_nginx(worker),
            way if way.balance().is_some() => self.try_herd(worker),
            _ => self.arm(worker),
        }
    }

    /// ngx_process_events_and_timers, ngx_trylock_accept_mutex.
    fn try_nginx(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        own.holds = false;
        if own.accept_disabled > 0 {
            own.accept_disabled -= 1;
            return;
        }
        let gate = own.gate.as_ref().expect("a mutex has a gate");
        own.holds = gate.holds(&self.lock) || gate.try_acquire(&self.lock);
        if own.holds { self.arm(worker) } else { self.disarm(worker) }
    }

    /// Of the wait of one that has not got the mutex.
    pub fn nginx_timeout(&self, worker: usize) -> Option<u64> {
        let waits_for_mutex =
            matches!(self.scenario.way, Way::NginxMutex) && !self.workers[worker].holds;
        waits_for_mutex.then_some(self.scenario.accept_delay)
    }

    pub fn rotate(&mut self, worker: usize) {
        let accepts = self.outcome.accepted[worker];
        if matches!(self.scenario.way, Way::Rotate) && accepts.is_multiple_of(ACCEPTS_PER_ROTATION)
        {
            self.move_to_end(worker);
        }
    }

    /// Where a master has accepted it, the worker only receives it.
    pub fn accept_cost(&self) -> u64 {
        let Scenario { way, costs, .. } = self.scenario;
        if matches!(way, Way::RoundRobin) { costs.pass } else { costs.accept }
    }

    /// A hash has chosen any worker.
    pub fn arrive_by_hash(&mut self, arrived: u64) {
        let worker = self.random.below(self.scenario.workers);
        self.deliver(worker, arrived);
    }

    /// A master accepts it and passes it on in turn.
    pub fn arrive_at_master(&mut self, number: u64, arrived: u64) {
        let Scenario { costs, workers, .. } = self.scenario;
        self.outcome.overhead += costs.accept + costs.pass;
        let worker = number as usize % workers;
        self.after(costs.accept + costs.pass, Event::Deliver { worker, arrived });
    }
}
