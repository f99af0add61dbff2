//! The descriptors that the library watches for itself: in the worker's epoll set and, where the host's
//! loop waits on one of its own, in that as well. Knows nothing of what they are for.

use super::tag::{Source, Tag};
use crate::sys::epoll::Epoll;
use crate::sys::of_process::OfProcess;
use crate::sys::{Error, Result};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;

#[derive(Clone, Copy)]
struct Watch {
    fd: RawFd,
    events: u32,
    source: Source,
    /// Not wanted any more, and not known to be out.
    is_leftover: bool,
}

impl Watch {
    fn tag(&self) -> u64 {
        Tag::Own(self.source).encode()
    }
}

/// An epoll set that the host's loop waits on. All events of the library have the same user data
/// there, by which the host passes over them; which ones they are, the worker's own set tells.
#[derive(Clone, Copy)]
struct HostSet {
    fd: RawFd,
    data: u64,
}

impl HostSet {
    fn epoll(&self) -> Epoll<RawFd> {
        Epoll::of_host(self.fd)
    }
}

pub struct Watches {
    watches: OfProcess<RefCell<Vec<Watch>>>,
    /// Whether any of them is a leftover, for a look that costs a load.
    has_leftover: Cell<bool>,
    host_set: Cell<Option<HostSet>>,
}

impl Watches {
    pub fn new() -> Result<Watches> {
        Ok(Watches {
            watches: OfProcess::new(RefCell::default())?,
            has_leftover: Cell::new(false),
            host_set: Cell::new(None),
        })
    }

    /// To the worker's own set first: exclusive wake-ups go from one set to the next in the order
    /// of ADD and end at the first that is waited on (ep_poll_callback in fs/eventpoll.c), the
    /// host's, so that its worker's own knows by then.
    pub fn add(&self, own: &Epoll, fd: RawFd, events: u32, source: Source) -> Result<()> {
        self.drop_leftover(own);
        let watch = Watch { fd, events, source, is_leftover: false };
        let mut watches = self.watches.borrow_mut();
        watches.try_reserve(1).map_err(|_| Error::NO_MEMORY)?;
        own.add(fd, events, watch.tag())?;
        if let Some(host_set) = self.host_set.get() {
            host_set.epoll().add(fd, events, host_set.data).inspect_err(|_| {
                let _ = own.delete(fd);
            })?;
        }
        watches.push(watch);
        Ok(())
    }

    pub fn modify(&self, own: &Epoll, fd: RawFd, events: u32, source: Source) -> Result<()> {
        let changed = Watch { fd, events, source, is_leftover: false };
        own.modify(fd, events, changed.tag())?;
        if let Some(host_set) = self.host_set.get() {
            host_set.epoll().modify(fd, events, host_set.data)?;
        }
        let mut watches = self.watches.borrow_mut();
        watches.iter_mut().filter(|watch| watch.fd == fd).for_each(|watch| *watch = changed);
        Ok(())
    }

    /// What cannot be taken out now is taken out before the next wait: left in, it would end every wait
    /// at once while nobody looks at it.
    pub fn remove(&self, own: &Epoll, fd: RawFd) {
        let mut watches = self.watches.borrow_mut();
        let Some(place) = watches.iter().position(|watch| watch.fd == fd) else { return };
        if self.take_out(own, fd) == (Ok(()), Ok(())) {
            watches.remove(place);
        } else {
            watches[place].is_leftover = true;
            self.has_leftover.set(true);
        }
    }

    fn take_out(&self, own: &Epoll, fd: RawFd) -> (Result<()>, Result<()>) {
        let from_host_set = self.host_set.get().map_or(Ok(()), |set| set.epoll().delete(fd));
        (own.delete(fd), from_host_set)
    }

    #[inline(always)]
    pub fn drop_leftover(&self, own: &Epoll) {
        if self.has_leftover.get() {
            self.take_leftover_out(own);
        }
    }

    #[cold]
    fn take_leftover_out(&self, own: &Epoll) {
        let is_out = |result| matches!(result, Ok(()) | Err(Error::NOT_FOUND | Error::BAD_FD));
        let mut watches = self.watches.borrow_mut();
        watches.retain(|watch| {
            !watch.is_leftover || {
                let (from_own, from_host_set) = self.take_out(own, watch.fd);
                !(is_out(from_own) && is_out(from_host_set))
            }
        });
        self.has_leftover.set(watches.iter().any(|watch| watch.is_leftover));
    }

    fn wanted(watches: &[Watch]) -> impl Iterator<Item = &Watch> {
        watches.iter().filter(|watch| !watch.is_leftover)
    }

    pub fn add_all_to(&self, own: &Epoll) -> Result<()> {
        let watches = self.watches.borrow();
        Watches::wanted(&watches).try_for_each(|watch| own.add(watch.fd, watch.events, watch.tag()))
    }

    // --- a set of the host's ---

    pub fn are_in_host_set(&self) -> bool {
        self.host_set.get().is_some()
    }

    /// Adds all to the host's set, or none.
    pub fn join_host_set(&self, fd: RawFd, data: u64) -> Result<()> {
        let host_set = HostSet { fd, data };
        let watches = self.watches.borrow();
        for (place, watch) in Watches::wanted(&watches).enumerate() {
            host_set.epoll().add(watch.fd, watch.events, data).inspect_err(|_| {
                for earlier in Watches::wanted(&watches).take(place) {
                    let _ = host_set.epoll().delete(earlier.fd);
                }
            })?;
        }
        self.host_set.set(Some(host_set));
        Ok(())
    }

    /// To be called before the worker goes: other processes have the descriptors open as well, so they
    /// do not leave the host's set by being closed here.
    pub fn leave_host_set(&self) {
        if let Some(host_set) = self.host_set.take() {
            for watch in self.watches.borrow().iter() {
                // The host may have closed its set.
                let _ = host_set.epoll().delete(watch.fd);
            }
        }
    }
}
