//! Numbers by which the workers of a process, of whatever herd, are told apart.

use crate::sys::{Error, Result};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

/// A number is in use while its bit is set. No lock: a child can be forked at any time.
static IN_USE: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The one to try next.
static NEXT: AtomicU16 = AtomicU16::new(1);

/// Is written into the events and timers of a worker (`herd_owner`), where there is room for 16 bits. No
/// other worker of the process has the number as long as this one lives, and it comes round again only
/// after all others: what an event still says of a worker long gone should not fit a new one.
pub struct Owner(u16);

impl Owner {
    pub fn new() -> Result<Owner> {
        for _ in 0..=u16::MAX {
            let number = NEXT.fetch_add(1, Relaxed);
            let (word, bit) = place(number);
            // 0 is what an event has that never was in use.
            if number != 0 && word.fetch_or(bit, Relaxed) & bit == 0 {
                return Ok(Owner(number));
            }
        }
        Err(Error::NO_MEMORY)
    }

    pub fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let (word, bit) = place(self.0);
        word.fetch_and(!bit, Relaxed);
    }
}

fn place(number: u16) -> (&'static AtomicU64, u64) {
    (&IN_USE[usize::from(number / 64)], 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_use_is_left_out_when_it_comes_round_again() {
        let mine = Owner::new().unwrap();
        for _ in 0..=u16::MAX {
            let other = Owner::new().unwrap();
            assert!(other.number() != 0 && other.number() != mine.number());
        }
    }
}
