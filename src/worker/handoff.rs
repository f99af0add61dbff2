//! A worker that passes on what it accepted. How it receives what others pass on is in `receiving`.

use super::Worker;
use crate::accept::acceptor::Accepted;
use crate::accept::choice::Giver;
use crate::accept::handoff::{WINDOW, label};
use crate::accept::listener::{Acceptance, Delivery};
use crate::herd::Herd;
use crate::herd::handoff::is_for_later;
use crate::log::Task;
use crate::reactor::Queue;
use crate::shm::slot::count;
use crate::sys::clock::now_us;
use crate::sys::of_process::OfProcess;
use crate::sys::socket::Connection;
use crate::sys::transfer::{Label, SENT_AT_ONCE_MAX};
use crate::sys::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;

/// What one turn brings besides the batch that is accepted: the own queue, and those of others.
pub(super) const RECEIVED_PER_TURN: usize = 2 * WINDOW as usize;

struct Chosen {
    slot: u16,
    is_named: bool,
    accepted: Accepted,
}

pub(super) struct Passing {
    pub(super) of_sent: Acceptance,
    /// Accepted, and not given to anybody.
    pending: OfProcess<RefCell<VecDeque<Accepted>>>,
    /// Those of them that are about to be sent, and where.
    chosen: OfProcess<RefCell<Vec<Chosen>>>,
    /// When to try again with those that nobody could take.
    retry_at_us: Cell<Option<u64>>,
    pub(super) watches_queue: Cell<bool>,
    pub(super) queue_ready: Cell<bool>,
    /// Until when the own queue is left alone.
    pub(super) queue_paused_until_us: Cell<Option<u64>>,
    /// When to look at the queues of others again.
    pub(super) next_look_us: Cell<Option<u64>>,
    pub(super) asked_others_us: Cell<Option<u64>>,
    /// Until when this worker looks after what it gives, since another was found to stand still: it may not
    /// be the only one.
    wary_until_us: Cell<u64>,
}

impl Passing {
    /// Room for all that a turn needs.
    pub fn new(herd: &Herd) -> Result<Passing> {
        let batch = herd.settings.accept_batch as usize;
        let mut pending = VecDeque::new();
        pending.try_reserve_exact(batch).map_err(|_| Error::NO_MEMORY)?;
        let mut chosen = Vec::new();
        chosen.try_reserve_exact(batch).map_err(|_| Error::NO_MEMORY)?;
        Ok(Passing {
            of_sent: herd.sent_acceptance()?,
            pending: OfProcess::new(RefCell::new(pending))?,
            chosen: OfProcess::new(RefCell::new(chosen))?,
            retry_at_us: Cell::new(None),
            watches_queue: Cell::new(false),
            queue_ready: Cell::new(false),
            queue_paused_until_us: Cell::new(None),
            next_look_us: Cell::new(None),
            asked_others_us: Cell::new(None),
            wary_until_us: Cell::new(0),
        })
    }

    pub fn pending_count(&self) -> usize {
        self.pending.borrow().len()
    }

    pub fn forget_retry(&self) {
        self.retry_at_us.set(None);
    }

    pub fn set_queue_ready(&self) {
        self.queue_ready.set(true);
    }

    pub fn has_received(&self) -> bool {
        self.queue_ready.get()
    }

    /// Times of its own at which the worker has to look again.
    pub fn deadlines_us(&self) -> [Option<u64>; 3] {
        let paused_until_us = self.queue_paused_until_us.get();
        [self.retry_at_us.get(), self.next_look_us.get(), paused_until_us]
    }
}

impl Worker {
    // --- giving ---

    /// None: its slot is another worker's by now, so it has none to take a connection itself.
    fn giver(&self) -> Option<Giver> {
        let is_idle = self.reactor.posted_count(Queue::Events) == 0;
        self.check_slot().is_ok().then_some(Giver { slot: self.slot, is_idle })
    }

    /// Accepts for others, and serves only while there are none.
    pub(super) fn only_accepts(&self) -> bool {
        self.herd.passes_on() && self.herd.settings.acceptor_slot == Some(self.slot)
    }

    /// Keeps a connection that this worker has just accepted, for the host or to be passed on.
    pub(super) fn take_in(&self, accepted: Accepted) {
        if self.herd.passes_on() {
            self.passing.pending.borrow_mut().push_back(accepted);
        } else {
            self.keep(accepted);
        }
    }

    pub(super) fn keep(&self, accepted: Accepted) {
        self.connection_opened();
        self.acceptor.keep(accepted);
    }

    /// For a worker that only accepts. False: nobody could take another connection, and it is woken
    /// when somebody can.
    pub(super) fn can_give(&self) -> bool {
        self.pass_on();
        let can = || self.passing.pending_count() == 0 && self.herd.has_taker(self.giver());
        if can() {
            self.passing.retry_at_us.set(None);
            return true;
        }
        // First it says that it waits, then it looks once more: who takes one does it the other way
        // round.
        self.herd.wait_for_taker(self.slot);
        if can() {
            return true;
        }
        self.try_again_later();
        false
    }

