//! Listeners that this process did not make: passed to it by a service manager.

use super::handle::{text, with_herd};
use crate::abi::*;
use crate::accept::listener::Acceptance;
use crate::sys::host::HostPointer;
use std::ffi::{c_char, c_int, c_void};

/// Adds the listening sockets that a service manager passed to this process (systemd.socket(5),
/// sd_listen_fds(3)): those with this `name` (FileDescriptorName=), or with NULL all of them. Without
/// LISTEN_FDNAMES all are named "unknown". All are added, or none. Call it once for each name that goes
/// to an `accept` callback of its own. Nothing but this call reads the environment (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES), and it does not
/// change it: a second call with the same name adds them again. It sets close-on-exec on every
/// descriptor that was passed; they stay the host's, which may close them, since the library works
/// on duplicates. Otherwise as `herd_add_listener`, which is for sockets inherited in another way.
/// Their numbers are the lowest free ones, in the order in which they were passed.
///
/// Returns the number of listeners added, 0 if none of the name was passed, or nothing was passed to
/// this process: then listen with `herd_listen`. -EINVAL: NULL herd, a variable that is
/// malformed (LISTEN_FDS=0 too, as for sd_listen_fds(3)), more or fewer names than descriptors, or a
/// socket that does not listen; -EBADF: a descriptor that was announced is not open; -ENOTSOCK: one is not a socket (choose by name among
/// descriptors of several kinds); -EBUSY, -ESTALE: as `herd_listen`; -EMFILE, -ENOSPC: no room for all. The
/// log has the variables. Thread: any, while no other changes the environment or the descriptors.
/// Fork: a child gets 0, since LISTEN_PID names its parent; otherwise as `herd_listen`. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_listen_systemd(
    herd: *mut herd,
    name: *const c_char,
    accept: herd_accept_fn,
    accept_data: *mut c_void,
) -> c_int {
    with_herd(herd, |handle| {
        let name = if name.is_null() { None } else { Some(text(name)?) };
        handle.refuse_with_workers()?;
        let acceptance = Acceptance::of_listener(accept, HostPointer(accept_data));
        handle.herd.add_passed_listeners(name, acceptance)
    })
}
