//! The epoll core of one worker: registrations with generations, posted queues, timers, events
//! from other threads. It knows descriptors and handlers, and nothing of listeners or herds.

mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod model;
mod owner;
mod posted;
mod registry;
pub mod remote;
mod tag;
pub mod timers;
mod watches;

pub use event::{init_event, init_timer};
pub use posted::Queue;
pub use remote::RemoteQueue;
pub use tag::{LISTENER_LIMIT, Source};

use crate::abi::{herd_event, herd_timer, herd_worker};
use crate::sys::clock::{self, now_us};
use crate::sys::epoll::{self, Epoll};
use crate::sys::of_process::OfProcess;
use crate::sys::{Error, Result};
use event::{epoll_bits, ready_bits};
use owner::Owner;
use posted::Posted;
use registry::Registry;
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use tag::Tag;
use timers::Timers;
use watches::Watches;

/// Events taken from the kernel in one wait. What does not fit comes with the next.
const EVENTS_PER_WAIT: usize = 512;

/// Posted events that one drain runs beyond those it found: handlers that keep posting must not
/// keep the loop from its next wait.
const EXTRA_POSTED: usize = 256;

/// Numbers of events that one wait brought.
pub struct Arrived {
    pub total: usize,
    /// The host's.
    pub host: usize,
    /// Dropped, because their registration was gone.
    pub stale: usize,
    /// Posted by other threads and dropped, because they were in use at another worker.
    pub misposted: usize,
}

pub struct Reactor {
    /// In a child the number may lead to another file: the kernel copies descriptors before it copies
    /// memory (copy_process in kernel/fork.c), and the worker may have been made in between.
    epoll: OfProcess<Epoll>,
    /// Marks the events and timers of this worker, so that another's is not unlinked by mistake: also not
    /// that of another herd.
    owner: Owner,
    registry: OfProcess<RefCell<Registry>>,
    posted: Posted,
    timers: OfProcess<RefCell<Timers>>,
    /// Theirs, for a look that costs a load.
    next_deadline_us: Cell<Option<u64>>,
    /// The library's own.
    watches: Watches,
    /// For the events of one wait.
    room: RefCell<Vec<epoll::Event>>,
    /// Events that other threads posted here while they were in use at another worker.
    misposted: Cell<usize>,
}

impl Reactor {
    /// `expected` descriptors are watched without growing a table.
    pub fn new(expected: usize) -> Result<Reactor> {
        let mut room = Vec::new();
        room.try_reserve_exact(EVENTS_PER_WAIT).map_err(|_| Error::NO_MEMORY)?;
        room.resize(EVENTS_PER_WAIT, epoll::NO_EVENT);
        Ok(Reactor {
            epoll: OfProcess::new(Epoll::new()?)?,
            owner: Owner::new()?,
            registry: OfProcess::new(RefCell::new(Registry::with_capacity(expected)?))?,
            posted: Posted::default(),
            timers: OfProcess::new(RefCell::default())?,
            next_deadline_us: Cell::new(None),
            watches: Watches::new()?,
            room: RefCell::new(room),
            misposted: Cell::new(0),
        })
    }

    /// For a child, and a worker that was whole at the fork: its descriptor is closed with it.
    pub fn adopt(&mut self) -> Result<()> {
        self.epoll.adopt()
    }

    // --- the library's own descriptors ---

    /// Watches `fd` for the library: its events come out of `wait` as `source`.
    pub fn watch(&self, fd: RawFd, events: u32, source: Source) -> Result<()> {
        self.watches.add(&self.epoll, fd, events, source)
    }

    /// Changes what is waited for at a descriptor that is watched; 0: nothing.
    pub fn rewatch(&self, fd: RawFd, events: u32, source: Source) -> Result<()> {
        self.watches.modify(&self.epoll, fd, events, source)
    }

    pub fn unwatch(&self, fd: RawFd) {
        self.watches.remove(&self.epoll, fd);
    }

    // --- a loop of the host's ---

    /// The worker's epoll set, to be polled by a loop of the host's.
    pub fn fd(&self) -> RawFd {
        self.epoll.fd()
    }

    /// Has the library's own descriptors watched in a set that the host's loop waits on as well. Their
    /// events have the user data `data` there.
    pub fn attach(&self, epfd: RawFd, data: u64) -> Result<()> {
        self.watches.join_host_set(epfd, data)
    }

