//! The mapping of the region.

use super::Source;
use super::identity::Identity;
use super::layout::{Header, region_bytes};
use super::lock::Word;
use super::slot::Slot;
use super::times::Times;
use crate::sys::Result;
use crate::sys::clock::now_us;
use crate::sys::memory::{lock_file, map_shared};
use crate::sys::named_memory::{Hold, Place};
use memmap2::MmapRaw;
use std::ffi::CStr;
use std::mem::size_of;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// The region as the parent made it and every child inherited it.
pub struct Region {
    /// Dropped before `_hold`, which drops the name if nobody has a mapping any more.
    mapping: MmapRaw,
    /// Its bytes' record locks tell which slots have a living owner. Never the named file: who closes
    /// any descriptor of a file loses all record locks on it (fcntl(2)), and a worker may well open
    /// and close its herd's name.
    file: OwnedFd,
    _hold: Option<Hold>,
    /// Not looked up in the mapping, where any worker can change it.
    identity: Identity,
}

/// Where the region of a herd's name is.
pub fn place_of(user: Option<u32>, name: &str) -> Place {
    Place::new("herd", user, name)
}

const MEMFD_NAME: &CStr = c"herd-region";

impl Region {
    /// A region that other processes can find, if the host gave it a name; -EADDRINUSE: a herd of
    /// this name lives.
    pub fn new(place: Option<Place>, identity: Identity) -> Result<Region> {
        let bytes = region_bytes(identity.slots());
        let (mapping, file, hold) = match place {
            None => {
                let (mapping, file) = map_shared(MEMFD_NAME, bytes)?;
                (mapping, file, None)
            }
            Some(place) => {
                let (mapping, hold) = Hold::create(place, bytes)?;
                (mapping, lock_file(MEMFD_NAME)?, Some(hold))
            }
        };
        assert!((mapping.as_ptr() as usize).is_multiple_of(align_of::<Header>()));
        // Zeroed memory is a herd without workers, so there is nothing else to set up.
        // SAFETY: the mapping starts with a header, aligned, that nobody else refers to yet. A
        // process that reads the file meanwhile finds a part of it missing, and says so.
        unsafe { (*mapping.as_mut_ptr().cast::<Header>()).identity.get().write(identity) };
        Ok(Region { mapping, file, _hold: hold, identity })
    }

    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub fn slots(&self) -> &[Slot] {
        // SAFETY: the mapping holds `slots` slots behind the header, aligned, made of atomics only,
        // and lives as long as self.
        unsafe {
            let first = self.mapping.as_ptr().add(size_of::<Header>()).cast::<Slot>();
            slice::from_raw_parts(first, self.identity.slots())
        }
    }

    /// Writes where a worker gone mad might. What lies beyond the end is left out.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn scribble(&self, offset: usize, bytes: &[u8]) {
        crate::sys::memory::scribble(&self.mapping, offset, bytes);
    }

    /// The times of each slot's workers.
    pub fn times(&self) -> &[Times] {
        // SAFETY: as above; they lie behind the slots.
        unsafe {
            let slots = self.slots();
            let first = slots.as_ptr().add(slots.len()).cast::<Times>();
            slice::from_raw_parts(first, slots.len())
        }
    }
}

impl Source for Region {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn word(&self) -> Result<Word> {
        Ok(self.lock.word())
    }

    fn is_alive(&self) -> Result<bool> {
        Ok(true)
    }

    fn until_us(&self) -> Result<u64> {
        Ok(now_us())
    }

    fn with_slot(&self, number: usize, look: &mut dyn FnMut(&Slot)) -> Result<()> {
        self.check_slot(number)?;
        look(&self.slots()[number]);
        Ok(())
    }

    fn with_times(&self, number: usize, look: &mut dyn FnMut(&Times)) -> Result<()> {
        self.check_slot(number)?;
        look(&self.times()[number]);
        Ok(())
    }
}

/// One thing in the region, which stays mapped as long as anything in it is referred to. Found without
/// going through the region every time.
pub struct Part<T> {
    at: NonNull<T>,
    _region: Arc<Region>,
}

impl<T> Part<T> {
    pub fn new(region: &Arc<Region>, find: impl FnOnce(&Region) -> &T) -> Part<T> {
        Part { at: NonNull::from(find(region)), _region: region.clone() }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: what `find` returned borrows from the region, which lives as long as self.
        unsafe { self.at.as_ref() }
    }
}

impl Deref for Region {
    type Target = Header;

    fn deref(&self) -> &Header {
        // SAFETY: the mapping starts with a header, aligned, made of atomics and an UnsafeCell, and lives
        // as long as self.
        unsafe { &*self.mapping.as_ptr().cast::<Header>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    /// The first test of all: two processes see the same memory.
    #[test]
    fn a_child_and_its_parent_share_the_region() {
        let _alone = NO_OTHER_FORK.lock();
        let region = Region::new(None, Identity::new(3, 0, 0)).unwrap();
        let parents = region.lock.try_acquire(0).unwrap();
        // SAFETY: the child only touches atomics and ends with _exit.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let held = region.lock.word() == parents && region.lock.try_acquire(1).is_none();
                let taken = region.lock.take_over(parents, 1).is_some();
                let claimed = region.slots()[2].try_claim(77).is_some();
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(if held && taken && claimed { 0 } else { 1 }) }
            }
        };
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        assert_eq!(region.lock.word().holder(), Some(1));
        assert!(!region.lock.release(parents));
        assert_eq!(region.slots()[2].claim().pid(), Some(77));
        assert_eq!(region.slots()[1].claim().pid(), None);
    }
}
