//! Listeners and accepted connections.

use super::handle::herd_worker;
use super::handoff::HERD_TAG_BYTES_MAX;
use libc::{sockaddr, sockaddr_storage};
use std::ffi::{c_int, c_void};

/// Receives an accepted connection: non-blocking, close-on-exec, and the host's own from now on.
/// Called without the accept right. The connection is counted as open already: call
/// `herd_conn_closed` once when it is closed. `peer` is valid during the call; `peer_length` is in
/// bytes, and for an unnamed Unix socket it covers the address family only. `accept_data` is what
/// was given with the listener.
/// Must not throw or longjmp: an exception that leaves a callback ends the process.
pub type herd_accept_fn = Option<
    extern "C-unwind" fn(
        worker: *mut herd_worker,
        fd: c_int,
        peer: *const sockaddr,
        peer_length: u32,
        accept_data: *mut c_void,
    ),
>;

/// For `herd_listen_options.flags`: an IPv6 listener takes IPv4 connections too. Without it the
/// socket is IPv6 only, whatever the system's default is (as in nginx).
pub const HERD_LISTEN_DUAL_STACK: u32 = 1;

/// Options of `herd_listen`. Initialise with `HERD_LISTEN_OPTIONS_INIT` or
/// `herd_listen_options_init`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct herd_listen_options {
    /// `sizeof(struct herd_listen_options)` of the header that the program was built with.
    pub size: u32,
    /// Connections that the kernel keeps waiting (listen(2)); it lowers this to
    /// net.core.somaxconn. Zero means the default: 4096.
    pub backlog: u32,
    /// `HERD_LISTEN_...`, or 0.
    pub flags: u32,
    /// Permission bits of a Unix socket's file, such as 0660. Zero leaves them to the umask. Bits beyond
    /// it need glibc 2.32, and fchmodat2(2) or /proc: `herd_listen` answers -EOPNOTSUPP without.
    pub unix_mode: u32,
}

/// A connection taken with `herd_accept`. Initialise with `HERD_ACCEPTED_INIT`, or set `size` before the
/// call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct herd_accepted {
    /// `sizeof(struct herd_accepted)` of the header that the program was built with.
    pub size: u32,
    /// The connection: non-blocking, close-on-exec, the host's own.
    pub fd: c_int,
    /// Number of the listener that it came from, or HERD_LISTENER_NONE.
    pub listener: u32,
    /// Bytes of `peer` that are filled.
    pub peer_length: u32,
    /// The peer's address.
    pub peer: sockaddr_storage,
    /// Bytes of `tag` that are filled: 0 unless it came by `herd_handoff_send`.
    pub tag_bytes: u32,
    /// What was sent with it.
    pub tag: [u8; HERD_TAG_BYTES_MAX as usize],
}
