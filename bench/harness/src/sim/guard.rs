//! The herd's one timer: whom it wakes, and how simulated workers move it (`guarding` in src/worker/).

use super::engine::{Cause, Engine};
use super::shapes::US;
use super::worker::Doing;
use herd::policy::*;

/// As the kernel keeps it.
#[derive(Default)]
pub struct Guard {
    pub due: u64,
    /// From when, to when.
    pub pulled_in: (u64, u64),
    /// Settings so far: a tick of an earlier one does not come any more.
    pub epoch: u64,
    pub ticked: bool,
}

impl Engine {
    pub fn handover_delay_us(&self) -> u64 {
        self.scenario.handover_delay / US
    }

    pub fn tick(&mut self) {
        self.guard.ticked = true;
        let first = self.workers.iter().find(|w| w.willing && w.doing == Doing::Waiting);
        if let Some(worker) = first.map(|worker| worker.slot) {
            self.wake(worker, Cause::Library);
        }
    }

    /// False: it must not wait.
    pub fn announce_idle(&mut self, worker: usize) -> bool {
        if !self.is_coordinated() {
            return true;
        }
        let own = &self.workers[worker];
        if own.gate.is_none() {
            if own.willing {
                self.set_state(worker, State::Idle);
            }
            return true;
        }
        match go_idle(&self.slots[worker], &self.lock, own.condition()) {
            BeforeWait::Wait => true,
            BeforeWait::TryAgain => false,
            BeforeWait::PullGuardIn => {
                self.pull_guard_in(worker);
                true
            }
        }
    }

    fn pull_in_delay(&self, worker: usize) -> u64 {
        self.workers[worker].pace.pull_in_delay_us(self.handover_delay_us()) * US
    }

    fn pull_guard_in(&mut self, worker: usize) {
        let delay = self.pull_in_delay(worker);
        if self.guard.due > self.now + delay {
            self.guard.pulled_in = (self.guard.due, self.now + delay);
            self.arm_guard(delay);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    pub fn pull_in_if_later(&mut self) {
        self.guard.pulled_in = (0, 0);
        if self.guard.due > self.now + self.scenario.handover_delay {
            self.arm_guard(self.scenario.handover_delay);
        }
    }

    pub fn push_guard_back(&mut self, worker: usize) {
        let (from, to) = self.guard.pulled_in;
        if !self.workers[worker].pace.is_fast() && self.guard.due == to && from > self.now {
            self.arm_guard(from - self.now);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    pub fn leave_right_to_idle(&mut self, worker: usize, balance: &Balance) {
        let may_pull_in = self.guard.due > self.now + self.pull_in_delay(worker);
        let own = &self.workers[worker];
        let may_ring = own.accepted_in_turn > 0
            && !own.has_rung
            && balance.shares_bursts()
            && own.pace.affords_a_bell();
        if !(may_pull_in || may_ring)
            || !leaves_idle_unaware(&own.neighbours, &self.slots, &self.lock)
        {
            return;
        }
        if may_ring
            && !self.backlog.is_empty()
            && let Some((slot, _)) = own.neighbours.least_idle(&self.slots)
        {
            self.ask(worker, slot);
        }
        if may_pull_in {
            self.pull_guard_in(worker);
        }
    }
}
