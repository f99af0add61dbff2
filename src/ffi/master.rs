//! What the parent of the workers reports.

use super::handle::with_herd;
use crate::abi::*;
use crate::sys::Error;
use std::ffi::c_int;

/// Reports that the process `pid` is dead: what it held is freed (the accept right, its slots and
/// their load), and an idle worker is woken to accept. Call it in the parent after waitpid(2), for
/// every child; children that were no workers are told apart. The kernel is asked who is dead, so a
/// mistaken report, a reused process id or a worker in a pid namespace of its own does no harm; other
/// dead workers found on the way are freed as well.
///
/// Returns the number of slots freed, 0 if no worker was dead. -EINVAL: NULL, or `pid` below 1; negated
/// errno values of fcntl(2): other dead workers may have been freed all the same. Any process of the
/// herd, any thread. nginx: ngx_unlock_mutexes in ngx_process.c. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_reap(herd: *mut herd, pid: c_int) -> c_int {
    with_herd(herd, |handle| {
        if pid < 1 {
            return Err(Error::INVALID);
        }
        handle.herd.free_dead_slots()
    })
}

/// Tells whether a slot has a worker that lives. Its process is not asked for by its id, which may be
/// another's by now: the kernel knows who holds the slot. A worker that is stopped (SIGSTOP) or hangs
/// lives. Nothing is freed: that is for `herd_reap`.
///
/// Returns 1: it lives; 0: the slot is free, or its worker is dead. -EINVAL: NULL, or no such slot;
/// negated errno values of fcntl(2). Any process of the herd, any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_worker_alive(herd: *mut herd, slot: c_int) -> c_int {
    with_herd(herd, |handle| {
        let number = u16::try_from(slot).map_err(|_| Error::INVALID)?;
        handle.herd.is_alive(number).map(usize::from)
    })
}

/// Counts the free slots, that of `acceptor_slot` among them, after freeing those of dead workers. A
/// parent asks before it starts another worker, such as the new generation of a reload while the old one
/// drains: a worker that finds none cannot accept (`herd_worker_create` says HERD_ENOSLOT; so it does
/// with HERD_ANY_SLOT when the acceptor's is the only one free).
///
/// Returns the number. -EINVAL: NULL; negated errno values of fcntl(2): as `herd_reap`. Any process of
/// the herd, any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_free_slots(herd: *mut herd) -> c_int {
    with_herd(herd, |handle| handle.herd.free_slots())
}
