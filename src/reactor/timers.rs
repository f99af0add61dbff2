//! Timers in a heap with four children a node: start, stop and expiry cost at most O(log n), and
//! the keys that a step compares lie side by side. A timer knows its place in the heap, so stopping
//! needs no search.

#[cfg(any(test, feature = "fuzzing"))]
pub mod model;

use crate::abi::herd_timer;
use crate::sys::{Error, Result};

const CHILDREN: usize = 4;

#[derive(Clone, Copy)]
struct Entry {
    deadline_us: u64,
    /// Number of the start, so that timers with one deadline expire in the order of their starts.
    start: u64,
    timer: *mut herd_timer,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.deadline_us, self.start)
    }
}

/// Every timer passed in was checked and stays where it is while it is pending.
#[derive(Default)]
pub struct Timers {
    heap: Vec<Entry>,
    started: u64,
}

/// The timer's place in the heap, if it is pending.
fn position(timer: *mut herd_timer) -> Option<usize> {
    // SAFETY: a checked timer.
    unsafe { (*timer).herd_position }.checked_sub(1).map(|position| position as usize)
}

fn set_position(timer: *mut herd_timer, position: Option<usize>) {
    // SAFETY: a checked timer, or one in the heap.
    unsafe { (*timer).herd_position = position.map_or(0, |position| position as u64 + 1) }
}

impl Timers {
    /// Starts the timer, or starts it anew if it is pending.
    pub fn start(&mut self, timer: *mut herd_timer, owner: u16, deadline_us: u64) -> Result<()> {
        self.heap.try_reserve(1).map_err(|_| Error::NO_MEMORY)?;
        self.stop(timer);
        // SAFETY: a checked timer.
        unsafe { (*timer).herd_owner = u32::from(owner) };
        self.started += 1;
        self.heap.push(Entry { deadline_us, start: self.started, timer });
        self.sift_up(self.heap.len() - 1);
        Ok(())
    }

    /// True: it was pending.
    pub fn stop(&mut self, timer: *mut herd_timer) -> bool {
        // One that a worker long gone had pending, whose number has come round again, has a place in that
        // one's heap.
        let at = position(timer).filter(|&at| self.heap.get(at).is_some_and(|e| e.timer == timer));
        at.map(|at| self.remove(at)).is_some()
    }

    pub fn next_deadline_us(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.deadline_us)
    }

    /// Number of the last start.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Takes out the earliest timer if it is due and was not started after `started_before`.
    pub fn pop_expired(&mut self, now_us: u64, started_before: u64) -> Option<*mut herd_timer> {
        let first = self.heap.first()?;
        if first.deadline_us > now_us || first.start > started_before {
            return None;
        }
        let timer = first.timer;
        self.remove(0);
        Some(timer)
    }

    fn remove(&mut self, at: usize) {
        set_position(self.heap[at].timer, None);
        let last = self.heap.pop().expect("the heap has an entry at `at`");
        if at < self.heap.len() {
            self.heap[at] = last;
            let at = self.sift_up(at);
            self.sift_down(at);
        }
    }

    /// Moves the entry at `at` to its place among its ancestors; returns the place.
    fn sift_up(&mut self, mut at: usize) -> usize {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let first = at * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child].key()) else { break };
            if entry.key() <= self.heap[least].key() {
                break;
            }
            self.put(at, self.heap[least]);
            at = least;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        set_position(entry.timer, Some(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::init_timer;
    use super::*;
    use crate::abi::herd_worker;
    use std::mem::MaybeUninit;
    use std::ptr;

    extern "C-unwind" fn nothing(_: *mut herd_worker, _: *mut herd_timer) {}

    fn timers(count: usize) -> Vec<herd_timer> {
        let fresh = |_| {
            let mut timer = MaybeUninit::<herd_timer>::uninit();
            init_timer(timer.as_mut_ptr(), Some(nothing), ptr::null_mut()).unwrap();
            // SAFETY: init_timer has written it.
            unsafe { timer.assume_init() }
        };
        (0..count).map(fresh).collect()
    }

    #[test]
    fn a_timer_started_meanwhile_does_not_expire_in_the_same_pass() {
        let mut memory = timers(1);
        let timer = &raw mut memory[0];
        let mut heap = Timers::default();
        heap.start(timer, 1, 10).unwrap();
        let before = heap.started();
        assert_eq!(heap.pop_expired(9, before), None);
        assert_eq!(heap.pop_expired(10, before), Some(timer));
        heap.start(timer, 1, 10).unwrap();
        assert_eq!(heap.pop_expired(10, before), None);
        assert_eq!(heap.pop_expired(10, heap.started()), Some(timer));
    }
}
