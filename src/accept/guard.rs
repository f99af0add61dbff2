//! The guard: one timer for the whole herd, with a backup for its lost ticks, that wakes one idle
//! worker every accept_delay, so that no connection waits behind a holder that is stopped, hung or
//! dead. Workers that lost the right need no timeout of their own. While the right is free the next tick is
//! pulled in to handover_delay.

use crate::atomics::Ordering::{Relaxed, SeqCst};
use crate::shm::layout::GuardLine;
use crate::sys::Result;
use crate::sys::guard_timer::GuardTimer;

/// When the backup is due in a herd that has had no worker yet.
const NEVER_STARTED: u64 = 0;

/// How often to look whether a tick can be relied on that others pull in all the time.
const TRIES: u32 = 3;

pub struct Guard {
    timer: GuardTimer,
    /// Due when no tick was taken for half an interval: a worker that dies or is stopped between
    /// being woken by a tick and reading it silences a timer for good, since the kernel wakes nobody
    /// else for that tick and counts on only after a read.
    backup: GuardTimer,
    interval_us: u64,
    /// An interval at most, whatever the host has set: what is pulled in comes no later for that.
    handover_delay_us: u64,
}

impl Guard {
    pub fn new(interval_us: u64, handover_delay_us: u64) -> Result<Guard> {
        let (timer, backup) = (GuardTimer::new()?, GuardTimer::new()?);
        let handover_delay_us = handover_delay_us.min(interval_us);
        Ok(Guard { timer, backup, interval_us, handover_delay_us })
    }

    pub fn fds(&self) -> [i32; 2] {
        [self.timer.fd(), self.backup.fd()]
    }

    /// Takes the tick that woke this worker, or one that is overdue, and lets the timer count on. False:
    /// another took it.
    pub fn take_tick(&self, line: &GuardLine, now_us: u64) -> Result<bool> {
        if self.timer.take_tick()? {
            line.due_us.store(now_us + self.interval_us, Relaxed);
            // If that fails it ticks early, and whoever it wakes finds nothing to do.
            let _ = self.push_backup_off(line, now_us);
            return Ok(true);
        }
        let was_lost = self.backup.take_tick()? || self.is_overdue(line, now_us);
        if was_lost {
            let started = self.start(line, now_us);
            // Also if that failed: the next try is made when it would be overdue again, and not at once.
            line.backup_due_us.store(now_us + self.backup_us(), Relaxed);
            started?;
        }
        Ok(was_lost)
    }

    /// The backup first: who is killed in between leaves one that ticks, or one that was never started.
    fn start(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        let pushed_off = self.push_backup_off(line, now_us);
        self.arm(line, now_us, self.interval_us).and(pushed_off)
    }

    fn push_backup_off(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        let us = self.backup_us();
        self.backup.arm(us, us)?;
        line.backup_due_us.store(now_us + us, Relaxed);
        Ok(())
    }

    fn backup_us(&self) -> u64 {
        self.interval_us + self.interval_us / 2
    }

    /// Whether it is time to look for dead workers. That asks the kernel about every slot, and ticks
    /// can come every handover_delay, so it is done once an interval, by one worker; the half allows for
    /// a tick that was read a little late the last time.
    pub fn should_look_for_dead(&self, line: &GuardLine, now_us: u64) -> bool {
        let last_us = line.looked_for_dead_us.load(Relaxed);
        // Far ahead is no time at which somebody looked; a little ahead is one, of a worker whose turn
        // began after this one's.
        now_us.abs_diff(last_us) >= self.interval_us / 2
            && line.looked_for_dead_us.compare_exchange(last_us, now_us, Relaxed, Relaxed).is_ok()
    }

    /// Whether no tick was taken until after the backup's. Two workers were woken, one by each timer, and died
    /// or were stopped before they had taken the tick, so that both timers are silent; or all have been in
    /// handlers since the ticks came. Who watches the guard takes it before its next wait (`take_tick`): to arm a
    /// timer anew removes a tick that is there, and were that all, a worker whose turns are long might never see one.
    pub fn is_overdue(&self, line: &GuardLine, now_us: u64) -> bool {
        let due_us = line.backup_due_us.load(Relaxed);
        // What is further away nobody has noted: once, and what a worker may have read the clock earlier.
        due_us != NEVER_STARTED && !(now_us..=now_us + 2 * self.backup_us()).contains(&due_us)
    }

    /// For the first worker of a herd.
    pub fn start_if_first(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        match line.backup_due_us.load(Relaxed) {
            NEVER_STARTED => self.start(line, now_us),
            _ => Ok(()),
        }
    }

    /// Whether no tick is going to come within `delay_us` from now. One that came just now and was not taken
    /// is not asked for again at once.
    pub fn is_later(&self, line: &GuardLine, now_us: u64, delay_us: u64) -> bool {
        let due_us = line.due_us.load(SeqCst);
        due_us > now_us + delay_us
            || self.is_overdue(line, now_us) && due_us + self.interval_us / 2 <= now_us
    }

    /// Has the next tick come `delay_us` from now, until somebody has the right. For `push_back`.
    pub fn pull_in(&self, line: &GuardLine, now_us: u64, delay_us: u64) -> Result<()> {
        let delay_us = delay_us.min(self.interval_us);
        line.pulled_in_from_us.store(line.due_us.load(Relaxed), Relaxed);
        line.pulled_in_to_us.store(now_us + delay_us, Relaxed);
        self.arm(line, now_us, delay_us)
    }

