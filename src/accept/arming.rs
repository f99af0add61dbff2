//! Switching a worker's listeners on and off in its epoll set (nginx: ngx_enable_accept_events and
//! ngx_disable_accept_events in ngx_event_accept.c). Several are switched at once, through the set
//! that holds them all.

use super::listener::{Acceptance, Listener};
use super::listener_table::ListenerSet;
use crate::reactor::{Reactor, Source};
use crate::sys::Result;
use crate::sys::epoll::{self, Epoll};
use crate::sys::socket::{any_readable, listens};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Ready listeners learnt of in one turn. The others come with the next.
const READY_PER_TURN: usize = 64;

/// A set that is masked stays on the wait queue of the set of all, so every connection costs a look at
/// each worker that has it so. Up to as many workers that is cheaper than adding it anew: ADD goes
/// through all listeners of the set to exclude a loop (ep_loop_check in fs/eventpoll.c), 60 us for 1000.
const MASKING_WORKERS_MAX: u32 = 32;

/// A listening socket as one worker sees it: a member of a listener.
struct Armable {
    /// Its number among all of the worker's: the listener's, where each has one member only.
    place: u16,
    /// The herd's number of the listener.
    number: u16,
    listener: Arc<Listener>,
    member: usize,
    /// A member of a slot that never had a worker does not: epoll would report a hang-up. Nor does one count
    /// as listening that nobody was told of.
    listens: Cell<bool>,
    /// The owner's count of homecomings that this worker has made way for.
    homecomings: Cell<u64>,
    /// accept4(2) said that it cannot be used: it stays out of the set.
    failed: Cell<bool>,
    /// The last decision to let others come first that it was moved for.
    yielded: Cell<u64>,
}

impl Armable {
    fn fd(&self) -> RawFd {
        self.listener.members()[self.member].as_raw_fd()
    }

    /// Whose worker comes first in the wait queue; None: nobody's.
    fn home_of(&self) -> Option<usize> {
        Some(self.member).filter(|_| self.listener.members().len() > 1)
    }
}

pub struct Arming {
    /// In order of their places.
    listeners: Vec<Armable>,
    /// epoll's bits for a listener.
    events: u32,
    /// The set of all listeners, to arm them by one call. Not used once this worker must leave one
    /// of them out, since the set is shared by all workers.
    all: RefCell<Option<Arc<Epoll>>>,
    /// Whether the set of all, once added, is masked instead of taken out.
    masks_all: bool,
    all_is_masked: Cell<bool>,
    armed: Cell<bool>,
    /// Decisions to let others come first in the wait queues.
    yielded: Cell<u64>,
}

impl Arming {
    /// `is_told` says whether all know of the members of a slot, if they listen.
    pub fn new(
        set: ListenerSet,
        events: u32,
        max_workers: u32,
        is_told: impl Fn(usize) -> bool,
    ) -> Result<Arming> {
        let mut listeners = Vec::new();
        for (number, listener) in set.listeners {
            for (member, fd) in listener.members().iter().enumerate() {
                listeners.push(Armable {
                    place: (usize::from(number) * set.group_size + member) as u16,
                    number,
                    listener: listener.clone(),
                    member,
                    listens: Cell::new(is_told(member) && listens(fd)?),
                    homecomings: Cell::new(0),
                    failed: Cell::new(false),
                    yielded: Cell::new(0),
                });
            }
        }
        Ok(Arming {
            listeners,
            events,
            all: RefCell::new(set.all),
            masks_all: max_workers <= MASKING_WORKERS_MAX,
            all_is_masked: Cell::new(false),
            armed: Cell::new(false),
            yielded: Cell::new(0),
        })
    }

    /// Number of places.
    pub fn count(&self) -> usize {
        self.listeners.len()
    }

    fn find(&self, place: u16) -> Option<&Armable> {
        let at = self.listeners.binary_search_by_key(&place, |armable| armable.place).ok()?;
        self.listeners.get(at)
    }

    pub fn listener(&self, place: u16) -> Option<&Arc<Listener>> {
        let armable = self.find(place).filter(|armable| !armable.failed.get())?;
        Some(&armable.listener)
    }

    /// What the host wants done with the connections of a listener, whether this worker can accept from
    /// it or not.
    pub fn acceptance(&self, number: u16) -> Option<Acceptance> {
        let armable = self.listeners.iter().find(|armable| armable.number == number)?;
        Some(armable.listener.acceptance)
    }

    /// The socket at a place, and the herd's number of its listener.
    pub fn socket(&self, place: u16) -> Option<(&OwnedFd, u16)> {
        let armable = self.find(place).filter(|armable| !armable.failed.get())?;
        Some((&armable.listener.members()[armable.member], armable.number))
    }

    /// The slot whose own member the socket at a place is.
    pub fn home_of(&self, place: u16) -> Option<usize> {
        self.find(place)?.home_of()
    }

    fn usable(&self) -> impl Iterator<Item = &Armable> {
        self.listeners.iter().filter(|armable| armable.listens.get() && !armable.failed.get())
    }

    /// Adds all listeners to the set, or none: when one fails, those added before come out again.
    /// True: they were not in it.
    pub fn arm(&self, reactor: &Reactor) -> Result<bool> {
        if self.armed.get() {
            return Ok(false);
        }
        match &*self.all.borrow() {
            Some(all) if self.all_is_masked.get() => {
                reactor.rewatch(all.fd(), epoll::IN, Source::Listeners)?;
                self.all_is_masked.set(false);
            }
            Some(all) => reactor.watch(all.fd(), epoll::IN, Source::Listeners)?,
            None => self.arm_each(reactor)?,
        }
        self.armed.set(true);
        Ok(true)
    }

