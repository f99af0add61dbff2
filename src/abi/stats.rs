//! Counters that any process of the herd can read.

/// Counters of one worker slot or of the whole herd, since the herd was created. Set
/// `size` before the call.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct herd_stats {
    /// `sizeof(struct herd_stats)` of the header that the program was built with.
    pub size: u32,
    /// Workers, those included that died and were not found dead yet: 0 or 1 for one slot.
    pub workers: u32,
    /// Connections open now: accepted or reported with `herd_conn_opened`, and not yet closed.
    pub connections_open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections reported with `herd_conn_closed`.
    pub closed: u64,
    /// Waits: one in a pass of the loop, or two if it was asked to accept.
    pub turns: u64,
    /// Returns from the wait with at least one event.
    pub wakeups: u64,
    /// Wake-ups caused by a listener that ended without an accepted connection.
    pub wasted_wakeups: u64,
    /// accept4(2) calls that found no connection.
    pub accept_eagain: u64,
    /// accept4(2) calls that failed for one connection only, such as ECONNABORTED.
    pub accept_retries: u64,
    /// Times a worker stopped accepting for accept_delay_ms, for lack of descriptors or memory.
    pub backoffs: u64,
    /// Times the accept right was acquired.
    pub acquisitions: u64,
    /// Tries for the accept right that found it held.
    pub failed_tries: u64,
    /// Times a worker woke another one to accept in its place.
    pub handovers: u64,
    /// Times a worker moved to the end of the kernel's wait queue of a listener (EXCLUSIVE, REUSEPORT).
    pub reorders: u64,
    /// Ticks of the guard that a worker was woken for.
    pub guard_ticks: u64,
    /// Those after which it got the accept right or found a waiting connection.
    pub guard_useful: u64,
    /// Times a worker found a connection waiting that no wake-up had told it of (EXCLUSIVE, REUSEPORT).
    pub blind_accepts: u64,
    /// Times the accept right was taken from a holder that made no progress.
    pub thefts: u64,
    /// Times the slot was freed because its worker's death was reported or found.
    pub reaps: u64,
    /// Events of descriptors that were closed without `herd_event_del`, dropped.
    pub stale_events: u64,
    /// Connections sent to the slot's worker (HANDOFF). Those that are still on their way are the
    /// difference to `handoff_received`, in the whole herd.
    pub handoff_sent: u64,
    /// Connections that the worker received, whomever they had been sent to (HANDOFF).
    pub handoff_received: u64,
    /// Those of them that had been sent to another worker, which died or did not take them (HANDOFF).
    pub handoff_rerouted: u64,
    /// Times the worker had to keep what it had accepted for a while, since no worker could take it
    /// (HANDOFF).
    pub handoff_deferred: u64,
}
