//! Evidence that the holder of the accept right makes no progress while a connection waits. Pure:
//! what was seen and when in, a verdict out.

use crate::shm::lock::Word;

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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Suspicion {
    first: Option<(Word, u64)>,
}

impl Suspicion {
    pub const NONE: Suspicion = Suspicion { first: None };

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

    /// `held` is the word while a connection waits and somebody holds the right. Every turn of a
    /// holder changes the word, so one that has changed since the first look clears it: it is alive,
    /// and the connection is as good as accepted.
    pub fn judge(&mut self, held: Option<Word>, now_us: u64, handover_delay_us: u64) -> Verdict {
        let Some(seen) = held else {
            self.clear();
            return Verdict::Clear;
        };
        match self.first {
            Some((first, since_us)) if first == seen => {
                if now_us < since_us + handover_delay_us {
                    return Verdict::LookAgain;
                }
                self.clear();
                Verdict::TakeOver(seen)
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
    fn only_a_holder_that_stood_still_while_a_connection_waited_loses_the_right() {
        let lock = AcceptLock::default();
        let word = lock.try_acquire(3).unwrap();
        assert!(lock.release(word));
        let still = Some(word);
        let moved = lock.try_acquire(3);

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
