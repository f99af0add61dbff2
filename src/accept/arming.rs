//! Switching a worker's listeners on and off in its epoll set (nginx:
//! ngx_enable_accept_events and ngx_disable_accept_events in ngx_event_accept.c).

use super::listener::Listener;
use crate::reactor::{Reactor, Source};
use crate::sys::{Error, Result, epoll};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A listener as one worker sees it.
struct Armable {
    /// The herd's number of it.
    number: u16,
    listener: Arc<Listener>,
    /// accept4(2) said that it cannot be used: it stays out of the set.
    failed: Cell<bool>,
}

pub struct Arming {
    listeners: Vec<Armable>,
    armed: Cell<bool>,
}

impl Arming {
    /// `listeners` are in order of their numbers.
    pub fn new(listeners: Vec<(u16, Arc<Listener>)>) -> Arming {
        let armable = |(number, listener)| Armable { number, listener, failed: Cell::new(false) };
        Arming { listeners: listeners.into_iter().map(armable).collect(), armed: Cell::new(false) }
    }

    fn find(&self, number: u16) -> Option<&Armable> {
        let at = self.listeners.binary_search_by_key(&number, |armable| armable.number).ok()?;
        self.listeners.get(at)
    }

    pub fn listener(&self, number: u16) -> Option<&Arc<Listener>> {
        let armable = self.find(number).filter(|armable| !armable.failed.get())?;
        Some(&armable.listener)
    }

    pub fn usable(&self) -> impl Iterator<Item = (u16, &Arc<Listener>)> {
        let usable = self.listeners.iter().filter(|armable| !armable.failed.get());
        usable.map(|armable| (armable.number, &armable.listener))
    }

    /// Adds all listeners to the set, or none: when one fails, those added before come out again.
    pub fn arm(&self, reactor: &Reactor) -> Result<()> {
        if self.armed.get() {
            return Ok(());
        }
        for (number, listener) in self.usable() {
            let added = reactor.watch(listener.fd.as_raw_fd(), epoll::IN, Source::Listener(number));
            if let Err(error) = added {
                for (_, earlier) in self.usable().take_while(|&(other, _)| other != number) {
                    reactor.unwatch(earlier.fd.as_raw_fd())?;
                }
                return Err(error);
            }
        }
        self.armed.set(true);
        Ok(())
    }

    pub fn disarm(&self, reactor: &Reactor) -> Result<()> {
        if !self.armed.replace(false) {
            return Ok(());
        }
        let results = self.usable().map(|(_, listener)| reactor.unwatch(listener.fd.as_raw_fd()));
        // One that fails must not leave the rest armed.
        results.fold(Ok(()), Result::and)
    }

    /// Takes a listener out for good.
    pub fn give_up(&self, reactor: &Reactor, number: u16) {
        let Some(armable) = self.find(number) else { return };
        if self.armed.get() {
            // An unusable descriptor may have left the set by itself.
            let _: std::result::Result<(), Error> =
                reactor.unwatch(armable.listener.fd.as_raw_fd());
        }
        armable.failed.set(true);
    }
}
