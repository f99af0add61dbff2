//! The mapping of the region.

use super::layout::{Header, region_bytes};
use super::slot::Slot;
use crate::sys::Result;
use crate::sys::memory::map_shared;
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
    mapping: MmapRaw,
    /// Its bytes' record locks tell which slots have a living owner.
    file: OwnedFd,
    slots: usize,
}

impl Region {
    /// Zeroed memory is a herd without workers, so there is nothing to set up.
    pub fn new(name: &CStr, slots: usize) -> Result<Region> {
        let (mapping, file) = map_shared(name, region_bytes(slots))?;
        assert!((mapping.as_ptr() as usize).is_multiple_of(align_of::<Header>()));
        Ok(Region { mapping, file, slots })
    }

    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub fn slots(&self) -> &[Slot] {
        // SAFETY: the mapping holds `slots` slots behind the header, aligned, made of atomics only,
        // and lives as long as self.
        unsafe {
            let first = self.mapping.as_ptr().add(size_of::<Header>()).cast::<Slot>();
            slice::from_raw_parts(first, self.slots)
        }
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
        // SAFETY: the mapping starts with a header, aligned, made of atomics only, and lives as
        // long as self.
        unsafe { &*self.mapping.as_ptr().cast::<Header>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    /// The first test of all: two processes see the same memory.
    #[test]
    fn a_child_and_its_parent_share_the_region() {
        let region = Region::new(c"herd-test", 3).unwrap();
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

    #[test]
    fn a_region_that_cannot_be_had_is_an_error_and_no_sigbus() {
        let too_large = usize::MAX / 2 / size_of::<Slot>();
        assert!(Region::new(c"herd-test", too_large).is_err());
    }
}
