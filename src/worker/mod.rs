//! One worker: what it is made of, its life, and what other threads ask of it. Its turn is in
//! `turn`, and in `hosted` where a loop of the host's waits; its part in the accept right is in `right`,
//! `handover` and `guarding`, in passing connections on in `handoff` and `receiving`; together they
//! put reactor, accept and herd to work. The hand-written recipe of the C API and `run_once` are the
//! same calls.

mod account;
mod conduct;
mod guarding;
mod handoff;
mod handover;
mod home;
mod hosted;
mod receiving;
mod right;
mod turn;

use crate::abi::{herd_event, herd_worker};
use crate::accept::acceptor::Acceptor;
use crate::accept::arming::Arming;
use crate::accept::balance::{self, Stance};
use crate::accept::gate::Gate;
use crate::accept::neighbours::{Lookout, Neighbours};
use crate::accept::pace::Pace;
use crate::herd::{Herd, Remote};
use crate::log::{Recurring, Task};
use crate::reactor::remote::Posted;
use crate::reactor::{Reactor, Source};
use crate::shm::Part;
use crate::shm::lock::AcceptLock;
use crate::shm::slot::{Claim, Slot, count};
use crate::shm::times::Times;
use crate::sys::clock::now_us;
use crate::sys::fork::ForkToken;
use crate::sys::{Error, Result, epoll};
use account::Account;
use conduct::ConductCell;
use handoff::{Passing, RECEIVED_PER_TURN};
use home::Home;
use hosted::Waits;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

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

/// Descriptors for which tables are made in advance, at most: a host may set worker_connections far
/// above what it ever has.
const EXPECTED_AT_MOST: u32 = 1 << 16;

pub struct Worker {
    herd: Arc<Herd>,
    slot: u16,
    claim: Claim,
    /// The slot's line in shared memory.
    line: Part<Slot>,
    times: Part<Times>,
    lock: Part<AcceptLock>,
    remote: Arc<Remote>,
    process: ForkToken,
    /// What the host knows this worker by; handed to its callbacks.
    handle: *mut herd_worker,
    reactor: Reactor,
    arming: Arming,
    acceptor: Acceptor,
    passing: Passing,
    /// None: the workers do not compete for the lock.
    gate: Option<Gate>,
    neighbours: Neighbours,
    /// When to look for a worker that should have the right instead.
    lookout: Lookout,
    conduct: ConductCell,
    /// Has rung another worker since its last wait.
    has_rung: Cell<bool>,
    turn_began_us: Cell<u64>,
    pace: Pace,
    /// The place of the socket that it last accepted from.
    accepted_from: Cell<u16>,
    account: Account,
    home: Home,
    accepted_in_turn: Cell<u32>,
    waits: Cell<Waits>,
    /// A wait is over whose turn the host made: once the right is given up, code of the host's may run for
    /// as long as it likes.
    host_goes_on: Cell<bool>,
    in_loop: Cell<bool>,
    /// Read by other threads too.
    poisoned: AtomicBool,
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
        let listeners = herd.listeners()?;
        let most_in_turn = settings.accept_batch as usize + RECEIVED_PER_TURN;
        let passing = Passing::new(herd)?;
        let (slot, claim) = herd.claim_slot(slot)?;
        let expected = settings.worker_connections.min(EXPECTED_AT_MOST) as usize;
        let made = Reactor::new(expected).and_then(|reactor| {
            listeners.listen_for(slot.into())?;
            let events = herd.mode.listener_events();
            let is_told = |member| herd.is_told_of_member(member) || member == slot.into();
            let arming = Arming::new(listeners, events, settings.max_workers, is_told)?;
            let acceptor = Acceptor::new(arming.count(), most_in_turn)?;
            Ok((reactor, arming, acceptor))
        });
        let (reactor, arming, acceptor) = made.inspect_err(|_| {
            if herd.group_size > 1 {
                // Some of its members may listen: with nobody to watch them they would be a hole.
                herd.note_homecoming(slot);
                herd.ring_others(slot);
            }
            herd.free_slot(slot, claim);
        })?;
        // From here on dropping the worker gives the slot back.
        let worker = Worker {
            herd: herd.clone(),
            slot,
            claim,
            line: Part::new(&herd.region, |region| &region.slots()[usize::from(slot)]),
            times: Part::new(&herd.region, |region| &region.times()[usize::from(slot)]),
            lock: Part::new(&herd.region, |region| &region.lock),
            remote: herd.remotes[usize::from(slot)].clone(),
            process,
            handle: handle_of(slot),
            reactor,
            arming,
            acceptor,
            passing,
            gate: herd.has_accept_right.then(|| Gate::new(slot)),
            neighbours: Neighbours::of_worker(slot),
            lookout: Lookout::default(),
            conduct: ConductCell::default(),
            has_rung: Cell::new(false),
            turn_began_us: Cell::new(now_us()),
            pace: Pace::default(),
            accepted_from: Cell::new(0),
            account: Account::default(),
            home: Home::default(),
            accepted_in_turn: Cell::new(0),
            waits: Cell::default(),
            host_goes_on: Cell::new(false),
            in_loop: Cell::new(false),
            poisoned: AtomicBool::new(false),
        };
        // Its member listens from now on, and its first turn may be far, or never come.
        worker.come_home();
        worker.watch_untold()?;
        let bell = herd.bells[usize::from(slot)].fd();
        worker.reactor.watch(bell, epoll::IN | epoll::EDGE, Source::Bell)?;
        if herd.is_coordinated() {
            herd.guard.start_if_first(&herd.region.guard, now_us())?;
        }
        herd.tell_waiting();
        if herd.passes_on() && herd.is_any_on_its_way() {
            // Those before it may have left connections that nobody has taken.
            worker.look_again_at(0);
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
        &self.remote
    }

