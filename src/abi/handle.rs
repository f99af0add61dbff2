//! The two opaque handles.

/// A herd: the shared state of the workers that serve the same listeners. Made by `herd_create` in
/// the parent before it forks (or before it starts threads); every child uses the pointer it
/// inherited. Or one that `herd_open` looks at from outside.
pub struct herd {
    _opaque: [u8; 0],
}

/// A worker: one event loop, run by one thread. Made by `herd_worker_create` in the process that
/// runs it. All calls on it belong to that one thread, but for `herd_stop`, `herd_drain` and
/// `herd_post_remote`, which any thread of the same process may call.
pub struct herd_worker {
    _opaque: [u8; 0],
}