    /// Has the next tick come within handover_delay, if it does not anyway, whoever has the right.
    pub fn demand_tick(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        for _ in 0..TRIES {
            line.pulled_in_to_us.store(0, SeqCst);
            if self.is_later(line, now_us, self.handover_delay_us) {
                break;
            }
            // Otherwise the tick may be one that was pulled in just now, and that is pushed back again.
            if line.pulled_in_to_us.load(SeqCst) == 0 {
                return Ok(());
            }
        }
        self.arm(line, now_us, self.handover_delay_us)
    }

    /// Undoes a `pull_in`, of whomever, unless the guard was armed anew since. The tick comes when it would
    /// have come, or pulling it in and pushing it back again and again would put it off for ever.
    pub fn push_back(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        let to_us = line.pulled_in_to_us.load(SeqCst);
        let from_us = line.pulled_in_from_us.load(Relaxed).min(now_us + self.interval_us);
        if line.due_us.load(Relaxed) == to_us && from_us > now_us {
            self.arm(line, now_us, from_us - now_us)?;
            // Somebody may have seen the tick where it was meanwhile, and rely on it.
            if line.pulled_in_to_us.load(SeqCst) != to_us {
                self.arm(line, now_us, self.handover_delay_us)?;
            }
        }
        Ok(())
    }

    fn arm(&self, line: &GuardLine, now_us: u64, first_us: u64) -> Result<()> {
        let mut due_us = now_us + first_us;
        line.due_us.store(due_us, SeqCst);
        loop {
            self.timer.arm(due_us - now_us, self.interval_us)?;
            // Another worker that stored an earlier time, and armed before this one did, relies on it.
            match line.due_us.load(Relaxed) {
                earlier_us if (now_us..due_us).contains(&earlier_us) => due_us = earlier_us,
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_nobody_can_have_noted_holds_nothing_up() {
        let guard = Guard::new(500_000, 500).unwrap();
        let line = GuardLine::default();
        line.looked_for_dead_us.store(u64::MAX, Relaxed);
        assert!(guard.should_look_for_dead(&line, 1_000_000));
        assert!(!guard.should_look_for_dead(&line, 1_200_000));
        assert!(!guard.should_look_for_dead(&line, 999_999));
        line.due_us.store(u64::MAX, Relaxed);
        guard.pull_in(&line, 1_000_000, 500).unwrap();
        guard.push_back(&line, 1_000_001).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 1_500_001);
        line.due_us.store(u64::MAX, Relaxed);
        guard.demand_tick(&line, 1_000_000).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 1_000_500);
        line.backup_due_us.store(u64::MAX, Relaxed);
        assert!(guard.is_overdue(&line, 1_000_000));
        assert!(guard.take_tick(&line, 1_000_000).unwrap());
        assert!(!guard.is_overdue(&line, 1_000_000));
    }

    #[test]
    fn the_first_worker_starts_it_and_an_overdue_tick_is_taken_once() {
        let guard = Guard::new(500_000, 500).unwrap();
        let line = GuardLine::default();
        let times_us = || (line.due_us.load(Relaxed), line.backup_due_us.load(Relaxed));
        assert!(!guard.is_overdue(&line, 1_000_000));
        assert!(!guard.take_tick(&line, 1_000_000).unwrap());
        guard.start_if_first(&line, 1_000_000).unwrap();
        assert_eq!(times_us(), (1_500_000, 1_750_000));
        guard.start_if_first(&line, 1_100_000).unwrap();
        assert!(!guard.take_tick(&line, 1_750_000).unwrap());
        // Nor does a tick that is demanded now make it less overdue: it may find all in handlers again.
        guard.demand_tick(&line, 1_750_001).unwrap();
        assert_eq!(times_us(), (1_750_501, 1_750_000));
        assert!(guard.take_tick(&line, 1_750_002).unwrap());
        assert_eq!(times_us(), (2_250_002, 2_500_002));
        assert!(!guard.take_tick(&line, 1_750_003).unwrap());
    }

    #[test]
    fn a_handover_delay_above_the_interval_puts_no_tick_off() {
        let guard = Guard::new(100_000, 1_000_000).unwrap();
        let line = GuardLine::default();
        guard.start_if_first(&line, 1_000_000).unwrap();
        guard.demand_tick(&line, 1_000_001).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 1_100_000);
        guard.demand_tick(&line, 2_000_000).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 2_100_000);
        guard.pull_in(&line, 2_000_000, 1_000_000).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 2_100_000);
    }

    #[test]
    fn what_was_pulled_in_is_pushed_back_to_where_it_was_once() {
        let guard = Guard::new(500_000, 500).unwrap();
        let line = GuardLine::default();
        let due_us = || line.due_us.load(Relaxed);
        guard.start_if_first(&line, 1_000_000).unwrap();
        guard.pull_in(&line, 1_100_000, 500).unwrap();
        assert_eq!(due_us(), 1_100_500);
        guard.push_back(&line, 1_100_100).unwrap();
        assert_eq!(due_us(), 1_500_000);
        // Whoever has the right, this one is relied on.
        guard.pull_in(&line, 1_200_000, 500).unwrap();
        guard.demand_tick(&line, 1_200_100).unwrap();
        guard.push_back(&line, 1_200_200).unwrap();
        assert_eq!(due_us(), 1_200_500);
    }
}
