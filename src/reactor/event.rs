//! The caller-owned event and timer: checks, private members, and the calls of their handlers. The
//! only place that looks into them besides the lists they are linked in.

use crate::abi::{
    HERD_EDGE, HERD_ERROR, HERD_HANGUP, HERD_PEER_CLOSED, HERD_READ, HERD_WRITE, herd_event,
    herd_event_fn, herd_timer, herd_timer_fn, herd_worker,
};
use crate::sys::epoll;
use crate::sys::{Error, Result};
use static_assertions::const_assert;
use std::ffi::c_void;
use std::os::fd::RawFd;
use std::ptr;

const_assert!(size_of::<herd_event>() <= 64);

/// In `herd_magic` of an event or timer that was initialised.
const EVENT_MAGIC: u32 = 0x4865_7645;
const TIMER_MAGIC: u32 = 0x4865_5469;

/// In `herd_index` of an event that is not added.
const NOT_ADDED: u32 = u32::MAX;

const INTERESTS: u32 = HERD_READ | HERD_WRITE | HERD_PEER_CLOSED | HERD_EDGE;

/// The interest in epoll's bits.
pub fn epoll_bits(interest: u32) -> Result<u32> {
    if interest & !INTERESTS != 0 {
        return Err(Error::INVALID);
    }
    let bit = |herd: u32, epoll: u32| if interest & herd != 0 { epoll } else { 0 };
    Ok(bit(HERD_READ, epoll::IN)
        | bit(HERD_WRITE, epoll::OUT)
        | bit(HERD_PEER_CLOSED, epoll::RDHUP)
        | bit(HERD_EDGE, epoll::EDGE))
}

/// What epoll reported, in the library's bits. On an error or a hang-up the host's interest in
/// reading and writing counts as ready, as in nginx's ngx_epoll_module.c: the handler's own read or
/// write then meets the error.
pub fn ready_bits(reported: u32, event: *mut herd_event) -> u32 {
    let bit = |epoll: u32, herd: u32| if reported & epoll != 0 { herd } else { 0 };
    let broken = bit(epoll::ERR | epoll::HUP, interest(event) & (HERD_READ | HERD_WRITE));
    bit(epoll::IN, HERD_READ)
        | bit(epoll::OUT, HERD_WRITE)
        | bit(epoll::RDHUP, HERD_PEER_CLOSED)
        | bit(epoll::ERR, HERD_ERROR)
        | bit(epoll::HUP, HERD_HANGUP)
        | broken
}

/// Sets up an event in memory of any content.
pub fn init_event(event: *mut herd_event, handler: herd_event_fn, data: *mut c_void) -> Result<()> {
    if event.is_null() || handler.is_none() {
        return Err(Error::INVALID);
    }
    // SAFETY: the host gave memory for an event; it is written, not read.
    unsafe {
        event.write(herd_event {
            handler,
            data,
            fd: -1,
            interest: 0,
            herd_next: ptr::null_mut(),
            herd_prev: ptr::null_mut(),
            herd_remote_next: ptr::null_mut(),
            herd_index: NOT_ADDED,
            herd_ready: 0,
            herd_queue: 0,
            herd_owner: 0,
            herd_magic: EVENT_MAGIC,
        })
    };
    Ok(())
}

pub fn init_timer(timer: *mut herd_timer, handler: herd_timer_fn, data: *mut c_void) -> Result<()> {
    if timer.is_null() || handler.is_none() {
        return Err(Error::INVALID);
    }
    // SAFETY: the host gave memory for a timer; it is written, not read.
    unsafe {
        timer.write(herd_timer {
            handler,
            data,
            herd_position: 0,
            herd_owner: 0,
            herd_magic: TIMER_MAGIC,
        })
    };
    Ok(())
}

/// Looks only at members that do not change while the event is in use, so any thread may call it.
pub fn check_initialised(event: *mut herd_event) -> Result<()> {
    if event.is_null() {
        return Err(Error::INVALID);
    }
    // SAFETY: the host's memory for an event.
    let (magic, handler) = unsafe { ((*event).herd_magic, (*event).handler) };
    if magic == EVENT_MAGIC && handler.is_some() { Ok(()) } else { Err(Error::INVALID) }
}

/// An event that this worker may work on: initialised, and not in use at another one.
pub fn check(event: *mut herd_event, owner: u16) -> Result<()> {
    check_initialised(event)?;
    // SAFETY: a checked event of a worker of this thread.
    let (index, queue, owned_by) =
        unsafe { ((*event).herd_index, (*event).herd_queue, (*event).herd_owner) };
    let in_use = index != NOT_ADDED || queue != 0;
    if in_use && owned_by != owner { Err(Error::BUSY) } else { Ok(()) }
}

