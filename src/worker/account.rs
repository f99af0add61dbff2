//! What a worker counts of itself beyond single events: where its time goes, what woke it and
//! whether that led to anything. A turn reads the clock twice, once more when it gives the accept right
//! up, and once for each connection.

use super::Worker;
use crate::reactor::Queue;
use crate::shm::COUNTS;
use crate::shm::slot::{Counters, count};
use crate::sys::clock::now_us;
use crate::sys::{Error, Result, probes};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// What a wake-up was for.
#[derive(Clone, Copy, Default)]
pub struct Causes {
    pub listener: bool,
    pub event: bool,
    pub bell: bool,
    pub guard: bool,
}

#[derive(Default)]
pub struct Account {
    wait_began_us: Cell<u64>,
    is_waiting: Cell<bool>,
    woken_by: Cell<Causes>,
    /// The turn's wake-up led to something else than an accepted connection or the accept right:
    /// there is something to run.
    was_useful: Cell<bool>,
    /// `acquisitions` when the turn began.
    acquisitions: Cell<u64>,
    /// When the worker that asked this one did so.
    asked_us: Cell<u64>,
    /// Since when this worker waits, or has waited, with the accept right; 0: it has not.
    right_since_us: Cell<u64>,
}

impl Worker {
    pub(super) fn counters(&self) -> &Counters {
        &self.my_slot().counters
    }

    /// To be called before every wait; a host's loop can do so more than once for one of them.
    pub(super) fn wait_begins(&self) {
        if !COUNTS {
            return;
        }
        let now_us = now_us();
        let began_us = self.account.wait_began_us.replace(now_us);
        if self.account.is_waiting.replace(true) {
            count(&self.counters().waiting_us, now_us.saturating_sub(began_us));
            self.my_slot().now.waits_since(now_us);
            return;
        }
        let worked_us = now_us.saturating_sub(self.turn_began_us.get());
        count(&self.counters().busy_us, worked_us);
        self.times.turn_work.record(worked_us);
        let now = &self.my_slot().now;
        now.waits_since(now_us);
        now.note_posted(self.posted_count());
        if self.gate.as_ref().is_some_and(|gate| gate.holds(&self.lock))
            && self.account.right_since_us.get() == 0
        {
            self.account.right_since_us.set(now_us);
            now.right_since_us.store(now_us, Relaxed);
        }
    }

    pub(super) fn wait_began_us(&self) -> u64 {
        if COUNTS { self.account.wait_began_us.get() } else { now_us() }
    }

    /// To be called after every wait.
    pub(super) fn wait_ends(&self) {
        let now_us = now_us();
        self.turn_began_us.set(now_us);
        self.account.is_waiting.set(false);
        if !COUNTS {
            return;
        }
        let waited_us = now_us.saturating_sub(self.account.wait_began_us.get());
        count(&self.counters().waiting_us, waited_us);
        let now = &self.my_slot().now;
        now.is_busy_since(now_us);
        now.note_posted(self.posted_count());
    }

    fn posted_count(&self) -> u64 {
        [Queue::Events, Queue::Next]
            .map(|queue| self.reactor.posted_count(queue) as u64)
            .iter()
            .sum()
    }

    pub(super) fn note_wake_up(&self, causes: Causes) {
        if !COUNTS {
            return;
        }
        let counters = self.counters();
        count(&counters.wakeups_by_listener, causes.listener.into());
        count(&counters.wakeups_by_event, causes.event.into());
        count(&counters.wakeups_by_bell, causes.bell.into());
        count(&counters.wakeups_by_guard, causes.guard.into());
        let before = self.account.woken_by.get();
        self.account.woken_by.set(Causes {
            listener: causes.listener || before.listener,
            event: causes.event || before.event,
            bell: causes.bell || before.bell,
            guard: causes.guard || before.guard,
        });
        let has_more_to_do = self.reactor.posted_count(Queue::Events) > 0
            || self.remote().requests.load(Relaxed) != 0;
        if has_more_to_do {
            self.note_useful();
        }
    }

    pub(super) fn note_useful(&self) {
        self.account.was_useful.set(true);
    }

    /// A wake-up by a listener is wasted unless a connection was accepted in its turn; one by bell or
    /// guard alone, unless it led to anything at all.
    pub(super) fn end_last_turn(&self) {
        let causes = self.account.woken_by.take();
        let acquisitions = self.counters().acquisitions.load(Relaxed);
        let was_useful = self.account.was_useful.take()
            || self.account.acquisitions.replace(acquisitions) != acquisitions;
        if self.accepted_in_turn.replace(0) > 0 {
            return;
        }
        let counters = self.counters();
        match causes {
            Causes { listener: true, .. } => count(&counters.wasted_wakeups, 1),
            _ if was_useful || causes.event => {}
            Causes { guard: true, .. } => count(&counters.wasted_ticks, 1),
            Causes { bell: true, .. } => count(&counters.wasted_bells, 1),
            _ => {}
        }
    }

    pub(super) fn note_accept_time(&self) {
        if COUNTS {
            self.times.accept_delay.record(now_us().saturating_sub(self.turn_began_us.get()));
        }
    }

    /// To be called whenever the right was given up, or found to be taken away. Without a wait since
    /// it was acquired, there is nothing to record. Returns what it is told.
    #[inline(always)]
    pub(super) fn note_release(&self, was_held: bool) -> bool {
        let since_us = self.account.right_since_us.get();
        if since_us == 0 { was_held } else { self.record_release(since_us, was_held) }
    }

    #[inline(never)]
    fn record_release(&self, since_us: u64, was_held: bool) -> bool {
        self.account.right_since_us.set(0);
        self.my_slot().now.right_since_us.store(0, Relaxed);
        if was_held {
            let held_us = now_us().saturating_sub(since_us);
            self.times.right_held.record(held_us);
            probes::release(self.slot, held_us);
        }
        was_held
    }

    /// Another worker asked this one to accept.
    pub(super) fn note_asked(&self) {
        count(&self.counters().handovers_received, 1);
        self.account.asked_us.set(self.my_slot().asked_us());
    }

    /// This worker has done what it was asked for.
    pub(super) fn note_handed_over(&self) {
        if COUNTS {
            self.times.handover.record(now_us().saturating_sub(self.account.asked_us.get()));
        }
    }

    pub(super) fn count_back_off(&self, error: Error) {
        let counters = self.counters();
        count(&counters.backoffs, 1);
        let by_error = match -error.code() {
            libc::EMFILE => &counters.backoffs_emfile,
            libc::ENFILE => &counters.backoffs_enfile,
            libc::ENOBUFS => &counters.backoffs_enobufs,
            libc::ENOMEM => &counters.backoffs_enomem,
            _ => &counters.backoffs_other,
        };
        count(by_error, 1);
    }

    pub fn request_done(&self) -> Result<()> {
        self.check_slot()?;
        count(&self.counters().requests, 1);
        Ok(())
    }
}
