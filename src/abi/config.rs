//! Configuration of a herd.

use super::handoff::herd_pick_fn;
use std::ffi::{c_char, c_int, c_void};

/// The best mode that works here. `herd_mode` tells which it is.
pub const HERD_MODE_AUTO: u32 = 0;
/// EPOLLEXCLUSIVE: every worker watches the listeners, the kernel wakes the first one of its wait
/// queue that waits, and the workers keep that queue in order of load. Falls back to MUTEX, with a
/// warning, where the kernel refuses the flag.
pub const HERD_MODE_EXCLUSIVE: u32 = 1;
/// nginx's accept mutex: the worker that has the accept right, and only it, watches the listeners.
pub const HERD_MODE_MUTEX: u32 = 2;
/// A listening socket for each worker slot (SO_REUSEPORT), all made by the parent and kept open in
/// every process, so that nobody's end resets a client. A slot's worker is the first that the kernel
/// wakes for its socket; while it is busy, stopped or dead, another one is. With the privilege for it a
/// program in the kernel sends each connection to an idle worker, the least loaded one first
/// (`herd_is_steered`); without, the kernel's hash places it. Not with PACK; with CALLBACK, or without
/// the program, workers with too much load let others accept from their sockets. Falls back to MUTEX,
/// with a warning, where the kernel refuses EPOLLEXCLUSIVE.
pub const HERD_MODE_REUSEPORT: u32 = 3;
/// The worker that has the accept right (or the one of `acceptor_slot`) accepts, and passes each
/// connection to the worker that is to serve it, itself included: the least loaded one, each in turn, or
/// the one that `pick_callback` names. Costs a message (unix(7), SCM_RIGHTS) for each connection that
/// goes to another worker, one system call for up to 16 that go to the same one, and two more
/// descriptors for each slot. At most 32 connections are on their way to a worker. When it dies, leaves,
/// drains or has no descriptor free, others take them at once; when it is stopped or hangs, within
/// accept_delay_ms + handover_delay_us, and it is sent none until it goes on. If there is no other
/// worker, as when the last one drains, they wait for one: the next that is made gets them; with the
/// herd they are closed. A worker that is killed takes with it the connections that it had taken, or had
/// accepted and not sent yet.
pub const HERD_MODE_HANDOFF: u32 = 4;
/// Every worker always watches the listeners, so every idle worker wakes for every connection:
/// the thundering herd, kept as the control to compare with.
pub const HERD_MODE_SHARED: u32 = 5;

/// The library's choice: SPREAD.
pub const HERD_BALANCE_DEFAULT: u32 = 0;
/// The least-loaded idle worker accepts.
pub const HERD_BALANCE_SPREAD: u32 = 1;
/// One worker after the other is filled, each until 7/8 of its `worker_connections` are in use, as
/// nginx does: fewer connections to upstream servers, warmer caches.
pub const HERD_BALANCE_PACK: u32 = 2;
/// The host decides, in the `balance_callback` of its configuration. Not in HERD_MODE_HANDOFF, which
/// has `pick_callback`.
pub const HERD_BALANCE_CALLBACK: u32 = 3;
/// HERD_MODE_HANDOFF only: each worker in turn, whatever its load.
pub const HERD_BALANCE_ROUND_ROBIN: u32 = 4;

/// For `herd_worker_create`: any free slot but that of `acceptor_slot`. For `herd_config.acceptor_slot`: no
/// certain one, which is the default.
pub const HERD_ANY_SLOT: c_int = -1;

/// Largest `max_workers`.
pub const HERD_MAX_WORKERS: u32 = 1024;

/// Something failed; the call that met it returns the error as well, where there is one.
pub const HERD_LOG_ERROR: c_int = 1;
/// Something an operator should look at: a worker backs off for lack of file descriptors, the
/// accept right was taken from a worker that made no progress.
pub const HERD_LOG_WARNING: c_int = 2;
/// Rare and good to know, such as the mode in force.
pub const HERD_LOG_INFO: c_int = 3;

/// Receives the library's messages: one line of text without a newline, valid during the call. Of what
/// can happen in every turn or with every connection, such as that a worker is out of descriptors, each
/// process tells once a second at most, of each kind apart; a line that ends in `(12 more since the last)`
/// counts those that were left out.
/// Called in the thread whose call caused the message; never from `herd_stop` or `herd_drain`.
/// It must not call the library, and must not throw or longjmp.
pub type herd_log_fn =
    Option<extern "C-unwind" fn(log_data: *mut c_void, level: c_int, message: *const c_char)>;

