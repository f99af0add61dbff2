//! The herd's listeners: made, adopted and removed by the parent, and what a new worker gets of them.

use super::Herd;
use crate::abi::{HERD_LISTEN_DUAL_STACK, herd_listen_options};
use crate::accept::listener::{Acceptance, Group, Listener};
use crate::accept::listener_table::{ListenerSet, ListenerTable};
use crate::sys::address::Address;
use crate::sys::socket::ListenOptions;
use crate::sys::{Error, Result};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError};

const DEFAULT_BACKLOG: u32 = 4096;

impl Herd {
    pub fn listen(
        &self,
        text: &str,
        options: &herd_listen_options,
        acceptance: Acceptance,
    ) -> Result<usize> {
        let listener = self.may_change_listeners().and_then(|()| {
            let address = Address::parse(text)?;
            let group = Group { size: self.group_size, steering: self.steering.as_ref() };
            Listener::listen(&address, &listen_options(options, &address)?, acceptance, &group)
        });
        self.insert(listener, format_args!("listen {text}"))
    }

    pub fn add_listener(&self, fd: RawFd, acceptance: Acceptance) -> Result<usize> {
        let listener = self.may_change_listeners().and_then(|()| Listener::adopt(fd, acceptance));
        self.insert(listener, format_args!("add listener {fd}"))
    }

    fn insert(&self, made: Result<Listener>, what: std::fmt::Arguments) -> Result<usize> {
        let inserted = made.and_then(|listener| self.lock_listeners().insert(listener));
        if inserted.is_ok() {
            self.note_listener_change();
        }
        inserted.inspect_err(|error| self.log.error(format_args!("{what}: {error}")))
    }

    /// All of them, or none.
    pub fn insert_all(&self, listeners: Vec<Listener>) -> Result<()> {
        if !listeners.is_empty() {
            self.lock_listeners().insert_all(listeners)?;
            self.note_listener_change();
        }
        Ok(())
    }

    pub fn remove_listener(&self, number: usize) -> Result<()> {
        self.may_change_listeners()?;
        self.lock_listeners().remove(number)?;
        self.note_listener_change();
        Ok(())
    }

    fn note_listener_change(&self) {
        let changes = self.region.listener_changes.count(self.known_changes.load(SeqCst));
        self.known_changes.store(changes, SeqCst);
    }

    /// Who accepts for all workers must have the same listeners as they.
    pub fn may_change_listeners(&self) -> Result<()> {
        if self.shares_listeners() && self.free_slots()? < self.region.slots().len() {
            return Err(Error::BUSY);
        }
        Ok(())
    }

    pub fn listener(&self, number: usize) -> Result<Arc<Listener>> {
        self.lock_listeners().get(number).ok_or(Error::NOT_FOUND)
    }

    /// The listeners as they are now, for a new worker. A child that was forked before they were
    /// changed does not know them all.
    pub fn listeners(&self) -> Result<ListenerSet> {
        if self.shares_listeners() {
            self.check_knows_all()?;
        }
        Ok(self.lock_listeners().snapshot())
    }

    fn check_knows_all(&self) -> Result<()> {
        let log = &self.log;
        let Some(changes) = self.region.listener_changes.word() else {
            log.error(format_args!("worker: something has written to the herd's shared memory"));
            return Err(Error::DAMAGED);
        };
        if changes != self.known_changes.load(SeqCst) {
            log.error(format_args!("worker: forked before the listeners were changed"));
            return Err(Error::errno(libc::ESTALE));
        }
        Ok(())
    }

    fn lock_listeners(&self) -> MutexGuard<'_, ListenerTable> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn listener_fd(&self, number: usize) -> Result<RawFd> {
        Ok(self.listener(number)?.fd().as_raw_fd())
    }

    /// The socket that a listener has for a slot: the only one, if all slots share it.
    pub fn slot_listener_fd(&self, number: usize, slot: usize) -> Result<RawFd> {
        self.slot(slot)?;
        let listener = self.listener(number)?;
        Ok(listener.members().get(slot).unwrap_or(listener.fd()).as_raw_fd())
    }
}

fn listen_options(hosts: &herd_listen_options, address: &Address) -> Result<ListenOptions> {
    let dual_stack = hosts.flags & HERD_LISTEN_DUAL_STACK != 0;
    let is_v6 = matches!(address, Address::Inet(inet) if inet.is_ipv6());
    let has_file = address.unix_path().is_some();
    let fits = hosts.flags & !HERD_LISTEN_DUAL_STACK == 0
        && hosts.unix_mode & !0o777 == 0
        && (is_v6 || !dual_stack)
        && (has_file || hosts.unix_mode == 0);
    if !fits {
        return Err(Error::INVALID);
    }
    Ok(ListenOptions {
        backlog: if hosts.backlog == 0 { DEFAULT_BACKLOG } else { hosts.backlog },
        dual_stack,
        unix_mode: Some(hosts.unix_mode).filter(|&mode| mode != 0),
    })
}
