//! A worker in a loop of the host's: the turn in two halves, with the host's own wait in between.

use super::Worker;
use super::turn::check_timeout;
use crate::accept::listener::Delivery;
use crate::sys::{Error, Result, epoll};
use std::os::fd::RawFd;

/// Who waits for a worker's events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waits {
    /// The worker, in its turn.
    #[default]
    Itself,
    /// The host's loop, outside of `prepare` and `check`.
    InHostLoop,
    /// The host's loop, in between.
    Prepared,
}

impl Worker {
    /// The worker's epoll set, for a loop of the host's to poll. The kernel wakes one of the workers
    /// that wait on a listener exclusively; behind a set that another one polls, none of them waits,
    /// and it wakes all (ep_poll_callback in fs/eventpoll.c).
    pub fn nest(&self) -> Result<RawFd> {
        let mode = self.herd.mode;
        if mode.listener_events() & epoll::EXCLUSIVE != 0 {
            self.herd.log.error(format_args!(
                "slot {}: mode {mode} wakes every worker behind a polled descriptor: \
                 create the herd with HERD_MODE_MUTEX, or use herd_attach_epoll",
                self.slot
            ));
            return Err(Error::NESTED);
        }
        if self.reactor.is_attached() {
            return Err(Error::HOST_LOOP);
        }
        self.mark_set()?;
        self.leave_waiting_to_host()?;
        Ok(self.reactor.fd())
    }

    /// Has the listeners, the bell and the guard watched in the host's epoll set, so that the kernel
    /// sees the worker waiting on them.
    pub fn attach(&self, epfd: RawFd, data: u64) -> Result<()> {
        if self.waits.get() != Waits::Itself {
            return Err(Error::BUSY);
        }
        let attached = self
            .leave_waiting_to_host()
            .and_then(|()| self.mark_set())
            .and_then(|()| self.reactor.attach(epfd, data));
        attached.inspect_err(|error| {
            self.waits.set(Waits::Itself);
            self.herd.log.error(format_args!("slot {}: attach epoll {epfd}: {error}", self.slot));
        })
    }

    /// From then on the worker's set watches no descriptors of the host's. Attached, nobody waits on it;
    /// nested, it could not be made anew when a stale event needs that (`Reactor::rebuild`), since the
    /// host's loop knows it.
    fn leave_waiting_to_host(&self) -> Result<()> {
        self.conduct.look_closer();
        if self.reactor.has_events() {
            return Err(Error::BUSY);
        }
        if self.waits.get() == Waits::Itself {
            self.waits.set(Waits::InHostLoop);
        }
        Ok(())
    }

    /// What only a worker that waits by itself can do.
    pub fn refuse_host_loop(&self) -> Result<()> {
        if self.waits.get() == Waits::Itself { Ok(()) } else { Err(Error::HOST_LOOP) }
    }

    /// The turn up to its wait. Returns for how long the host may wait at most; `i32::MAX`: as long
    /// as it takes.
    pub fn prepare(&self, timeout_ms: i32) -> Result<usize> {
        check_timeout(timeout_ms)?;
        if self.waits.get() == Waits::Itself {
            return Err(Error::HOST_LOOP);
        }
        self.trylock()?;
        let timeout_ms = self.before_wait(timeout_ms);
        self.waits.set(Waits::Prepared);
        Ok(usize::try_from(timeout_ms).unwrap_or(i32::MAX as usize))
    }

    /// The turn after its wait. Returns the number of connections, events and timers that were handled,
    /// and of connections that the host can take.
    pub fn check(&self) -> Result<usize> {
        match self.waits.get() {
            Waits::Itself => return Err(Error::HOST_LOOP),
            Waits::InHostLoop => return Ok(0),
            Waits::Prepared => self.waits.set(Waits::InHostLoop),
        }
        self.check_slot_in_turn()?;
        let waited = self.wait_announced(0);
        let handled = self.finish(waited)?;
        Ok(handled + self.acceptor.kept_count(Delivery::Pull))
    }
}
