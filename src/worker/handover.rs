//! Who should accept instead of this worker, and how it gets to know.

use super::Worker;
use crate::accept::balance::{Balance, Cost};
use crate::accept::neighbours::ask;
use crate::herd::Herd;
use crate::log::Task;
use crate::shm::slot::count;
use crate::sys::clock::now_us;
use crate::sys::probes;

impl Worker {
    /// Wakes an idle worker to accept. In EXCLUSIVE, where those who are busy do not try before they
    /// wait, the guard has the first of them look for a connection that this one was woken for. So it has
    /// where the right is left free: it may be the last that this worker does, and the one that was rung may
    /// be stopped.
    pub(super) fn leave_to_others(&self) {
        if !self.herd.is_coordinated() {
            return;
        }
        self.wake_least_idle();
        if self.gate.is_none() {
            self.herd.demand_tick();
        } else if self.leaves_idle_unaware() {
            self.pull_guard_in();
        }
    }

    pub(super) fn wake_least_idle(&self) {
        if let Some((slot, _)) = self.neighbours.least_idle(self.herd.region.slots()) {
            self.wake(slot);
        }
    }

    /// Rings a worker that is to accept in place of this one.
    fn wake(&self, slot: u16) {
        let Herd { region, bells, .. } = &*self.herd;
        ask(region.slots(), bells, slot, now_us());
        self.has_rung.set(true);
        count(&self.counters().handovers, 1);
        probes::handover(self.slot, slot, self.my_slot().load());
    }

    /// After accepting: is this worker's load so much above the least that another should accept the
    /// next connection? In MUTEX it hands the right over to the least loaded idle worker, by its
    /// bell. In EXCLUSIVE it moves to the end of the listener's wait queue, so that the queue is in
    /// order of load.
    pub(super) fn let_less_loaded_accept(&self) {
        let Herd { region, settings, .. } = &*self.herd;
        let (load, balance) = (self.my_slot().load(), &settings.balance);
        if self.gate.is_some() {
            let find = || self.neighbours.least_idle(region.slots());
            if let Some(slot) = self.lookout.look(balance, load, self.pace.handover_cost(), find) {
                self.conduct.change(|own| {
                    own.has_yielded = true;
                    own.competes = false;
                });
                self.release();
                self.disarm();
                self.wake(slot);
            }
        } else {
            let place = self.accepted_from.get();
            if self.is_steered_to(place) {
                return;
            }
            let find = || self.neighbours.least_accepting(region.slots());
            let is_full_enough =
                matches!(balance, Balance::Pack) && self.conduct.get().accept_disabled > 0;
            if is_full_enough || self.lookout.look(balance, load, Cost::Reorder, find).is_some() {
                self.lookout.comes_last(load);
                self.arming.yield_all();
            }
            if self.arming.takes_yield(place) {
                match self.arming.move_to_end(&self.reactor, place) {
                    Ok(()) => count(&self.counters().reorders, 1),
                    Err(error) => self.rest_a_while(Task::WatchListeners, error),
                }
            }
        }
    }
}
