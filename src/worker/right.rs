//! A worker and the accept right: trying for it, giving it up, stepping back, and taking it from a
//! holder that makes no progress.

use super::Worker;
use crate::accept::balance::{self, Stance, Standing};
use crate::accept::gate::Gate;
use crate::accept::guard::{Sighting, Verdict};
use crate::accept::listener::Delivery;
use crate::reactor::Source;
use crate::shm::lock::Word;
use crate::shm::slot::count;
use crate::sys::clock::now_us;
use crate::sys::socket::any_readable;
use crate::sys::{Result, epoll};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// `not_taken` connections wait for the host to take them with `herd_accept`.
    fn stance(&self, not_taken: usize) -> Stance {
        let back_off_until_us = self.back_off_until_us.get();
        let backing_off = back_off_until_us.is_some_and(|until_us| now_us() < until_us);
        if back_off_until_us.is_some() && !backing_off {
            self.back_off_until_us.set(None);
            self.looks_after_herd.set(true);
        }
        let stance = balance::stance(&Standing {
            draining: self.remote().requests.load(Relaxed) != 0,
            backing_off,
            not_taken,
            open: self.my_slot().open(),
            capacity: self.capacity(),
            accept_disabled: self.accept_disabled.get(),
        });
        let overruled = self.gate.is_none() || self.looks_after_herd.get();
        if stance == Stance::Skip && overruled { Stance::Compete } else { stance }
    }

    /// Tries for the accept right, and arms or disarms the listeners accordingly. True: held.
    pub fn trylock(&self) -> Result<bool> {
        self.check_slot()?;
        let stance = self.stance(self.acceptor.kept_count(Delivery::Pull));
        if stance != Stance::Compete {
            let skipped = self.accept_disabled.get().saturating_sub(1);
            self.accept_disabled.set(skipped);
            self.step_back(stance)?;
            return Ok(false);
        }
        self.competes.set(true);
        self.watch_guard()?;
        if let Some(gate) = &self.gate
            && !gate.try_acquire(&self.herd.region)
            && !self.take_over_if_stuck(gate)?
        {
            self.arming.disarm(&self.reactor)?;
            return Ok(false);
        }
        self.looks_after_herd.set(false);
        // Lock and registration are one step: without the listeners the right is not kept.
        self.arming.arm(&self.reactor).inspect_err(|_| {
            self.release();
        })?;
        Ok(true)
    }

    fn release(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.release(&self.herd.region))
    }

    /// Gives the accept right up. A worker that will not take it again wakes another at once.
    /// True: it was held until now.
    pub fn unlock(&self) -> Result<bool> {
        if self.gate.is_none() {
            return Ok(false);
        }
        let was_held = self.release();
        // The host gets what was accepted in this turn only after it, so that does not count yet.
        let stance = self.stance(0);
        if stance != Stance::Compete {
            self.step_back(stance)?;
        }
        Ok(was_held)
    }

    /// Stops competing for the accept right: gives it up, disarms, and wakes another worker unless
    /// that was done already. One that refuses leaves the guard's ticks to others as well.
    pub(super) fn step_back(&self, stance: Stance) -> Result<()> {
        if stance == Stance::Refuse && self.watches_guard.replace(false) {
            self.reactor.unwatch(self.herd.guard.fd())?;
        }
        self.release();
        self.arming.disarm(&self.reactor)?;
        if self.competes.replace(false)
            && let Some(gate) = &self.gate
            && gate.wake_another(&self.herd.region, &self.herd.bells)
        {
            count(&self.counters().handovers, 1);
        }
        Ok(())
    }

    fn watch_guard(&self) -> Result<()> {
        if self.gate.is_some() && !self.watches_guard.get() {
            let once_for_all = epoll::IN | epoll::EXCLUSIVE;
            self.reactor.watch(self.herd.guard.fd(), once_for_all, Source::Guard)?;
            self.watches_guard.set(true);
        }
        Ok(())
    }

    /// The right is held by another. If this worker has reason to look after the herd: is a
    /// connection waiting while the holder makes no progress? Then the right is taken from it.
    fn take_over_if_stuck(&self, gate: &Gate) -> Result<bool> {
        let mut suspicion = self.suspicion.get();
        if !self.looks_after_herd.replace(false) && !suspicion.is_pending() {
            return Ok(false);
        }
        let word = self.herd.region.lock.word();
        let sighting = match word.holder() {
            Some(holder) if self.connection_waits()? => Some(self.sighting(word, holder)),
            _ => None,
        };
        let settings = &self.herd.settings;
        let verdict = suspicion.judge(sighting, now_us(), settings.handover_delay_us);
        self.suspicion.set(suspicion);
        self.look_again_at_us.set(None);
        match verdict {
            Verdict::Clear => Ok(false),
            Verdict::LookAgain { at_us } => {
                self.look_again_at_us.set(Some(at_us));
                Ok(false)
            }
            Verdict::TakeOver(word) => {
                let taken = gate.take_over(&self.herd.region, word);
                if taken {
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

    fn connection_waits(&self) -> Result<bool> {
        any_readable(self.arming.usable().map(|(_, l)| l.fd.as_raw_fd()))
    }

    fn sighting(&self, word: Word, holder: u16) -> Sighting {
        // The word is shared memory: its slot number is checked before it is used.
        let slot = self.herd.region.slots().get(usize::from(holder));
        Sighting { word, holder_turns: slot.map_or(0, |slot| slot.counters.turns.load(Relaxed)) }
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
