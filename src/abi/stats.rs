//! Figures that any process of the herd can read, and others that open it by its name.

/// In `herd_stats.state`: no worker has the slot.
pub const HERD_STATE_NONE: u32 = 0;
/// In `herd_stats.state`: in its wait, and would accept.
pub const HERD_STATE_IDLE: u32 = 1;
/// In `herd_stats.state`: not in its wait: accepting, running handlers, or the host's own work.
pub const HERD_STATE_BUSY: u32 = 2;
/// In `herd_stats.state`: does not accept: full, out of descriptors, draining.
pub const HERD_STATE_RESTING: u32 = 3;

/// Figures of one worker slot or of the whole herd, counted since the herd was created. Set
/// `size` before the call. Once all is quiet, `opened` - `closed` - `lost` = `connections_open`.
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
    /// Returns from the wait with at least one event of this worker's. Where a loop of the host's polls
    /// `herd_worker_fd`, a tick or bell that another worker took first can wake it with nothing left to
    /// find: that is counted nowhere, in `turns` alone.
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
    /// Ticks of the guard that a worker took: it was woken for one, or found it overdue.
    pub guard_ticks: u64,
    /// Those after which it got the accept right or found a waiting connection.
    pub guard_useful: u64,
    /// Times a worker found a connection waiting that no wake-up had told it of (EXCLUSIVE, REUSEPORT; in HANDOFF
    /// that of `acceptor_slot`).
    pub blind_accepts: u64,
    /// Times the accept right was taken from a holder that made no progress.
    pub thefts: u64,
    /// Times the slot was freed because its worker's death was reported or found.
    pub reaps: u64,
    /// Events of descriptors that were closed without `herd_event_del`, dropped.
    pub stale_events: u64,
    /// Connections sent to the slot's worker (HANDOFF), never fewer than `handoff_received`, in the whole
    /// herd: the difference is those that are still on their way, and those that a worker had taken and
    /// not counted yet when it was killed. One that could not be sent, or whose sender was killed,
    /// counts for a moment, and then no longer.
    pub handoff_sent: u64,
    /// Connections that the worker received, whomever they had been sent to (HANDOFF).
    pub handoff_received: u64,
    /// Those of them that had been sent to another worker, which died or did not take them (HANDOFF).
    pub handoff_rerouted: u64,
    /// Times the worker had to keep what it had accepted for a while, since no worker could take it
    /// (HANDOFF).
    pub handoff_deferred: u64,
    /// Connections opened: accepted, or reported with `herd_conn_opened`.
    pub opened: u64,
    /// Connections that were open when their worker ended, and so never reported as closed.
    pub lost: u64,
    /// Requests reported with `herd_request_done`.
    pub requests: u64,
    /// Wake-ups with a listener that is ready among their events.
    pub wakeups_by_listener: u64,
    /// Wake-ups with events of the host's descriptors.
    pub wakeups_by_event: u64,
    /// Wake-ups by the bell: another worker asks this one to accept, an event was posted from
    /// another thread, or the worker was told to stop.
    pub wakeups_by_bell: u64,
    /// Wake-ups by the guard, also those whose tick another worker took first.
    pub wakeups_by_guard: u64,
    /// Wake-ups by the bell alone that led to nothing: no accept right, no connection, no event.
    pub wasted_bells: u64,
    /// Wake-ups by the guard (or guard and bell) alone that led to nothing. An idle herd has two a
    /// second with the default accept_delay_ms.
    pub wasted_ticks: u64,
    /// Times a worker was asked to accept in place of another.
    pub handovers_received: u64,
    /// Of `backoffs`: EMFILE, this process has no descriptor left.
    pub backoffs_emfile: u64,
    /// Of `backoffs`: ENFILE, the system has none left.
    pub backoffs_enfile: u64,
    /// Of `backoffs`: ENOBUFS.
    pub backoffs_enobufs: u64,
    /// Of `backoffs`: ENOMEM.
    pub backoffs_enomem: u64,
    /// Of `backoffs`: other errors, such as ENOSPC from epoll_ctl(2).
    pub backoffs_other: u64,
    /// Microseconds between waits: accepting, handlers, and what the host does. The present turn
    /// counts, so a handler that blocks its worker shows while it does. What a worker was at when it
    /// was killed is lost with it, so this and the next can go back; those of `herd_stats_text` leave
    /// the present turn or wait out, and do not.
    pub busy_us: u64,
    /// Microseconds in waits, the present one included.
    pub waiting_us: u64,
    /// Posted events that wait to be run, when a wait last began or ended.
    pub posted: u64,
    /// The most that these ever were, in one slot.
    pub posted_most: u64,
    /// The load by which workers are compared (see `herd_set_load`).
    pub load: u64,
    /// One slot: `HERD_STATE_...`. Total: 0.
    pub state: u32,
    /// One slot: the worker's process id, in its own pid namespace; 0: no worker. Total: 0.
    pub pid: u32,
    /// One slot: when it came into its state. Total: 0. Like all times here in microseconds of
    /// CLOCK_MONOTONIC (clock_gettime(2)).
    pub state_since_us: u64,
    /// Slot of the worker that has the accept right (MUTEX, HANDOFF); -1: none.
    pub holder: i32,
    /// Number of slots, max_workers of the configuration.
    pub slots: u32,
    /// Since when the holder has the right; 0: nobody has it, or for too short a time yet.
    pub holder_since_us: u64,
    /// When these figures were read. Of a herd that has ended (`herd_is_alive`): the last moment that its
    /// workers noted, so that none of their times goes on; 0: there was none.
    pub now_us: u64,
    /// The fewest connections that a worker has open. Here and in the next five, those slots are
    /// compared that have a worker; all 0 if there is none.
    pub open_least: u64,
    /// The most.
    pub open_most: u64,
    /// The fewest connections that a slot has accepted.
    pub accepted_least: u64,
    /// The most.
    pub accepted_most: u64,
    /// Jain's index of the connections open: 1: all workers have the same; 1 / workers: one has all;
    /// 1 also if there are none.
    pub open_jain: f64,
    /// Jain's index of the connections accepted.
    pub accepted_jain: f64,
}

