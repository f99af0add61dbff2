//! The shared region: memory that all workers of a herd see. It knows layout and atomics, not what
//! they are used for.

mod changes;
pub mod identity;
pub mod layout;
pub mod lock;
pub mod observed;
pub mod queue;
pub mod region;
pub mod slot;
pub mod steering;
pub mod times;

pub use region::{Part, Region};
pub use steering::Steering;

/// Whether workers count at all. A build that does not is for one purpose: to measure what counting
/// costs (bench/counting.sh).
pub const COUNTS: bool = !cfg!(feature = "uncounted");

use crate::sys::{Error, Result};
use identity::Identity;
use lock::Word;
use slot::Slot;
use std::mem::size_of;
use times::Times;

/// A region to read figures from: the herd's own mapping, or another process's look at it.
pub trait Source {
    fn identity(&self) -> &Identity;
    fn word(&self) -> Result<Word>;
    /// Whether a process of the herd lives.
    fn is_alive(&self) -> Result<bool>;
    /// The moment that the figures are of, on the clock of `now_us`: the present one, or once the herd
    /// has ended the last that its workers noted. Else the dead would go on waiting and working.
    fn until_us(&self) -> Result<u64>;
    /// -EINVAL: no such slot.
    fn with_slot(&self, number: usize, look: &mut dyn FnMut(&Slot)) -> Result<()>;
    /// -EINVAL: no such slot.
    fn with_times(&self, number: usize, look: &mut dyn FnMut(&Times)) -> Result<()>;

    fn slot_offset(&self, number: usize) -> Result<usize> {
        self.check_slot(number).map(|()| size_of::<layout::Header>() + number * size_of::<Slot>())
    }

    fn times_offset(&self, number: usize) -> Result<usize> {
        let slots_bytes = self.identity().slots() * size_of::<Slot>();
        let before = size_of::<layout::Header>() + slots_bytes;
        self.check_slot(number).map(|()| before + number * size_of::<Times>())
    }

    fn check_slot(&self, number: usize) -> Result<()> {
        if number < self.identity().slots() { Ok(()) } else { Err(Error::INVALID) }
    }
}
