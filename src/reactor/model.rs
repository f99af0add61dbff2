//! The reactor beside a model of it: whatever a host does with events, descriptors and queues, in handlers
//! or between them, the reactor answers and runs what the model says. Driven by bytes, for property tests
//! and the fuzzer (src/fuzzing/).

mod expected;

use super::{EXTRA_POSTED, Queue, Reactor, RemoteQueue, init_event, remote};
use crate::abi::{HERD_ERROR, HERD_READ, HERD_WRITE, herd_event, herd_worker};
use crate::sys::Error;
use expected::{Event, File, Model, NUMBERS, index_of};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

const EVENTS: usize = 6;
/// Descriptor numbers of the host's, far above what other threads of a test get.
const FIRST_NUMBER: RawFd = 700;
/// What a freed event's memory is filled with.
const FREED: u8 = 0xa5;
const INTERESTS: [u32; 6] = [HERD_READ, HERD_WRITE, HERD_READ | HERD_WRITE, 0, HERD_ERROR, 64];

struct World<'a> {
    reactor: Reactor,
    remote: RemoteQueue,
    /// Another worker of the process.
    other: Reactor,
    other_remote: RemoteQueue,
    bytes: RefCell<std::slice::Iter<'a, u8>>,
    model: RefCell<Model>,
}

extern "C-unwind" fn on_event(worker: *mut herd_worker, event: *mut herd_event, ready: u32) {
    // SAFETY: `run` passes its world, which lives until it returns.
    let world = unsafe { &*worker.cast::<World>() };
    world.on_event(event, ready);
}

fn fresh_event(number: usize) -> *mut herd_event {
    let memory = Box::into_raw(Box::<herd_event>::new_uninit()).cast::<herd_event>();
    init_event(memory, Some(on_event), ptr::without_provenance_mut(number)).unwrap();
    memory
}

fn raw(number: usize) -> RawFd {
    FIRST_NUMBER + number as RawFd
}

/// Plays what the bytes say, and compares.
pub fn drive(bytes: &[u8]) {
    let events = |number| Event { memory: fresh_event(number), registered: None, ready: 0 };
    let model = Model { events: (0..EVENTS).map(events).collect(), ..Default::default() };
    let world = World {
        reactor: Reactor::new(0).unwrap(),
        remote: RemoteQueue::default(),
        other: Reactor::new(0).unwrap(),
        other_remote: RemoteQueue::default(),
        bytes: RefCell::new(bytes.iter()),
        model: RefCell::new(model),
    };
    while let Some(operation) = world.next() {
        world.step(operation, false);
        world.compare();
    }
    world.end();
}

