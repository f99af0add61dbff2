//! The guard's timerfd(2): one for a whole herd, shared by its processes.

use super::error::{Error, Result};
use super::uninterrupted;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

pub struct GuardTimer(TimerFd);

impl GuardTimer {
    pub fn new() -> Result<GuardTimer> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(GuardTimer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Ticks `first_us` from now, then every `interval_us`. The kernel counts an interval on only
    /// when a tick was read (timerfd_read_iter in fs/timerfd.c), so every tick must be.
    pub fn arm(&self, first_us: u64, interval_us: u64) -> Result<()> {
        let spec = |us: u64| TimeSpec::from_duration(Duration::from_micros(us.max(1)));
        let ticks = Expiration::IntervalDelayed(spec(first_us), spec(interval_us));
        Ok(self.0.set(ticks, TimerSetTimeFlags::empty())?)
    }

    /// Takes the tick that is due. False: there is none, or another worker was first.
    pub fn take_tick(&self) -> Result<bool> {
        let mut ticks = [0; 8];
        match uninterrupted(|| nix::unistd::read(self.0.as_fd(), &mut ticks)) {
            Ok(_) => Ok(true),
            Err(Error::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn becomes_readable(timer: &GuardTimer, ms: u16) -> bool {
        let mut fds = [PollFd::new(timer.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(ms)).unwrap() == 1
    }

    /// The kernel behaviour that the guard rests on.
    #[test]
    fn each_tick_is_taken_once_and_an_unread_one_stays() {
        let timer = GuardTimer::new().unwrap();
        assert!(!timer.take_tick().unwrap());
        timer.arm(1000, 60_000_000).unwrap();
        assert!(becomes_readable(&timer, 1000));
        assert!(becomes_readable(&timer, 0));
        assert!(timer.take_tick().unwrap());
        assert!(!timer.take_tick().unwrap());
    }
}
