//! The herd and its listeners: what the parent makes before it forks.

use super::config::{CONFIG_DEFAULTS, LISTEN_OPTIONS_DEFAULTS};
use super::fence::{code, fence, install_hook};
use super::handle::{
    AnyHerd, HerdHandle, Output, destroy_herd, into_herd_pointer, text, with_herd, with_source,
    write_text,
};
use super::sized;
use crate::abi::*;
use crate::accept::listener::Acceptance;
use crate::herd::Herd;
use crate::log::Log;
use crate::settings::{DEFAULT_NAME, Settings};
use crate::sys::host::HostPointer;
use crate::sys::{Error, Result};
use std::ffi::{c_char, c_int, c_void};

/// Makes a herd: shared memory for the workers' slots and the accept lock, and a descriptor for each
/// slot by which it is woken. Call it in the parent, before it forks or starts the threads that are
/// to be workers; children use the pointer that they inherit. `config` may be NULL for the
/// defaults; it is copied.
///
/// Returns 0 and stores the herd in `*herd`. -EINVAL: NULL, a member out of its range, or members that do
/// not go together (the log says which: a policy or callback that is not the mode's, `acceptor_slot`
/// outside HERD_MODE_HANDOFF); HERD_EABI or -E2BIG: a `config->size` that is not possible, or members
/// that this library does not know; -EADDRINUSE: a process of another herd of this name lives; -ENOMEM:
/// no (shared) memory; -EMFILE, -ENFILE: no descriptors; -ENOSYS: the kernel is older than Linux 4.14, or
/// refuses a call that the log names; other negated errno values from memfd_create(2), fcntl(2),
/// fallocate(2), mmap(2), madvise(2), eventfd(2), epoll_create1(2), epoll_ctl(2), timerfd_create(2) and
/// in HERD_MODE_HANDOFF socketpair(2), and with a name from open(2) of its file: -ENOENT: there is no
/// /dev/shm; -EPERM, -EACCES, -ELOOP, -ENXIO, -EISDIR: something else has the name. Keeps max_workers + 3
/// descriptors open, in HERD_MODE_HANDOFF 3 * max_workers + 3, one more with the second listener in
/// HERD_MODE_MUTEX and HERD_MODE_HANDOFF, and another when connections are steered (`herd_is_steered`).
/// Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_create(config: *const herd_config, herd: *mut *mut herd) -> c_int {
    let create = || -> Result<usize> {
        install_hook();
        let created = Output::new(herd)?;
        let config =
            if config.is_null() { CONFIG_DEFAULTS } else { sized::read(config, CONFIG_DEFAULTS)? };
        let name = if config.name.is_null() { DEFAULT_NAME } else { text(config.name)? };
        let log = Log::new(config.log, HostPointer(config.log_data), name);
        let settings = Settings::new(&config, name, &log)?;
        let herd = HerdHandle::new(Herd::new(settings, log)?);
        created.store(into_herd_pointer(AnyHerd::Own(herd)));
        Ok(0)
    };
    code(fence(create, |_| ()))
}

/// Gives back what `herd_create` and `herd_listen` made in this process, and removes the files of
/// Unix sockets if this process made them; or what `herd_open` made. Other processes go on. The last
/// process of a herd that calls it removes the herd's name. The herd's pointer and those of its
/// workers are invalid afterwards, and nothing finds that out. In a forked child, what the parent's
/// workers have in memory and descriptors stays until the child ends or execs.
///
/// Returns 0; -EINVAL: NULL; -EBUSY: a worker of this process is not destroyed yet. Thread: any,
/// while no other call on the herd runs in this process. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_destroy(herd: *mut herd) -> c_int {
    destroy_herd(herd)
}

/// The mode in force: `HERD_MODE_...`, never AUTO. -EINVAL: NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_mode(herd: *const herd) -> c_int {
    with_source(herd, |source| Ok(source.identity().mode as usize))
}