impl World<'_> {
    fn next(&self) -> Option<u8> {
        self.bytes.borrow_mut().next().copied()
    }

    fn below(&self, count: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % count
    }

    fn memory(&self, event: usize) -> *mut herd_event {
        self.model.borrow().events[event].memory
    }

    fn queue(&self) -> Queue {
        if self.below(4) == 0 { Queue::Next } else { Queue::Events }
    }

    fn step(&self, operation: u8, in_handler: bool) {
        match operation % 16 {
            0 | 1 => self.add(),
            2 => self.modify(),
            3 => self.delete(self.below(EVENTS)),
            4 => self.post(),
            5 => self.unpost(),
            6 => self.post_remote(),
            7 => self.free(self.below(EVENTS)),
            8 => self.open(),
            9 => self.close(),
            10 => self.signal(true),
            11 => self.signal(false),
            12 => self.try_other(),
            _ if in_handler => {}
            13 => self.begin_turn(),
            14 => self.wait(),
            _ => self.run(self.queue()),
        }
    }

    fn compare(&self) {
        let model = self.model.borrow();
        for queue in [Queue::Events, Queue::Next] {
            assert_eq!(self.reactor.posted_count(queue), model.queues[index_of(queue)].len());
        }
        assert_eq!(self.remote.is_empty(), model.remote.is_empty());
        let is_known = |event: &Event| event.registered.is_some_and(|r| !r.is_lost);
        assert_eq!(self.reactor.has_events(), model.events.iter().any(is_known));
    }

    // --- events ---

    fn add(&self) {
        let (event, number, interest) =
            (self.below(EVENTS), self.below(NUMBERS), INTERESTS[self.below(INTERESTS.len())]);
        let result = self.reactor.add(self.memory(event), raw(number), interest);
        assert_eq!(result, self.model.borrow_mut().add(event, number, interest));
    }

    fn modify(&self) {
        let (event, interest) = (self.below(EVENTS), INTERESTS[self.below(INTERESTS.len())]);
        let result = self.reactor.modify(self.memory(event), interest);
        assert_eq!(result, self.model.borrow_mut().modify(event, interest));
    }

    fn delete(&self, event: usize) {
        let result = self.reactor.delete(self.memory(event), &self.remote);
        assert_eq!(result, self.model.borrow_mut().delete(event));
    }

    fn post(&self) {
        let (event, queue) = (self.below(EVENTS), self.queue());
        let result = self.reactor.post(self.memory(event), queue);
        let mut model = self.model.borrow_mut();
        let batch = model.next_id();
        assert_eq!(result, Ok(model.post(event, queue, batch)));
    }

    fn unpost(&self) {
        let event = self.below(EVENTS);
        let result = self.reactor.unpost(self.memory(event), &self.remote);
        assert_eq!(result, Ok(self.model.borrow_mut().unpost(event)));
    }

    fn post_remote(&self) {
        let event = self.below(EVENTS);
        let result = self.remote.push(self.memory(event));
        let mut model = self.model.borrow_mut();
        let expected = match (model.remote.contains(&event), model.remote.is_empty()) {
            (true, _) => remote::Posted::Already,
            (_, true) => remote::Posted::First,
            _ => remote::Posted::Behind,
        };
        assert_eq!(result, Ok(expected));
        if expected != remote::Posted::Already {
            model.remote.push(event);
        }
    }

    /// A host may free an event that it has deleted, also in a handler, and have its memory used for
    /// another.
    fn free(&self, event: usize) {
        self.delete(event);
        let memory = self.memory(event);
        // SAFETY: made by Box::into_raw, freed at the end of the world.
        unsafe { memory.cast::<u8>().write_bytes(FREED, size_of::<herd_event>()) };
        let mut model = self.model.borrow_mut();
        model.freed.push(memory);
        model.events[event] = Event { memory: fresh_event(event), registered: None, ready: 0 };
    }

    /// Another worker leaves what is in use here alone.
    fn try_other(&self) {
        let (event, queue) = (self.below(EVENTS), self.queue());
        let memory = self.memory(event);
        let (is_in_use, is_remote) = {
            let model = self.model.borrow();
            (model.is_in_use(event), model.remote.contains(&event))
        };
        if is_in_use {
            let busy = Error::BUSY;
            assert_eq!(self.other.post(memory, queue), Err(busy));
            assert_eq!(self.other.add(memory, raw(0), HERD_READ), Err(busy));
            assert_eq!(self.other.delete(memory, &self.other_remote), Err(busy));
        } else if !is_remote {
            assert_eq!(self.other.post(memory, queue), Ok(true));
            assert_eq!(self.reactor.post(memory, queue), Err(Error::BUSY));
            assert_eq!(self.other.unpost(memory, &self.other_remote), Ok(true));
        }
    }

    // --- descriptors ---

    fn open(&self) {
        let number = self.below(NUMBERS);
        let mut model = self.model.borrow_mut();
        if model.numbers[number].is_none() {
            let file = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
            // SAFETY: a number that only this world uses.
            assert_eq!(
                unsafe { libc::dup3(file.as_raw_fd(), raw(number), libc::O_CLOEXEC) },
                raw(number)
            );
            // Two descriptors in all, until `close` says whether one stays.
            model.files.push(File { is_readable: false, kept: Some(file) });
            let index = model.files.len() - 1;
            model.numbers[number] = Some(index);
        }
    }

    /// The host closes a descriptor, too early if it is still added. Sometimes the file lives on, and is
    /// closed later.
    fn close(&self) {
        let (number, keeps) = (self.below(NUMBERS), self.below(2) == 0);
        let mut model = self.model.borrow_mut();
        if let Some(file) = model.numbers[number].take() {
            // SAFETY: opened above, and closed once.
            drop(unsafe { OwnedFd::from_raw_fd(raw(number)) });
            if !keeps {
                model.files[file].kept = None;
                model.watched.retain(|watched| watched.file != file);
            }
        } else if let Some(file) = (0..model.files.len())
            .find(|&file| model.files[file].kept.is_some() && !model.numbers.contains(&Some(file)))
        {
            model.files[file].kept = None;
            model.watched.retain(|watched| watched.file != file);
        }
    }

    fn signal(&self, on: bool) {
        let pick = self.below(8);
        let mut model = self.model.borrow_mut();
        let mut living = model.files.iter_mut().filter(|file| file.kept.is_some()).rev();
        if let Some(File { is_readable, kept: Some(file) }) = living.nth(pick) {
            let result = if on { file.write(1).map(|_| ()) } else { file.read().map(|_| ()) };
            assert_eq!(result.is_ok(), on || *is_readable);
            *is_readable = on;
        }
    }

    // --- turns ---

    fn begin_turn(&self) {
        let has_work = self.reactor.begin_turn(&self.remote);
        let mut model = self.model.borrow_mut();
        let next = std::mem::take(&mut model.queues[index_of(Queue::Next)]);
        model.queues[index_of(Queue::Events)].extend(next);
        model.take_remote();
        assert_eq!(has_work, !model.queues[index_of(Queue::Events)].is_empty());
    }

    fn wait(&self) {
        let arrived = self.reactor.wait(0, &self.remote, |source| panic!("{source:?}")).unwrap();
        let (total, stale) = self.model.borrow_mut().wait();
        assert_eq!((arrived.total, arrived.stale, arrived.misposted), (total, stale, 0));
        assert_eq!(arrived.host, total - stale);
    }

    fn run(&self, queue: Queue) {
        let most = self.model.borrow().queues[index_of(queue)].len() + EXTRA_POSTED;
        self.model.borrow_mut().running = Some((queue, 0));
        let ran = self.reactor.run_posted(ptr::from_ref(self).cast_mut().cast(), queue);
        let mut model = self.model.borrow_mut();
        assert_eq!(model.running.take(), Some((queue, ran)));
        assert!(model.queues[index_of(queue)].is_empty() || ran == most);
    }

    fn on_event(&self, event: *mut herd_event, ready: u32) {
        let number = {
            let mut model = self.model.borrow_mut();
            let number = model.events.iter().position(|known| known.memory == event);
            let number = number.expect("a handler runs for an event that was not freed");
            let (queue, ran) = model.running.expect("handlers run in turns");
            model.running = Some((queue, ran + 1));
            let queue = &mut model.queues[index_of(queue)];
            let batch = queue[0].batch;
            let mut first_ones = queue.iter().take_while(|posted| posted.batch == batch);
            let place = first_ones.position(|posted| posted.event == number);
            queue.remove(place.expect("it was the turn of another"));
            assert_eq!(ready, std::mem::take(&mut model.events[number].ready));
            number
        };
        for _ in 0..self.below(4) {
            match self.next() {
                // Its own event, rather often.
                Some(operation) if operation >= 240 => self.free(number),
                Some(operation) => self.step(operation, true),
                None => {}
            }
        }
    }

    fn end(&self) {
        (0..EVENTS).for_each(|event| self.delete(event));
        self.compare();
        for memory in self.model.borrow_mut().freed.drain(..) {
            // SAFETY: made by Box::into_raw; any bytes are bytes.
            let bytes = unsafe { *memory.cast::<[u8; size_of::<herd_event>()]>() };
            assert!(bytes.iter().all(|&byte| byte == FREED), "a freed event was written to");
            // SAFETY: as above; a herd_event needs no drop.
            drop(unsafe { Box::from_raw(memory.cast::<MaybeUninit<herd_event>>()) });
        }
        for event in self.model.borrow_mut().events.drain(..) {
            // SAFETY: made by Box::into_raw, and in no list any more.
            drop(unsafe { Box::from_raw(event.memory) });
        }
    }
}

/// Also when something was not as it must be: the next world begins without open numbers.
impl Drop for World<'_> {
    fn drop(&mut self) {
        let model = self.model.get_mut();
        for number in (0..NUMBERS).filter(|&number| model.numbers[number].is_some()) {
            // SAFETY: opened by `open`, and not closed since.
            drop(unsafe { OwnedFd::from_raw_fd(raw(number)) });
        }
    }
}
