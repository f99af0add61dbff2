//! A worker and the right to accept: trying for it, giving it up, stepping back, letting a less
//! loaded worker accept, and taking the right from a holder that makes no progress.

use super::Worker;
use crate::accept::balance::{self, Balance, Cost, Stance, Standing};
use crate::accept::gate::Gate;
use crate::accept::listener::Delivery;
use crate::accept::neighbours::ask;
use crate::accept::protocol::{self, Condition};
use crate::accept::suspicion::Verdict;
use crate::herd::Herd;
use crate::reactor::Source;
use crate::shm::slot::{State, count};
use crate::sys::clock::{US_PER_MS, now_us};
use crate::sys::{Error, Result};
use std::sync::atomic::Ordering::Relaxed;

/// Why a worker looks whether connections are waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Its bell rang: another worker may have stepped back in its favour.
    ByBell,
    /// The guard ticked, or it has just come back from backing off.
    ByGuard,
}

/// Below this mean time between the accepts of one worker, a wake-up more in each turn shows in the
/// cost of a connection.
const FAST_ACCEPT_GAP_US: u64 = 500;

/// At a fast pace the guard is pulled in to so many times handover_delay. Each of its ticks moves the
/// right to another worker, which at full rate costs more than it gains: 1.13 of the CPU that a
/// connection takes with nginx's mutex instead of 1.09 (medians of 25 interleaved rounds).
const FAST_PULL_IN_FACTOR: u64 = 4;

impl Worker {
    /// `not_taken` connections wait for the host to take them with `herd_accept`.
    fn stance(&self, not_taken: usize) -> Stance {
        let back_off_until_us = self.back_off_until_us.get();
        let backing_off = back_off_until_us.is_some_and(|until_us| now_us() < until_us);
        if back_off_until_us.is_some() && !backing_off {
            self.back_off_until_us.set(None);
            self.asked.set(Some(Asked::ByGuard));
        }
        let stance = balance::stance(&Standing {
            draining: self.remote().requests.load(Relaxed) != 0,
            backing_off,
            not_taken,
            open: self.my_slot().open(),
            capacity: self.capacity(),
            accept_disabled: self.accept_disabled.get(),
        });
        let overruled = self.gate.is_none() || self.asked.get().is_some();
        if stance == Stance::Skip && overruled { Stance::Compete } else { stance }
    }

    /// Tries for the accept right, and arms or disarms the listeners accordingly. True: held.
    pub fn trylock(&self) -> Result<bool> {
        self.check_slot()?;
        let stance = self.stance(self.acceptor.kept_count(Delivery::Pull));
        let yields = self.has_yielded.replace(false) && self.asked.get().is_none();
        if stance != Stance::Compete {
            self.accept_disabled.set(self.accept_disabled.get().saturating_sub(1));
            self.step_back(stance)?;
        }
        if stance == Stance::Refuse {
            // Rung a moment before it said that it rests: the next one is to accept.
            if self.asked.take().is_some() {
                self.leave_to_others()?;
            }
            return Ok(false);
        }
        if let Err(error) = self.watch_guard() {
            return self.cannot_watch(error);
        }
        self.willing.set(true);
        if stance == Stance::Skip || yields {
            return Ok(false);
        }
        self.competes.set(true);
        let held = match &self.gate {
            Some(gate) => self.acquire(gate)?,
            None => true,
        };
        if !held {
            self.arming.disarm(&self.reactor)?;
            return Ok(false);
        }
        // Lock and registration are one step: without the listeners the right is not kept.
        if let Err(error) = self.arming.arm(&self.reactor) {
            return self.cannot_watch(error);
        }
        if self.gate.is_none() {
            self.find_stranded()?;
        }
        Ok(true)
    }

    /// epoll_ctl(2) can run out of memory or of watches. That must not stop the loop: the worker goes
    /// on with what it has, and others accept for a while.
    fn cannot_watch(&self, error: Error) -> Result<bool> {
        self.back_off("watch the listeners", error);
        self.step_back(Stance::Refuse)?;
        Ok(false)
    }

    /// Leaves accepting to others for accept_delay.
    pub(super) fn back_off(&self, what: &str, error: Error) {
        let delay_us = self.herd.settings.accept_delay_us;
        self.back_off_until_us.set(Some(now_us() + delay_us));
        count(&self.counters().backoffs, 1);
        let (slot, ms) = (self.slot, delay_us / US_PER_MS);
        let log = &self.herd.log;
        log.warning(format_args!("slot {slot}: {what}: {error}: others accept for {ms} ms"));
    }

