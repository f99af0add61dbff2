//! One worker: its turn in nginx's order (ngx_process_events_and_timers in ngx_event.c), put
//! together from reactor, accept and the herd. The hand-written recipe of the C API and
//! `run_once` are the same calls.

use crate::abi::{HERD_POST_EVENTS, herd_event, herd_worker};
use crate::accept::acceptor::{Accepted, Acceptor, NoConnection};
use crate::accept::arming::Arming;
use crate::accept::balance::{self, Stance, Standing};
use crate::accept::gate::Gate;
use crate::accept::guard::{self, Sighting, Suspicion, Verdict};
use crate::accept::listener::{self, Delivery};
use crate::herd::{Herd, Remote};
use crate::reactor::remote::Posted;
use crate::reactor::{Queue, Reactor, Source};
use crate::shm::lock::Word;
use crate::shm::slot::{Claim, Counters, Slot, State, count};
use crate::sys::clock::{now_us, timeout_until_ms};
use crate::sys::fork::ForkToken;
use crate::sys::{Error, Result, epoll};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How far a worker is with its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    Running,
    /// Accepts no more, and serves the connections that it has.
    Draining,
    /// Draining, and no connection is left.
    Drained,
    Stopped,
}

pub struct Worker {
    herd: Arc<Herd>,
    slot: u16,
    claim: Claim,
    process: ForkToken,
    /// What the host knows this worker by; handed to its callbacks.
    handle: *mut herd_worker,
    reactor: Reactor,
    arming: Arming,
    acceptor: Acceptor,
    /// None: there is nobody to compete with for the accept right.
    gate: Option<Gate>,
    /// Tries for the accept right still to be left to others (nginx: ngx_accept_disabled).
    accept_disabled: Cell<u64>,
    back_off_until_us: Cell<Option<u64>>,
    /// Tried for the accept right when it last could.
    competes: Cell<bool>,
    watches_guard: Cell<bool>,
    /// A guard tick woke this worker, or a back-off ended: its next try comes first, and if the
    /// right is held, it looks whether the holder makes progress.
    looks_after_herd: Cell<bool>,
    suspicion: Cell<Suspicion>,
    look_again_at_us: Cell<Option<u64>>,
    woken_by_listener: Cell<bool>,
    accepted_in_turn: Cell<u32>,
    in_loop: Cell<bool>,
    poisoned: Cell<bool>,
}

/// Held while the loop runs, so that a callback that calls the loop anew is told.
pub struct InLoop<'a>(&'a Cell<bool>);

impl Drop for InLoop<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Worker {
    /// Takes `slot`, or any free one, for the calling process. `handle_of` tells what the host will
    /// know the worker of a slot by.
    pub fn new(
        herd: &Arc<Herd>,
        slot: Option<u16>,
        handle_of: impl Fn(u16) -> *mut herd_worker,
    ) -> Result<Worker> {
        let settings = &herd.settings;
        let process = ForkToken::current()?;
        let listeners = herd.listeners();
        let acceptor = Acceptor::new(listeners.len(), settings.accept_batch)?;
        let (slot, claim) = claim_slot(herd, slot)?;
        let expected = settings.worker_connections as usize + listeners.len();
        let worker = Reactor::new(slot + 1, expected).map(|reactor| Worker {
            herd: herd.clone(),
            slot,
            claim,
            process,
            handle: handle_of(slot),
            reactor,
            arming: Arming::new(listeners),
            acceptor,
            gate: settings.has_accept_right().then(|| Gate::new(slot)),
            accept_disabled: Cell::new(0),
            back_off_until_us: Cell::new(None),
            competes: Cell::new(false),
            watches_guard: Cell::new(false),
            looks_after_herd: Cell::new(false),
            suspicion: Cell::default(),
            look_again_at_us: Cell::new(None),
            woken_by_listener: Cell::new(false),
            accepted_in_turn: Cell::new(0),
            in_loop: Cell::new(false),
            poisoned: Cell::new(false),
        });
        let worker = worker.inspect_err(|_| {
            herd.region.slots()[usize::from(slot)].free(claim);
        })?;
        // From here on dropping the worker gives the slot back.
        worker.remote().requests.store(0, SeqCst);
        worker.remote().posted.forget();
        let bell = herd.bells[usize::from(slot)].fd();
        worker.reactor.watch(bell, epoll::IN | epoll::EDGE, Source::Bell)?;
        if worker.gate.is_some() {
            herd.arm_guard_if_overdue(now_us())?;
        }
        Ok(worker)
    }