/// The balance policy in force: `HERD_BALANCE_...`, never DEFAULT. -EINVAL: NULL. Any thread.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_balance(herd: *const herd) -> c_int {
    with_source(herd, |source| Ok(source.identity().balance as usize))
}

/// Whether a program in the kernel sends each new connection to the worker that should have it:
/// in HERD_MODE_REUSEPORT with HERD_BALANCE_SPREAD, where bpf(2) is allowed to the process that calls
/// `herd_create` (CAP_BPF and CAP_NET_ADMIN, or root). Elsewhere in that mode the kernel's hash places
/// connections, and the log says why.
///
/// Returns 1 or 0. -EINVAL: NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_is_steered(herd: *const herd) -> c_int {
    with_herd(herd, |handle| Ok(usize::from(handle.herd.steering.is_some())))
}

/// Listens on `address` for all workers made from now on: "127.0.0.1:80", "[::1]:80", port 0 for a
/// free one (see `herd_listener_address`), "unix:/path" or "unix:@abstract-name". Host names are not
/// looked up. The socket is non-blocking, close-on-exec, and reuses the address (SO_REUSEADDR). The
/// file of a Unix socket that no process has open any more is replaced (of several that start at once
/// one gets it, the others -EADDRINUSE); `herd_destroy` or `herd_remove_listener` in the same process
/// removes it, unless another is there by then. A relative path is that from the present working
/// directory, also when the process has changed to another one; `herd_listener_address` gives the whole
/// path if it has fewer than 108 bytes. While another program keeps the socket's folder locked
/// (flock(2)) and the file is to be replaced the call waits, for about a second, and goes on without the
/// lock; so it does where the folder cannot be read or locked. Then, of two that replace one file at
/// once, both may succeed, and the later one is found under the path. `options` may be NULL for the
/// defaults.
/// Accepted connections go to `accept` with `accept_data`; with NULL the host takes them itself
/// with `herd_accept`. Call it in the parent, before the workers are made. In HERD_MODE_REUSEPORT a
/// listener on an internet address is one socket for each slot, so it takes max_workers descriptors.
///
/// Returns the listener's number, >= 0. -EINVAL: NULL, or an address or option that is not understood or
/// does not fit the address; -ENAMETOOLONG: a path of 108 bytes or more; HERD_EABI, -E2BIG:
/// `options->size`, as in `herd_create`; -EBUSY: a worker of this process exists already and would not
/// see it, or in HERD_MODE_MUTEX and HERD_MODE_HANDOFF a worker of any process (all must have the same
/// listeners there); -ESTALE: this process was forked while another thread changed the listeners; other
/// negated errno values from socket(2), bind(2), listen(2), such as -EADDRINUSE, -EACCES, -EADDRNOTAVAIL,
/// and -ENOENT: a Unix socket's folder is missing; -EOPNOTSUPP: `options->unix_mode`, see there; -ENOSPC:
/// over 65280 listeners, in HERD_MODE_REUSEPORT 65280 / max_workers. Thread: any, while no other makes or
/// destroys a worker. Fork: not while another thread is in this call; a child that is forked then may be
/// refused listeners and workers (-ESTALE). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_listen(
    herd: *mut herd,
    address: *const c_char,
    options: *const herd_listen_options,
    accept: herd_accept_fn,
    accept_data: *mut c_void,
) -> c_int {
    with_herd(herd, |handle| {
        let address = text(address)?;
        let options = if options.is_null() {
            LISTEN_OPTIONS_DEFAULTS
        } else {
            sized::read(options, LISTEN_OPTIONS_DEFAULTS)?
        };
        handle.refuse_with_workers()?;
        handle.herd.listen(
            address,
            &options,
            Acceptance::of_listener(accept, HostPointer(accept_data)),
        )
    })
}