pub fn check_timer(timer: *mut herd_timer, owner: u16) -> Result<()> {
    // SAFETY: null is told apart; otherwise the host's memory for a timer.
    let Some(timer) = (unsafe { timer.as_ref() }) else { return Err(Error::INVALID) };
    if timer.herd_magic != TIMER_MAGIC || timer.handler.is_none() {
        Err(Error::INVALID)
    } else if timer.herd_position != 0 && timer.herd_owner != u32::from(owner) {
        Err(Error::BUSY)
    } else {
        Ok(())
    }
}

// The functions below take an event that `check` has passed and that the host keeps where it is
// while it is added or posted (the header says so): that is what makes them safe.

pub fn is_added(event: *mut herd_event) -> bool {
    added_index(event).is_some()
}

pub fn added_index(event: *mut herd_event) -> Option<u32> {
    // SAFETY: a checked event.
    Some(unsafe { (*event).herd_index }).filter(|&index| index != NOT_ADDED)
}

pub fn interest(event: *mut herd_event) -> u32 {
    // SAFETY: a checked event.
    unsafe { (*event).interest }
}

pub fn set_interest(event: *mut herd_event, interest: u32) {
    // SAFETY: a checked event.
    unsafe { (*event).interest = interest }
}

pub fn set_added(event: *mut herd_event, owner: u16, index: u32, fd: RawFd, interest: u32) {
    // SAFETY: a checked event.
    unsafe {
        (*event).herd_owner = owner;
        (*event).herd_index = index;
        (*event).fd = fd;
        (*event).interest = interest;
    }
}

pub fn set_removed(event: *mut herd_event) {
    // SAFETY: a checked event.
    unsafe {
        (*event).herd_index = NOT_ADDED;
        (*event).fd = -1;
        (*event).interest = 0;
        // Of a descriptor that may be another's when it is posted again.
        (*event).herd_ready = 0;
    }
}

pub fn add_ready(event: *mut herd_event, ready: u32) {
    // SAFETY: a registered event.
    unsafe { (*event).herd_ready |= ready }
}

/// Runs an event's handler, which may free the event.
pub fn run(event: *mut herd_event, worker: *mut herd_worker) {
    // SAFETY: an event that was just taken out of its queue.
    let (handler, ready) = unsafe {
        let ready = (*event).herd_ready;
        (*event).herd_ready = 0;
        ((*event).handler, ready)
    };
    // A host that clears the handler of a posted event has taken it back.
    if let Some(handler) = handler {
        handler(worker, event, ready);
    }
}

/// Runs a timer's handler, which may free the timer.
pub fn run_timer(timer: *mut herd_timer, worker: *mut herd_worker) {
    // SAFETY: a timer that was just taken out of the heap.
    if let Some(handler) = unsafe { (*timer).handler } {
        handler(worker, timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    extern "C-unwind" fn nothing(_: *mut herd_worker, _: *mut herd_event, _: u32) {}

    #[test]
    fn interests_and_readiness_translate() {
        let table = [
            (0, 0),
            (HERD_READ, epoll::IN),
            (HERD_READ | HERD_WRITE | HERD_EDGE, epoll::IN | epoll::OUT | epoll::EDGE),
            (HERD_PEER_CLOSED, epoll::RDHUP),
        ];
        for (interest, bits) in table {
            assert_eq!(epoll_bits(interest), Ok(bits));
        }
        for bad in [HERD_ERROR, HERD_HANGUP, 64, u32::MAX] {
            assert_eq!(epoll_bits(bad), Err(Error::INVALID));
        }
    }

    #[test]
    fn an_error_wakes_what_the_host_is_interested_in() {
        let mut memory = MaybeUninit::<herd_event>::uninit();
        let event = memory.as_mut_ptr();
        init_event(event, Some(nothing), ptr::null_mut()).unwrap();
        set_interest(event, HERD_WRITE | HERD_EDGE);
        assert_eq!(ready_bits(epoll::ERR, event), HERD_ERROR | HERD_WRITE);
        assert_eq!(ready_bits(epoll::OUT, event), HERD_WRITE);
        set_interest(event, 0);
        assert_eq!(ready_bits(epoll::HUP, event), HERD_HANGUP);
    }
}
