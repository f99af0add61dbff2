//! A worker and the guard: watching it, pulling it in and pushing it back, and what a worker that it
//! woke looks after.

use super::Worker;
use super::conduct::Conduct;
use super::right::Asked;
use crate::accept::gate::Gate;
use crate::accept::protocol::{self, Condition};
use crate::accept::suspicion::Verdict;
use crate::herd::Herd;
use crate::log::{Recurring, Task};
use crate::reactor::Source;
use crate::shm::slot::count;
use crate::sys::clock::now_us;
use crate::sys::{Result, probes};

impl Worker {
    pub(super) fn watch_guard(&self) -> Result<()> {
        if self.herd.is_coordinated() { self.mark_set() } else { Ok(()) }
    }

    /// All workers of the herd have the guard in their sets, and a set has a descriptor once: where a
    /// worker is already, another cannot enter (EEXIST in epoll_ctl(2)), by whatever number it knows the
    /// set. Without coordination the guard never ticks, and marks the set all the same.
    pub(super) fn mark_set(&self) -> Result<()> {
        if !self.conduct.get().watches_guard {
            let events = self.herd.guard_events();
            let [timer, backup] = self.herd.guard.fds();
            self.reactor.watch(timer, events, Source::Guard)?;
            self.reactor.watch(backup, events, Source::Guard).inspect_err(|_| {
                self.reactor.unwatch(timer);
            })?;
            self.conduct.change(|own| own.watches_guard = true);
        }
        Ok(())
    }

    pub(super) fn condition(&self) -> Condition {
        let Conduct { willing, competes, .. } = self.conduct.get();
        Condition { willing, competes }
    }

    /// Has the guard wake an idle worker soon, unless that is so already. If it cannot be armed, one is
    /// woken now.
    pub(super) fn pull_guard_in(&self) {
        let Herd { region, guard, .. } = &*self.herd;
        let delay_us = self.pull_in_delay_us();
        // Not when the turn began: handlers can have run for long since.
        let now_us = now_us();
        if !guard.is_later(&region.guard, now_us, delay_us) {
            return;
        }
        match guard.pull_in(&region.guard, now_us, delay_us) {
            // The next try has a tick to push back.
            Ok(()) => self.conduct.look_closer(),
            Err(error) => {
                self.note_failure(Task::PullGuardIn, error);
                self.wake_least_idle();
            }
        }
    }

    /// Nobody else may be left who would take a tick that is overdue. True: this worker has. One that leaves the
    /// guard's ticks to others has one come for them.
    pub(super) fn see_to_guard(&self, now_us: u64) -> bool {
        let Herd { region, guard, .. } = &*self.herd;
        if !self.herd.is_coordinated() || !guard.is_overdue(&region.guard, now_us) {
            return false;
        }
        let watches = self.conduct.get().watches_guard;
        if watches {
            self.mind_guard(now_us);
        } else {
            self.herd.demand_tick();
        }
        watches
    }

    /// The guard has woken this worker, or its tick is overdue.
    pub(super) fn mind_guard(&self, now_us: u64) {
        let Herd { guard, region, .. } = &*self.herd;
        match guard.take_tick(&region.guard, now_us) {
            Ok(false) => return,
            Ok(true) => {}
            // The tick is still there, and would end every wait at once.
            Err(error) => return self.rest_a_while(Task::TakeTick, error),
        }
        count(&self.counters().guard_ticks, 1);
        self.conduct.change(|own| own.asked = Some(Asked::ByGuard));
        if guard.should_look_for_dead(&region.guard, now_us) {
            self.herd.free_readers_of_nobody();
            let looked = self.herd.free_dead_slots().and(self.herd.correct_counts());
            looked.unwrap_or_else(|error| self.note_failure(Task::LookForDead, error));
            if let Some(steering) = &self.herd.steering {
                steering.forget_lost(now_us);
            }
        }
    }

    pub(super) fn leaves_idle_unaware(&self) -> bool {
        let slots = self.herd.region.slots();
        protocol::leaves_idle_unaware(&self.neighbours, slots, &self.lock)
    }

    pub(super) fn pull_in_delay_us(&self) -> u64 {
        self.pace.pull_in_delay_us(self.herd.settings.handover_delay_us)
    }

