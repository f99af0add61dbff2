//! Which event is registered under which index. An index is used again; its generation tells one
//! use from the next.

use super::tag::INDEX_LIMIT;
use crate::abi::herd_event;
use crate::sys::{Error, Result};
use std::os::fd::RawFd;
use std::ptr;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    /// Null while the place is free.
    event: *mut herd_event,
    generation: u32,
    /// In use: the descriptor, or -1 once another event was added for its number, which shows that
    /// the host has closed it without deleting this event. Free: the next free index.
    fd_or_next: u32,
}

pub struct Registry {
    entries: Vec<Entry>,
    first_free: u32,
    /// Descriptor number to index, so that an event whose descriptor was closed behind its back
    /// does not take the registration of the number's next owner with it.
    index_of_fd: Vec<u32>,
}

impl Registry {
    pub fn with_capacity(expected: usize) -> Result<Registry> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(expected).map_err(|_| Error::NO_MEMORY)?;
        let mut index_of_fd = Vec::new();
        index_of_fd.try_reserve_exact(expected).map_err(|_| Error::NO_MEMORY)?;
        Ok(Registry { entries, first_free: NONE, index_of_fd })
    }

    /// Returns index and generation. The descriptor counts as this event's only after `claim_fd`.
    pub fn insert(&mut self, event: *mut herd_event, fd: RawFd) -> Result<(u32, u32)> {
        let fd_room = (fd as usize + 1).saturating_sub(self.index_of_fd.len());
        self.index_of_fd.try_reserve(fd_room).map_err(|_| Error::NO_MEMORY)?;
        if self.first_free == NONE {
            if self.entries.len() as u32 >= INDEX_LIMIT {
                return Err(Error::NO_MEMORY);
            }
            self.entries.try_reserve(1).map_err(|_| Error::NO_MEMORY)?;
            self.first_free = self.entries.len() as u32;
            self.entries.push(Entry { event: ptr::null_mut(), generation: 0, fd_or_next: NONE });
        }
        let index = self.first_free;
        let entry = &mut self.entries[index as usize];
        self.first_free = entry.fd_or_next;
        entry.event = event;
        entry.fd_or_next = fd as u32;
        Ok((index, entry.generation))
    }

    /// The kernel has taken `fd` for `index`. Any earlier event of that number was closed.
    pub fn claim_fd(&mut self, index: u32, fd: RawFd) {
        if self.index_of_fd.len() <= fd as usize {
            self.index_of_fd.resize(fd as usize + 1, NONE);
        }
        let before = self.index_of_fd[fd as usize];
        if before != NONE {
            self.entries[before as usize].fd_or_next = NONE;
        }
        self.index_of_fd[fd as usize] = index;
    }

    pub fn remove(&mut self, index: u32) {
        let (fd, _) = self.entry(index);
        if let Some(owner) = fd.and_then(|fd| self.index_of_fd.get_mut(fd as usize))
            && *owner == index
        {
            *owner = NONE;
        }
        let entry = &mut self.entries[index as usize];
        assert!(!entry.event.is_null());
        entry.event = ptr::null_mut();
        entry.generation = entry.generation.wrapping_add(1);
        entry.fd_or_next = self.first_free;
        self.first_free = index;
    }

    /// Whether `event` is registered under `index`. Not so for one that a worker long gone had
    /// registered, whose number has come round again.
    pub fn holds(&self, index: u32, event: *mut herd_event) -> bool {
        self.entries.get(index as usize).is_some_and(|entry| entry.event == event)
    }

    /// The descriptor, if it is still this event's, and the generation.
    pub fn entry(&self, index: u32) -> (Option<RawFd>, u32) {
        let entry = &self.entries[index as usize];
        assert!(!entry.event.is_null());
        (Some(entry.fd_or_next as RawFd).filter(|&fd| fd >= 0), entry.generation)
    }

    /// The event that was registered so, if it still is.
    pub fn live(&self, index: u32, generation: u32) -> Option<*mut herd_event> {
        let entry = self.entries.get(index as usize)?;
        let live = !entry.event.is_null() && entry.generation == generation;
        // Closed behind our back: the file's events are nobody's.
        (live && entry.fd_or_next != NONE).then_some(entry.event)
    }

    /// Index, generation, descriptor and event of all that are registered.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, RawFd, *mut herd_event)> {
        self.entries.iter().zip(0..).filter_map(|(entry, index)| {
            let used = !entry.event.is_null() && entry.fd_or_next != NONE;
            used.then_some((index, entry.generation, entry.fd_or_next as RawFd, entry.event))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    fn fake_event(number: usize) -> *mut herd_event {
        ptr::without_provenance_mut(number * 64)
    }

    #[test]
    fn a_reused_place_does_not_answer_to_its_former_event() {
        let mut registry = Registry::with_capacity(0).unwrap();
        let (index, old) = registry.insert(fake_event(1), 5).unwrap();
        registry.claim_fd(index, 5);
        assert_eq!(registry.live(index, old), Some(fake_event(1)));
        registry.remove(index);
        assert_eq!(registry.live(index, old), None);
        let (again, new) = registry.insert(fake_event(2), 5).unwrap();
        assert_eq!(again, index);
        assert_ne!(new, old);
        assert_eq!(registry.live(index, old), None);
        assert_eq!(registry.live(index, new), Some(fake_event(2)));
        assert_eq!(registry.live(99, 0), None);
    }

    #[test]
    fn the_next_owner_of_a_number_survives_the_removal_of_the_former() {
        let mut registry = Registry::with_capacity(0).unwrap();
        let (closed, generation) = registry.insert(fake_event(1), 7).unwrap();
        registry.claim_fd(closed, 7);
        let (next, _) = registry.insert(fake_event(2), 7).unwrap();
        registry.claim_fd(next, 7);
        assert_eq!(registry.entry(closed).0, None);
        assert_eq!(registry.live(closed, generation), None);
        registry.remove(closed);
        assert_eq!(registry.entry(next).0, Some(7));
        assert_eq!(registry.iter().count(), 1);
    }

    /// At most 128 bytes for a watched descriptor, the event included. A table
    /// that has just grown has room for twice its content.
    #[test]
    fn memory_per_descriptor_is_bounded() {
        assert!(size_of::<herd_event>() <= 64);
        let table = 2 * (size_of::<Entry>() + size_of::<u32>());
        assert!(size_of::<herd_event>() + table <= 128);
    }
}