    fn acquire(&self, gate: &Gate) -> Result<bool> {
        let lock = &self.herd.region.lock;
        let asked = self.asked.take();
        if gate.holds(lock) {
            return Ok(true);
        }
        let counters = self.counters();
        let acquired = gate.try_acquire(lock) || self.take_over_if_stuck(gate, asked)?;
        if acquired {
            self.push_guard_back().inspect_err(|_| {
                self.release();
            })?;
            self.suspicion.take();
            count(&counters.acquisitions, 1);
            count(&counters.guard_useful, u64::from(asked == Some(Asked::ByGuard)));
        } else {
            count(&counters.failed_tries, 1);
        }
        Ok(acquired)
    }

    fn release(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.release(&self.herd.region.lock))
    }

    /// Gives the accept right up, and sees to it that the right worker takes it. True: it was held
    /// until now.
    pub fn unlock(&self) -> Result<bool> {
        let was_held = self.release();
        // The host gets what was accepted in this turn only after it, so that does not count yet.
        let stance = self.stance(0);
        if stance != Stance::Compete {
            self.step_back(stance)?;
        } else if self.accepted_in_turn.get() > 0 && self.herd.is_coordinated() {
            self.let_less_loaded_accept()?;
        }
        if self.gate.is_some() && self.has_handlers_to_run() {
            self.leave_right_to_idle()?;
        }
        Ok(was_held)
    }

    /// A host that writes its turns by hand and leaves out `herd_unlock` would keep the right for ever:
    /// it makes turns, and takes the guard's ticks from those who would look after it.
    pub(super) fn give_up_what_was_kept(&self) -> Result<()> {
        if self.gate.as_ref().is_some_and(Gate::waits_on) {
            self.step_back(Stance::Skip)?;
        }
        Ok(())
    }

    /// Stops trying for the accept right: gives it up, disarms, and wakes another worker unless that
    /// was done already. One that refuses leaves the guard's ticks to others as well.
    pub(super) fn step_back(&self, stance: Stance) -> Result<()> {
        // First of all: what fails below must not keep it.
        self.release();
        if stance == Stance::Refuse {
            self.willing.set(false);
            self.my_slot().set_state(State::Resting);
            if self.watches_guard.replace(false) {
                for fd in self.herd.guard.fds() {
                    self.reactor.unwatch(fd)?;
                }
            }
        }
        self.suspicion.take();
        self.arming.disarm(&self.reactor)?;
        if self.competes.replace(false) {
            self.leave_to_others()?;
        }
        Ok(())
    }

    /// Wakes an idle worker to accept. In EXCLUSIVE, where those who are busy do not try before they
    /// wait, the guard has the first of them look for a connection that this one was woken for.
    fn leave_to_others(&self) -> Result<()> {
        let Herd { region, guard, .. } = &*self.herd;
        if !self.herd.is_coordinated() {
            return Ok(());
        }
        if let Some((slot, _)) = self.neighbours.least_idle(region.slots()) {
            self.wake(slot);
        }
        if self.gate.is_none() && !self.has_woken.get() {
            guard.pull_in_if_later(&region.guard, now_us())?;
        }
        Ok(())
    }

    /// Rings a worker that is to accept in place of this one.
    fn wake(&self, slot: u16) {
        self.has_woken.set(ask(self.herd.region.slots(), &self.herd.bells, slot));
        count(&self.counters().handovers, 1);
    }

    /// After accepting: is this worker's load so much above the least that another should accept the
    /// next connection? In MUTEX it hands the right over to the least loaded idle worker, by its
    /// bell. In EXCLUSIVE it moves to the end of the listener's wait queue, so that the queue is in
    /// order of load.
    fn let_less_loaded_accept(&self) -> Result<()> {
        let Herd { region, settings, .. } = &*self.herd;
        let (load, balance) = (self.my_slot().load(), &settings.balance);
        if self.gate.is_some() {
            let find = || self.neighbours.least_idle(region.slots());
            if let Some(slot) = self.lookout.look(balance, load, self.handover_cost(), find) {
                self.has_yielded.set(true);
                self.competes.set(false);
                self.release();
                self.arming.disarm(&self.reactor)?;
                self.wake(slot);
            }
        } else {
            let listener = self.accepted_from.get();
            let Some(lookout) = self.arming.lookout(listener) else { return Ok(()) };
            let find = || self.neighbours.least_accepting(region.slots());
            let is_full_enough = matches!(balance, Balance::Pack) && self.accept_disabled.get() > 0;
            if is_full_enough || lookout.look(balance, load, Cost::Reorder, find).is_some() {
                lookout.comes_last(load);
                self.arming.move_to_end(&self.reactor, listener)?;
                count(&self.counters().reorders, 1);
            }
        }
        Ok(())
    }

    fn handover_cost(&self) -> Cost {
        if self.accepts_fast() { Cost::FastWakeUp } else { Cost::WakeUp }
    }

    fn accepts_fast(&self) -> bool {
        self.accept_gap_us.get() < FAST_ACCEPT_GAP_US
    }

    fn watch_guard(&self) -> Result<()> {
        if self.herd.is_coordinated() && !self.watches_guard.get() {
            let events = self.herd.guard_events();
            let [timer, backup] = self.herd.guard.fds();
            self.reactor.watch(timer, events, Source::Guard)?;
            self.reactor.watch(backup, events, Source::Guard).inspect_err(|_| {
                let _ = self.reactor.unwatch(timer);
            })?;
            self.watches_guard.set(true);
        }
        Ok(())
    }

    pub(super) fn condition(&self) -> Condition {
        Condition {
            willing: self.willing.get(),
            competes: self.competes.get(),
            has_woken: self.has_woken.get(),
        }
    }

    /// Has the guard wake an idle worker soon, unless that is so already.
    pub(super) fn pull_guard_in(&self) -> Result<()> {
        let Herd { region, guard, .. } = &*self.herd;
        let delay_us = self.pull_in_delay_us();
        // Not when the turn began: handlers can have run for long since.
        let now_us = now_us();
        if guard.is_later(&region.guard, now_us, delay_us) {
            let pulled_in = guard.pull_in(&region.guard, now_us, delay_us)?;
            self.guard_pulled_in.set(Some(pulled_in));
        }
        Ok(())
    }

    fn pull_in_delay_us(&self) -> u64 {
        let handover_delay_us = self.herd.settings.handover_delay_us;
        if self.accepts_fast() {
            FAST_PULL_IN_FACTOR * handover_delay_us
        } else {
            handover_delay_us
        }
    }

    /// The handlers were quick, and this worker has the right again: a tick would wake another for
    /// nothing. At a fast pace it is left, since arming the timer twice a turn would cost more than a
    /// wake-up every handover_delay.
    fn push_guard_back(&self) -> Result<()> {
        let Herd { region, guard, .. } = &*self.herd;
        match self.guard_pulled_in.take() {
            Some(pulled_in) if !self.accepts_fast() => {
                guard.push_back(&region.guard, pulled_in, now_us())
            }
            _ => Ok(()),
        }
    }

    /// Before handlers run: nobody may sleep unaware that the right is free. Looked at no more often
    /// than the guard can be pulled in.
    fn leave_right_to_idle(&self) -> Result<()> {
        let Herd { region, guard, .. } = &*self.herd;
        let now_us = self.turn_began_us.get();
        let may_pull_in = guard.is_later(&region.guard, now_us, self.pull_in_delay_us());
        let unaware = || {
            let slots = region.slots();
            protocol::leaves_idle_unaware(&self.neighbours, slots, &region.lock, self.condition())
        };
        if may_pull_in && unaware() { self.pull_guard_in() } else { Ok(()) }
    }

    /// The right is held by another. If this worker was asked by the guard: is a connection waiting
    /// while the holder makes no progress? Then the right is taken from it.
    fn take_over_if_stuck(&self, gate: &Gate, asked: Option<Asked>) -> Result<bool> {
        let mut suspicion = self.suspicion.get();
        if asked != Some(Asked::ByGuard) && !suspicion.is_pending() {
            return Ok(false);
        }
        let lock = &self.herd.region.lock;
        let word = lock.word();
        let held = match word.holder() {
            Some(_) if self.arming.connection_waits()? => Some(word),
            _ => None,
        };
        let settings = &self.herd.settings;
        let verdict = suspicion.judge(held, now_us(), settings.handover_delay_us);
        self.suspicion.set(suspicion);
        match verdict {
            Verdict::Clear | Verdict::LookAgain => Ok(false),
            Verdict::TakeOver(word) => {
                let taken = gate.take_over(lock, word);
                if taken {
                    count(&self.counters().thefts, 1);
                    self.herd.log.warning(format_args!(
                        "slot {} takes the accept right from slot {}, which makes no progress",
                        self.slot,
                        word.holder().unwrap_or_default()
                    ));
                }
                Ok(taken)
            }
        }
    }

    /// In EXCLUSIVE a wake-up that was given to a worker which then died or stopped accepting is
    /// lost, and its connection waits unseen. A worker that was asked looks, and adds its
    /// listeners anew: EPOLL_CTL_ADD reports what is ready already.
    fn find_stranded(&self) -> Result<()> {
        let Some(asked) = self.asked.take() else { return Ok(()) };
        if self.herd.is_coordinated() && self.arming.connection_waits()? {
            self.arming.disarm(&self.reactor)?;
            self.arming.arm(&self.reactor)?;
            count(&self.counters().blind_accepts, 1);
            count(&self.counters().guard_useful, u64::from(asked == Asked::ByGuard));
        }
        Ok(())
    }

    pub fn enable_accept(&self) -> Result<()> {
        self.check_slot()?;
        self.arming.arm(&self.reactor)
    }

    pub fn disable_accept(&self) -> Result<()> {
        self.arming.disarm(&self.reactor)
    }

    pub fn ready_listeners(&self) -> usize {
        self.acceptor.ready_count()
    }

    pub fn accept_disabled(&self) -> u64 {
        self.accept_disabled.get()
    }
}
