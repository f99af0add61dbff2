//! Switching a worker's listeners on and off in its epoll set (nginx: ngx_enable_accept_events and
//! ngx_disable_accept_events in ngx_event_accept.c). Several are switched at once, through the set
//! that holds them all.

use super::listener::Listener;
use super::listener_table::ListenerSet;
use super::neighbours::Lookout;
use crate::reactor::{Reactor, Source};
use crate::sys::epoll::{self, Epoll};
use crate::sys::socket::any_readable;
use crate::sys::{Error, Result};
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Ready listeners learnt of in one turn. The others come with the next.
const READY_PER_TURN: usize = 64;

/// A set that is masked stays on the wait queue of the set of all, so every connection costs a look at
/// each worker that has it so. Up to as many workers that is cheaper than adding it anew: ADD goes
/// through all listeners of the set to exclude a loop (ep_loop_check in fs/eventpoll.c), 60 us for 1000.
const MASKING_WORKERS_MAX: u32 = 32;

/// A listener as one worker sees it.
struct Armable {
    /// The herd's number of it.
    number: u16,
    listener: Arc<Listener>,
    /// accept4(2) said that it cannot be used: it stays out of the set.
    failed: Cell<bool>,
    /// When to look for a worker that should be before this one in the listener's wait queue.
    lookout: Lookout,
}

pub struct Arming {
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
}

impl Arming {
    pub fn new(set: ListenerSet, events: u32, max_workers: u32) -> Arming {
        let armable = |(number, listener)| Armable {
            number,
            listener,
            failed: Cell::new(false),
            lookout: Lookout::default(),
        };
        Arming {
            listeners: set.listeners.into_iter().map(armable).collect(),
            events,
            all: RefCell::new(set.all),
            masks_all: max_workers <= MASKING_WORKERS_MAX,
            all_is_masked: Cell::new(false),
            armed: Cell::new(false),
        }
    }

    fn find(&self, number: u16) -> Option<&Armable> {
        let at = self.listeners.binary_search_by_key(&number, |armable| armable.number).ok()?;
        self.listeners.get(at)
    }

    pub fn listener(&self, number: u16) -> Option<&Arc<Listener>> {
        let armable = self.find(number).filter(|armable| !armable.failed.get())?;
        Some(&armable.listener)
    }

    fn usable(&self) -> impl Iterator<Item = (u16, &Arc<Listener>)> {
        let usable = self.listeners.iter().filter(|armable| !armable.failed.get());
        usable.map(|armable| (armable.number, &armable.listener))
    }

    /// Adds all listeners to the set, or none: when one fails, those added before come out again.
    pub fn arm(&self, reactor: &Reactor) -> Result<()> {
        if self.armed.get() {
            return Ok(());
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
        Ok(())
    }

    pub fn is_armed(&self) -> bool {
        self.armed.get()
    }

    fn arm_each(&self, reactor: &Reactor) -> Result<()> {
        for (number, listener) in self.usable() {
            let fd = listener.fd.as_raw_fd();
            if let Err(error) = reactor.watch(fd, self.events, Source::Listener(number)) {
                for (_, earlier) in self.usable().take_while(|&(other, _)| other != number) {
                    let _ = reactor.unwatch(earlier.fd.as_raw_fd());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn disarm(&self, reactor: &Reactor) -> Result<()> {
        if !self.armed.replace(false) {
            return Ok(());
        }
        if let Some(all) = &*self.all.borrow() {
            if self.masks_all {
                reactor.rewatch(all.fd(), 0, Source::Listeners)?;
                self.all_is_masked.set(true);
                return Ok(());
            }
            return reactor.unwatch(all.fd());
        }
        let results = self.usable().map(|(_, listener)| reactor.unwatch(listener.fd.as_raw_fd()));
        // One that fails must not leave the rest armed.
        results.fold(Ok(()), Result::and)
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

    fn stop_using_all(&self, reactor: &Reactor) -> Result<()> {
        self.disarm(reactor)?;
        if let Some(all) = self.all.take()
            && self.all_is_masked.take()
        {
            reactor.unwatch(all.fd())?;
        }
        Ok(())
    }

    /// Whether a connection waits at any listener. Never blocks.
    pub fn connection_waits(&self) -> Result<bool> {
        match &*self.all.borrow() {
            Some(all) => Ok(!all.wait_into(&mut [epoll::NO_EVENT], 0)?.is_empty()),
            None => any_readable(self.usable().map(|(_, listener)| listener.fd.as_raw_fd())),
        }
    }

    /// When to look for a worker that should accept from this listener instead.
    pub fn lookout(&self, number: u16) -> Option<&Lookout> {
        self.find(number).map(|armable| &armable.lookout)
    }

    /// Moves this worker to the end of a listener's wait queue, where EPOLL_CTL_ADD puts it
    /// (add_wait_queue_exclusive in ep_ptable_queue_proc, fs/eventpoll.c). The flag EPOLLEXCLUSIVE
    /// can be given with ADD only, so there is no other way to change it either.
    pub fn move_to_end(&self, reactor: &Reactor, number: u16) -> Result<()> {
        let Some(listener) = self.listener(number).filter(|_| self.armed.get()) else {
            return Ok(());
        };
        let fd = listener.fd.as_raw_fd();
        reactor.unwatch(fd)?;
        // On failure the listener is out of the set, and the rest must not count as armed with it.
        reactor.watch(fd, self.events, Source::Listener(number)).inspect_err(|_| {
            let _ = self.disarm(reactor);
        })
    }

    /// Takes a listener out for good.
    pub fn give_up(&self, reactor: &Reactor, number: u16) {
        let Some(armable) = self.find(number) else { return };
        let was_armed = self.armed.get();
        // An unusable descriptor may have left the set by itself.
        let _: std::result::Result<(), Error> = self.stop_using_all(reactor);
        armable.failed.set(true);
        if was_armed {
            let _ = self.arm(reactor);
        }
    }
}
