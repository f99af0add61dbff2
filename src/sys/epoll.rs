//! epoll(7).

use super::error::{Error, Result};
use super::{check, uninterrupted};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub const IN: u32 = libc::EPOLLIN as u32;
pub const OUT: u32 = libc::EPOLLOUT as u32;
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
pub const ERR: u32 = libc::EPOLLERR as u32;
pub const HUP: u32 = libc::EPOLLHUP as u32;
pub const EDGE: u32 = libc::EPOLLET as u32;
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// What epoll_wait(2) reports: `events` bits and the `u64` tag given when the fd was added.
pub type Event = libc::epoll_event;

/// To make room for events with.
pub const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// An epoll set: the library's own, or by its number the host's, which the host opens and closes.
pub struct Epoll<Fd: AsRawFd = OwnedFd>(Fd);

impl Epoll<RawFd> {
    pub fn of_host(fd: RawFd) -> Epoll<RawFd> {
        Epoll(fd)
    }
}

impl Epoll {
    pub fn new() -> Result<Epoll> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the kernel (4.5 and newer) and whatever filters system calls take EPOLLEXCLUSIVE.
    pub fn has_exclusive(fd: RawFd) -> Result<bool> {
        match Epoll::new()?.add(fd, IN | EXCLUSIVE, 0) {
            Ok(()) => Ok(true),
            Err(error) if error == Error::INVALID => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts `other`'s set in the place of this one, under the same descriptor number.
    pub fn replace_with(&self, other: Epoll) -> Result<()> {
        let (from, to) = (other.fd(), self.fd());
        // SAFETY: no pointers; both descriptors are open and owned here.
        uninterrupted(|| check(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) }))?;
        Ok(())
    }
}

impl<Fd: AsRawFd> Epoll<Fd> {
    pub fn add(&self, fd: RawFd, events: u32, tag: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, tag)
    }

    pub fn modify(&self, fd: RawFd, events: u32, tag: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, tag)
    }

    pub fn delete(&self, fd: RawFd) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, operation: i32, fd: RawFd, events: u32, tag: u64) -> Result<()> {
        let mut event = Event { events, u64: tag };
        // SAFETY: `event` is valid during the call and not kept by the kernel.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) })?;
        Ok(())
    }

    /// Waits for at most `timeout_ms` (-1: for ever) and returns what came, as much as `events` has
    /// room for. A signal ends the wait as a timeout does, so that its handler can stop the loop.
    pub fn wait_into<'a>(&self, events: &'a mut [Event], timeout_ms: i32) -> Result<&'a [Event]> {
        let room = events.len().min(i32::MAX as usize) as i32;
        // SAFETY: the kernel writes at most `room` events.
        let result = check(unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, timeout_ms)
        });
        match result {
            Ok(count) => Ok(&events[..count as usize]),
            Err(Error::INTERRUPTED) => Ok(&[]),
            Err(error) => Err(error),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