    fn my_slot(&self) -> &Slot {
        &self.line
    }

    // --- life ---

    /// Whether this process may use the worker at all.
    pub fn check_usable(&self) -> Result<()> {
        if !self.process.is_current() {
            Err(Error::FORKED)
        } else if self.poisoned.load(SeqCst) {
            Err(Error::POISONED)
        } else {
            Ok(())
        }
    }

    /// Whoever destroys an inherited worker has known it before the fork.
    pub fn adopt(&mut self) -> Result<()> {
        self.reactor.adopt()
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
        self.poisoned.store(true, SeqCst);
        self.step_back(Stance::Refuse);
    }

    /// What failed is not the host's affair: the loop goes on without, or tries again in its time.
    fn note_failure(&self, task: Task, error: Error) {
        self.herd.log.recurring(
            Recurring::Failure(task),
            format_args!("slot {}: {task}: {error}", self.slot),
        );
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
    pub fn check_slot(&self) -> Result<()> {
        if self.my_slot().claim() == self.claim { Ok(()) } else { Err(Error::REAPED) }
    }

    /// The same for the parts of a turn.
    fn check_slot_in_turn(&self) -> Result<()> {
        self.check_slot().inspect_err(|_| self.leave_lost_slot())
    }

    /// A worker whose slot was taken away is still in the wait queues, where the kernel may just have
    /// woken it, and it alone, for a connection: it leaves them, and another looks, who can have its slot by
    /// now.
    fn leave_lost_slot(&self) {
        if self.conduct.take(|own| &mut own.willing) {
            self.conduct.change(|own| own.competes = false);
            self.step_back(Stance::Refuse);
            if self.herd.is_coordinated() {
                // It may be what woke this worker. Only once it is taken another can be had.
                let _ = self.herd.guard.take_tick(&self.herd.region.guard, now_us());
            }
            self.herd.ask_another();
        }
    }

    // --- load ---

    fn capacity(&self) -> u64 {
        u64::from(self.herd.settings.worker_connections)
    }

    pub fn connection_opened(&self) {
        let open = self.my_slot().open().saturating_add(1);
        self.my_slot().set_open(open);
        count(&self.counters().opened, 1);
        let accept_disabled = balance::accept_disabled(self.capacity(), open);
        self.conduct.change(|own| own.accept_disabled = accept_disabled);
        if open >= self.capacity() {
            self.conduct.look_closer();
        }
        self.publish();
    }

    pub fn connection_closed(&self) -> Result<()> {
        let open = self.my_slot().open().checked_sub(1).ok_or(Error::errno(libc::ERANGE))?;
        self.my_slot().set_open(open);
        count(&self.counters().closed, 1);
        self.herd.tell_waiting();
        self.publish();
        Ok(())
    }

    pub fn set_load(&self, load: Option<u64>) {
        self.my_slot().set_host_load(load);
        self.publish();
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
        // By its own word, so also if the slot is another's by now.
        self.release();
        if self.check_slot_in_turn().is_ok() {
            self.step_back(Stance::Refuse);
        }
        self.pass_on_at_end();
        self.reactor.detach();
        self.herd.free_slot(self.slot, self.claim);
        self.herd.ask_to_look(self.slot);
        let lost = self.undelivered_count();
        if lost > 0 {
            self.herd.log.warning(format_args!(
                "slot {}: {lost} accepted connections closed that the host had not taken",
                self.slot
            ));
        }
    }
}
