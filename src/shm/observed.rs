//! A region as a process sees it that is not of the herd: by name, read only, and with nothing in it
//! trusted.

use super::Source;
use super::identity::Identity;
use super::layout::Header;
use super::region::place_of;
use super::slot::Slot;
use super::times::Times;
use crate::shm::lock::Word;
use crate::sys::clock::now_us;
use crate::sys::named_memory::Look;
use crate::sys::{Error, Result};
use std::mem::{offset_of, size_of};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct Observed {
    look: Look,
    identity: Identity,
    /// The last moment that the workers noted. Known once the herd has ended, which is for good: its
    /// name goes to another file. Until then: RUNS.
    ended_us: AtomicU64,
}

const RUNS: u64 = u64::MAX;

/// For which any bytes are a value.
///
/// # Safety
/// The implementing struct consists of integers, or atomics of them, and has no other members.
unsafe trait AnyBytes: Sized {}

// SAFETY: integers.
unsafe impl AnyBytes for Identity {}
// SAFETY: atomics of integers.
unsafe impl AnyBytes for Slot {}
// SAFETY: atomics of integers.
unsafe impl AnyBytes for Times {}
// SAFETY: an integer.
unsafe impl AnyBytes for u64 {}

impl Observed {
    /// Opens the herd of this name that `user`, or the calling process's user, runs.
    pub fn open(user: Option<u32>, name: &str) -> Result<Observed> {
        let look = Look::open(&place_of(user, name))?;
        let bytes = look.bytes()?;
        if bytes < size_of::<Header>() as u64 {
            // Just being made, or never finished.
            return Err(if bytes == 0 { Error::NOT_FOUND } else { Error::DAMAGED });
        }
        let mut identity = Identity::new(0, 0, 0);
        read(&look, &mut identity, offset_of!(Header, identity))?;
        identity.check(bytes)?;
        Ok(Observed { look, identity, ended_us: AtomicU64::new(RUNS) })
    }

    fn last_noted_us(&self) -> Result<u64> {
        let mut last_us = 0;
        for number in 0..self.identity.slots() {
            self.with_slot(number, &mut |slot| last_us = last_us.max(slot.noted_us(now_us())))?;
        }
        Ok(last_us)
    }
}

/// Reads what lies at `offset`. The kernel copies while workers write; a number that lies on its own
/// size's boundary is copied in one piece by every processor that Linux's copy loop is written for.
fn read<T: AnyBytes>(look: &Look, value: &mut T, offset: usize) -> Result<()> {
    // SAFETY: any bytes are a value of T, and nobody else sees `value` meanwhile.
    let bytes = unsafe { slice::from_raw_parts_mut((&raw mut *value).cast(), size_of::<T>()) };
    look.read(bytes, offset as u64)
}

impl Source for Observed {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn word(&self) -> Result<Word> {
        let mut word = 0;
        read(&self.look, &mut word, offset_of!(Header, lock))?;
        Ok(Word::from_number(word))
    }

    fn is_alive(&self) -> Result<bool> {
        Ok(self.ended_us.load(Relaxed) == RUNS && self.look.is_in_use()?)
    }

    fn until_us(&self) -> Result<u64> {
        let ended_us = self.ended_us.load(Relaxed);
        if ended_us != RUNS {
            return Ok(ended_us);
        }
        if self.is_alive()? {
            return Ok(now_us());
        }
        // After it was seen to have ended, so that nothing is noted any more.
        let last_us = self.last_noted_us()?;
        let noted = self.ended_us.compare_exchange(RUNS, last_us, Relaxed, Relaxed);
        Ok(noted.map_or_else(|by_another| by_another, |_| last_us))
    }

    fn with_slot(&self, number: usize, look: &mut dyn FnMut(&Slot)) -> Result<()> {
        let mut slot = Slot::default();
        read(&self.look, &mut slot, self.slot_offset(number)?)?;
        look(&slot);
        Ok(())
    }

    fn with_times(&self, number: usize, look: &mut dyn FnMut(&Times)) -> Result<()> {
        let mut times = Times::default();
        read(&self.look, &mut times, self.times_offset(number)?)?;
        look(&times);
        Ok(())
    }
}