/// Adds a listening socket that the host made: of any family, of a type that has connections. The
/// library works on a duplicate and sets it non-blocking, which the host's own descriptor shares
/// (fcntl(2)); the host may keep or close its own. In HERD_MODE_REUSEPORT all workers share it, as in
/// HERD_MODE_EXCLUSIVE. Otherwise as `herd_listen`.
///
/// Returns the listener's number, >= 0. -EBADF: not open; -ENOTSOCK: not a socket; -EINVAL: NULL herd, or
/// a socket that does not listen; -EBUSY, -ESTALE, -ENOSPC: as `herd_listen`; -EMFILE. Thread: as
/// `herd_listen`. Fork: as `herd_listen`. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_add_listener(
    herd: *mut herd,
    fd: c_int,
    accept: herd_accept_fn,
    accept_data: *mut c_void,
) -> c_int {
    with_herd(herd, |handle| {
        handle.refuse_with_workers()?;
        handle.herd.add_listener(fd, Acceptance::of_listener(accept, HostPointer(accept_data)))
    })
}

/// Takes a listener out of the herd for the workers made from now on, and closes the library's
/// descriptor of it in this process. Its number may be given to the next listener.
///
/// Returns 0. -ENOENT: no listener has this number; -EINVAL: NULL; -EBUSY: a worker of this process
/// uses it, or in HERD_MODE_MUTEX and HERD_MODE_HANDOFF one of any process; -ESTALE: as `herd_listen`;
/// -EMFILE, -ENFILE, -ENOMEM: the set of the others could not be made anew, and nothing was changed.
/// Thread: as `herd_listen`. Fork: as `herd_listen`. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_remove_listener(herd: *mut herd, listener: c_int) -> c_int {
    with_herd(herd, |handle| {
        let number = listener_number(listener)?;
        handle.herd.listener_fd(number)?;
        handle.refuse_with_workers()?;
        handle.herd.remove_listener(number)?;
        Ok(0)
    })
}

/// Writes the address that a listener is bound to, with the port that the kernel chose, as
/// NUL-terminated text into `buffer` of `buffer_bytes`.
///
/// Returns the length of the text without the NUL. -ENOSPC: it does not fit, nothing was written;
/// -ENOENT: no such listener; -EINVAL: NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_listener_address(
    herd: *const herd,
    listener: c_int,
    buffer: *mut c_char,
    buffer_bytes: usize,
) -> c_int {
    with_herd(herd, |handle| {
        let number = listener_number(listener)?;
        handle.herd.with_listener(number, |found| write_text(&found.name, buffer, buffer_bytes))
    })
}

/// The library's descriptor of a listener, to set socket options on. It stays the library's. In
/// HERD_MODE_REUSEPORT it is that of slot 0; see `herd_slot_listener_fd` for the others.
///
/// Returns the descriptor. -ENOENT: no such listener; -EINVAL: NULL. Any thread. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_listener_fd(herd: *const herd, listener: c_int) -> c_int {
    with_herd(herd, |handle| {
        let fd = handle.herd.listener_fd(listener_number(listener)?)?;
        Ok(fd as usize)
    })
}

/// The library's descriptor of the socket that a listener has for a slot, to set socket options on.
/// In HERD_MODE_REUSEPORT each slot has its own, but for Unix sockets and those of `herd_add_listener`;
/// otherwise it is that of `herd_listener_fd`. It stays the library's.
///
/// Returns the descriptor. -ENOENT: no such listener; -EINVAL: NULL, or no such slot. Any thread.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn herd_slot_listener_fd(herd: *const herd, listener: c_int, slot: c_int) -> c_int {
    with_herd(herd, |handle| {
        let slot = usize::try_from(slot).map_err(|_| Error::INVALID)?;
        let fd = handle.herd.slot_listener_fd(listener_number(listener)?, slot)?;
        Ok(fd as usize)
    })
}

fn listener_number(number: c_int) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::NOT_FOUND)
}
