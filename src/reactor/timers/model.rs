//! The timers beside a sorted list. Driven by bytes, for property tests and the fuzzer (src/fuzzing/).

use super::super::event::init_timer;
use super::Timers;
use crate::abi::{herd_timer, herd_worker};
use std::mem::MaybeUninit;
use std::ptr;

const COUNT: usize = 40;

extern "C-unwind" fn nothing(_: *mut herd_worker, _: *mut herd_timer) {}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Pending {
    deadline_us: u64,
    start: u64,
    timer: usize,
}

struct World<'a> {
    heap: Timers,
    memory: Vec<MaybeUninit<herd_timer>>,
    pending: Vec<Pending>,
    bytes: std::slice::Iter<'a, u8>,
}

/// Plays what the bytes say, and compares.
pub fn drive(bytes: &[u8]) {
    let memory = (0..COUNT).map(|_| MaybeUninit::uninit()).collect();
    let (heap, pending) = (Timers::default(), Vec::new());
    let mut world = World { heap, memory, pending, bytes: bytes.iter() };
    (0..COUNT).for_each(|timer| world.init(timer));
    while let Some(operation) = world.next() {
        match operation % 4 {
            0 => world.expire(),
            _ => world.change(operation),
        }
        world.pending.sort();
        let first = world.pending.first();
        assert_eq!(world.heap.next_deadline_us(), first.map(|first| first.deadline_us));
    }
    for timer in 0..COUNT {
        world.stop(timer);
    }
    assert_eq!(world.heap.next_deadline_us(), None);
}

impl World<'_> {
    fn next(&mut self) -> Option<u8> {
        self.bytes.next().copied()
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % count
    }

    fn at(&mut self, timer: usize) -> *mut herd_timer {
        self.memory[timer].as_mut_ptr()
    }

    fn init(&mut self, timer: usize) {
        init_timer(self.at(timer), Some(nothing), ptr::null_mut()).unwrap();
    }

    fn time(&mut self) -> u64 {
        match self.next().unwrap_or(0) {
            255 => u64::MAX,
            254 => u64::MAX - 1,
            // Many with one deadline.
            byte => u64::from(byte / 8),
        }
    }

    fn change(&mut self, operation: u8) {
        let timer = self.below(COUNT);
        match operation % 8 {
            1 => self.stop(timer),
            2 => {
                // The host frees it, and has the memory used for another.
                self.stop(timer);
                self.memory[timer] = MaybeUninit::uninit();
                self.init(timer);
            }
            _ => {
                let deadline_us = self.time();
                let memory = self.at(timer);
                self.heap.start(memory, 1, deadline_us).unwrap();
                self.pending.retain(|pending| pending.timer != timer);
                let start = self.heap.started();
                self.pending.push(Pending { deadline_us, start, timer });
            }
        }
    }

    fn stop(&mut self, timer: usize) {
        let memory = self.at(timer);
        let was_pending = self.pending.iter().any(|pending| pending.timer == timer);
        assert_eq!(self.heap.stop(memory), was_pending);
        self.pending.retain(|pending| pending.timer != timer);
    }

    /// One pass over the timers that are due; between two of them the handler changes some.
    fn expire(&mut self) {
        let now_us = self.time();
        let started_before = self.heap.started();
        loop {
            self.pending.sort();
            let due =
                |first: &&Pending| first.deadline_us <= now_us && first.start <= started_before;
            let expected = self.pending.first().filter(due).map(|first| first.timer);
            let got = self.heap.pop_expired(now_us, started_before);
            assert_eq!(got, expected.map(|timer| self.at(timer)));
            let Some(timer) = expected else { return };
            self.pending.retain(|pending| pending.timer != timer);
            for _ in 0..self.below(3) {
                let operation = self.next().unwrap_or(0);
                self.change(operation);
            }
        }
    }
}
