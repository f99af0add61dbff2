//! The accept lock: one word that names its holder. It is an efficiency
//! lock: two workers that accept at the same moment are harmless, accept4(2) decides between them.
//! Taking it from a worker that makes no progress is therefore always safe. It takes no part in
//! memory ordering of other data beyond what its users say.

use crate::atomics::{AtomicU64, Ordering::SeqCst};
use std::fmt;

/// A value of the lock word: the holder's slot + 1 in the upper 16 bits (0: free), the number of
/// acquisitions so far in the lower 48. A word that was seen once therefore never comes again.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Word(u64);

const EPOCH_BITS: u32 = 48;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;

impl Word {
    /// As an observer read it.
    pub fn from_number(number: u64) -> Word {
        Word(number)
    }

    pub fn holder(self) -> Option<u16> {
        ((self.0 >> EPOCH_BITS) as u16).checked_sub(1)
    }

    fn epoch(self) -> u64 {
        self.0 & EPOCH_MASK
    }

    fn acquired_by(self, slot: u16) -> Word {
        let epoch = (self.epoch() + 1) & EPOCH_MASK;
        Word((u64::from(slot) + 1) << EPOCH_BITS | epoch)
    }

    fn released(self) -> Word {
        Word(self.epoch())
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Word {{ holder: {:?}, epoch: {} }}", self.holder(), self.epoch())
    }
}

/// Zeroed memory is a free lock.
#[repr(C, align(128))]
#[derive(Default)]
pub struct AcceptLock {
    word: AtomicU64,
}

impl AcceptLock {
    pub fn word(&self) -> Word {
        Word(self.word.load(SeqCst))
    }

    /// Takes the lock for `slot` if it is free. Never blocks.
    pub fn try_acquire(&self, slot: u16) -> Option<Word> {
        let seen = self.word();
        if seen.holder().is_some() { None } else { self.take_over(seen, slot) }
    }

    /// Takes the lock for `slot` if the word still is `seen`, whoever holds it.
    pub fn take_over(&self, seen: Word, slot: u16) -> Option<Word> {
        let mine = seen.acquired_by(slot);
        self.word.compare_exchange(seen.0, mine.0, SeqCst, SeqCst).ok().map(|_| mine)
    }

    /// Frees the lock if the word still is `mine`. False: it was taken away meanwhile, and nothing
    /// was changed.
    pub fn release(&self, mine: Word) -> bool {
        self.word.compare_exchange(mine.0, mine.released().0, SeqCst, SeqCst).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_every_acquisition_has_its_epoch() {
        let lock = AcceptLock::default();
        let first = lock.try_acquire(0).unwrap();
        assert_eq!((first.holder(), first.epoch()), (Some(0), 1));
        assert_eq!(lock.try_acquire(0), None);
        assert_eq!(lock.try_acquire(7), None);
        assert!(lock.release(first));
        assert_eq!(lock.word().holder(), None);
        let second = lock.try_acquire(u16::MAX - 1).unwrap();
        assert_eq!((second.holder(), second.epoch()), (Some(u16::MAX - 1), 2));
    }

    #[test]
    fn a_release_after_a_theft_harms_nobody() {
        let lock = AcceptLock::default();
        let robbed = lock.try_acquire(1).unwrap();
        let thief = lock.take_over(robbed, 2).unwrap();
        assert!(!lock.release(robbed));
        assert_eq!(lock.word(), thief);
        assert_eq!(lock.take_over(robbed, 3), None);
        assert!(lock.release(thief));
        // The robbed worker gets the lock again: its old word still opens nothing.
        let again = lock.try_acquire(1).unwrap();
        assert!(!lock.release(robbed));
        assert_eq!(lock.word(), again);
    }

    #[test]
    fn epochs_wrap_without_touching_the_holder() {
        let lock = AcceptLock { word: AtomicU64::new(EPOCH_MASK) };
        let word = lock.try_acquire(5).unwrap();
        assert_eq!((word.holder(), word.epoch()), (Some(5), 0));
    }
}
