//! What a host's use of a reactor leads to: the answers, what the kernel's set holds, and which handlers are to
//! run. It makes no calls.

use super::super::Queue;
use crate::abi::{HERD_READ, HERD_WRITE, herd_event};
use crate::sys::{Error, Result};
use nix::sys::eventfd::EventFd;

pub const NUMBERS: usize = 4;

/// An eventfd: always writable, readable once it was signalled.
pub struct File {
    pub is_readable: bool,
    /// As another process has it open that was forked meanwhile.
    pub kept: Option<EventFd>,
}

#[derive(Clone, Copy)]
pub struct Registered {
    pub id: u64,
    pub number: usize,
    pub file: usize,
    /// Another event was added for the number since.
    pub is_lost: bool,
}

pub struct Event {
    pub memory: *mut herd_event,
    pub registered: Option<Registered>,
    pub ready: u32,
}

/// What the kernel's set holds: a file under the number by which it was added.
pub struct Watched {
    pub id: u64,
    pub event: usize,
    pub number: usize,
    pub file: usize,
    pub interest: u32,
}

/// In a posted queue. Those that one wait brought are of one batch, whose order is the kernel's.
#[derive(Clone, Copy)]
pub struct Posted {
    pub event: usize,
    pub batch: u64,
}

#[derive(Default)]
pub struct Model {
    pub events: Vec<Event>,
    pub files: Vec<File>,
    /// Which file is open under each of the numbers.
    pub numbers: [Option<usize>; NUMBERS],
    pub watched: Vec<Watched>,
    pub queues: [Vec<Posted>; 2],
    pub remote: Vec<usize>,
    /// Of registrations and batches.
    pub last_id: u64,
    pub running: Option<(Queue, usize)>,
    pub freed: Vec<*mut herd_event>,
}

pub fn index_of(queue: Queue) -> usize {
    usize::from(queue == Queue::Next)
}

impl Model {
    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub fn is_queued(&self, event: usize, queue: Queue) -> bool {
        self.queues[index_of(queue)].iter().any(|posted| posted.event == event)
    }

    pub fn is_in_use(&self, event: usize) -> bool {
        let queued = self.is_queued(event, Queue::Events) || self.is_queued(event, Queue::Next);
        queued || self.events[event].registered.is_some()
    }

    pub fn unpost(&mut self, event: usize) -> bool {
        if self.remote.contains(&event) {
            self.take_remote();
        }
        let count = |queues: &[Vec<Posted>; 2]| queues.iter().map(Vec::len).sum::<usize>();
        let before = count(&self.queues);
        self.queues.iter_mut().for_each(|queue| queue.retain(|posted| posted.event != event));
        count(&self.queues) < before
    }

    pub fn post(&mut self, event: usize, queue: Queue, batch: u64) -> bool {
        if self.is_queued(event, queue) {
            return false;
        }
        self.queues.iter_mut().for_each(|queue| queue.retain(|posted| posted.event != event));
        self.queues[index_of(queue)].push(Posted { event, batch });
        true
    }

    pub fn take_remote(&mut self) {
        for event in std::mem::take(&mut self.remote) {
            let batch = self.next_id();
            self.post(event, Queue::Events, batch);
        }
    }

    pub fn add(&mut self, event: usize, number: usize, interest: u32) -> Result<()> {
        if self.events[event].registered.is_some() {
            return Err(Error::EXISTS);
        }
        if interest & !(HERD_READ | HERD_WRITE) != 0 {
            return Err(Error::INVALID);
        }
        let file = self.numbers[number].ok_or(Error::errno(libc::EBADF))?;
        if self.watched.iter().any(|watched| (watched.file, watched.number) == (file, number)) {
            return Err(Error::EXISTS);
        }
        let id = self.next_id();
        let others = self.events.iter_mut().filter_map(|event| event.registered.as_mut());
        others.filter(|other| other.number == number).for_each(|other| other.is_lost = true);
        let registered = Registered { id, number, file, is_lost: false };
        self.events[event].registered = Some(registered);
        self.watched.push(Watched { id, event, number, file, interest });
        Ok(())
    }

    /// Whether the number of a registration still leads to its file.
    pub fn is_open(&self, registered: Registered) -> bool {
        !registered.is_lost && self.numbers[registered.number] == Some(registered.file)
    }

    pub fn modify(&mut self, event: usize, interest: u32) -> Result<()> {
        let registered = self.events[event].registered.ok_or(Error::NOT_FOUND)?;
        if interest & !(HERD_READ | HERD_WRITE) != 0 {
            return Err(Error::INVALID);
        }
        if !self.is_open(registered) {
            return Err(Error::errno(libc::EBADF));
        }
        let of_it = self.watched.iter_mut().filter(|watched| watched.id == registered.id);
        of_it.for_each(|watched| watched.interest = interest);
        Ok(())
    }

    pub fn delete(&mut self, event: usize) -> Result<()> {
        let was_posted = self.unpost(event);
        let Some(registered) = self.events[event].registered.take() else {
            return if was_posted { Ok(()) } else { Err(Error::NOT_FOUND) };
        };
        self.events[event].ready = 0;
        if !self.is_open(registered) {
            return Err(Error::errno(libc::EBADF));
        }
        self.watched.retain(|watched| watched.id != registered.id);
        Ok(())
    }

    /// Returns how many events the kernel reports, and how many of them are nobody's.
    pub fn wait(&mut self) -> (usize, usize) {
        let batch = self.next_id();
        let ready_of = |watched: &Watched| {
            let readable = self.files[watched.file].is_readable;
            watched.interest & (HERD_WRITE | if readable { HERD_READ } else { 0 })
        };
        let reported: Vec<(u64, usize, u32)> = self
            .watched
            .iter()
            .map(|w| (w.id, w.event, ready_of(w)))
            .filter(|w| w.2 != 0)
            .collect();
        let mut stale = 0;
        for &(id, event, ready) in &reported {
            if self.is_live(id, event) {
                self.events[event].ready |= ready;
                self.post(event, Queue::Events, batch);
            } else {
                stale += 1;
            }
        }
        self.take_remote();
        if stale > 0 {
            let kept: Vec<bool> = self.watched.iter().map(|w| self.survives(w)).collect();
            let mut kept = kept.into_iter();
            self.watched.retain(|_| kept.next() == Some(true));
        }
        (reported.len(), stale)
    }

    pub fn is_live(&self, id: u64, event: usize) -> bool {
        self.events[event].registered.is_some_and(|r| r.id == id && !r.is_lost)
    }

    /// Whether what is watched is in a set that is made anew.
    pub fn survives(&self, watched: &Watched) -> bool {
        self.is_live(watched.id, watched.event)
            && self.numbers[watched.number] == Some(watched.file)
    }
}