    /// This worker has the right, again if its handlers were quick: a tick would wake another for nothing. At a
    /// fast pace it is left, since arming the timer twice a turn would cost more than a wake-up every
    /// handover_delay.
    pub(super) fn push_guard_back(&self) {
        let Herd { region, guard, .. } = &*self.herd;
        if !self.pace.is_fast()
            && let Err(error) = guard.push_back(&region.guard, now_us())
        {
            self.note_failure(Task::PushGuardBack, error);
        }
    }

    /// Before handlers run: nobody may sleep unaware that the right is free. For connections that may
    /// come meanwhile the guard is pulled in. For one that waits already, behind those that this
    /// worker has accepted, an idle worker is woken at once, who does the same for the next: by the guard
    /// alone a burst would wait for one tick after the other.
    pub(super) fn leave_right_to_idle(&self) {
        let Herd { region, guard, settings, .. } = &*self.herd;
        let now_us = self.turn_began_us.get();
        let may_pull_in = guard.is_later(&region.guard, now_us, self.pull_in_delay_us());
        let may_ring = self.accepted_in_turn.get() > 0
            && !self.has_rung.get()
            && settings.balance.shares_bursts()
            && self.pace.affords_a_bell();
        if !(may_pull_in || may_ring) || !self.leaves_idle_unaware() {
            return;
        }
        if may_ring && self.connection_waits() {
            self.wake_least_idle();
        }
        // Also then: the one that was rung may be stopped.
        if may_pull_in {
            self.pull_guard_in();
        }
    }

    /// Whether a connection waits at any listener, as far as is known: who looks for one that does not
    /// wait does no harm.
    fn connection_waits(&self) -> bool {
        self.arming.connection_waits().unwrap_or_else(|error| {
            self.note_failure(Task::SeeWhoWaits, error);
            true
        })
    }

    /// The right is held by another. If this worker was asked by the guard: is a connection waiting
    /// while the holder makes no progress? Then the right is taken from it.
    pub(super) fn take_over_if_stuck(&self, gate: &Gate, asked: Option<Asked>) -> bool {
        let mut suspicion = self.conduct.get().suspicion;
        if asked != Some(Asked::ByGuard) && !suspicion.is_pending() {
            return false;
        }
        let lock = &self.lock;
        let word = lock.word();
        let held = match word.holder() {
            Some(_) if self.connection_waits() => Some(word),
            _ => None,
        };
        let settings = &self.herd.settings;
        let verdict = suspicion.judge(held, now_us(), settings.handover_delay_us);
        self.conduct.change(|own| own.suspicion = suspicion);
        match verdict {
            Verdict::Clear | Verdict::LookAgain => false,
            Verdict::TakeOver(word) => {
                let taken = gate.take_over(lock, word);
                if taken {
                    self.grow_wary();
                    count(&self.counters().thefts, 1);
                    probes::theft(self.slot, word.holder().unwrap_or_default());
                    self.herd.log.recurring(
                        Recurring::Theft,
                        format_args!(
                            "slot {} takes the accept right from slot {}, which makes no progress",
                            self.slot,
                            word.holder().unwrap_or_default()
                        ),
                    );
                }
                taken
            }
        }
    }

    /// In EXCLUSIVE a wake-up that was given to a worker which then died or stopped accepting is
    /// lost, and its connection waits unseen. A worker that was asked looks, and adds its
    /// listeners anew: EPOLL_CTL_ADD reports what is ready already. In REUSEPORT it also waits unseen at a
    /// member that nobody was told of.
    pub(super) fn find_stranded(&self) -> Result<()> {
        let Some(asked) = self.conduct.take(|own| &mut own.asked) else { return Ok(()) };
        if asked == Asked::ByBell {
            self.note_handed_over();
        }
        self.watch_untold()?;
        if self.herd.is_coordinated() && self.connection_waits() {
            self.disarm();
            self.arm()?;
            self.note_useful();
            count(&self.counters().blind_accepts, 1);
            count(&self.counters().guard_useful, u64::from(asked == Asked::ByGuard));
        }
        Ok(())
    }
}