/// Decides whether a worker lets another accept (`HERD_BALANCE_CALLBACK`). Called in the worker that
/// has just accepted, with the loads (see `herd_set_load`) of it and of the least-loaded other worker
/// that could accept instead. It must be quick, must not call the library, and must not throw or
/// longjmp. Return 1 to let the other accept, 0 to go on.
pub type herd_balance_fn = Option<
    extern "C-unwind" fn(balance_data: *mut c_void, own_load: u64, least_load: u64) -> c_int,
>;

/// Configuration of a herd. Initialise with `HERD_CONFIG_INIT` or `herd_config_init`, then change
/// what you need. Zero in a numeric member means its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct herd_config {
    /// `sizeof(struct herd_config)` of the header that the program was built with.
    pub size: u32,
    /// `HERD_MODE_...`. Default: AUTO.
    pub mode: u32,
    /// `HERD_BALANCE_...`. Default: DEFAULT.
    pub balance: u32,
    /// Number of worker slots, 1 to `HERD_MAX_WORKERS`: the largest number of workers that exist at
    /// one time, the old generation of a reload included. With 1 no lock is used. Default: 64.
    pub max_workers: u32,
    /// Connections that one worker can have open (nginx: `worker_connections`). At this number it
    /// does not accept. Over 7/8 of it the worker leaves accepting to others: in MUTEX it skips
    /// tries, in EXCLUSIVE with PACK it goes to the end of the wait queue. 1 to 2^30. Default: 1024.
    pub worker_connections: u32,
    /// Safety net: the longest time in milliseconds that a connection can wait while a worker is idle,
    /// whatever happened to the one that should accept (nginx: `accept_mutex_delay`; in MUTEX and HANDOFF
    /// handover_delay_us more; half as long again when the one that is woken for it is lost as well), and
    /// how long a worker without free file descriptors leaves accepting to others. 1 to 60000.
    /// Default: 500.
    pub accept_delay_ms: u32,
    /// How soon in microseconds an idle worker is woken while the accept right is free and those who
    /// know of it are busy, and how long a holder of the right must have made no progress, with a
    /// connection waiting, before it is taken from it. The first is four times as long while a worker
    /// accepts more than 2000 connections a second. 1 to 1000000. Default: 500.
    pub handover_delay_us: u32,
    /// Connections accepted in one turn at most. 1 to 1024. Default: 1, as nginx without
    /// `multi_accept`: two clients taken at once by one worker wait behind each other's handlers.
    /// In HERD_MODE_HANDOFF, where a batch is shared out: 16 while connections come fast.
    pub accept_batch: u32,
    /// Name of the herd in messages, by which other processes can look at it too (`herd_open`), or
    /// NULL. One herd of a user can have it at a time: a new generation that is to run beside the
    /// old one needs another name. 1 to 63 characters out of letters, digits, `_`, `-` and `.`, but
    /// neither `.` nor `..`; copied.
    pub name: *const c_char,
    /// Receives messages, or NULL for none.
    pub log: herd_log_fn,
    /// First argument of `log`.
    pub log_data: *mut c_void,
    /// The policy of `HERD_BALANCE_CALLBACK`; NULL otherwise.
    pub balance_callback: herd_balance_fn,
    /// First argument of `balance_callback`.
    pub balance_data: *mut c_void,
    /// Names the worker for a connection, in HERD_MODE_HANDOFF; NULL: `balance` chooses for all.
    pub pick_callback: herd_pick_fn,
    /// First argument of `pick_callback`.
    pub pick_data: *mut c_void,
    /// In HERD_MODE_HANDOFF the slot whose worker alone accepts, 1 to max_workers - 1: a parent can make
    /// that worker in its own process and run it. It serves only what no other worker takes (there is
    /// none, all are stopped or hang, or none has a descriptor free), and what is sent to it by name. Only
    /// `herd_worker_create` with its number takes this slot. Nobody else accepts: while that worker is
    /// busy, stopped or dead, new clients wait in the backlog, until it goes on or a new one has its
    /// slot. Default, as is HERD_ANY_SLOT: whichever worker has the accept right.
    pub acceptor_slot: c_int,
    /// 0. So that a member which comes here later does not get an older program's padding for a value.
    pub reserved: u32,
}