    fn arm_each(&self, reactor: &Reactor) -> Result<()> {
        for armable in self.usable() {
            if let Err(error) = self.watch(reactor, armable) {
                for earlier in self.usable().take_while(|other| other.place != armable.place) {
                    reactor.unwatch(earlier.fd());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn watch(&self, reactor: &Reactor, armable: &Armable) -> Result<()> {
        reactor.watch(armable.fd(), self.events, Source::Listener(armable.place))
    }

    pub fn disarm(&self, reactor: &Reactor) {
        if !self.armed.replace(false) {
            return;
        }
        match &*self.all.borrow() {
            Some(all) => {
                let masked =
                    self.masks_all && reactor.rewatch(all.fd(), 0, Source::Listeners).is_ok();
                self.all_is_masked.set(masked);
                if !masked {
                    reactor.unwatch(all.fd());
                }
            }
            None => self.usable().for_each(|armable| reactor.unwatch(armable.fd())),
        }
    }

    /// The set of all was reported ready: which of them are?
    pub fn find_ready(&self, mut on_ready: impl FnMut(u16)) -> Result<()> {
        let mut ready = [epoll::NO_EVENT; READY_PER_TURN];
        if let Some(all) = &*self.all.borrow() {
            for event in all.wait_into(&mut ready, 0)? {
                on_ready(event.u64 as u16);
            }
        }
        Ok(())
    }

    fn stop_using_all(&self, reactor: &Reactor) {
        self.disarm(reactor);
        if let Some(all) = self.all.take()
            && self.all_is_masked.take()
        {
            reactor.unwatch(all.fd());
        }
    }

    /// Whether a connection waits at any listener. Never blocks.
    pub fn connection_waits(&self) -> Result<bool> {
        match &*self.all.borrow() {
            Some(all) => Ok(!all.wait_into(&mut [epoll::NO_EVENT], 0)?.is_empty()),
            None => any_readable(self.usable().map(Armable::fd)),
        }
    }

    /// Others should come first in the wait queues of all listeners.
    pub fn yield_all(&self) {
        self.yielded.set(self.yielded.get() + 1);
    }

    /// Whether this worker is to move to the end in the wait queue of the socket at a place, from which
    /// it has just accepted. It moves in a queue when that brings it a connection, and not in all of
    /// them when it decides: that would cost two calls for each.
    pub fn takes_yield(&self, place: u16) -> bool {
        let decided = self.yielded.get();
        self.find(place).is_some_and(|armable| armable.yielded.replace(decided) != decided)
    }

    /// Moves this worker to the end of a listener's wait queue, where EPOLL_CTL_ADD puts it
    /// (add_wait_queue_exclusive in ep_ptable_queue_proc, fs/eventpoll.c). The flag EPOLLEXCLUSIVE
    /// can be given with ADD only, so there is no other way to change it either.
    pub fn move_to_end(&self, reactor: &Reactor, place: u16) -> Result<()> {
        let usable = self.find(place).filter(|armable| !armable.failed.get());
        let Some(armable) = usable.filter(|_| self.armed.get()) else { return Ok(()) };
        reactor.unwatch(armable.fd());
        // On failure the listener is out of the set, and the rest must not count as armed with it.
        self.watch(reactor, armable).inspect_err(|_| self.disarm(reactor))
    }

    /// Gets behind the owners that have armed their own members since the last call, in the wait
    /// queues of those: the owner is to be the first. `homecomings` counts these for a slot. A member
    /// that listens only now is watched from now on.
    pub fn make_way(
        &self,
        reactor: &Reactor,
        own_slot: usize,
        homecomings: impl Fn(usize) -> u64,
    ) -> Result<()> {
        for armable in &self.listeners {
            let Some(owner) = armable.home_of().filter(|&owner| owner != own_slot) else {
                continue;
            };
            let count = homecomings(owner);
            if armable.homecomings.get() == count {
                continue;
            }
            if armable.listens.get() {
                self.move_to_end(reactor, armable.place)?;
            } else {
                self.watch_if_it_listens(reactor, armable)?;
            }
            armable.homecomings.set(count);
        }
        Ok(())
    }

    /// Watches from now on the members that listen without having been told of. `on_found` gets the
    /// slot of each.
    pub fn watch_untold(&self, reactor: &Reactor, mut on_found: impl FnMut(usize)) -> Result<()> {
        for armable in self.listeners.iter().filter(|armable| !armable.listens.get()) {
            if self.watch_if_it_listens(reactor, armable)? {
                on_found(armable.member);
            }
        }
        Ok(())
    }

    fn watch_if_it_listens(&self, reactor: &Reactor, armable: &Armable) -> Result<bool> {
        let listens = listens(&armable.listener.members()[armable.member])?;
        if listens && self.armed.get() {
            self.watch(reactor, armable)?;
        }
        armable.listens.set(listens);
        Ok(listens)
    }

    /// Takes a listener out for good.
    pub fn give_up(&self, reactor: &Reactor, place: u16) {
        let Some(armable) = self.find(place) else { return };
        let was_armed = self.armed.get();
        self.stop_using_all(reactor);
        armable.failed.set(true);
        if was_armed {
            let _ = self.arm(reactor);
        }
    }
}
