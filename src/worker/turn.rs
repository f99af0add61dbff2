//! The turn, in nginx's order (ngx_process_events_and_timers in ngx_event.c), and its parts.

use super::account::Causes;
use super::conduct::Conduct;
use super::hosted::Waits;
use super::right::Asked;
use super::{Phase, Worker};
use crate::abi::HERD_POST_EVENTS;
use crate::accept::acceptor::{Accepted, NoConnection};
use crate::accept::balance::Stance;
use crate::accept::handoff::Origin;
use crate::accept::listener::{self, Delivery};
use crate::accept::protocol::{self, BeforeWait};
use crate::log::{Recurring, Task};
use crate::reactor::{Queue, Source};
use crate::shm::slot::{State, count};
use crate::sys::clock::timeout_until_ms;
use crate::sys::{Error, Result, probes};
use std::os::fd::AsRawFd;

impl Worker {
    /// One turn of a loop of the host's. Returns the number of connections, events and timers that
    /// were handled.
    pub fn run_once(&self, timeout_ms: i32) -> Result<usize> {
        check_timeout(timeout_ms)?;
        self.refuse_host_loop()?;
        self.trylock()?;
        let waited = self.wait(timeout_ms);
        self.host_goes_on.set(true);
        self.finish(waited)
    }

    /// Turns until the worker has stopped or drained. The host gets the thread in handlers only.
    pub fn run(&self) -> Result<usize> {
        self.refuse_host_loop()?;
        while self.phase() < Phase::Drained {
            self.trylock()?;
            let waited = self.wait(-1);
            self.finish(waited)?;
            // A handler can have met a defect of the library, or be in a child that it forked.
            self.check_usable()?;
        }
        // The host may take its time until it destroys the worker.
        self.step_back(Stance::Refuse);
        Ok(0)
    }

    /// The turn after its wait.
    pub(super) fn finish(&self, waited: Result<usize>) -> Result<usize> {
        let accepted = self.accept_and_unlock(waited);
        let handled = self.deliver()
            + self.reactor.run_timers(self.handle)
            + self.reactor.run_posted(self.handle, Queue::Events);
        accepted.map(|_| handled)
    }

    /// Whatever fails, the right is not kept while handlers run, nor while the host looks at the error for
    /// as long as it likes.
    fn accept_and_unlock(&self, waited: Result<usize>) -> Result<usize> {
        let accepted = waited.and_then(|_| self.accept_posted());
        if accepted.is_err() {
            self.host_goes_on.set(true);
        }
        self.unlock();
        accepted
    }

    /// Waits for events and sorts them. With HERD_POST_EVENTS that is all; without, the connections
    /// are accepted and all handlers run as well. Returns the number of events.
    pub fn process_events(&self, timeout_ms: i32, flags: u32) -> Result<usize> {
        check_timeout(timeout_ms)?;
        if flags & !HERD_POST_EVENTS != 0 {
            return Err(Error::INVALID);
        }
        self.refuse_host_loop()?;
        self.check_slot_in_turn()?;
        let waited = self.wait(timeout_ms);
        self.host_goes_on.set(true);
        if flags & HERD_POST_EVENTS == 0 {
            let accepted = self.accept_and_unlock(waited);
            self.run_posted(Queue::Events);
            accepted?;
        }
        waited
    }

    /// Runs expired timers, after the host got the connections that were accepted before.
    pub fn process_timers(&self) -> usize {
        self.deliver() + self.reactor.run_timers(self.handle)
    }

    /// Runs posted events, after the host got the connections that were accepted before.
    pub fn run_posted(&self, queue: Queue) -> usize {
        self.deliver() + self.reactor.run_posted(self.handle, queue)
    }

    /// Returns the number of events and ready listeners.
    fn wait(&self, timeout_ms: i32) -> Result<usize> {
        self.wait_announced(self.before_wait(timeout_ms))
    }

    /// Begins a turn, and tells the others that this worker is about to wait. Returns for how long at
    /// most.
    pub(super) fn before_wait(&self, timeout_ms: i32) -> i32 {
        self.end_last_turn();
        self.give_up_what_was_kept();
        self.wait_begins();
        let has_work = self.reactor.begin_turn(&self.remote().posted)
            || self.acceptor.has_kept() && self.acceptor.kept_count(Delivery::Push) > 0;
        let timeout_ms = if has_work { 0 } else { self.shortened(timeout_ms) };
        let must_not_wait =
            timeout_ms != 0 && (self.see_to_guard(self.wait_began_us()) || !self.announce_idle());
        if must_not_wait { 0 } else { timeout_ms }
    }

