//! What lies where in the region. Every written-often word has 128 bytes to itself: two lines,
//! because the prefetcher of current processors fetches them in pairs.

use super::changes::Changes;
use super::identity::Identity;
use super::lock::AcceptLock;
use super::slot::Slot;
use super::times::Times;
use crate::atomics::AtomicU64;
use std::cell::UnsafeCell;
use std::mem::size_of;

/// The guard's times, in microseconds of the monotonic clock.
#[repr(C, align(128))]
#[derive(Default)]
pub struct GuardLine {
    /// When it ticks next.
    pub due_us: AtomicU64,
    /// When its backup does; 0: neither was ever started.
    pub backup_due_us: AtomicU64,
    /// When it would, and when it does instead, since a worker left the right to others.
    pub pulled_in_from_us: AtomicU64,
    pub pulled_in_to_us: AtomicU64,
    /// When somebody last looked for dead workers.
    pub looked_for_dead_us: AtomicU64,
}

/// What concerns all that pass connections on.
#[repr(C, align(128))]
#[derive(Default)]
pub struct HandoffLine {
    /// The slot that got the last connection + 1, for those who give to each in turn.
    pub last_given: AtomicU64,
    /// The slot + 1 of a worker that waits until another can take a connection; 0: none does.
    pub waiting: AtomicU64,
}

/// The start of the region. The slots follow it, and then the times of each slot: workers look at
/// each other's slots, and need not step over times.
#[repr(C)]
pub struct Header {
    /// For observers. The herd's own processes know it from before they had any workers: one of these
    /// can write anything here.
    pub identity: UnsafeCell<Identity>,
    pub lock: AcceptLock,
    pub guard: GuardLine,
    pub handoff: HandoffLine,
    /// Of the herd's listeners, by whatever process.
    pub listener_changes: Changes,
    /// Times that a worker has armed its own members, of all workers.
    pub homecomings: AtomicU64,
}

// loom's atomics have another size, and never lie in shared memory.
#[cfg(not(loom))]
mod assertions {
    use super::*;
    use static_assertions::const_assert_eq;
    use std::mem::offset_of;

    const_assert_eq!(offset_of!(Header, identity), 0);
    const_assert_eq!(offset_of!(Header, lock), 128);
    const_assert_eq!(offset_of!(Header, guard), 256);
    const_assert_eq!(size_of::<Header>(), 640);
    const_assert_eq!(size_of::<Slot>(), 768);
    const_assert_eq!(offset_of!(Slot, counters), 128);
    const_assert_eq!(size_of::<Times>(), 6272);
}

/// Bytes of a region with `slots` slots.
pub const fn region_bytes(slots: usize) -> usize {
    size_of::<Header>() + slots * (size_of::<Slot>() + size_of::<Times>())
}
