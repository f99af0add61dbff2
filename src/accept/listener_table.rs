//! The herd's listeners by number, and the one epoll set that holds them all.

use super::listener::Listener;
use crate::reactor::LISTENER_LIMIT;
use crate::sys::epoll::{self, Epoll};
use crate::sys::fork::ForkToken;
use crate::sys::{Error, Result};
use std::os::fd::AsRawFd;
use std::sync::Arc;

#[derive(Clone)]
pub struct ListenerTable {
    /// Sockets that a listener can have.
    group_size: usize,
    /// None where one was removed.
    listeners: Vec<Option<Arc<Listener>>>,
    /// Whether workers switch several listeners on and off in every turn.
    arms_at_once: bool,
    /// For them: holds all listeners, each under its number, once there are two. Children inherit it
    /// and never change it: an epoll set belongs to all who have it open.
    all: Option<Arc<Epoll>>,
    /// The herd's count of changes, as far as they are in this table.
    pub known_changes: u64,
    /// The process that made the last of them; None: there was none.
    pub changed_by: Option<ForkToken>,
}

/// What a worker gets.
pub struct ListenerSet {
    /// In order of their numbers.
    pub listeners: Vec<(u16, Arc<Listener>)>,
    /// Places that each of them takes in a worker's numbering of sockets.
    pub group_size: usize,
    /// The set of all, if they are to be armed at once.
    pub all: Option<Arc<Epoll>>,
}

impl ListenerSet {
    /// Has the members of a slot listen.
    pub fn listen_for(&self, slot: usize) -> Result<()> {
        self.listeners.iter().try_for_each(|(_, listener)| listener.listen_for(slot))
    }
}

impl ListenerTable {
    pub fn new(group_size: usize, arms_at_once: bool) -> ListenerTable {
        ListenerTable {
            group_size,
            listeners: Vec::new(),
            arms_at_once,
            all: None,
            known_changes: 0,
            changed_by: None,
        }
    }

    /// Returns the listener's number. This and what else changes the table leave it to the caller to
    /// throw it away after an error.
    pub fn insert(&mut self, listener: Listener) -> Result<usize> {
        let free = self.listeners.iter().position(Option::is_none);
        let number = free.unwrap_or(self.listeners.len());
        if (number + 1) * self.group_size > LISTENER_LIMIT {
            return Err(Error::errno(libc::ENOSPC));
        }
        if number == self.listeners.len() {
            self.listeners.push(None);
        }
        let fd = listener.fd().as_raw_fd();
        self.listeners[number] = Some(Arc::new(listener));
        match &self.all {
            Some(all) => all.add(fd, epoll::IN, number as u64)?,
            None => self.all = self.set_of_all()?,
        }
        Ok(number)
    }

    /// All of them, or none.
    pub fn insert_all(&mut self, listeners: Vec<Listener>) -> Result<()> {
        let set_before = self.all.clone();
        let mut numbers = Vec::with_capacity(listeners.len());
        for listener in listeners {
            match self.insert(listener) {
                Ok(number) => numbers.push(number),
                Err(error) => {
                    for number in numbers {
                        if let (Some(set), Some(listener)) = (&set_before, self.get(number)) {
                            // Before it is closed: the host has the file open, so the set would keep it.
                            let _ = set.delete(listener.fd().as_raw_fd());
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub fn remove(&mut self, number: usize) -> Result<()> {
        let place = self.listeners.get_mut(number).ok_or(Error::NOT_FOUND)?;
        place.take().ok_or(Error::NOT_FOUND)?;
        self.all = self.set_of_all()?;
        Ok(())
    }

    fn set_of_all(&self) -> Result<Option<Arc<Epoll>>> {
        if !self.arms_at_once || self.numbered().count() < 2 {
            return Ok(None);
        }
        let all = Epoll::new()?;
        for (number, listener) in self.numbered() {
            all.add(listener.fd().as_raw_fd(), epoll::IN, number.into())?;
        }
        Ok(Some(Arc::new(all)))
    }

    fn numbered(&self) -> impl Iterator<Item = (u16, &Arc<Listener>)> + Clone {
        let places = (0u16..).zip(&self.listeners);
        places.filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    pub fn get(&self, number: usize) -> Option<&Listener> {
        self.listeners.get(number)?.as_deref()
    }

    /// Whether this process has the descriptors of all of it. The kernel copies those for a child before
    /// it copies memory (copy_process in kernel/fork.c): what a thread of the parent opens and notes here
    /// between the two, the child finds noted, and under that number nothing, or something else.
    pub fn is_open_here(&self) -> bool {
        let mut numbered = self.numbered();
        self.changed_by.is_none_or(ForkToken::is_current)
            || numbered.clone().all(|(_, listener)| listener.is_open_here())
                && self.all.as_ref().is_none_or(|all| {
                    // Changes nothing in a set that has it, and fails in any other.
                    numbered.next().is_some_and(|(number, listener)| {
                        all.modify(listener.fd().as_raw_fd(), epoll::IN, number.into()).is_ok()
                    })
                })
    }

    pub fn snapshot(&self) -> ListenerSet {
        let numbered = self.numbered().map(|(number, listener)| (number, listener.clone()));
        ListenerSet {
            listeners: numbered.collect(),
            group_size: self.group_size,
            all: self.all.clone(),
        }
    }
}
