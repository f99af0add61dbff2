//! The herd's listeners: made, adopted and removed by the parent, and what a new worker gets of them.

use super::Herd;
use crate::abi::{HERD_LISTEN_DUAL_STACK, herd_listen_options};
use crate::accept::listener::{Acceptance, Group, Listener};
use crate::accept::listener_table::{ListenerSet, ListenerTable};
use crate::sys::address::Address;
use crate::sys::fork::ForkToken;
use crate::sys::socket::ListenOptions;
use crate::sys::{Error, Result};
use std::os::fd::{AsRawFd, RawFd};

const DEFAULT_BACKLOG: u32 = 4096;

impl Herd {
    pub fn listen(
        &self,
        text: &str,
        options: &herd_listen_options,
        acceptance: Acceptance,
    ) -> Result<usize> {
        let refuse = |error: &Error, why: std::fmt::Arguments| {
            self.log.error(format_args!("listen {text}: {error}: {why}"));
        };
        let address = Address::parse(text).inspect_err(|error| {
            refuse(error, format_args!("an address is like {}", Address::EXAMPLES));
        })?;
        let herd_listen_options { flags, unix_mode, .. } = *options;
        let options = listen_options(options, &address).inspect_err(|error| {
            refuse(error, format_args!("flags {flags:#x}, unix_mode 0{unix_mode:o}"));
        })?;
        let listener = self.may_change_listeners().and_then(|()| {
            let group = Group { size: self.group_size, steering: self.steering.as_ref() };
            Listener::listen(&address, &options, acceptance, &group)
        });
        self.insert(listener, format_args!("listen {text}"))
    }

    pub fn add_listener(&self, fd: RawFd, acceptance: Acceptance) -> Result<usize> {
        let listener = self.may_change_listeners().and_then(|()| Listener::adopt(fd, acceptance));
        self.insert(listener, format_args!("add listener {fd}"))
    }

    fn insert(&self, made: Result<Listener>, what: std::fmt::Arguments) -> Result<usize> {
        let inserted =
            made.and_then(|listener| self.change_listeners(|listeners| listeners.insert(listener)));
        inserted.inspect_err(|error| self.log.error(format_args!("{what}: {error}")))
    }

    /// All of them, or none.
    pub fn insert_all(&self, listeners: Vec<Listener>) -> Result<()> {
        if listeners.is_empty() {
            return Ok(());
        }
        self.change_listeners(|table| table.insert_all(listeners))
    }

    pub fn remove_listener(&self, number: usize) -> Result<()> {
        self.may_change_listeners()?;
        self.change_listeners(|listeners| listeners.remove(number))
    }

    /// On a copy, which takes the place of what is there together with the count of its change: so a
    /// child that is forked meanwhile either has both, or is told that it does not know all.
    fn change_listeners<R>(
        &self,
        change: impl FnOnce(&mut ListenerTable) -> Result<R>,
    ) -> Result<R> {
        self.listeners.replace(|listeners| {
            let process = ForkToken::current()?;
            if !listeners.is_open_here() {
                return Err(Error::errno(libc::ESTALE));
            }
            let mut changed = listeners.clone();
            let result = change(&mut changed)?;
            changed.known_changes = self.region.listener_changes.count(listeners.known_changes);
            changed.changed_by = Some(process);
            Ok((changed, result))
        })
    }

    /// Who accepts for all workers must have the same listeners as they.
    pub fn may_change_listeners(&self) -> Result<()> {
        if self.shares_listeners() && self.free_slots()? < self.region.slots().len() {
            return Err(Error::BUSY);
        }
        Ok(())
    }

    /// `look` must not call the host.
    pub fn with_listener<R>(
        &self,
        number: usize,
        look: impl FnOnce(&Listener) -> Result<R>,
    ) -> Result<R> {
        self.listeners.read(|listeners| look(listeners.get(number).ok_or(Error::NOT_FOUND)?))?
    }

    /// The listeners as they are now, for a new worker. A child that was forked before they were
    /// changed does not know them all.
    pub fn listeners(&self) -> Result<ListenerSet> {
        let (set, known_changes, is_open_here) = self.listeners.read(|listeners| {
            (listeners.snapshot(), listeners.known_changes, listeners.is_open_here())
        })?;
        if self.shares_listeners() {
            self.check_knows_all(known_changes)?;
        }
        if !is_open_here {
            self.log.error(format_args!("worker: forked while the listeners were changed"));
            return Err(Error::errno(libc::ESTALE));
        }
        Ok(set)
    }

    fn check_knows_all(&self, known_changes: u64) -> Result<()> {
        let log = &self.log;
        let Some(changes) = self.region.listener_changes.word() else {
            log.error(format_args!("worker: something has written to the herd's shared memory"));
            return Err(Error::DAMAGED);
        };
        if changes != known_changes {
            log.error(format_args!("worker: forked before the listeners were changed"));
            return Err(Error::errno(libc::ESTALE));
        }
        Ok(())
    }

    /// Whether the listeners' descriptors are this process's: not where it was forked while another
    /// thread changed them.
    pub fn has_its_descriptors(&self) -> bool {
        self.listeners.read(ListenerTable::is_open_here) == Ok(true)
    }

    pub fn listener_fd(&self, number: usize) -> Result<RawFd> {
        self.with_listener(number, |listener| Ok(listener.fd().as_raw_fd()))
    }

    /// The socket that a listener has for a slot: the only one, if all slots share it.
    pub fn slot_listener_fd(&self, number: usize, slot: usize) -> Result<RawFd> {
        self.slot(slot)?;
        self.with_listener(number, |listener| {
            Ok(listener.members().get(slot).unwrap_or(listener.fd()).as_raw_fd())
        })
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
