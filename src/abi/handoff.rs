//! Connections that one process passes to another (HERD_MODE_HANDOFF).

use super::handle::herd_worker;
use libc::sockaddr;
use std::ffi::{c_int, c_void};

/// For `herd_handoff_send`, and the answer of a `herd_pick_fn`: the balance policy chooses.
pub const HERD_PICK: c_int = -1;

/// Longest tag of `herd_handoff_send`, in bytes.
pub const HERD_TAG_BYTES_MAX: u32 = 64;

/// `herd_accepted.listener` of a connection that came by `herd_handoff_send`.
pub const HERD_LISTENER_NONE: u32 = 0xffff_ffff;

/// Names the worker that gets a connection (HERD_MODE_HANDOFF): a slot, for clients that belong to
/// a certain worker, or HERD_PICK to leave it to the balance policy, which also chooses when the
/// slot that was named has no worker, or one that cannot take a connection now: it is full, backs off,
/// drains, has 32 connections on their way to it, or was found not to take what it is sent and has not
/// gone on since. The slot of a worker that only accepts (`acceptor_slot`) may be named too. Called in the worker
/// that has accepted it (or by `herd_handoff_send`); `peer` is valid during the call. It must be
/// quick, must not call the library, and must not throw or longjmp.
pub type herd_pick_fn = Option<
    extern "C-unwind" fn(pick_data: *mut c_void, peer: *const sockaddr, peer_length: u32) -> c_int,
>;

/// Receives a connection that somebody sent with `herd_handoff_send`: non-blocking, close-on-exec,
/// and the host's own from now on, counted as open as one that was accepted. `peer` is its peer's
/// address, or `peer_length` is 0; `tag` has the `tag_bytes` that were sent with it. Both are valid
/// during the call. `handoff_data` is what was given with `herd_on_handoff`.
/// Must not throw or longjmp: an exception that leaves a callback ends the process.
pub type herd_handoff_fn = Option<
    extern "C-unwind" fn(
        worker: *mut herd_worker,
        fd: c_int,
        peer: *const sockaddr,
        peer_length: u32,
        tag: *const c_void,
        tag_bytes: usize,
        handoff_data: *mut c_void,
    ),
>;