    pub(super) fn wait_announced(&self, timeout_ms: i32) -> Result<usize> {
        let events = self.wait_and_sort(timeout_ms)?;
        if self.conduct.get().asked.is_none() || !self.has_handlers_to_run() {
            return Ok(events);
        }
        // It was woken to accept, and has events of its own: their handlers can take long, so what it
        // was woken for comes first.
        self.trylock()?;
        self.wait_begins();
        Ok(events + self.wait_and_sort(0)?)
    }

    fn wait_and_sort(&self, timeout_ms: i32) -> Result<usize> {
        self.acceptor.begin_turn(self.batch());
        let mut bell_rang = false;
        let mut guard_ticked = false;
        let mut listeners_ready = false;
        let arrived = self.reactor.wait(timeout_ms, &self.remote().posted, |source| match source {
            Source::Bell => bell_rang = true,
            Source::Guard => guard_ticked = true,
            Source::Listeners => listeners_ready = true,
            Source::Listener(place) => self.acceptor.set_ready(place),
            Source::Queue => self.passing.set_queue_ready(),
        });
        // Before anything is taken that is for the slot's next worker.
        self.check_slot_in_turn()?;
        self.wait_ends();
        self.has_rung.set(false);
        if self.conduct.get().willing {
            self.set_state(State::Busy);
        }
        if self.my_slot().take_asked() {
            self.conduct.change(|own| own.asked = Some(Asked::ByBell));
            self.note_asked();
        }
        if self.my_slot().queue.clear_stuck() {
            self.herd.tell_waiting();
        }
        let arrived = arrived.inspect_err(|error| {
            // The set cannot be waited on: the host has closed a descriptor of the library's.
            self.herd.log.error(format_args!("slot {}: wait: {error}", self.slot));
            self.poison();
        })?;
        if arrived.misposted > 0 {
            let (slot, count) = (self.slot, arrived.misposted);
            self.herd.log.recurring(Recurring::EventsDropped, format_args!(
                "slot {slot}: {count} events dropped that were posted here and in use at another worker"
            ));
        }
        let counters = self.counters();
        count(&counters.turns, 1);
        count(&counters.wakeups, u64::from(arrived.total > 0));
        count(&counters.stale_events, arrived.stale as u64);
        if arrived.stale > 0 {
            // The set was made anew.
            self.come_home();
        }
        if listeners_ready
            && let Err(error) = self.arming.find_ready(|number| self.acceptor.set_ready(number))
        {
            self.rest_a_while(Task::FindReadyListeners, error);
        }
        let listeners = self.acceptor.ready_count();
        self.note_wake_up(Causes {
            listener: listeners > 0,
            event: arrived.host > 0,
            bell: bell_rang,
            guard: guard_ticked,
        });
        if self.herd.is_coordinated() {
            let now_us = self.turn_began_us.get();
            if guard_ticked {
                self.mind_guard(now_us);
            } else {
                self.see_to_guard(now_us);
            }
            self.look_at_queues();
        }
        Ok(arrived.host + listeners)
    }

    /// The host's timeout, or less if a timer or a time of the library's own comes first.
    fn shortened(&self, timeout_ms: i32) -> i32 {
        if timeout_ms == 0 {
            return 0;
        }
        let handover_delay_us = self.herd.settings.handover_delay_us;
        let Conduct { suspicion, back_off_until_us, .. } = self.conduct.get();
        let next_look_us = suspicion.next_look_us(handover_delay_us);
        let [retry_at_us, look_at_us, paused_until_us] = self.passing.deadlines_us();
        let deadlines = [
            self.reactor.next_deadline_us(),
            back_off_until_us,
            next_look_us,
            retry_at_us,
            look_at_us,
            paused_until_us,
        ];
        let earliest_us =
            deadlines.map(|us| us.unwrap_or(u64::MAX)).into_iter().fold(u64::MAX, u64::min);
        if earliest_us == u64::MAX {
            return timeout_ms;
        }
        let until_ms = timeout_until_ms(earliest_us, self.wait_began_us());
        if timeout_ms < 0 { until_ms } else { timeout_ms.min(until_ms) }
    }

    /// Tells the others that this worker is about to wait. False: it must not, since the accept
    /// right has become free.
    fn announce_idle(&self) -> bool {
        if self.gate.is_none() {
            if self.conduct.get().willing {
                self.set_state(State::Idle);
            }
            return true;
        }
        let lock = &self.lock;
        match protocol::go_idle(self.my_slot(), lock, self.condition()) {
            BeforeWait::Wait => true,
            BeforeWait::TryAgain => false,
            BeforeWait::PullGuardIn => {
                self.pull_guard_in();
                true
            }
        }
    }

