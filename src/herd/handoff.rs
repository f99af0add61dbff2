//! Who gets a connection that a process of the herd passes on, and sending it.

use super::Herd;
use crate::accept::choice::{self, Candidate, Giver, choose};
use crate::accept::handoff::{self, Origin, Tag, WINDOW};
use crate::accept::listener::Acceptance;
use crate::accept::neighbours::{Neighbours, ask};
use crate::mode::Mode;
use crate::shm::slot::{Claim, Slot, State};
use crate::sys::clock::now_us;
use crate::sys::transfer::{self, Label, Transfer};
use crate::sys::{Error, Result};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Herd {
    pub fn has_queues(&self) -> bool {
        self.mode == Mode::Handoff
    }

    /// Whether who accepts a connection and who serves it can be two.
    pub fn passes_on(&self) -> bool {
        self.has_queues() && self.settings.max_workers > 1
    }

    /// Whether the worker of this slot is one of those that accept.
    pub fn may_accept(&self, slot: u16) -> bool {
        self.settings.acceptor_slot.is_none_or(|acceptor| acceptor == slot)
    }

    /// Whether any worker but this one takes what is sent to it, now or later.
    pub fn has_others(&self, than: u16) -> bool {
        let serves = |slot: &Slot| slot.claim().pid().is_some() && !slot.queue.is_stuck();
        (0u16..).zip(self.region.slots()).any(|(number, slot)| number != than && serves(slot))
    }

    /// Whether any worker but this one would take connections now.
    pub fn has_willing_others(&self, than: u16) -> bool {
        let slots = (0u16..).zip(self.region.slots());
        slots.filter(|&(number, _)| number != than).any(|(_, slot)| {
            slot.claim().pid().is_some() && slot.state() != State::Resting && !slot.queue.is_stuck()
        })
    }

    pub fn queue(&self, slot: u16) -> &Transfer {
        &self.queues[usize::from(slot)]
    }

    /// What this worker is known by as the reader of a queue.
    pub fn reader(slot: u16, claim: Claim) -> u64 {
        (u64::from(slot) + 1) << 32 | u64::from(claim.generation())
    }

    pub fn on_handoff(&self, acceptance: Acceptance) -> Result<()> {
        self.sent_acceptance.replace(|_| Ok((acceptance, ())))
    }

    pub fn sent_acceptance(&self) -> Result<Acceptance> {
        self.sent_acceptance.read(|&acceptance| acceptance)
    }

    // --- choosing ---

    fn candidate(&self, number: u16, giver: Option<Giver>) -> Option<Candidate> {
        let slot = &self.region.slots()[usize::from(number)];
        choice::candidate(number, slot, giver, self.settings.worker_connections.into())
    }

    /// All that can take a connection now. A worker that only accepts is one of them while there is no
    /// other, or all others are stuck.
    fn candidates(&self, giver: Option<Giver>) -> impl Iterator<Item = Candidate> + Clone {
        let only_accepts =
            self.settings.acceptor_slot.filter(|&acceptor| self.has_others(acceptor));
        let numbers = 0..self.region.slots().len() as u16;
        numbers
            .filter(move |&number| Some(number) != only_accepts)
            .filter_map(move |number| self.candidate(number, giver))
    }

    /// Whether any worker can take a connection that `giver` accepts.
    pub fn has_taker(&self, giver: Option<Giver>) -> bool {
        self.candidates(giver).next().is_some()
    }

    /// Chooses the worker for a connection, and counts it as on its way to that one unless it is the
    /// giver. None: none can take it now. True: it was named.
    pub fn choose(
        &self,
        giver: Option<Giver>,
        peer: &libc::sockaddr_storage,
        peer_length: u32,
    ) -> Option<(u16, bool)> {
        let is_givers = |slot| giver.is_some_and(|giver| giver.slot == slot);
        let reserve = |slot| is_givers(slot) || self.line(slot).reserve(WINDOW, now_us());
        if let Some(named) =
            self.settings.pick.as_ref().and_then(|pick| pick.ask(peer, peer_length))
            && usize::from(named) < self.region.slots().len()
            && self.candidate(named, giver).is_some()
            && reserve(named)
        {
            return Some((named, true));
        }
        let last_given = &self.region.handoff.last_given;
        let capacity = u64::from(self.settings.worker_connections);
        // Others choose at the same time; each try that fails saw one of them succeed.
        for _ in 0..=self.region.slots().len() {
            let last = last_given.load(Relaxed);
            let last_slot = (last as u16).checked_sub(1);
            let candidates = self.candidates(giver);
            let slot = choose(&self.settings.balance, candidates, last_slot, capacity)?;
            let is_mine = !self.settings.balance.is_in_turn()
                || last_given.compare_exchange(last, u64::from(slot) + 1, Relaxed, Relaxed).is_ok();
            if is_mine && reserve(slot) {
                return Some((slot, false));
            }
        }
        None
    }

    fn line(&self, slot: u16) -> &crate::shm::queue::QueueLine {
        &self.region.slots()[usize::from(slot)].queue
    }

    // --- sending ---

    /// Sends connections that were counted by `choose` to a worker. Returns how many were sent, the
    /// first ones; those that were not no longer count.
    pub fn send(&self, slot: u16, labels: &[Label], fds: &[RawFd]) -> Result<usize> {
        let sent = handoff::send(self.queue(slot), labels, fds);
        let unsent = labels.len() - sent.unwrap_or(0);
        if unsent > 0 {
            self.line(slot).give_back(unsent as u64);
        }
        let sent = sent?;
        let state = self.region.slots()[usize::from(slot)].state();
        if self.line(slot).is_stuck() || state == State::Resting {
            // Since it was chosen: who has looked at its queue does not look again by itself.
            self.ask_to_look(slot);
        } else if self.is_coordinated() && state == State::Busy {
            // It runs handlers, or may be stopped: somebody who waits looks whether they are taken.
            self.demand_tick();
        }
        Ok(sent)
    }

    /// `herd_handoff_send`: returns the slot.
    pub fn send_tagged(&self, wanted: Option<u16>, fd: RawFd, tag: &[u8]) -> Result<u16> {
        if !self.has_queues() {
            return Err(Error::errno(libc::EOPNOTSUPP));
        }
        let tag = Tag::new(tag).ok_or(Error::errno(libc::EMSGSIZE))?;
        let socket = transfer::check_socket(&fd)?;
        let (peer, peer_length) = transfer::peer_of(socket);
        let mut chosen = self.choose_for_sent(wanted, &peer, peer_length);
        if chosen == Err(Error::AGAIN) && !self.is_coordinated() {
            // Without a guard, and without others, nobody else finds that too many are counted.
            self.correct_counts()?;
            chosen = self.choose_for_sent(wanted, &peer, peer_length);
        }
        let (slot, is_named) = chosen?;
        let label = handoff::label(&Origin::Sent(tag), is_named, &peer, peer_length);
        match self.send(slot, &[label], &[fd]) {
            Ok(_) => {
                drop(transfer::take_fd(fd));
                Ok(slot)
            }
            Err(error) if is_for_later(error) => Err(Error::AGAIN),
            Err(error) => Err(error),
        }
    }

    /// As `choose`, for `herd_handoff_send`. EAGAIN: none can take it now.
    fn choose_for_sent(
        &self,
        wanted: Option<u16>,
        peer: &libc::sockaddr_storage,
        peer_length: u32,
    ) -> Result<(u16, bool)> {
        let Some(number) = wanted else {
            return self.choose(None, peer, peer_length).ok_or(Error::AGAIN);
        };
        let slot = self.slot(number.into())?;
        slot.claim().pid().ok_or(Error::errno(libc::ESRCH))?;
        let takes = self.candidate(number, None).is_some() && slot.queue.reserve(WINDOW, now_us());
        if takes { Ok((number, true)) } else { Err(Error::AGAIN) }
    }

    // --- those who wait, and the dead ---

    /// A worker can take connections again: one that waits for that is woken.
    pub fn tell_waiting(&self) {
        let waiting = &self.region.handoff.waiting;
        if self.has_queues()
            && waiting.load(SeqCst) != 0
            && let Some(slot) = (waiting.swap(0, SeqCst) as u16).checked_sub(1)
            && usize::from(slot) < self.bells.len()
        {
            ask(self.region.slots(), &self.bells, slot, now_us());
        }
    }

    pub fn wait_for_taker(&self, slot: u16) {
        self.region.handoff.waiting.store(u64::from(slot) + 1, SeqCst);
    }

    /// Connections may be on their way to a worker that takes none: others are to see to them.
    pub fn ask_to_look(&self, queue_of: u16) {
        if self.has_queues() && self.line(queue_of).in_flight() > 0 {
            self.ask_another();
        }
    }

    pub fn is_any_on_its_way(&self) -> bool {
        self.region.slots().iter().any(|slot| slot.queue.in_flight() > 0)
    }

    /// An idle worker is to look; if it is stopped, or all are busy, the first that waits.
    pub fn ask_another(&self) {
        let slots = self.region.slots();
        if let Some((number, _)) = Neighbours::of_nobody().least_idle(slots) {
            ask(slots, &self.bells, number, now_us());
        }
        if self.is_coordinated() {
            self.demand_tick();
        }
    }

    /// After a death: nobody could read a queue while the dead one seems to.
    pub fn free_queues_of_dead(&self, number: u16, claim: Claim) {
        let reader = Herd::reader(number, claim);
        for slot in self.region.slots() {
            slot.queue.free_reader(reader);
        }
    }

    /// Lets the queues be read again that nobody reads: what stands there names no worker that there is.
    pub fn free_readers_of_nobody(&self) {
        if !self.has_queues() {
            return;
        }
        for slot in self.region.slots() {
            let reader = slot.queue.reader();
            if reader != 0 && !self.is_a_reader(reader) {
                slot.queue.free_reader(reader);
            }
        }
    }

    fn is_a_reader(&self, reader: u64) -> bool {
        let number = (reader >> 32).checked_sub(1).and_then(|number| u16::try_from(number).ok());
        number.is_some_and(|number| {
            let claim = self.region.slots().get(usize::from(number)).map(Slot::claim);
            let owned = claim.filter(|claim| claim.pid().is_some());
            owned.is_some_and(|claim| Herd::reader(number, claim) == reader)
        })
    }

    /// Raises the counts that are below what the kernel has: nobody would look for what is not
    /// counted. And sets those of empty queues to 0, as who looks at a queue does: nobody looks at the own
    /// one of a worker that is the only one, or that always gets the ticks.
    pub fn correct_counts(&self) -> Result<()> {
        for (slot, queue) in self.region.slots().iter().zip(&self.queues) {
            let line = &slot.queue;
            let counted = line.in_flight();
            let queued = handoff::queued(queue)?;
            // After that: who had taken what is counted, and has not said so, is still seen reading.
            let is_read = line.reader() != 0;
            let now_us = now_us();
            let is_empty = queued == 0 && !is_read;
            let is_settled = line.is_settled(now_us, self.settings.handover_delay_us);
            let right = if is_empty && is_settled { 0 } else { counted.max(queued) };
            line.correct(counted, right, now_us);
        }
        Ok(())
    }

    pub fn queue_count(&self) -> u16 {
        self.queues.len() as u16
    }

    pub fn slot_of(&self, number: u16) -> &Slot {
        &self.region.slots()[usize::from(number)]
    }
}

/// Whether a send can succeed later: no room in the socket, too many descriptors of this user on
/// their way (unix(7)), no memory.
pub fn is_for_later(error: Error) -> bool {
    [libc::EAGAIN, libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM].contains(&-error.code())
}