    pub fn is_attached(&self) -> bool {
        self.watches.are_in_host_set()
    }

    pub fn detach(&self) {
        self.watches.leave_host_set();
    }

    pub fn has_events(&self) -> bool {
        self.registry.borrow().iter().next().is_some()
    }

    // --- the host's events ---

    pub fn add(&self, event: *mut herd_event, fd: RawFd, interest: u32) -> Result<()> {
        event::check(event, self.owner.number())?;
        if event::is_added(event) {
            return Err(Error::EXISTS);
        }
        if fd < 0 {
            return Err(Error::errno(libc::EBADF));
        }
        let bits = epoll_bits(interest)?;
        let mut registry = self.registry.borrow_mut();
        let (index, generation) = registry.insert(event, fd)?;
        if let Err(error) = self.epoll.add(fd, bits, Tag::Host { index, generation }.encode()) {
            registry.remove(index);
            return Err(error);
        }
        registry.claim_fd(index, fd);
        event::set_added(event, self.owner.number(), index, fd, interest);
        Ok(())
    }

    fn index_of(&self, event: *mut herd_event) -> Option<u32> {
        event::added_index(event).filter(|&index| self.registry.borrow().holds(index, event))
    }

    pub fn modify(&self, event: *mut herd_event, interest: u32) -> Result<()> {
        event::check(event, self.owner.number())?;
        let index = self.index_of(event).ok_or(Error::NOT_FOUND)?;
        let bits = epoll_bits(interest)?;
        let (fd, generation) = self.registry.borrow().entry(index);
        let fd = fd.ok_or(Error::errno(libc::EBADF))?;
        self.epoll.modify(fd, bits, Tag::Host { index, generation }.encode()).map_err(closed)?;
        event::set_interest(event, interest);
        Ok(())
    }

    /// Removes the event from the epoll set and from any posted queue: it can be freed then.
    pub fn delete(&self, event: *mut herd_event, remote: &RemoteQueue) -> Result<()> {
        let was_posted = self.unpost(event, remote)?;
        let Some(index) = self.index_of(event) else {
            return if was_posted { Ok(()) } else { Err(Error::NOT_FOUND) };
        };
        let (fd, _) = self.registry.borrow().entry(index);
        self.registry.borrow_mut().remove(index);
        event::set_removed(event);
        // The event is out even when the host closed the descriptor first; it learns of its mistake.
        self.epoll.delete(fd.ok_or(Error::errno(libc::EBADF))?).map_err(closed)
    }

    // --- posted queues ---

    /// True: it was posted; false: it was in that queue already.
    pub fn post(&self, event: *mut herd_event, queue: Queue) -> Result<bool> {
        event::check(event, self.owner.number())?;
        Ok(self.posted.post(event, self.owner.number(), queue))
    }

    /// True: it was taken out of a queue; false: it was in none.
    pub fn unpost(&self, event: *mut herd_event, remote: &RemoteQueue) -> Result<bool> {
        event::check(event, self.owner.number())?;
        if remote::is_posted(event) {
            self.take_remote(remote);
        }
        // Still posted: at another worker, whose thread may be about to take it.
        if remote::is_posted(event) {
            return Err(Error::BUSY);
        }
        Ok(self.posted.unpost(event))
    }

    pub fn posted_count(&self, queue: Queue) -> usize {
        self.posted.count(queue)
    }

    /// What was posted for the next turn becomes this turn's work. True: there is work, so the turn
    /// must not wait.
    pub fn begin_turn(&self, remote: &RemoteQueue) -> bool {
        self.posted.move_next();
        self.take_remote(remote);
        self.posted.count(Queue::Events) > 0
    }

    /// Runs the handlers of a queue: all that were in it, and a bounded number of those posted
    /// meanwhile. Returns how many ran.
    pub fn run_posted(&self, worker: *mut herd_worker, queue: Queue) -> usize {
        let most = self.posted.count(queue) + EXTRA_POSTED;
        let mut ran = 0;
        while ran < most {
            let Some(event) = self.posted.pop(queue) else { break };
            event::run(event, worker);
            ran += 1;
        }
        ran
    }

    /// An event in use at another worker is dropped: linking it here would edit that one's lists.
    fn take_remote(&self, remote: &RemoteQueue) {
        remote.take_all(|event| {
            if event::check(event, self.owner.number()).is_ok() {
                self.posted.post(event, self.owner.number(), Queue::Events);
            } else {
                self.misposted.set(self.misposted.get() + 1);
            }
        });
    }