    /// Whether something will run once the accept right is given up: the turn's handlers, or what
    /// the host does with connections that it took by itself, or may do where its own loop waits.
    pub(super) fn has_handlers_to_run(&self) -> bool {
        self.waits.get() != Waits::Itself
            || self.accepted_in_turn.get() > 0
            || self.acceptor.has_kept()
            || self.passing.has_received()
            || self.has_events_to_run()
    }

    #[inline(always)]
    pub(super) fn has_events_to_run(&self) -> bool {
        self.reactor.posted_count(Queue::Events) > 0
            || self.reactor.next_deadline_us().is_some_and(|us| us <= self.turn_began_us.get())
    }

    // --- accepting ---

    /// Accepts from the listeners that are ready, up to the batch, and keeps the connections for
    /// `deliver`. Returns their number.
    pub fn accept_posted(&self) -> Result<usize> {
        self.check_slot_in_turn()?;
        let mut accepted = 0;
        while self.acceptor.ready_count() > 0 {
            match self.accept_one(|_| true)? {
                Some(connection) => self.take_in(connection),
                None => break,
            }
            accepted += 1;
        }
        Ok(accepted)
    }

    /// The next connection of a listener without a callback: one that is kept, or one taken from
    /// its backlog now.
    pub fn accept_pulled(&self) -> Result<Accepted> {
        self.check_slot_in_turn()?;
        let is_pulled = |place| {
            self.arming.listener(place).is_some_and(|l| l.acceptance.delivery() == Delivery::Pull)
        };
        loop {
            self.receive();
            if let Some(kept) = self.acceptor.take_kept(Delivery::Pull) {
                return Ok(kept);
            }
            self.take_in(self.accept_one(is_pulled)?.ok_or(Error::AGAIN)?);
            self.pass_on();
        }
    }

    fn accept_one(&self, eligible: impl Fn(u16) -> bool) -> Result<Option<Accepted>> {
        // Here and not before the wait: the host may have opened connections since.
        let open = self.my_slot().open().saturating_add(self.passing.pending_count() as u64);
        if open >= self.capacity() && !self.only_accepts() {
            return Ok(None);
        }
        match self.acceptor.accept_one(&self.arming, self.counters(), eligible) {
            Ok(accepted) => {
                count(&self.counters().accepted, 1);
                self.note_accept_time();
                self.note_accept(accepted.place);
                self.note_arrival(accepted.place);
                if let Origin::Listener(number) = accepted.origin {
                    let fd = accepted.connection.fd.as_raw_fd();
                    probes::accept(self.slot, number, fd, self.my_slot().open());
                }
                Ok(Some(accepted))
            }
            Err(NoConnection::Empty) => Ok(None),
            Err(NoConnection::BackOff(error)) => {
                self.back_off(Task::Accept, error);
                Ok(None)
            }
            Err(NoConnection::Fatal { place, error }) => {
                let name = self.arming.listener(place).map_or("", |l| l.name.as_str());
                let slot = self.slot;
                self.herd.log.error(format_args!("slot {slot}: accept from {name}: {error}"));
                self.arming.give_up(&self.reactor, place);
                self.conduct.look_closer();
                self.come_home();
                Err(error)
            }
        }
    }

    /// A batch that is shared out saves messages while connections come fast. Otherwise there is one,
    /// and looking for a second would be a system call for nothing.
    pub(super) fn batch(&self) -> u32 {
        let settings = &self.herd.settings;
        if settings.adapts_batch && !self.pace.is_fast() { 1 } else { settings.accept_batch }
    }

    fn note_accept(&self, place: u16) {
        self.accepted_from.set(place);
        if self.accepted_in_turn.replace(self.accepted_in_turn.get() + 1) == 0 {
            self.pace.note_accept(self.turn_began_us.get());
        }
    }

    /// Hands kept connections to the host's callbacks. Returns their number. One that is added
    /// meanwhile waits for the next call.
    fn deliver(&self) -> usize {
        self.take_what_was_passed_on();
        if !self.acceptor.has_kept() {
            return 0;
        }
        let most = self.acceptor.kept_count(Delivery::Push);
        for _ in 0..most {
            if let Some(kept) = self.acceptor.take_kept(Delivery::Push) {
                listener::deliver(kept, self.handle);
            }
        }
        most
    }
}

pub(super) fn check_timeout(timeout_ms: i32) -> Result<()> {
    if timeout_ms < -1 { Err(Error::INVALID) } else { Ok(()) }
}
