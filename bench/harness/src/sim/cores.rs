//! Who runs: cores, and those who wait for one, first come first served, with a time slice.

use super::shapes::US;
use std::collections::VecDeque;

/// Linux's base_slice_ns on two cores (kernel/sched/fair.c: 0.7 ms times 1 + log2 of the cores).
pub const SLICE: u64 = 1_400 * US;

pub struct Cores {
    free: usize,
    queue: VecDeque<usize>,
}

impl Cores {
    pub fn new(count: usize) -> Cores {
        Cores { free: count, queue: VecDeque::new() }
    }

    /// True: the worker has a core; false: it gets one from `release`.
    pub fn take(&mut self, worker: usize) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        self.queue.push_back(worker);
        false
    }

    /// Gives a core back. Who gets it, if anybody waits.
    pub fn release(&mut self) -> Option<usize> {
        let next = self.queue.pop_front();
        self.free += usize::from(next.is_none());
        next
    }

    pub fn anybody_waits(&self) -> bool {
        !self.queue.is_empty()
    }
}
