//! A simulated worker and the right to accept, as src/worker/ has it in `right` and `handover`.

use super::engine::{Cause, Engine};
use super::worker::Asked;
use herd::policy::*;

impl Engine {
    fn stance(&self, worker: usize) -> Stance {
        let own = &self.workers[worker];
        let stance = stance(&Standing {
            draining: false,
            backing_off: false,
            not_taken: 0,
            open: self.slots[worker].open(),
            capacity: self.scenario.capacity,
            accept_disabled: own.accept_disabled,
        });
        let overruled = own.gate.is_none() || own.asked.is_some();
        if stance == Stance::Skip && overruled { Stance::Compete } else { stance }
    }

    pub fn arm(&mut self, worker: usize) {
        if !self.workers[worker].armed {
            self.workers[worker].armed = true;
            self.place_last(worker);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    pub fn disarm(&mut self, worker: usize) {
        if std::mem::take(&mut self.workers[worker].armed) {
            self.spend(worker, self.scenario.costs.call);
        }
    }

    pub fn move_to_end(&mut self, worker: usize) {
        self.place_last(worker);
        self.outcome.reorders += 1;
        self.spend(worker, self.scenario.costs.reorder);
    }

    pub fn try_herd(&mut self, worker: usize) {
        let stance = self.stance(worker);
        let own = &mut self.workers[worker];
        let yields = std::mem::take(&mut own.has_yielded) && own.asked.is_none();
        if stance != Stance::Compete {
            own.accept_disabled = own.accept_disabled.saturating_sub(1);
            self.step_back(worker, stance);
        }
        if stance == Stance::Refuse {
            if self.workers[worker].asked.take().is_some() {
                self.leave_to_others(worker);
            }
            return;
        }
        let own = &mut self.workers[worker];
        if !std::mem::replace(&mut own.willing, true) {
            self.set_state(worker, State::Busy);
        }
        if stance == Stance::Skip || yields {
            return;
        }
        let own = &mut self.workers[worker];
        own.competes = true;
        if own.gate.is_some() {
            if self.acquire(worker) { self.arm(worker) } else { self.disarm(worker) }
        } else {
            self.arm(worker);
            if self.workers[worker].asked.take().is_some() && self.connection_waits(worker) {
                self.place_last(worker);
                self.spend(worker, self.scenario.costs.reorder);
            }
        }
    }

    fn acquire(&mut self, worker: usize) -> bool {
        let own = &mut self.workers[worker];
        let asked = own.asked.take();
        let gate = own.gate.as_ref().expect("a mutex has a gate");
        if gate.holds(&self.lock) {
            return true;
        }
        let acquired = gate.try_acquire(&self.lock) || self.take_over_if_stuck(worker, asked);
        if acquired {
            self.push_guard_back(worker);
            self.workers[worker].suspicion.clear();
        }
        acquired
    }

    fn take_over_if_stuck(&mut self, worker: usize, asked: Option<Asked>) -> bool {
        let connection_waits = self.connection_waits(worker);
        let (now_us, delay_us) = (self.now_us(), self.handover_delay_us());
        let own = &mut self.workers[worker];
        if asked != Some(Asked::ByGuard) && !own.suspicion.is_pending() {
            return false;
        }
        let word = self.lock.word();
        let held = word.holder().filter(|_| connection_waits).map(|_| word);
        let Verdict::TakeOver(word) = own.suspicion.judge(held, now_us, delay_us) else {
            return false;
        };
        let taken = own.gate.as_ref().is_some_and(|gate| gate.take_over(&self.lock, word));
        self.outcome.thefts += u64::from(taken);
        taken
    }

    fn release(&mut self, worker: usize) {
        if let Some(gate) = &self.workers[worker].gate {
            gate.release(&self.lock);
        }
    }

    pub fn unlock(&mut self, worker: usize, has_events: bool) {
        self.release(worker);
        let Some(balance) = self.scenario.way.balance() else { return };
        let accepted = self.workers[worker].accepted_in_turn > 0;
        let passes_on = self.scenario.way.passes_on();
        if passes_on {
            self.pass_on(worker, has_events);
        }
        let stance = self.stance(worker);
        if stance != Stance::Compete {
            self.step_back(worker, stance);
        } else if accepted && self.is_coordinated() && !passes_on {
            self.let_less_loaded_accept(worker, &balance);
        }
        if self.workers[worker].gate.is_some() && (accepted || has_events) {
            self.leave_right_to_idle(worker, &balance);
        }
    }

    fn let_less_loaded_accept(&mut self, worker: usize, balance: &Balance) {
        let own = &self.workers[worker];
        let load = self.slots[worker].load();
        if own.gate.is_some() {
            let find = || own.neighbours.least_idle(&self.slots);
            if let Some(slot) = own.lookout.look(balance, load, own.pace.handover_cost(), find) {
                let own = &mut self.workers[worker];
                own.has_yielded = true;
                own.competes = false;
                self.disarm(worker);
                self.ask(worker, slot);
            }
        } else {
            if self.scenario.way.is_steered() && own.accepted_from == worker {
                return; // the program sees to it
            }
            let find = || own.neighbours.least_accepting(&self.slots);
            let is_full_enough = matches!(balance, Balance::Pack) && own.accept_disabled > 0;
            if is_full_enough || own.lookout.look(balance, load, Cost::Reorder, find).is_some() {
                own.lookout.comes_last(load);
                self.move_to_end(worker);
            }
        }
    }

    pub fn ask(&mut self, worker: usize, slot: u16) {
        let asked = usize::from(slot);
        self.slots[asked].ask(self.now_us());
        self.workers[worker].has_rung = true;
        self.outcome.handovers += 1;
        self.ring(worker, asked);
    }

    pub fn ring(&mut self, worker: usize, other: usize) {
        self.workers[other].bell_rang = true;
        self.spend(worker, self.scenario.costs.call);
        self.wake(other, Cause::Library);
    }

    fn step_back(&mut self, worker: usize, stance: Stance) {
        self.release(worker);
        if stance == Stance::Refuse {
            self.workers[worker].willing = false;
            self.set_state(worker, State::Resting);
        }
        let own = &mut self.workers[worker];
        own.suspicion.clear();
        let competed = std::mem::take(&mut own.competes);
        self.disarm(worker);
        if competed {
            self.leave_to_others(worker);
        }
    }

    fn leave_to_others(&mut self, worker: usize) {
        if let Some((slot, _)) = self.workers[worker].neighbours.least_idle(&self.slots) {
            self.ask(worker, slot);
        }
        if self.workers[worker].gate.is_none() {
            self.pull_in_if_later();
        }
    }
}
