//! libherd's own error codes, below the range of negated errno values.

/// The call was made in a process that was forked after the object was made. Nothing was changed,
/// neither here nor in the parent. Make a worker of this process's own.
pub const HERD_EFORKED: i32 = -5001;
/// An earlier call on this worker met a defect of the library (`HERD_EINTERNAL`), or the host has closed
/// the worker's epoll set: the log says which. Only `herd_worker_destroy` is possible now.
pub const HERD_EPOISONED: i32 = -5002;
/// A call that runs the loop was made from inside a callback of the same worker.
pub const HERD_EREENTERED: i32 = -5003;
/// The worker was destroyed.
pub const HERD_EDESTROYED: i32 = -5004;
/// A defect of the library was met and contained. The accept right was released, the worker is
/// poisoned, the log has the details.
pub const HERD_EINTERNAL: i32 = -5005;
/// The `size` of a struct cannot be one: below 8, above 4096, or no multiple of the struct's alignment.
/// Any other is believed, as that of an older or a newer header. Use the struct's initialiser.
pub const HERD_EABI: i32 = -5006;
/// Every worker slot of the herd is taken. Raise `max_workers`, or report dead workers with
/// `herd_reap`.
pub const HERD_ENOSLOT: i32 = -5007;
/// This worker was found dead and its slot was taken from it, but it lives: its process has closed a
/// descriptor of the library's, which ends the lock by which the others know that it lives
/// (fcntl(2)). Destroy it and make a new one.
pub const HERD_EREAPED: i32 = -5008;
/// `herd_worker_fd` in HERD_MODE_EXCLUSIVE or HERD_MODE_REUSEPORT: behind a descriptor that another
/// loop polls, a connection would wake every worker. Create the herd with HERD_MODE_MUTEX, or have
/// the listeners in the loop's own epoll set with `herd_attach_epoll`.
pub const HERD_ENESTED: i32 = -5009;
/// The call does not go with who waits for this worker. After `herd_worker_fd` or `herd_attach_epoll`
/// it is the host's loop, between `herd_prepare` and `herd_check`; otherwise `herd_run_once`.
pub const HERD_EHOSTLOOP: i32 = -5010;
/// The herd's memory is laid out by another version of libherd than this one, so that it cannot be
/// read (`herd_open`).
pub const HERD_EVERSION: i32 = -5011;
/// What is in the file of this name is not a herd's memory, or is damaged (`herd_open`); something has
/// written to the shared memory of the herd (`herd_worker_create`).
pub const HERD_EDAMAGED: i32 = -5012;
/// The herd was opened with `herd_open`: only calls that read its figures are possible.
pub const HERD_EOBSERVER: i32 = -5013;
