//! What the region says about itself, so that a program that was not part of the herd from the
//! beginning can tell whether it understands it.

use super::layout::{Header, region_bytes};
use super::slot::Slot;
use super::times::Times;
use crate::abi::{
    HERD_BALANCE_ROUND_ROBIN, HERD_BALANCE_SPREAD, HERD_MAX_WORKERS, HERD_MODE_EXCLUSIVE,
    HERD_MODE_SHARED,
};
use crate::sys::{Error, Result};
use std::mem::size_of;

/// Raised when a member of the region changes its meaning or its place. (What is added in the room
/// behind a struct's last member reads as zero in an older herd, and needs no new number; what makes
/// a struct larger is told by its size.)
const LAYOUT: u32 = 1;

const MAGIC: u64 = u64::from_ne_bytes(*b"libherd\n");

/// Plain numbers: written before anybody else can see the region, and never again. Without gaps: what is
/// between the members of a struct is copied along, and would show what this process had there before.
#[repr(C, align(128))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    magic: u64,
    layout: u32,
    header_bytes: u32,
    slot_bytes: u32,
    times_bytes: u32,
    slots: u32,
    pub mode: u32,
    pub balance: u32,
    /// Zero. Room for what is added.
    reserved: [u32; 23],
}

const _: () = assert!(size_of::<Identity>() == size_of::<u64>() + (7 + 23) * size_of::<u32>());

impl Identity {
    pub fn new(slots: usize, mode: u32, balance: u32) -> Identity {
        Identity {
            magic: MAGIC,
            layout: LAYOUT,
            header_bytes: size_of::<Header>() as u32,
            slot_bytes: size_of::<Slot>() as u32,
            times_bytes: size_of::<Times>() as u32,
            slots: slots as u32,
            mode,
            balance,
            reserved: [0; 23],
        }
    }

    /// Whether this program understands a region that says this of itself and has `bytes` in all.
    /// Nothing in it is to be trusted before.
    pub fn check(&self, bytes: u64) -> Result<()> {
        if self.magic != MAGIC {
            return Err(Error::DAMAGED);
        }
        let ours = Identity::new(0, 0, 0);
        let layout = |of: &Identity| (of.layout, of.header_bytes, of.slot_bytes, of.times_bytes);
        if layout(self) != layout(&ours) {
            return Err(Error::VERSION);
        }
        // With the same layout, a mode or a policy that was added later.
        if !(HERD_MODE_EXCLUSIVE..=HERD_MODE_SHARED).contains(&self.mode)
            || !(HERD_BALANCE_SPREAD..=HERD_BALANCE_ROUND_ROBIN).contains(&self.balance)
        {
            return Err(Error::VERSION);
        }
        let has_its_size = (1..=HERD_MAX_WORKERS).contains(&self.slots)
            && bytes == region_bytes(self.slots()) as u64;
        if has_its_size { Ok(()) } else { Err(Error::DAMAGED) }
    }

    pub fn slots(&self) -> usize {
        self.slots as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_version_made_or_damaged_is_told() {
        let good = Identity::new(4, 2, 1);
        let bytes = region_bytes(4) as u64;
        let with = |change: fn(&mut Identity)| {
            let mut changed = good;
            change(&mut changed);
            changed.check(bytes)
        };
        assert_eq!((good.check(bytes), good.slots()), (Ok(()), 4));
        let damaged = Err(Error::DAMAGED);
        assert_eq!(with(|identity| identity.magic += 1), damaged);
        assert_eq!(with(|identity| identity.magic = 0), damaged);
        assert_eq!(with(|identity| identity.slots = 0), damaged);
        assert_eq!(with(|identity| identity.slots = 5), damaged);
        assert_eq!(with(|identity| identity.slots = u32::MAX), damaged);
        assert_eq!(good.check(bytes - 1), damaged);
        assert_eq!(good.check(0), damaged);
        let version = Err(Error::VERSION);
        assert_eq!(with(|identity| identity.layout += 1), version);
        assert_eq!(with(|identity| identity.header_bytes += 128), version);
        assert_eq!(with(|identity| identity.slot_bytes -= 128), version);
        assert_eq!(with(|identity| identity.times_bytes = 0), version);
    }
}
