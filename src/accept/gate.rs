//! One worker's side of the accept lock.

use crate::shm::lock::{AcceptLock, Word};
use std::cell::Cell;

/// A worker trusts the word in shared memory: `acquired` is only what it compares that with.
pub struct Gate {
    slot: u16,
    acquired: Cell<Option<Word>>,
    /// What it had when it last began to wait.
    waited_with: Cell<Option<Word>>,
}

impl Gate {
    pub fn new(slot: u16) -> Gate {
        Gate { slot, acquired: Cell::new(None), waited_with: Cell::new(None) }
    }

    pub fn holds(&self, lock: &AcceptLock) -> bool {
        self.acquired.get().is_some_and(|word| lock.word() == word)
    }

    /// Takes the right if it is free. True: this worker has it.
    pub fn try_acquire(&self, lock: &AcceptLock) -> bool {
        self.acquired.set(lock.try_acquire(self.slot));
        self.acquired.get().is_some()
    }

    /// Takes the right from whoever holds it by the word `seen`.
    pub fn take_over(&self, lock: &AcceptLock, seen: Word) -> bool {
        self.acquired.set(lock.take_over(seen, self.slot));
        self.acquired.get().is_some()
    }

    /// To be called before every wait. True: the right was not given up since the last one.
    pub fn waits_on(&self) -> bool {
        let acquired = self.acquired.get();
        self.waited_with.replace(acquired) == acquired && acquired.is_some()
    }

    /// True: it was held and is free now. False: it was not held, or was taken away meanwhile.
    pub fn release(&self, lock: &AcceptLock) -> bool {
        self.acquired.take().is_some_and(|word| lock.release(word))
    }
}
