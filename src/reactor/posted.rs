//! The posted queues: doubly linked lists through the events themselves, so that posting needs no
//! allocation and an event can leave from anywhere in O(1) (nginx: ngx_event_posted.h).

use crate::abi::{HERD_POSTED_EVENTS, HERD_POSTED_NEXT, herd_event};
use std::cell::Cell;
use std::ptr;

/// A queue that hosts post to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Queue {
    Events = HERD_POSTED_EVENTS as u16,
    Next = HERD_POSTED_NEXT as u16,
}

/// In `herd_queue` of an event that is in no queue. Not a `Queue`.
const UNQUEUED: u16 = 0;

struct List {
    first: Cell<*mut herd_event>,
    last: Cell<*mut herd_event>,
    count: Cell<usize>,
}

impl Default for List {
    fn default() -> List {
        let null = || Cell::new(ptr::null_mut());
        List { first: null(), last: null(), count: Cell::new(0) }
    }
}

/// Every event passed in was checked and stays where it is while it is linked.
#[derive(Default)]
pub struct Posted {
    events: List,
    next: List,
}

impl Posted {
    fn list(&self, queue: Queue) -> &List {
        match queue {
            Queue::Events => &self.events,
            Queue::Next => &self.next,
        }
    }

    pub fn count(&self, queue: Queue) -> usize {
        self.list(queue).count.get()
    }

    /// Appends the event. One that is in this queue keeps its place (false); one that is in the
    /// other moves.
    pub fn post(&self, event: *mut herd_event, owner: u16, queue: Queue) -> bool {
        // SAFETY: a checked event.
        if unsafe { (*event).herd_queue } == queue as u16 {
            return false;
        }
        self.unpost(event);
        let list = self.list(queue);
        let last = list.last.replace(event);
        // SAFETY: a checked event, and the list's last event, which is linked and therefore alive.
        unsafe {
            (*event).herd_queue = queue as u16;
            (*event).herd_owner = owner;
            (*event).herd_next = ptr::null_mut();
            (*event).herd_prev = last;
            match last.as_mut() {
                Some(last) => last.herd_next = event,
                None => list.first.set(event),
            }
        }
        list.count.set(list.count.get() + 1);
        true
    }

    /// Takes the event out of its queue. False: it is in none.
    pub fn unpost(&self, event: *mut herd_event) -> bool {
        // SAFETY: a checked event.
        let (queue, prev, next) =
            unsafe { ((*event).herd_queue, (*event).herd_prev, (*event).herd_next) };
        let list = match queue {
            UNQUEUED => return false,
            queue if queue == Queue::Events as u16 => &self.events,
            _ => &self.next,
        };
        // SAFETY: the neighbours are linked and therefore alive.
        unsafe {
            match prev.as_mut() {
                Some(prev) => prev.herd_next = next,
                None => list.first.set(next),
            }
            match next.as_mut() {
                Some(next) => next.herd_prev = prev,
                None => list.last.set(prev),
            }
            (*event).herd_queue = UNQUEUED;
        }
        list.count.set(list.count.get() - 1);
        true
    }

    pub fn pop(&self, queue: Queue) -> Option<*mut herd_event> {
        let event = self.list(queue).first.get();
        if event.is_null() {
            return None;
        }
        self.unpost(event);
        Some(event)
    }

    /// Appends what is in `Next` to `Events`.
    pub fn move_next(&self) {
        while let Some(event) = self.pop(Queue::Next) {
            // SAFETY: it was linked, so it was checked when it was posted.
            let owner = unsafe { (*event).herd_owner };
            self.post(event, owner, Queue::Events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::init_event;
    use super::*;
    use crate::abi::herd_worker;

    extern "C-unwind" fn nothing(_: *mut herd_worker, _: *mut herd_event, _: u32) {}

    fn events<const N: usize>() -> [*mut herd_event; N] {
        std::array::from_fn(|_| {
            let event = Box::into_raw(Box::<herd_event>::new_uninit()).cast::<herd_event>();
            init_event(event, Some(nothing), ptr::null_mut()).unwrap();
            event
        })
    }

    fn drain(posted: &Posted, queue: Queue) -> Vec<*mut herd_event> {
        std::iter::from_fn(|| posted.pop(queue)).collect()
    }

    #[test]
    fn events_leave_in_order_and_from_anywhere() {
        let posted = Posted::default();
        let [a, b, c, d] = events();
        for event in [a, b, c, d] {
            assert!(posted.post(event, 1, Queue::Events));
        }
        assert!(!posted.post(b, 1, Queue::Events));
        assert!(posted.unpost(b));
        assert!(!posted.unpost(b));
        assert!(posted.unpost(d));
        assert!(posted.post(b, 1, Queue::Events));
        assert_eq!(posted.count(Queue::Events), 3);
        assert!(posted.unpost(a));
        assert_eq!(drain(&posted, Queue::Events), [c, b]);
        assert_eq!(posted.count(Queue::Events), 0);
        for event in [a, b, c, d] {
            // SAFETY: made by Box::into_raw above and in no list.
            drop(unsafe { Box::from_raw(event) });
        }
    }

    #[test]
    fn next_turns_events_come_after_this_turns() {
        let posted = Posted::default();
        let [a, b, c] = events();
        posted.post(a, 1, Queue::Next);
        posted.post(b, 1, Queue::Events);
        posted.post(c, 1, Queue::Next);
        posted.post(c, 1, Queue::Events);
        posted.move_next();
        assert_eq!(posted.count(Queue::Next), 0);
        assert_eq!(drain(&posted, Queue::Events), [b, c, a]);
        for event in [a, b, c] {
            // SAFETY: made by Box::into_raw above and in no list.
            drop(unsafe { Box::from_raw(event) });
        }
    }
}
