//! One worker's side of the accept lock.

use crate::shm::lock::{AcceptLock, Word};
use std::cell::Cell;

/// A worker trusts the word in shared memory: `acquired` is only what it compares that with. The
/// default word, of a lock that was never taken, stands for none.
pub struct Gate {
    slot: u16,
    acquired: Cell<Word>,
    /// What it had when it last began to wait.
    waited_with: Cell<Word>,
}

impl Gate {
    pub fn new(slot: u16) -> Gate {
        Gate { slot, acquired: Cell::default(), waited_with: Cell::default() }
    }

    pub fn holds(&self, lock: &AcceptLock) -> bool {
        self.has_acquired() && lock.word() == self.acquired.get()
    }

    /// What this worker would release; it may have been taken away meanwhile.
    pub fn has_acquired(&self) -> bool {
        self.acquired.get() != Word::default()
    }

    /// Takes the right if it is free. True: this worker has it.
    pub fn try_acquire(&self, lock: &AcceptLock) -> bool {
        let acquired = lock.try_acquire(self.slot);
        self.acquired.set(acquired.unwrap_or_default());
        acquired.is_some()
    }

    /// Takes the right from whoever holds it by the word `seen`.
    pub fn take_over(&self, lock: &AcceptLock, seen: Word) -> bool {
        let acquired = lock.take_over(seen, self.slot);
        self.acquired.set(acquired.unwrap_or_default());
        acquired.is_some()
    }

    /// To be called before every wait. True: the right was not given up since the last one.
    pub fn waits_on(&self) -> bool {
        let acquired = self.acquired.get();
        self.waited_with.replace(acquired) == acquired && self.has_acquired()
    }

    /// True: it was held and is free now. False: it was not held, or was taken away meanwhile.
    pub fn release(&self, lock: &AcceptLock) -> bool {
        let acquired = self.acquired.take();
        acquired != Word::default() && lock.release(acquired)
    }
}