    // --- timers ---

    pub fn start_timer(&self, timer: *mut herd_timer, after_ms: u64) -> Result<()> {
        event::check_timer(timer, self.owner.number())?;
        let deadline_us = now_us().saturating_add(after_ms.saturating_mul(1000));
        self.change_timers(|timers| timers.start(timer, self.owner.number(), deadline_us))
    }

    /// True: it was pending.
    pub fn stop_timer(&self, timer: *mut herd_timer) -> Result<bool> {
        event::check_timer(timer, self.owner.number())?;
        Ok(self.change_timers(|timers| timers.stop(timer)))
    }

    pub fn next_deadline_us(&self) -> Option<u64> {
        self.next_deadline_us.get()
    }

    fn change_timers<T>(&self, change: impl FnOnce(&mut Timers) -> T) -> T {
        let mut timers = self.timers.borrow_mut();
        let result = change(&mut timers);
        self.next_deadline_us.set(timers.next_deadline_us());
        result
    }

    /// Runs the timers that were due when the call began. A handler that starts a timer with no
    /// delay gets it in the next turn. Returns how many ran.
    pub fn run_timers(&self, worker: *mut herd_worker) -> usize {
        if self.next_deadline_us().is_none() {
            return 0;
        }
        let now_us = now_us();
        let started_before = self.timers.borrow().started();
        let mut ran = 0;
        loop {
            let expired = self.change_timers(|timers| timers.pop_expired(now_us, started_before));
            let Some(timer) = expired else { return ran };
            event::run_timer(timer, worker);
            ran += 1;
        }
    }

    // --- the wait ---

    /// Waits, posts the host's events to `Queue::Events`, and hands the library's own to `on_own`.
    pub fn wait(
        &self,
        timeout_ms: i32,
        remote: &RemoteQueue,
        mut on_own: impl FnMut(Source),
    ) -> Result<Arrived> {
        self.watches.drop_leftover(&self.epoll);
        let mut room = self.room.borrow_mut();
        let arrived = self.epoll.wait_into(&mut room, timeout_ms)?;
        let total = arrived.len();
        let mut host = 0;
        let mut stale = 0;
        for epoll_event in arrived {
            match Tag::decode(epoll_event.u64) {
                Tag::Own(source) => on_own(source),
                Tag::Host { index, generation } => {
                    let live = self.registry.borrow().live(index, generation);
                    if let Some(event) = live {
                        event::add_ready(event, ready_bits(epoll_event.events, event));
                        self.posted.post(event, self.owner.number(), Queue::Events);
                        host += 1;
                    } else {
                        stale += 1;
                    }
                }
            }
        }
        self.take_remote(remote);
        if stale > 0 && self.rebuild().is_err() && stale == total {
            // Without a descriptor for a new set the old one is used on, and the stale event comes again at
            // once: with nothing else to do that would be a spin.
            clock::rest_a_millisecond();
        }
        Ok(Arrived { total, host, stale, misposted: self.misposted.take() })
    }

    /// Makes the epoll set anew. No event of a properly deleted registration can come out of a wait,
    /// since `delete` removes it from the set before. One that does belongs to a file that the host
    /// closed without `delete` while another process has it open (epoll(7), question 6); its
    /// descriptor is gone, so nothing can remove it from the old set, and level-triggered it would
    /// come again at once and for ever.
    fn rebuild(&self) -> Result<()> {
        let fresh = Epoll::new()?;
        self.watches.add_all_to(&fresh)?;
        for (index, generation, fd, event) in self.registry.borrow().iter() {
            let bits = epoll_bits(event::interest(event))?;
            let tag = Tag::Host { index, generation }.encode();
            // One that the old set does not know under this number was closed without delete as well: gone
            // now, whatever file the number leads to since.
            if self.epoll.modify(fd, bits, tag).is_ok() {
                fresh.add(fd, bits, tag)?;
            }
        }
        self.epoll.replace_with(fresh)
    }
}

/// For a descriptor that was closed under a registration the kernel says EBADF, or ENOENT when its
/// number leads to another file by now.
fn closed(error: Error) -> Error {
    if error == Error::NOT_FOUND { Error::errno(libc::EBADF) } else { error }
}
