//! Looking at a herd from outside.

use super::fence::{code, fence, install_hook};
use super::handle::{AnyHerd, Output, into_herd_pointer, text, with_source};
use crate::abi::*;
// What a herd can be called, for programs in Rust that look for herds.
pub use crate::settings::is_name;
use crate::shm::observed::Observed;
use crate::sys::{Error, Result};
use std::ffi::{c_char, c_int};

/// Opens a running or ended herd by the name that its configuration gives it, to look at it: "web",
/// or "33:web" for the herd of the user with id 33. With what it gives only `herd_mode`,
/// `herd_balance`, `herd_slots`, `herd_is_alive`, the `herd_stats_` calls and `herd_destroy` are
/// possible; others answer HERD_EOBSERVER. It changes nothing of the herd, holds nothing of it up,
/// and believes nothing in its memory unchecked.
///
/// A herd is found until another one takes its name, so also after its processes have died; the last
/// process that leaves it by `herd_destroy` takes the name along. The name is that of a file,
/// /dev/shm/herd-UID-NAME, which only its owner (and root) can read; its owner may give others the
/// right to read it with chmod(2).
///
/// Returns 0 and stores the herd in `*herd`. -EINVAL: NULL, or no name; -ENOENT: none of this name, or
/// one that is just being made; -EACCES: not allowed to read it; -EPERM, -ELOOP, -ENXIO: what has the
/// name is no regular file of that user (another user's, or a directory; a symbolic link; a socket);
/// HERD_EDAMAGED: it is one, but not a herd's; HERD_EVERSION: it runs a version of the library whose
/// memory this one cannot read; -EMFILE, -ENFILE: no descriptor; -ENOMEM; HERD_EINTERNAL. Keeps one
/// descriptor open. Any process, any thread; a forked child may use it as well. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_open(name: *const c_char, herd: *mut *mut herd) -> c_int {
    let open = || -> Result<usize> {
        install_hook();
        let opened = Output::new(herd)?;
        let (user, name) = match text(name)?.split_once(':') {
            Some((user, name)) => (Some(user.parse().map_err(|_| Error::INVALID)?), name),
            None => (None, text(name)?),
        };
        if !is_name(name) {
            return Err(Error::INVALID);
        }
        let observed = Box::new(Observed::open(user, name)?);
        opened.store(into_herd_pointer(AnyHerd::Observed(observed)));
        Ok(0)
    };
    code(fence(open, |_| ()))
}

/// Whether a process of the herd lives: one that made it, or was forked by one.
///
/// Returns 1 or 0; a herd of the calling process lives. -EINVAL: NULL; negated errno values of fcntl(2).
/// Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_is_alive(herd: *const herd) -> c_int {
    with_source(herd, |source| Ok(source.is_alive()?.into()))
}

/// The number of worker slots, max_workers of the configuration. -EINVAL: NULL. Any thread.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_slots(herd: *const herd) -> c_int {
    with_source(herd, |source| Ok(source.identity().slots()))
}
