//! How often the herd's listeners were changed, in a word that shows when something else was written to it.

use crate::atomics::{AtomicU64, Ordering::SeqCst};

/// The lower half counts up and the upper one down, so that they add up to 0, as in zeroed memory.
#[repr(transparent)]
#[derive(Default)]
pub struct Changes(AtomicU64);

const ONE: u64 = 1_u64.wrapping_sub(1 << 32);

fn adds_up(word: u64) -> bool {
    (word as u32).wrapping_add((word >> 32) as u32) == 0
}

impl Changes {
    /// The word, to be compared with others only. None: it is damaged.
    pub fn word(&self) -> Option<u64> {
        Some(self.0.load(SeqCst)).filter(|&word| adds_up(word))
    }

    /// Counts a change. After damage it goes on from the word that the caller knew.
    pub fn count(&self, known: u64) -> u64 {
        let counted = self.0.fetch_add(ONE, SeqCst).wrapping_add(ONE);
        if adds_up(counted) {
            return counted;
        }
        let repaired = known.wrapping_add(ONE);
        self.0.store(repaired, SeqCst);
        repaired
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_change_gives_another_word_and_what_others_write_shows() {
        let changes = Changes::default();
        assert_eq!(changes.word(), Some(0));
        let first = changes.count(0);
        let second = changes.count(first);
        assert!(first != 0 && second != first);
        assert_eq!(changes.word(), Some(second));
        for damage in [1, second + 1, second ^ 1 << 40, 0xffff, u64::MAX, 1 << 63 | 5] {
            changes.0.store(damage, SeqCst);
            assert_eq!(changes.word(), None, "{damage:x}");
        }
        assert_eq!(changes.count(second), second.wrapping_add(ONE));
        assert_eq!(changes.word(), Some(second.wrapping_add(ONE)));
    }
}
