//! The two opaque handles.

/// A herd: the shared state of the workers that serve the same listeners. Made by `herd_create` in
/// the parent before it forks (or before it starts threads); every child uses the pointer it
/// inherited. Or one that `herd_open` looks at from outside: every call but those that are named there
/// answers HERD_EOBSERVER.
pub struct herd {
    _opaque: [u8; 0],
}

/// A worker: one event loop, run by one thread. Made by `herd_worker_create` in the process that runs it.
/// All calls on it belong to that one thread, but for `herd_stop`, `herd_drain` and `herd_post_remote`,
/// which any thread of the same process may call.
///
/// Every call on a worker but `herd_worker_destroy` can answer -EINVAL: NULL; HERD_EFORKED,
/// HERD_EDESTROYED, HERD_EPOISONED: it cannot be used, see there; HERD_EINTERNAL; and, if it is not for
/// callbacks, HERD_EREENTERED. What else a call can answer stands at the call.
pub struct herd_worker {
    _opaque: [u8; 0],
}
