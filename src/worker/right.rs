//! A worker and the right to accept: trying for it, giving it up, stepping back. Who should have it
//! instead is in `handover`, what the guard is for in `guarding`.

use super::Worker;
use super::conduct::Conduct;
use super::hosted::Waits;
use crate::accept::balance::{self, Stance, Standing};
use crate::accept::gate::Gate;
use crate::accept::listener::Delivery;
use crate::log::{Recurring, Task};
use crate::shm::slot::{State, count};
use crate::sys::clock::{US_PER_MS, now_us};
use crate::sys::{Error, Result, probes};
use std::sync::atomic::Ordering::Relaxed;

/// Why a worker looks whether connections are waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Its bell rang: another worker may have stepped back in its favour.
    ByBell,
    /// The guard ticked, or it has just come back from backing off.
    ByGuard,
}

impl Worker {
    /// `not_taken` connections wait for the host to take them with `herd_accept`.
    fn stance(&self, not_taken: usize) -> Stance {
        let Conduct { back_off_until_us, accept_disabled, .. } = self.conduct.get();
        let backing_off = back_off_until_us.is_some_and(|until_us| now_us() < until_us);
        if back_off_until_us.is_some() && !backing_off {
            self.conduct.change(|own| {
                own.back_off_until_us = None;
                own.asked = Some(Asked::ByGuard);
            });
        }
        let stance = balance::stance(&Standing {
            draining: self.remote().requests.load(Relaxed) != 0,
            backing_off,
            not_taken,
            open: self.my_slot().open(),
            capacity: self.capacity(),
            accept_disabled,
        });
        let overruled = self.gate.is_none() || self.conduct.get().asked.is_some();
        if stance == Stance::Skip && overruled { Stance::Compete } else { stance }
    }

    /// The usual try, in which the lock alone decides, if there is one. None: `trylock` has to look
    /// closer.
    #[inline(always)]
    pub fn trylock_quickly(&self) -> Option<bool> {
        let slot = self.my_slot();
        let is_usual = self.conduct.is_plain()
            && !self.acceptor.has_kept()
            && self.remote().requests.load(Relaxed) == 0
            && slot.claim() == self.claim;
        if !is_usual {
            return None;
        }
        if let Some(gate) = &self.gate {
            if gate.has_acquired() || !gate.try_acquire(&self.lock) {
                return None;
            }
            count(&slot.counters.acquisitions, 1);
            probes::acquire(self.slot);
        }
        Some(true)
    }

    /// The usual unlock, of a worker that accepted nothing and has nothing to run. None: `unlock` has to
    /// look closer.
    #[inline(always)]
    pub fn unlock_quickly(&self) -> Option<bool> {
        // Without a lock nobody waits for what this worker gives up.
        let leaves_nobody =
            || self.gate.is_none() || !self.host_goes_on.get() && !self.has_events_to_run();
        let is_usual =
            self.conduct.is_plain() && self.accepted_in_turn.get() == 0 && leaves_nobody();
        is_usual.then(|| self.release())
    }

    /// Tries for the accept right, and arms or disarms the listeners accordingly. True: held.
    pub fn trylock(&self) -> Result<bool> {
        if self.trylock_quickly().is_some() {
            return Ok(true);
        }
        self.check_slot_in_turn()?;
        let stance = self.stance(self.acceptor.kept_count(Delivery::Pull));
        let yields =
            self.conduct.take(|own| &mut own.has_yielded) && self.conduct.get().asked.is_none();
        if stance != Stance::Compete {
            self.conduct.change(|own| own.accept_disabled = own.accept_disabled.saturating_sub(1));
            self.step_back(stance);
        }
        if stance == Stance::Refuse {
            // Rung a moment before it said that it rests: the next one is to accept.
            let asked = self.conduct.take(|own| &mut own.asked);
            if asked.is_some() {
                self.leave_to_others();
            }
            if asked == Some(Asked::ByGuard) {
                // Also if the right is held: by one that makes no progress, it may be.
                self.herd.demand_tick();
            }
            return Ok(false);
        }
        if let Err(error) = self.watch_guard().and_then(|()| self.watch_queue()) {
            self.rest_a_while(Task::WatchListeners, error);
            return Ok(false);
        }
        if !self.conduct.get().willing {
            // First the state: who is told looks at it.
            self.set_state(State::Busy);
            self.herd.tell_waiting();
            self.conduct.change(|own| own.willing = true);
        }
        if !self.herd.may_accept(self.slot) {
            self.conduct.change(|own| own.asked = None);
            return Ok(false);
        }
        if self.only_accepts() && !self.can_give() {
            self.conduct.change(|own| own.asked = None);
            self.disarm();
            return Ok(false);
        }
        if stance == Stance::Skip || yields {
            return Ok(false);
        }
        self.conduct.change(|own| own.competes = true);
        let held = match &self.gate {
            Some(gate) => self.acquire(gate),
            None => true,
        };
        if !held {
            self.disarm();
            return Ok(false);
        }
        // Lock and registration are one step: without the listeners the right is not kept.
        let is_free = self.gate.is_none();
        let watched = self.arm().and_then(|()| self.make_way());
        let watched = watched.and_then(|()| if is_free { self.find_stranded() } else { Ok(()) });
        if let Err(error) = watched {
            self.rest_a_while(Task::WatchListeners, error);
            return Ok(false);
        }
        if !self.has_more_to_see_to() {
            self.conduct.look_over();
        }
        Ok(true)
    }