    pub fn slot_number(&self) -> u16 {
        self.slot
    }

    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub fn herd(&self) -> &Herd {
        &self.herd
    }

    pub fn remote(&self) -> &Remote {
        &self.herd.remotes[usize::from(self.slot)]
    }

    fn my_slot(&self) -> &Slot {
        &self.herd.region.slots()[usize::from(self.slot)]
    }

    fn counters(&self) -> &Counters {
        &self.my_slot().counters
    }

    // --- life ---

    /// Whether this process may use the worker at all.
    pub fn check_usable(&self) -> Result<()> {
        if !self.process.is_current() {
            Err(Error::FORKED)
        } else if self.poisoned.get() {
            Err(Error::POISONED)
        } else {
            Ok(())
        }
    }

    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// Marks the loop as running. An error: it runs already, and a callback of it is calling.
    pub fn enter(&self) -> Result<InLoop<'_>> {
        if self.in_loop.replace(true) {
            return Err(Error::REENTERED);
        }
        Ok(InLoop(&self.in_loop))
    }

    pub fn is_in_loop(&self) -> bool {
        self.in_loop.get()
    }

    /// After a defect of the library: nothing of this worker may stand in another's way.
    pub fn poison(&self) {
        self.poisoned.set(true);
        self.my_slot().set_state(State::Resting);
        self.step_back(Stance::Refuse).unwrap_or_else(|error| {
            self.herd.log.error(format_args!("slot {}: stepping back: {error}", self.slot));
        });
    }

    /// Asks the worker to stop or to drain. Any thread, and signal handlers.
    pub fn request(&self, request: u32) {
        self.remote().requests.fetch_or(request, SeqCst);
        self.ring();
    }

    /// Posts an event and wakes the worker. Any thread, and signal handlers.
    pub fn post_remote(&self, event: *mut herd_event) -> Result<bool> {
        let posted = self.remote().posted.push(event)?;
        if posted == Posted::First {
            self.ring();
        }
        Ok(posted != Posted::Already)
    }

    fn ring(&self) {
        self.herd.bells[usize::from(self.slot)].ring();
    }

    pub fn phase(&self) -> Phase {
        let requests = self.remote().requests.load(SeqCst);
        if requests & Remote::STOP != 0 {
            Phase::Stopped
        } else if requests & Remote::DRAIN == 0 {
            Phase::Running
        } else if self.my_slot().open() > 0 {
            Phase::Draining
        } else {
            Phase::Drained
        }
    }

    /// The slot can be taken away from a worker that was reported dead by mistake.
    fn check_slot(&self) -> Result<()> {
        if self.my_slot().claim() == self.claim { Ok(()) } else { Err(Error::REAPED) }
    }

    // --- the accept right ---

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

    fn capacity(&self) -> u64 {
        u64::from(self.herd.settings.worker_connections)
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
    fn step_back(&self, stance: Stance) -> Result<()> {
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
        crate::sys::socket::any_readable(self.arming.usable().map(|(_, l)| l.fd.as_raw_fd()))
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

    // --- the turn ---

    /// One turn. Returns the number of connections, events and timers that were handled.
    pub fn run_once(&self, timeout_ms: i32) -> Result<usize> {
        check_timeout(timeout_ms)?;
        self.trylock()?;
        let waited = self.wait(timeout_ms);
        let accepted = waited.and_then(|_| self.accept_posted());
        // Whatever failed, the right is not kept while handlers run or the host looks at the error.
        let unlocked = self.unlock();
        let handled = self.deliver()
            + self.reactor.run_timers(self.handle)
            + self.reactor.run_posted(self.handle, Queue::Events);
        accepted.and(unlocked)?;
        Ok(handled)
    }

    /// Waits for events and sorts them. With HERD_POST_EVENTS that is all; without, the connections
    /// are accepted and all handlers run as well. Returns the number of events.
    pub fn process_events(&self, timeout_ms: i32, flags: u32) -> Result<usize> {
        check_timeout(timeout_ms)?;
        if flags & !HERD_POST_EVENTS != 0 {
            return Err(Error::INVALID);
        }
        self.check_slot()?;
        let events = self.wait(timeout_ms)?;
        if flags & HERD_POST_EVENTS == 0 {
            let accepted = self.accept_posted();
            let unlocked = self.unlock();
            self.run_posted(Queue::Events);
            accepted.and(unlocked)?;
        }
        Ok(events)
    }

    /// Runs expired timers, after the host got the connections that were accepted before.
    pub fn process_timers(&self) -> usize {
        self.deliver() + self.reactor.run_timers(self.handle)
    }

    /// Runs posted events, after the host got the connections that were accepted before.
    pub fn run_posted(&self, queue: Queue) -> usize {
        self.deliver() + self.reactor.run_posted(self.handle, queue)
    }

    fn wait(&self, timeout_ms: i32) -> Result<usize> {
        self.end_last_turn();
        let has_work = self.reactor.begin_turn(&self.remote().posted)
            || self.acceptor.kept_count(Delivery::Push) > 0;
        let room = self.capacity().saturating_sub(self.my_slot().open());
        let batch = u64::from(self.herd.settings.accept_batch);
        self.acceptor.begin_turn(room.min(batch) as u32);

        let mut timeout_ms = if has_work { 0 } else { self.shortened(timeout_ms) };
        if timeout_ms != 0 && !self.announce_idle() {
            timeout_ms = 0;
        }
        let mut guard_ticked = false;
        let mut listeners = 0;
        let arrived = self.reactor.wait(timeout_ms, &self.remote().posted, |source| match source {
            Source::Bell => {}
            Source::Guard => guard_ticked = true,
            Source::Listener(number) => {
                self.acceptor.set_ready(number);
                listeners += 1;
            }
        });
        self.my_slot().set_state(State::Busy);
        let arrived = arrived?;
        let counters = self.counters();
        count(&counters.turns, 1);
        count(&counters.wakeups, u64::from(arrived.total > 0));
        count(&counters.stale_events, arrived.stale as u64);
        self.woken_by_listener.set(listeners > 0);
        if self.gate.is_some() {
            self.mind_guard(guard_ticked)?;
        }
        Ok(arrived.host + listeners)
    }

    /// A wake-up by a listener is wasted unless a connection was accepted in its turn.
    fn end_last_turn(&self) {
        if self.woken_by_listener.replace(false) && self.accepted_in_turn.get() == 0 {
            count(&self.counters().wasted_wakeups, 1);
        }
        self.accepted_in_turn.set(0);
    }

    /// The host's timeout, or less if a timer or a time of the library's own comes first.
    fn shortened(&self, timeout_ms: i32) -> i32 {
        let own = [self.back_off_until_us.get(), self.look_again_at_us.get()];
        let earliest = own.into_iter().chain([self.reactor.next_deadline_us()]).flatten().min();
        match earliest {
            None => timeout_ms,
            Some(deadline_us) => {
                let until_ms = timeout_until_ms(deadline_us, now_us());
                if timeout_ms < 0 { until_ms } else { timeout_ms.min(until_ms) }
            }
        }
    }

    /// Tells the others that this worker is about to wait. False: it must not, since the accept
    /// right has become free. A worker that gives the right up frees the word before it looks for
    /// an idle one; this one says that it is idle before it looks at the word: so they cannot miss
    /// each other.
    fn announce_idle(&self) -> bool {
        let competes = self.competes.get();
        self.my_slot().set_state(if competes { State::Idle } else { State::Resting });
        self.gate.is_none() || !competes || self.herd.region.lock.word().holder().is_some()
    }

    fn mind_guard(&self, ticked: bool) -> Result<()> {
        let Herd { guard, region, settings, .. } = &*self.herd;
        let interval_us = settings.accept_delay_us;
        let now_us = now_us();
        if ticked && guard::take_tick(guard, region, now_us, interval_us)? {
            count(&self.counters().guard_ticks, 1);
            self.looks_after_herd.set(true);
        }
        self.herd.arm_guard_if_overdue(now_us)
    }

    // --- accepting ---

    /// Accepts from the listeners that are ready, up to the batch, and keeps the connections for
    /// `deliver`. Returns their number.
    pub fn accept_posted(&self) -> Result<usize> {
        let mut accepted = 0;
        while self.acceptor.ready_count() > 0 {
            match self.accept_one(|_| true)? {
                Some(connection) => self.acceptor.keep(connection),
                None => break,
            }
            accepted += 1;
        }
        Ok(accepted)
    }

    /// The next connection of a listener without a callback: one that is kept, or one taken from
    /// its backlog now.
    pub fn accept_pulled(&self) -> Result<Accepted> {
        if let Some(kept) = self.acceptor.take_kept(Delivery::Pull) {
            return Ok(kept);
        }
        let is_pulled = |number| {
            self.arming.listener(number).is_some_and(|l| l.acceptance.delivery() == Delivery::Pull)
        };
        self.accept_one(is_pulled)?.ok_or(Error::AGAIN)
    }

    fn accept_one(&self, eligible: impl Fn(u16) -> bool) -> Result<Option<Accepted>> {
        match self.acceptor.accept_one(&self.arming, self.counters(), eligible) {
            Ok(accepted) => {
                count(&self.counters().accepted, 1);
                self.accepted_in_turn.set(self.accepted_in_turn.get() + 1);
                self.connection_opened();
                Ok(Some(accepted))
            }
            Err(NoConnection::Empty) => Ok(None),
            Err(NoConnection::BackOff(error)) => {
                let settings = &self.herd.settings;
                self.back_off_until_us.set(Some(now_us() + settings.accept_delay_us));
                count(&self.counters().backoffs, 1);
                let ms = settings.accept_delay_us / 1000;
                self.herd.log.warning(format_args!(
                    "slot {}: accept: {error}: others accept for {ms} ms",
                    self.slot
                ));
                Ok(None)
            }
            Err(NoConnection::Fatal { listener, error }) => {
                let name = self.arming.listener(listener).map_or("", |l| l.name.as_str());
                let slot = self.slot;
                self.herd.log.error(format_args!("slot {slot}: accept from {name}: {error}"));
                self.arming.give_up(&self.reactor, listener);
                Err(error)
            }
        }
    }

    /// Hands kept connections to the host's callbacks. Returns their number. One that is added
    /// meanwhile waits for the next call.
    fn deliver(&self) -> usize {
        let most = self.acceptor.kept_count(Delivery::Push);
        for _ in 0..most {
            if let Some(kept) = self.acceptor.take_kept(Delivery::Push) {
                listener::deliver(kept.acceptance, self.handle, kept.connection);
            }
        }
        most
    }

    // --- load ---

    pub fn connection_opened(&self) {
        let open = self.my_slot().open() + 1;
        self.my_slot().set_open(open);
        self.accept_disabled.set(balance::accept_disabled(self.capacity(), open));
    }

    pub fn connection_closed(&self) -> Result<()> {
        let open = self.my_slot().open().checked_sub(1).ok_or(Error::errno(libc::ERANGE))?;
        self.my_slot().set_open(open);
        count(&self.counters().closed, 1);
        Ok(())
    }

    pub fn set_load(&self, load: Option<u64>) {
        self.my_slot().set_host_load(load);
    }

    pub fn connections_open(&self) -> u64 {
        self.my_slot().open()
    }
}

impl Drop for Worker {
    /// Gives the accept right and the slot back and wakes another worker. In a forked child only
    /// the child's copies of descriptors and memory go.
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        self.end_last_turn();
        if self.check_slot().is_ok() {
            // Its errors can only come from descriptors that are closed next.
            let _ = self.step_back(Stance::Refuse);
            self.my_slot().free(self.claim);
        }
        let kept = [Delivery::Push, Delivery::Pull].map(|by| self.acceptor.kept_count(by));
        let lost: usize = kept.iter().sum();
        if lost > 0 {
            self.herd.log.warning(format_args!(
                "slot {}: {lost} accepted connections closed that the host had not taken",
                self.slot
            ));
        }
        self.remote().posted.forget();
    }
}

fn check_timeout(timeout_ms: i32) -> Result<()> {
    if timeout_ms < -1 { Err(Error::INVALID) } else { Ok(()) }
}

fn claim_slot(herd: &Herd, wanted: Option<u16>) -> Result<(u16, Claim)> {
    let pid = std::process::id();
    match wanted {
        Some(number) => {
            let claim = herd.slot(usize::from(number))?.try_claim(pid).ok_or(Error::BUSY)?;
            Ok((number, claim))
        }
        None => {
            let slots = herd.region.slots().iter().zip(0u16..);
            let mut claimed =
                slots.filter_map(|(slot, number)| slot.try_claim(pid).map(|claim| (number, claim)));
            claimed.next().ok_or(Error::NO_SLOT)
        }
    }
}
