//! Simulated workers that pass on what they accepted: HANDOFF, as src/worker/ has it in `handoff` and
//! `receiving`. A worker's own backlog is the queue of connections on their way to it.

use super::engine::{Cause, Engine};
use herd::policy::*;

impl Engine {
    /// Gives what was accepted in this turn to those who are to serve it.
    pub fn pass_on(&mut self, worker: usize, has_events: bool) {
        let giver = Some(Giver { slot: worker as u16, is_idle: !has_events });
        let (capacity, balance) = (self.scenario.capacity, self.scenario.way.balance());
        let balance = balance.expect("only libherd's own pass on");
        for arrived in std::mem::take(&mut self.workers[worker].pending) {
            let slots = (0u16..).zip(&self.slots);
            let candidates =
                slots.filter_map(|(number, slot)| candidate(number, slot, giver, capacity));
            let chosen = choose(&balance, candidates, self.last_given, capacity);
            // It accepts no more than it has room for itself.
            let chosen = chosen.expect("the giver is one of them");
            self.last_given = Some(chosen);
            match usize::from(chosen) {
                own if own == worker => self.take_in(worker, arrived),
                other => self.send(worker, other, arrived),
            }
        }
    }

    fn send(&mut self, worker: usize, to: usize, arrived: u64) {
        let reserved = self.slots[to].queue.reserve(WINDOW, self.now_us());
        assert!(reserved, "a candidate has room");
        self.spend(worker, self.scenario.costs.pass);
        self.outcome.passed += 1;
        if self.slots[to].state() == State::Busy {
            self.pull_in_if_later();
        }
        self.workers[to].own_backlog.push_back(arrived);
        self.wake(to, Cause::Own);
    }

    /// Takes what was sent to this worker.
    pub fn receive(&mut self, worker: usize) {
        self.slots[worker].queue.note_progress(self.now_us());
        self.take_from(worker, worker, WINDOW);
    }

    /// Returns how many it took.
    fn take_from(&mut self, worker: usize, queue_of: usize, most: u64) -> u64 {
        let room = self.scenario.capacity.saturating_sub(self.slots[worker].open());
        let queued = self.workers[queue_of].own_backlog.len() as u64;
        let takes = queued.min(room).min(most);
        for _ in 0..takes {
            let arrived = self.workers[queue_of].own_backlog.pop_front();
            self.slots[queue_of].queue.note_taken();
            self.take_in(worker, arrived.expect("so many were counted"));
            self.spend(worker, self.scenario.costs.pass);
        }
        takes
    }

    /// Connections on their way to others who have taken none for handover_delay.
    pub fn look_at_queues(&mut self, worker: usize) {
        let (now_us, delay_us) = (self.now_us(), self.handover_delay_us());
        self.slots[worker].queue.clear_stuck();
        let own = &mut self.workers[worker];
        let is_due = own.next_look_us.is_some_and(|at_us| at_us <= now_us);
        if !(own.asked.is_some() || is_due) || !own.willing {
            return;
        }
        own.next_look_us = None;
        let count = self.slots.len();
        let mut most = self.batch(worker);
        for number in (1..count).map(|distance| (worker + distance) % count) {
            let queue = &self.slots[number].queue;
            if queue.in_flight() == 0 {
                continue;
            }
            let due_us = queue.waits_since_us(now_us) + delay_us;
            let is_abandoned = self.slots[number].state() == State::Resting;
            let is_late = is_abandoned || queue.is_stuck() || due_us <= now_us;
            if !is_late || most == 0 {
                self.look_again_at(worker, if is_late { now_us } else { due_us });
                continue;
            }
            let taken = self.take_from(worker, number, most);
            most -= taken;
            if taken > 0 && !is_abandoned {
                self.slots[number].queue.set_stuck();
                self.ring(worker, number);
            }
            if self.slots[number].queue.in_flight() > 0 {
                self.look_again_at(worker, now_us);
            }
        }
        if self.workers[worker].next_look_us.is_some_and(|at_us| at_us <= now_us) {
            self.ask_another(worker);
        }
    }

    fn look_again_at(&mut self, worker: usize, at_us: u64) {
        let next_us = &mut self.workers[worker].next_look_us;
        *next_us = Some(next_us.map_or(at_us, |us| us.min(at_us)));
    }

    /// There is more than one worker takes in a turn.
    fn ask_another(&mut self, worker: usize) {
        if let Some((slot, _)) = Neighbours::of_nobody().least_idle(&self.slots) {
            self.slots[usize::from(slot)].ask(self.now_us());
            self.ring(worker, slot.into());
        }
        self.pull_in_if_later();
    }
}
