//! Events posted by other threads of the process: a stack that any thread pushes to without a lock
//! and the worker empties at once (Treiber 1986, with the one consumer taking all, so that no
//! address can come back behind its back).

use super::event;
use crate::abi::herd_event;
use crate::sys::Result;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

#[derive(Default)]
pub struct RemoteQueue {
    last_pushed: AtomicPtr<herd_event>,
}

/// What a push found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// Nothing: the worker has to be woken.
    First,
    /// Others that the worker was woken for.
    Behind,
    /// This event, posted before.
    Already,
}

/// In `herd_remote_next` of the event at the bottom of the stack; null means: not posted.
fn bottom() -> *mut herd_event {
    ptr::without_provenance_mut(1)
}

fn remote_next<'a>(event: *mut herd_event) -> &'a AtomicPtr<herd_event> {
    // SAFETY: a checked event, whose member all threads use as an atomic only.
    unsafe { AtomicPtr::from_ptr(&raw mut (*event).herd_remote_next) }
}

pub fn is_posted(event: *mut herd_event) -> bool {
    !remote_next(event).load(Ordering::Acquire).is_null()
}

impl RemoteQueue {
    pub fn push(&self, event: *mut herd_event) -> Result<Posted> {
        event::check_initialised(event)?;
        let link = remote_next(event);
        // Of several threads that post one event, one goes on.
        if link
            .compare_exchange(ptr::null_mut(), bottom(), Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(Posted::Already);
        }
        let mut below = self.last_pushed.load(Ordering::Relaxed);
        loop {
            let next = if below.is_null() { bottom() } else { below };
            link.store(next, Ordering::Relaxed);
            let pushed = self.last_pushed.compare_exchange_weak(
                below,
                event,
                Ordering::Release,
                Ordering::Relaxed,
            );
            match pushed {
                Ok(_) if below.is_null() => return Ok(Posted::First),
                Ok(_) => return Ok(Posted::Behind),
                Err(now) => below = now,
            }
        }
    }

    /// Forgets what was posted, without touching the events: their worker is gone.
    pub fn forget(&self) {
        self.last_pushed.store(ptr::null_mut(), Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.last_pushed.load(Ordering::Relaxed).is_null()
    }

    /// Hands every posted event to `take`, in the order they were posted. Each can be posted anew
    /// from then on.
    pub fn take_all(&self, mut take: impl FnMut(*mut herd_event)) {
        if self.is_empty() {
            return;
        }
        let mut event = self.last_pushed.swap(ptr::null_mut(), Ordering::Acquire);
        let mut first = bottom();
        while !event.is_null() {
            let below = remote_next(event).swap(first, Ordering::Relaxed);
            first = event;
            event = if below == bottom() { ptr::null_mut() } else { below };
        }
        while first != bottom() {
            let event = first;
            first = remote_next(event).swap(ptr::null_mut(), Ordering::Release);
            take(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::init_event;
    use super::*;
    use crate::abi::herd_worker;
    use std::sync::atomic::AtomicUsize;

    extern "C-unwind" fn nothing(_: *mut herd_worker, _: *mut herd_event, _: u32) {}

    #[test]
    fn events_of_many_threads_come_once_each_and_in_order() {
        const THREADS: usize = 4;
        const EACH: usize = 2000;
        let queue = RemoteQueue::default();
        let wakes = AtomicUsize::new(0);
        let mut taken: Vec<Vec<usize>> = vec![Vec::new(); THREADS];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (queue, wakes) = (&queue, &wakes);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let event = Box::into_raw(Box::<herd_event>::new_uninit());
                        let event = event.cast::<herd_event>();
                        let data = ptr::without_provenance_mut(thread * EACH + number);
                        init_event(event, Some(nothing), data).unwrap();
                        if queue.push(event).unwrap() == Posted::First {
                            wakes.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let mut left = THREADS * EACH;
            while left > 0 {
                queue.take_all(|event| {
                    // SAFETY: made by Box::into_raw above; taken once.
                    let event = unsafe { Box::from_raw(event) };
                    let number = event.data.addr();
                    taken[number / EACH].push(number % EACH);
                    left -= 1;
                });
                std::hint::spin_loop();
            }
        });
        for thread in taken {
            assert!(thread.iter().copied().eq(0..EACH));
        }
        assert!(wakes.into_inner() >= 1);
    }
}
