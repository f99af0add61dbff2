//! The guard: one timer for the whole herd, with a backup for its lost ticks, that wakes one idle
//! worker every accept_delay, so that no connection waits behind a holder that is stopped, hung or
//! dead. Workers that lost the right need no timeout of their own. While the right is free the next tick is
//! pulled in to handover_delay.

use crate::atomics::Ordering::{Relaxed, SeqCst};
use crate::shm::layout::GuardLine;
use crate::sys::Result;
use crate::sys::guard_timer::GuardTimer;

/// When the tick is due in a herd that has had no worker yet.
const NEVER_STARTED: u64 = 0;

pub struct Guard {
    timer: GuardTimer,
    /// Due when no tick was taken for half an interval: a worker that dies or is stopped between
    /// being woken by a tick and reading it silences a timer for good, since the kernel wakes nobody
    /// else for that tick and counts on only after a read.
    backup: GuardTimer,
    interval_us: u64,
    handover_delay_us: u64,
}

impl Guard {
    pub fn new(interval_us: u64, handover_delay_us: u64) -> Result<Guard> {
        let (timer, backup) = (GuardTimer::new()?, GuardTimer::new()?);
        Ok(Guard { timer, backup, interval_us, handover_delay_us })
    }

    pub fn fds(&self) -> [i32; 2] {
        [self.timer.fd(), self.backup.fd()]
    }

    /// Takes the tick that woke this worker, and lets the timer count on. False: another took it.
    pub fn take_tick(&self, line: &GuardLine, now_us: u64) -> Result<bool> {
        if self.timer.take_tick()? {
            line.due_us.store(now_us + self.interval_us, Relaxed);
            // If that fails it ticks early, and whoever it wakes finds nothing to do.
            let _ = self.push_backup_off();
            return Ok(true);
        }
        let was_lost = self.backup.take_tick()?;
        if was_lost {
            self.arm(line, now_us, self.interval_us)?;
            self.push_backup_off()?;
        }
        Ok(was_lost)
    }

    fn push_backup_off(&self) -> Result<()> {
        let us = self.interval_us + self.interval_us / 2;
        self.backup.arm(us, us)
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

    /// Whether both timers are silent: two workers were woken, one by each, and died or were stopped before they
    /// had taken the tick.
    pub fn is_overdue(&self, line: &GuardLine, now_us: u64) -> bool {
        let due_us = line.due_us.load(Relaxed);
        due_us != NEVER_STARTED && is_overdue(due_us, now_us, self.interval_us)
    }

    /// Starts the timers for the first worker of a herd, or anew if the tick is overdue.
    pub fn start_if_overdue(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        let first_us = match line.due_us.load(Relaxed) {
            NEVER_STARTED => self.interval_us,
            _ if self.is_overdue(line, now_us) => self.handover_delay_us,
            _ => return Ok(()),
        };
        self.arm(line, now_us, first_us)?;
        self.push_backup_off()
    }

    /// Whether no tick is going to come within `delay_us` from now.
    pub fn is_later(&self, line: &GuardLine, now_us: u64, delay_us: u64) -> bool {
        let due_us = line.due_us.load(SeqCst);
        due_us > now_us + delay_us || is_overdue(due_us, now_us, self.interval_us)
    }

    /// Has the next tick come `delay_us` from now, until somebody has the right. For `push_back`.
    pub fn pull_in(&self, line: &GuardLine, now_us: u64, delay_us: u64) -> Result<()> {
        line.pulled_in_from_us.store(line.due_us.load(Relaxed), Relaxed);
        line.pulled_in_to_us.store(now_us + delay_us, Relaxed);
        self.arm(line, now_us, delay_us)
    }

    /// Has the next tick come within handover_delay, if it does not anyway, whoever has the right.
    pub fn demand_tick(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        line.pulled_in_to_us.store(0, SeqCst);
        if self.is_later(line, now_us, self.handover_delay_us) {
            self.arm(line, now_us, self.handover_delay_us)?;
        }
        Ok(())
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

/// A tick that nobody took for half an interval was lost: who is woken reads it first of all. One that is
/// further away than two intervals nobody has armed: one, and what a worker may have read the clock earlier.
fn is_overdue(due_us: u64, now_us: u64, interval_us: u64) -> bool {
    let plausible = now_us.saturating_sub(interval_us / 2)..=now_us + 2 * interval_us;
    !plausible.contains(&due_us)
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
        guard.start_if_overdue(&line, 1_000_000).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 1_000_500);
        line.due_us.store(NEVER_STARTED, Relaxed);
        assert!(!guard.is_overdue(&line, 1_000_000));
        guard.start_if_overdue(&line, 1_000_000).unwrap();
        assert_eq!(line.due_us.load(Relaxed), 1_500_000);
    }

    #[test]
    fn what_was_pulled_in_is_pushed_back_to_where_it_was_once() {
        let guard = Guard::new(500_000, 500).unwrap();
        let line = GuardLine::default();
        let due_us = || line.due_us.load(Relaxed);
        guard.arm(&line, 1_000_000, 500_000).unwrap();
        guard.pull_in(&line, 1_100_000, 500).unwrap();
        assert_eq!(due_us(), 1_100_500);
        guard.push_back(&line, 1_100_100).unwrap();
        assert_eq!(due_us(), 1_500_000);
        // Whoever has the right, this one is relied on.
        guard.pull_in(&line, 1_200_000, 500).unwrap();
        guard.demand_tick(&line, 1_200_100).unwrap();
        guard.push_back(&line, 1_200_200).unwrap();
        assert_eq!(due_us(), 1_200_500);
        // A tick that was lost does not keep others from asking for one.
        assert!(!guard.is_later(&line, 1_200_400, 500) && guard.is_later(&line, 1_500_000, 500));
        guard.demand_tick(&line, 1_500_000).unwrap();
        assert_eq!(due_us(), 1_500_500);
        guard.start_if_overdue(&line, 1_600_000).unwrap();
        assert_eq!(due_us(), 1_500_500);
        guard.start_if_overdue(&line, 1_800_000).unwrap();
        assert_eq!(due_us(), 1_800_500);
    }

    #[test]
    fn a_tick_is_overdue_only_after_its_readers_had_their_time() {
        assert!(is_overdue(0, 1_000_000, 500_000));
        assert!(!is_overdue(1_000_000, 900_000, 500_000));
        assert!(!is_overdue(1_000_000, 1_250_000, 500_000));
        assert!(is_overdue(1_000_000, 1_250_001, 500_000));
        assert!(!is_overdue(1_600_000, 1_000_000, 500_000));
        assert!(is_overdue(u64::MAX, 1_000_000, 500_000));
    }
}
