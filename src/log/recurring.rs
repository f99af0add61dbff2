//! Lines that can come for every connection or in every turn: on a machine that is overloaded they would
//! fill the host's log. Each kind comes once a second at most, and counts those that were left out. Pure:
//! times in, a decision out.

use crate::abi::{HERD_LOG_ERROR, HERD_LOG_INFO, HERD_LOG_WARNING};
use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The least time between two lines of a kind from one process.
const EVERY_US: u64 = 1_000_000;

/// The kinds, by what a line tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recurring {
    /// A system call of the library's own failed, when it was at this.
    Failure(Task),
    Theft,
    /// Connections were taken that another worker did not take.
    Rescue,
    EventsDropped,
    MessageDropped,
    ConnectionDropped,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    Accept,
    WatchListeners,
    FindReadyListeners,
    TakeTick,
    Receive,
    PassOn,
    PullGuardIn,
    PushGuardBack,
    SeeWhoWaits,
    LookForDead,
}

const TASKS: usize = Task::LookForDead as usize + 1;
const KINDS: usize = TASKS + 5;

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Task::Accept => "accept",
            Task::WatchListeners => "watch the listeners",
            Task::FindReadyListeners => "find the listeners that are ready",
            Task::TakeTick => "take a tick of the guard",
            Task::Receive => "receive",
            Task::PassOn => "pass connections on",
            Task::PullGuardIn => "pull the guard in",
            Task::PushGuardBack => "push the guard back",
            Task::SeeWhoWaits => "look whether a connection waits",
            Task::LookForDead => "look for the dead",
        })
    }
}

impl Recurring {
    pub fn level(self) -> c_int {
        match self {
            Recurring::Failure(_) | Recurring::Theft => HERD_LOG_WARNING,
            Recurring::Rescue => HERD_LOG_INFO,
            Recurring::EventsDropped | Recurring::MessageDropped | Recurring::ConnectionDropped => {
                HERD_LOG_ERROR
            }
        }
    }

    fn place(self) -> usize {
        match self {
            Recurring::Failure(task) => task as usize,
            Recurring::Theft => TASKS,
            Recurring::Rescue => TASKS + 1,
            Recurring::EventsDropped => TASKS + 2,
            Recurring::MessageDropped => TASKS + 3,
            Recurring::ConnectionDropped => TASKS + 4,
        }
    }
}

#[derive(Default)]
struct Kind {
    /// When its last line came; 0: there was none.
    last_us: AtomicU64,
    left_out: AtomicU64,
}

/// What the threads of a process have said.
#[derive(Default)]
pub struct Said {
    process: AtomicU64,
    kinds: [Kind; KINDS],
}

impl Said {
    /// Whether a line may come now, and how many were left out since the last. None: it is left out
    /// too. A child does not count what `process` has left out before the fork.
    pub fn judge(&self, kind: Recurring, now_us: u64, process: u64) -> Option<u64> {
        if self.process.swap(process, Relaxed) != process {
            for Kind { last_us, left_out } in &self.kinds {
                last_us.store(0, Relaxed);
                left_out.store(0, Relaxed);
            }
        }
        let Kind { last_us, left_out } = &self.kinds[kind.place()];
        let last = last_us.load(Relaxed);
        let is_due = last == 0 || now_us.saturating_sub(last) >= EVERY_US;
        // Of two threads one writes, and the other's line is the next one's to count.
        if is_due && last_us.compare_exchange(last, now_us, Relaxed, Relaxed).is_ok() {
            Some(left_out.swap(0, Relaxed))
        } else {
            left_out.fetch_add(1, Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_comes_once_a_second_and_counts_what_was_left_out() {
        const THEFT: Recurring = Recurring::Theft;
        const ACCEPT: Recurring = Recurring::Failure(Task::Accept);
        let said = Said::default();
        for (now_us, kind, process, expected) in [
            (5, THEFT, 1, Some(0)),
            (6, THEFT, 1, None),
            (1_000_004, THEFT, 1, None),
            // Kinds do not count for each other.
            (1_000_004, ACCEPT, 1, Some(0)),
            (1_000_005, THEFT, 1, Some(2)),
            (1_000_006, THEFT, 1, None),
            (9_000_000, THEFT, 1, Some(1)),
            (99_000_000, THEFT, 1, Some(0)),
            // Read before another thread's, which was first to write.
            (98_999_999, THEFT, 1, None),
            // A child tells of its own only.
            (99_000_001, THEFT, 2, Some(0)),
            (99_000_002, THEFT, 2, None),
            (99_000_002, ACCEPT, 2, Some(0)),
            (100_000_001, THEFT, 2, Some(1)),
        ] {
            assert_eq!(said.judge(kind, now_us, process), expected, "{kind:?} at {now_us}");
        }
    }

    #[test]
    fn every_kind_has_a_place_of_its_own() {
        let last_task = Recurring::Failure(Task::LookForDead);
        let kinds = [
            Recurring::Failure(Task::Accept),
            last_task,
            Recurring::Theft,
            Recurring::Rescue,
            Recurring::EventsDropped,
            Recurring::MessageDropped,
            Recurring::ConnectionDropped,
        ];
        let mut places = kinds.map(Recurring::place).to_vec();
        assert_eq!(places.iter().max(), Some(&(KINDS - 1)));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), kinds.len());
    }
}