/// Number of buckets of a histogram.
pub const HERD_HISTOGRAM_BUCKETS: u32 = 192;

/// For `herd_stats_histogram`: how long the accept right was held, from the beginning of the wait
/// with it until it was given up (MUTEX, HANDOFF). What was taken away from a worker does not count.
pub const HERD_HISTOGRAM_RIGHT_HELD: u32 = 0;
/// For `herd_stats_histogram`: from a connection's readiness to its accept as far as the worker
/// knows: from the return of the wait that reported it. The time that a connection was in the
/// backlog before anybody woke up is known to the kernel only.
pub const HERD_HISTOGRAM_ACCEPT_DELAY: u32 = 1;
/// For `herd_stats_histogram`: from the moment that a worker asks another to accept until that one
/// has the accept right, or in EXCLUSIVE has looked for connections. Counted at the receiver.
pub const HERD_HISTOGRAM_HANDOVER: u32 = 2;
/// For `herd_stats_histogram`: the work between a wait's end and the next wait's beginning.
pub const HERD_HISTOGRAM_TURN_WORK: u32 = 3;

/// For `herd_stats_histogram`: the sum of all slots.
pub const HERD_ALL_SLOTS: i32 = -1;

/// A histogram of times. Up to 8 us there is a bucket for each microsecond, then eight for each
/// power of two, up to about a minute: see `herd_histogram_end_us`. Set `size` before the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct herd_histogram {
    /// `sizeof(struct herd_histogram)` of the header that the program was built with.
    pub size: u32,
    /// HERD_HISTOGRAM_BUCKETS of the library.
    pub buckets: u32,
    /// Number of times counted: the sum of `counts`.
    pub count: u64,
    /// Their sum in microseconds.
    pub sum_us: u64,
    /// Half of the times were at most so long, to 1/8 of it; 0: there are none.
    pub p50_us: u64,
    /// 90 % of them.
    pub p90_us: u64,
    /// 99 % of them.
    pub p99_us: u64,
    /// 99.9 % of them.
    pub p999_us: u64,
    /// The longest, to 1/8 of it.
    pub longest_us: u64,
    /// How many fell into each bucket.
    pub counts: [u64; HERD_HISTOGRAM_BUCKETS as usize],
}

impl Default for herd_histogram {
    fn default() -> herd_histogram {
        herd_histogram {
            size: size_of::<herd_histogram>() as u32,
            buckets: HERD_HISTOGRAM_BUCKETS,
            count: 0,
            sum_us: 0,
            p50_us: 0,
            p90_us: 0,
            p99_us: 0,
            p999_us: 0,
            longest_us: 0,
            counts: [0; HERD_HISTOGRAM_BUCKETS as usize],
        }
    }
}
