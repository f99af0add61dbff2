//! One worker's side of the accept right: the lock word it acquired, if any, and whom to wake when
//! it gives the right up.

use super::balance::least_loaded;
use crate::shm::Region;
use crate::shm::lock::Word;
use crate::shm::slot::{Slot, count};
use crate::sys::bell::Bell;
use std::cell::Cell;

/// A worker trusts the word in shared memory: `acquired` is only what it compares that with.
pub struct Gate {
    slot: u16,
    acquired: Cell<Option<Word>>,
}

impl Gate {
    pub fn new(slot: u16) -> Gate {
        Gate { slot, acquired: Cell::new(None) }
    }

    pub fn holds(&self, region: &Region) -> bool {
        self.acquired.get().is_some_and(|word| region.lock.word() == word)
    }

    /// Takes the right if it is free. True: this worker has it, now or already.
    pub fn try_acquire(&self, region: &Region) -> bool {
        if self.holds(region) {
            return true;
        }
        self.acquired.set(region.lock.try_acquire(self.slot));
        let acquired = self.acquired.get().is_some();
        let counters = &region.slots()[usize::from(self.slot)].counters;
        count(if acquired { &counters.acquisitions } else { &counters.failed_tries }, 1);
        acquired
    }

    /// Takes the right from whoever holds it by the word `seen`.
    pub fn take_over(&self, region: &Region, seen: Word) -> bool {
        self.acquired.set(region.lock.take_over(seen, self.slot));
        let taken = self.acquired.get().is_some();
        if taken {
            let counters = &region.slots()[usize::from(self.slot)].counters;
            count(&counters.acquisitions, 1);
            count(&counters.thefts, 1);
        }
        taken
    }

    /// True: it was held and is free now. False: it was not held, or was taken away meanwhile.
    pub fn release(&self, region: &Region) -> bool {
        self.acquired.take().is_some_and(|word| region.lock.release(word))
    }

    /// Wakes the least-loaded idle worker, so that it tries for the right. True: there was one. The
    /// scan of all slots is for rare occasions: a worker that steps back, fails or leaves.
    pub fn wake_another(&self, region: &Region, bells: &[Bell]) -> bool {
        wake_one_idle(region.slots(), bells, Some(self.slot))
    }
}

/// Rings the least-loaded idle worker other than `except`.
pub fn wake_one_idle(slots: &[Slot], bells: &[Bell], except: Option<u16>) -> bool {
    let idle = slots.iter().zip(0u16..).filter(|&(slot, number)| {
        Some(number) != except && slot.claim().pid().is_some() && slot.is_idle()
    });
    match least_loaded(idle.map(|(slot, number)| (number, slot.load()))) {
        Some(number) => {
            bells[usize::from(number)].ring();
            true
        }
        None => false,
    }
}
