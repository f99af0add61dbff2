//! What the parent of the workers reports.

use super::handle::with_herd;
use crate::abi::*;
use crate::sys::Error;
use std::ffi::c_int;

/// Reports that the process `pid` is dead: what it held is freed (the accept right, its slots and
/// their load), and an idle worker is woken to accept. Call it in the parent after waitpid(2), for
/// every child; children that were no workers are told apart.
///
/// Returns the number of slots freed, 0 if the process had none. -EINVAL: NULL, `pid` below 1, or the
/// caller's own. Any process and thread. nginx: ngx_unlock_mutexes in ngx_process.c. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_reap(herd: *mut herd, pid: c_int) -> c_int {
    with_herd(herd, |handle| {
        let pid = u32::try_from(pid).ok().filter(|&pid| pid != 0 && pid != std::process::id());
        handle.herd.reap(pid.ok_or(Error::INVALID)?)
    })
}