    /// Whether all tries and unlocks depend on more than this worker's conduct and what it accepted:
    /// connections to pass on, other workers' own members, or a loop of the host's.
    fn has_more_to_see_to(&self) -> bool {
        self.herd.passes_on() || self.herd.group_size > 1 || self.waits.get() != Waits::Itself
    }

    /// A call that the library makes for itself failed: epoll_ctl(2), for one, can run out of memory or of
    /// watches. That must not stop the loop: the worker goes on with what it has, and others accept for a
    /// while.
    pub(super) fn rest_a_while(&self, task: Task, error: Error) {
        self.back_off(task, error);
        self.step_back(Stance::Refuse);
    }

    /// Leaves accepting to others for accept_delay.
    pub(super) fn back_off(&self, task: Task, error: Error) {
        let delay_us = self.herd.settings.accept_delay_us;
        self.conduct.change(|own| own.back_off_until_us = Some(now_us() + delay_us));
        self.count_back_off(error);
        let (slot, ms) = (self.slot, delay_us / US_PER_MS);
        self.herd.log.recurring(
            Recurring::Failure(task),
            format_args!("slot {slot}: {task}: {error}: others accept for {ms} ms"),
        );
    }

    fn acquire(&self, gate: &Gate) -> bool {
        let lock = &self.lock;
        let asked = self.conduct.take(|own| &mut own.asked);
        if gate.holds(lock) {
            return true;
        }
        let counters = self.counters();
        let acquired = gate.try_acquire(lock) || self.take_over_if_stuck(gate, asked);
        if acquired {
            self.push_guard_back();
            self.conduct.take(|own| &mut own.suspicion);
            count(&counters.acquisitions, 1);
            probes::acquire(self.slot);
            if asked == Some(Asked::ByBell) {
                self.note_handed_over();
            }
            count(&counters.guard_useful, u64::from(asked == Some(Asked::ByGuard)));
        } else {
            count(&counters.failed_tries, 1);
        }
        acquired
    }

    #[inline(always)]
    pub(super) fn release(&self) -> bool {
        let Some(gate) = &self.gate else { return false };
        self.note_release(gate.release(&self.lock))
    }

    /// Gives the accept right up, and sees to it that the right worker takes it. True: it was held
    /// until now.
    pub fn unlock(&self) -> bool {
        if let Some(was_held) = self.unlock_quickly() {
            return was_held;
        }
        let was_held = self.release();
        self.pass_on();
        // The host gets what was accepted in this turn only after it, so that does not count yet.
        let stance = self.stance(0);
        if stance != Stance::Compete {
            self.step_back(stance);
        } else if self.accepted_in_turn.get() > 0
            && self.herd.is_coordinated()
            && !self.herd.passes_on()
        {
            self.let_less_loaded_accept();
        }
        let host_goes_on = self.host_goes_on.take();
        if self.gate.is_some() && (host_goes_on || self.has_handlers_to_run()) {
            self.leave_right_to_idle();
        }
        was_held
    }

    /// A host that writes its turns by hand and leaves out `herd_unlock` would keep the right for ever:
    /// it makes turns, and takes the guard's ticks from those who would look after it.
    pub(super) fn give_up_what_was_kept(&self) {
        if self.gate.as_ref().is_some_and(Gate::waits_on) {
            self.step_back(Stance::Skip);
        }
    }

    /// Stops trying for the accept right: gives it up, disarms, and wakes another worker unless that
    /// was done already. One that refuses leaves the guard's ticks to others as well.
    pub(super) fn step_back(&self, stance: Stance) {
        self.release();
        if stance == Stance::Refuse {
            self.conduct.change(|own| own.willing = false);
            self.set_state(State::Resting);
            if self.conduct.take(|own| &mut own.watches_guard) {
                for fd in self.herd.guard.fds() {
                    self.reactor.unwatch(fd);
                }
            }
            self.leave_queue();
        }
        self.conduct.take(|own| &mut own.suspicion);
        self.disarm();
        if self.conduct.take(|own| &mut own.competes) {
            self.leave_to_others();
        }
    }

    pub fn enable_accept(&self) -> Result<()> {
        self.check_slot()?;
        self.arm()
    }

    pub fn disable_accept(&self) {
        self.disarm();
    }

    pub fn ready_listeners(&self) -> usize {
        self.acceptor.ready_count()
    }

    pub fn accept_disabled(&self) -> u64 {
        self.conduct.get().accept_disabled
    }
}
