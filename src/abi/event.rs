//! Events and timers that live in the host's own objects.

use super::handle::herd_worker;
use std::ffi::{c_int, c_void};

/// Interest and readiness: data to read, or a connection to accept.
pub const HERD_READ: u32 = 1;
/// Interest and readiness: room to write.
pub const HERD_WRITE: u32 = 2;
/// Interest and readiness: the peer has closed its sending side (EPOLLRDHUP).
pub const HERD_PEER_CLOSED: u32 = 4;
/// Interest only: edge-triggered. One event for each change, so read or write until EAGAIN.
pub const HERD_EDGE: u32 = 8;
/// Readiness only: an error is pending on the descriptor (EPOLLERR). Always reported.
pub const HERD_ERROR: u32 = 16;
/// Readiness only: both directions are closed (EPOLLHUP). Always reported.
pub const HERD_HANGUP: u32 = 32;

/// For `herd_process_events`: post what came to the queues instead of running it
/// (nginx: NGX_POST_EVENTS).
pub const HERD_POST_EVENTS: u32 = 1;

/// Listeners with connections to accept (nginx: ngx_posted_accept_events). Filled by the library.
pub const HERD_POSTED_ACCEPT: u32 = 0;
/// Events to run in this turn (nginx: ngx_posted_events).
pub const HERD_POSTED_EVENTS: u32 = 1;
/// Events to run in the next turn, which then does not wait (nginx: ngx_posted_next_events).
pub const HERD_POSTED_NEXT: u32 = 2;

/// Runs when an event is ready or was posted. `ready` has the `HERD_...` readiness bits, with
/// HERD_READ and HERD_WRITE added on an error or a hang-up as far as the host is interested in
/// them, so that a handler meets the error in its own read or write; 0 for an event that was only
/// posted. May delete and free any event, its own included, if it calls `herd_event_del` first.
/// Must not throw or longjmp: an exception that leaves a callback ends the process.
pub type herd_event_fn =
    Option<extern "C-unwind" fn(worker: *mut herd_worker, event: *mut herd_event, ready: u32)>;

/// An event: something that happens on a descriptor, or that the host posts. It lives in the host's
/// own object and needs no allocation. Set up with `herd_event_init`; the members after `interest`
/// are the library's. It must stay where it is until `herd_event_del` or, if it was only posted,
/// until it has run or was taken back with `herd_unpost`.
#[repr(C)]
pub struct herd_event {
    /// Runs when the event happens.
    pub handler: herd_event_fn,
    /// The host's own.
    pub data: *mut c_void,
    /// The descriptor while added, else -1. Read only.
    pub fd: c_int,
    /// What is watched while added. Read only; change with `herd_event_mod`.
    pub interest: u32,
    /// Private.
    pub herd_next: *mut herd_event,
    /// Private.
    pub herd_prev: *mut herd_event,
    /// Private.
    pub herd_remote_next: *mut herd_event,
    /// Private.
    pub herd_index: u32,
    /// Private.
    pub herd_ready: u32,
    /// Private.
    pub herd_queue: u16,
    /// Private.
    pub herd_owner: u16,
    /// Private.
    pub herd_magic: u32,
}

/// Runs when a timer has expired. The timer is no longer pending: the handler may start it again or
/// free it. Must not throw or longjmp.
pub type herd_timer_fn =
    Option<extern "C-unwind" fn(worker: *mut herd_worker, timer: *mut herd_timer)>;

/// A timer. It lives in the host's own object. Set up with `herd_timer_init`; it must stay where it
/// is while it is pending.
#[repr(C)]
pub struct herd_timer {
    /// Runs when the time has come.
    pub handler: herd_timer_fn,
    /// The host's own.
    pub data: *mut c_void,
    /// Private.
    pub herd_position: u64,
    /// Private.
    pub herd_owner: u32,
    /// Private.
    pub herd_magic: u32,
}
