//! The guard: one timer for the whole herd that wakes one idle worker every accept_delay, so that no
//! connection waits behind a holder that is stopped, hung or dead. Workers that lost the right need
//! no timeout of their own. While the right is free and everybody who knows of it is busy, the next
//! tick is pulled in to handover_delay.

use crate::atomics::Ordering::Relaxed;
use crate::shm::layout::GuardLine;
use crate::shm::lock::Word;
use crate::sys::Result;
use crate::sys::guard_timer::GuardTimer;

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
            self.push_backup_off()?;
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
        now_us >= last_us + self.interval_us / 2
            && line.looked_for_dead_us.compare_exchange(last_us, now_us, Relaxed, Relaxed).is_ok()
    }

    /// Starts the timer anew if its tick is overdue: the first worker finds it so, and so do the
    /// others when one died between being woken by a tick and reading it.
    pub fn arm_if_overdue(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        if is_overdue(line.due_us.load(Relaxed), now_us, self.interval_us) {
            self.arm(line, now_us, self.interval_us)?;
            self.push_backup_off()?;
        }
        Ok(())
    }

    /// Whether pulling the next tick in would make it come sooner.
    pub fn can_pull_in(&self, line: &GuardLine, now_us: u64) -> bool {
        line.due_us.load(Relaxed) > now_us + self.handover_delay_us
    }

    /// For `push_back`.
    pub fn pull_in(&self, line: &GuardLine, now_us: u64) -> Result<PulledIn> {
        let from_us = line.due_us.load(Relaxed);
        self.arm(line, now_us, self.handover_delay_us)?;
        Ok(PulledIn { from_us, to_us: now_us + self.handover_delay_us })
    }

    /// Has the next tick come within handover_delay, if it does not anyway.
    pub fn pull_in_if_later(&self, line: &GuardLine, now_us: u64) -> Result<()> {
        if self.can_pull_in(line, now_us) {
            return self.arm(line, now_us, self.handover_delay_us);
        }
        self.arm_if_overdue(line, now_us)
    }

    /// Undoes a `pull_in`, unless the guard was armed anew since. The tick comes when it would have
    /// come, or pulling it in and pushing it back again and again would put it off for ever.
    pub fn push_back(&self, line: &GuardLine, pulled_in: PulledIn, now_us: u64) -> Result<()> {
        if line.due_us.load(Relaxed) == pulled_in.to_us && pulled_in.from_us > now_us {
            self.arm(line, now_us, pulled_in.from_us - now_us)?;
        }
        Ok(())
    }

    fn arm(&self, line: &GuardLine, now_us: u64, first_us: u64) -> Result<()> {
        line.due_us.store(now_us + first_us, Relaxed);
        self.timer.arm(first_us, self.interval_us)
    }
}

/// When the next tick was due before it was pulled in, and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PulledIn {
    from_us: u64,
    to_us: u64,
}

/// A tick that nobody took for half an interval was lost: who is woken reads it first of all.
fn is_overdue(due_us: u64, now_us: u64, interval_us: u64) -> bool {
    now_us > due_us + interval_us / 2
}

/// What a worker saw of the holder while a connection was waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    pub word: Word,
    pub holder_turns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing to hold against the holder.
    Clear,
    /// Look again in a while.
    LookAgain,
    /// A connection waits, and the holder did nothing for long enough: take the right from it.
    TakeOver(Word),
}

/// Evidence that a holder makes no progress, gathered over `handover_delay`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Suspicion {
    first: Option<(Sighting, u64)>,
}

impl Suspicion {
    pub fn is_pending(&self) -> bool {
        self.first.is_some()
    }

    pub fn clear(&mut self) {
        self.first = None;
    }

    /// When to look again, while there is something to look at.
    pub fn next_look_us(&self, handover_delay_us: u64) -> Option<u64> {
        self.first.map(|(_, since_us)| since_us + handover_delay_us)
    }

    /// `sighting` is None when no connection waits or nobody holds the right. A holder that moved
    /// since the first sighting is cleared: it is alive, and the connection is as good as accepted.
    pub fn judge(
        &mut self,
        sighting: Option<Sighting>,
        now_us: u64,
        handover_delay_us: u64,
    ) -> Verdict {
        let Some(seen) = sighting else {
            self.clear();
            return Verdict::Clear;
        };
        match self.first {
            Some((first, since_us)) if first == seen => {
                if now_us < since_us + handover_delay_us {
                    return Verdict::LookAgain;
                }
                self.clear();
                Verdict::TakeOver(seen.word)
            }
            Some(_) => {
                self.clear();
                Verdict::Clear
            }
            None => {
                self.first = Some((seen, now_us));
                Verdict::LookAgain
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::lock::AcceptLock;

    #[test]
    fn a_tick_is_overdue_only_after_its_readers_had_their_time() {
        assert!(is_overdue(0, 1_000_000, 500_000));
        assert!(!is_overdue(1_000_000, 900_000, 500_000));
        assert!(!is_overdue(1_000_000, 1_250_000, 500_000));
        assert!(is_overdue(1_000_000, 1_250_001, 500_000));
    }

    #[test]
    fn only_a_holder_that_stood_still_while_a_connection_waited_loses_the_right() {
        let lock = AcceptLock::default();
        let word = lock.try_acquire(3).unwrap();
        let still = Some(Sighting { word, holder_turns: 7 });
        let moved = Some(Sighting { word, holder_turns: 8 });

        let mut suspicion = Suspicion::default();
        assert_eq!(suspicion.judge(None, 0, 500), Verdict::Clear);
        assert_eq!(suspicion.judge(still, 100, 500), Verdict::LookAgain);
        assert_eq!(suspicion.next_look_us(500), Some(600));
        assert_eq!(suspicion.judge(still, 599, 500), Verdict::LookAgain);
        assert_eq!(suspicion.judge(still, 600, 500), Verdict::TakeOver(word));
        assert_eq!(suspicion.next_look_us(500), None);

        assert_eq!(suspicion.judge(still, 700, 500), Verdict::LookAgain);
        assert_eq!(suspicion.judge(moved, 1300, 500), Verdict::Clear);
        assert_eq!(suspicion.judge(moved, 1400, 500), Verdict::LookAgain);
        assert_eq!(suspicion.judge(None, 2000, 500), Verdict::Clear);
        assert!(!suspicion.is_pending());
    }
}
