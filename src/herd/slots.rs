//! Slots and their owners: who has one, and which owners are dead.

use super::Herd;
use crate::accept::neighbours::{Neighbours, ask};
use crate::shm::slot::{Claim, Slot};
use crate::sys::clock::now_us;
use crate::sys::fork::ForkToken;
use crate::sys::{Error, Result, record_lock};
use std::sync::atomic::Ordering::SeqCst;

impl Herd {
    /// Takes a slot for a worker of this process: `wanted`, or any but the acceptor's.
    pub fn claim_slot(&self, wanted: Option<u16>) -> Result<(u16, Claim)> {
        match wanted {
            Some(number) => {
                let slot = self.slot(number.into())?;
                Ok((number, self.try_claim(number, slot)?.ok_or(Error::BUSY)?))
            }
            None => {
                // The acceptor's slot is for who asks for it: another would take its place unawares.
                let acceptor = self.settings.acceptor_slot;
                let others = self.numbered_slots().filter(|&(number, _)| Some(number) != acceptor);
                for (number, slot) in others {
                    if let Some(claim) = self.try_claim(number, slot)? {
                        return Ok((number, claim));
                    }
                }
                Err(Error::NO_SLOT)
            }
        }
    }

    /// Three marks, made in this order and undone in the reverse: `owner` keeps out the other threads
    /// of this process, the hold the other processes, and the claim tells everybody. So a claimed
    /// slot that nobody holds is a dead worker's.
    fn try_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        let this_process = ForkToken::current()?.number();
        let owner = &self.remotes[usize::from(number)].owner;
        let former = owner.load(SeqCst);
        if former == this_process
            || owner.compare_exchange(former, this_process, SeqCst, SeqCst).is_err()
        {
            return Ok(None);
        }
        let claimed = self.hold_and_claim(number, slot);
        if !matches!(claimed, Ok(Some(_))) {
            owner.store(0, SeqCst);
        }
        claimed
    }

    fn hold_and_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        if !record_lock::hold(self.region.file(), number.into())? {
            return Ok(None);
        }
        let left = slot.claim();
        if left.pid().is_some() {
            self.free_dead(number, slot, left);
        }
        let claim = slot.try_claim(std::process::id());
        if claim.is_none() {
            record_lock::release(self.region.file(), number.into())?;
            return Ok(None);
        }
        if let Some(steering) = &self.steering {
            // What was on its way to the slot before is not this worker's.
            steering.line(number.into()).settle_all();
        }
        let remote = &self.remotes[usize::from(number)];
        remote.requests.store(0, SeqCst);
        remote.posted.forget();
        Ok(claim)
    }

    /// A slot's members have their worker at the end of their wait queues, or listen, since now, or since
    /// before and nobody has said so.
    pub fn note_homecoming(&self, number: u16) {
        self.region.slots()[usize::from(number)].count_homecoming();
        self.region.homecomings.fetch_add(1, SeqCst);
    }

    /// Whether nobody has to be told that the member of a slot listens: somebody has been, or it does from the
    /// start, as the first does, and all where a program steers.
    pub fn is_told_of_member(&self, number: usize) -> bool {
        number == 0 || self.steering.is_some() || self.region.slots()[number].homecomings() > 0
    }

    /// Wakes all workers but that of `slot`.
    pub fn ring_others(&self, slot: u16) {
        let others = self
            .numbered_slots()
            .zip(&self.bells)
            .filter(|((number, other), _)| *number != slot && other.claim().pid().is_some());
        others.for_each(|(_, bell)| bell.ring());
    }

    /// Gives a slot of this process back.
    pub fn free_slot(&self, number: u16, claim: Claim) {
        let index = usize::from(number);
        let slot = &self.region.slots()[index];
        // Of a worker that was reported dead by mistake it can be another's by now.
        if slot.claim() == claim {
            self.steer_away_from(number);
        }
        slot.free(claim);
        if let Err(error) = record_lock::release(self.region.file(), index) {
            let until = "no other process gets it until this one ends";
            self.log.warning(format_args!("slot {number}: {until}: {error}"));
        }
        self.remotes[index].owner.store(0, SeqCst);
    }

    /// Whether a slot has an owner that lives.
    pub fn is_alive(&self, number: u16) -> Result<bool> {
        let slot = self.slot(number.into())?;
        Ok(slot.claim().pid().is_some() && self.is_held(number)?)
    }

    fn is_held(&self, number: u16) -> Result<bool> {
        // The own process's holds do not show as held.
        let owner = self.remotes[usize::from(number)].owner.load(SeqCst);
        Ok(owner == ForkToken::current()?.number()
            || record_lock::is_held_by_another(self.region.file(), number.into())?)
    }

    /// The claim of a slot whose owner is dead.
    fn dead_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        let claim = slot.claim();
        let is_dead = claim.pid().is_some() && !self.is_held(number)?;
        Ok(is_dead.then_some(claim))
    }

    /// The owner was found dead before: what it has done last, it has done.
    fn free_dead(&self, number: u16, slot: &Slot, claim: Claim) -> bool {
        let word = self.region.lock.word();
        self.free_queues_of_dead(number, claim);
        // What was read while the slot still is the dead worker's is the dead worker's.
        if slot.claim() == claim {
            if word.holder() == Some(number) {
                self.region.lock.release(word);
            }
            self.steer_away_from(number);
        }
        slot.reap(claim)
    }

    /// A new owner could come in between: then it is steered to again at its next turn.
    fn steer_away_from(&self, number: u16) {
        if let Some(steering) = &self.steering {
            steering.line(number.into()).withdraw();
        }
    }

    /// Frees what dead workers left: the accept right, their slots and their load. If there were
    /// any, an idle worker is woken to accept. Returns the number of slots.
    pub fn free_dead_slots(&self) -> Result<usize> {
        let mut freed = 0;
        let mut looked = Ok(());
        for (number, slot) in self.numbered_slots() {
            match self.dead_claim(number, slot) {
                Ok(Some(claim)) if self.free_dead(number, slot, claim) => {
                    freed += 1;
                    self.log.warning(format_args!("slot {number}: its worker is dead, freed"));
                }
                Ok(_) => {}
                // The others may be dead all the same, and who was freed is to be told of.
                Err(error) => looked = Err(error),
            }
        }
        if freed > 0 {
            self.tell_waiting();
        }
        if freed > 0 && self.is_coordinated() {
            let slots = self.region.slots();
            if let Some((number, _)) = Neighbours::of_nobody().least_idle(slots) {
                ask(slots, &self.bells, number, now_us());
            }
        }
        if self.is_coordinated()
            && (freed > 0 || self.guard.is_overdue(&self.region.guard, now_us()))
        {
            // All may be busy, and the one that was rung may be stopped: the first that waits looks.
            self.demand_tick();
        }
        looked.map(|()| freed)
    }

    pub fn free_slots(&self) -> Result<usize> {
        self.free_dead_slots()?;
        Ok(self.region.slots().iter().filter(|slot| slot.claim().pid().is_none()).count())
    }

    fn numbered_slots(&self) -> impl Iterator<Item = (u16, &Slot)> {
        (0u16..).zip(self.region.slots())
    }
}