    fn try_again_later(&self) {
        let passing = &self.passing;
        if passing.retry_at_us.get().is_none_or(|at_us| at_us <= now_us()) {
            passing.retry_at_us.set(Some(now_us() + self.herd.settings.accept_delay_us));
        }
    }

    /// Gives what was accepted to the workers that are to serve it. What nobody can take is kept and
    /// tried again when somebody can. An error must not keep the host from what it already has: it is said
    /// in the log, and accepting is left to others for a while.
    pub(super) fn pass_on(&self) {
        self.pass_on_as(self.giver());
    }

    /// For a worker that ends: to others only. What nobody can take now is closed with it.
    pub(super) fn pass_on_at_end(&self) {
        self.passing.forget_retry();
        self.pass_on_as(None);
    }

    fn pass_on_as(&self, giver: Option<Giver>) {
        let passing = &self.passing;
        let waits = passing.retry_at_us.get().is_some_and(|at_us| now_us() < at_us);
        if passing.pending_count() == 0 || waits {
            return;
        }
        passing.retry_at_us.set(None);
        let mut given = self.give_pending(giver);
        if passing.pending_count() > 0 {
            self.herd.wait_for_taker(self.slot);
            given = given.and(self.give_pending(giver));
        }
        if let Err(error) = given {
            self.back_off(Task::PassOn, error);
        }
        if passing.pending_count() > 0 {
            count(&self.counters().handoff_deferred, 1);
            self.try_again_later();
        }
    }

    fn give_pending(&self, giver: Option<Giver>) -> Result<()> {
        let passing = &self.passing;
        loop {
            let Some(next) = passing.pending.borrow_mut().pop_front() else { break };
            let Connection { peer, peer_length, .. } = &next.connection;
            match self.herd.choose(giver, peer, *peer_length) {
                Some((slot, _)) if giver.is_some_and(|giver| giver.slot == slot) => self.keep(next),
                Some((slot, is_named)) => {
                    passing.chosen.borrow_mut().push(Chosen { slot, is_named, accepted: next });
                }
                None => {
                    passing.pending.borrow_mut().push_front(next);
                    break;
                }
            }
        }
        let mut result = Ok(());
        loop {
            let first = passing.chosen.borrow().first().map(|first| first.slot);
            let Some(slot) = first else { return result };
            result = result.and(self.send_chosen(slot, giver));
        }
    }

    /// Sends the chosen connections of one slot with one call. The kernel has its own references to
    /// them from then on, so they are closed here: the client sees the end of the connection when its
    /// worker closes it.
    fn send_chosen(&self, slot: u16, giver: Option<Giver>) -> Result<()> {
        let mut chosen = self.passing.chosen.borrow_mut();
        let mut labels = [Label::EMPTY; SENT_AT_ONCE_MAX];
        let mut fds = [-1; SENT_AT_ONCE_MAX];
        let mut number = 0;
        let of_slot = chosen.iter().filter(|to| to.slot == slot).take(SENT_AT_ONCE_MAX);
        for Chosen { is_named, accepted, .. } in of_slot {
            let Accepted { connection, origin, .. } = accepted;
            labels[number] = label(origin, *is_named, &connection.peer, connection.peer_length);
            fds[number] = connection.fd.as_raw_fd();
            number += 1;
        }
        let sent = self.herd.send(slot, &labels[..number], &fds[..number]);
        let mut left = number;
        let mut tried = chosen.extract_if(.., |to| {
            let is_of_call = to.slot == slot && left > 0;
            left -= usize::from(is_of_call);
            is_of_call
        });
        tried.by_ref().take(sent.unwrap_or(0)).for_each(drop);
        let mut pending = self.passing.pending.borrow_mut();
        for Chosen { accepted, .. } in tried {
            let takes = giver.is_some() && !self.only_accepts();
            if takes && self.my_slot().open() < self.capacity() {
                self.keep(accepted);
            } else {
                pending.push_back(accepted);
            }
        }
        let now_us = now_us();
        if now_us < self.passing.wary_until_us.get() {
            self.look_again_at(now_us + self.herd.settings.handover_delay_us);
        }
        match sent {
            Err(error) if !is_for_later(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// A worker was found to stand still.
    pub(super) fn grow_wary(&self) {
        self.passing.wary_until_us.set(now_us() + self.herd.settings.accept_delay_us);
    }

    /// Connections that this worker has and the host has not.
    pub(super) fn undelivered_count(&self) -> usize {
        let kept = [Delivery::Push, Delivery::Pull].map(|by| self.acceptor.kept_count(by));
        kept.iter().sum::<usize>() + self.passing.pending_count()
    }
}
