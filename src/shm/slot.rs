//! A worker's slot: what it tells the others about itself. Everything but the claim is written by
//! the slot's owner only, with plain stores, so that counting costs no locked instruction.

use super::queue::QueueLine;
use crate::abi::herd_stats;
use crate::atomics::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Who has the slot: a generation in the upper 32 bits, raised at every claim, and the owner's
/// process id in the lower (0: free). An owner whose slot was freed behind its back sees it here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim(u64);

impl Claim {
    pub fn pid(self) -> Option<u32> {
        Some(self.0 as u32).filter(|&pid| pid != 0)
    }

    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a worker is doing, as the others need to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Running, or about to, and willing to accept.
    Busy = 0,
    /// In its wait, and willing to accept: ringing its bell gets a connection served.
    Idle = 1,
    /// Not accepting: full, backing off or leaving.
    Resting = 2,
}

/// Counters of one worker, since the herd was created.
#[repr(C)]
#[derive(Default)]
pub struct Counters {
    pub accepted: AtomicU64,
    pub closed: AtomicU64,
    pub turns: AtomicU64,
    pub wakeups: AtomicU64,
    pub wasted_wakeups: AtomicU64,
    pub accept_eagain: AtomicU64,
    pub accept_retries: AtomicU64,
    pub backoffs: AtomicU64,
    pub acquisitions: AtomicU64,
    pub failed_tries: AtomicU64,
    pub handovers: AtomicU64,
    pub reorders: AtomicU64,
    pub guard_ticks: AtomicU64,
    pub guard_useful: AtomicU64,
    pub blind_accepts: AtomicU64,
    pub thefts: AtomicU64,
    pub stale_events: AtomicU64,
    pub handoff_received: AtomicU64,
    pub handoff_rerouted: AtomicU64,
    pub handoff_deferred: AtomicU64,
}

impl Counters {
    pub fn add_to(&self, total: &mut herd_stats) {
        total.accepted += self.accepted.load(Relaxed);
        total.closed += self.closed.load(Relaxed);
        total.turns += self.turns.load(Relaxed);
        total.wakeups += self.wakeups.load(Relaxed);
        total.wasted_wakeups += self.wasted_wakeups.load(Relaxed);
        total.accept_eagain += self.accept_eagain.load(Relaxed);
        total.accept_retries += self.accept_retries.load(Relaxed);
        total.backoffs += self.backoffs.load(Relaxed);
        total.acquisitions += self.acquisitions.load(Relaxed);
        total.failed_tries += self.failed_tries.load(Relaxed);
        total.handovers += self.handovers.load(Relaxed);
        total.reorders += self.reorders.load(Relaxed);
        total.guard_ticks += self.guard_ticks.load(Relaxed);
        total.guard_useful += self.guard_useful.load(Relaxed);
        total.blind_accepts += self.blind_accepts.load(Relaxed);
        total.thefts += self.thefts.load(Relaxed);
        total.stale_events += self.stale_events.load(Relaxed);
        total.handoff_received += self.handoff_received.load(Relaxed);
        total.handoff_rerouted += self.handoff_rerouted.load(Relaxed);
        total.handoff_deferred += self.handoff_deferred.load(Relaxed);
    }
}

/// Adds to a counter that only the caller writes.
pub fn count(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

/// Zeroed memory is a free slot.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Slot {
    claim: AtomicU64,
    state: AtomicU32,
    /// 1: another worker wants this one to look for connections. Set before its bell is rung.
    asked: AtomicU32,
    open: AtomicU64,
    /// The host's own figure of load + 1; 0: it has none, and `open` is the load.
    host_load: AtomicU64,
    /// Times the slot was freed for a dead owner. Written by whoever found it dead.
    reaps: AtomicU64,
    pub counters: Counters,
    /// Times that an owner has armed the slot's own members (REUSEPORT).
    homecomings: AtomicU64,
    pub queue: QueueLine,
}

impl Slot {
    pub fn claim(&self) -> Claim {
        Claim(self.claim.load(SeqCst))
    }

    /// Takes the slot for process `pid` if it is free.
    pub fn try_claim(&self, pid: u32) -> Option<Claim> {
        let seen = self.claim();
        if pid == 0 || seen.pid().is_some() {
            return None;
        }
        let generation = (seen.0 >> 32).wrapping_add(1) << 32;
        let mine = generation | u64::from(pid);
        self.claim.compare_exchange(seen.0, mine, SeqCst, SeqCst).ok()?;
        self.clear();
        Some(Claim(mine))
    }

    /// Frees the slot if it still belongs to `claim`. Its figures stay until the next owner clears
    /// them: cleared here, they could be that owner's already.
    pub fn free(&self, claim: Claim) -> bool {
        let generation = claim.0 >> 32 << 32;
        self.claim.compare_exchange(claim.0, generation, SeqCst, SeqCst).is_ok()
    }

    /// Frees the slot of a dead owner.
    pub fn reap(&self, claim: Claim) -> bool {
        let freed = self.free(claim);
        if freed {
            self.reaps.fetch_add(1, Relaxed);
        }
        freed
    }

    fn clear(&self) {
        self.set_state(State::Busy);
        self.asked.store(0, SeqCst);
        self.set_open(0);
        self.set_host_load(None);
    }

    /// Leaves word for the owner, who was seen idle. True: it is still idle, so it takes the word when
    /// its wait ends; false: it may have looked already.
    pub fn ask(&self) -> bool {
        self.asked.store(1, SeqCst);
        self.state() == State::Idle
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst) != 0
    }

    /// To be called after every wait, when the state is no longer `Idle`.
    pub fn take_asked(&self) -> bool {
        self.is_asked() && self.asked.swap(0, SeqCst) != 0
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state as u32, SeqCst);
    }

    pub fn state(&self) -> State {
        match self.state.load(SeqCst) {
            0 => State::Busy,
            1 => State::Idle,
            _ => State::Resting,
        }
    }

    /// Connections open now, while the slot has an owner.
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    pub fn set_open(&self, open: u64) {
        self.open.store(open, Relaxed);
    }

    pub fn set_host_load(&self, load: Option<u64>) {
        self.host_load.store(load.map_or(0, |load| load.saturating_add(1)), Relaxed);
    }

    /// The figure that workers are compared by.
    pub fn load(&self) -> u64 {
        self.host_load.load(Relaxed).checked_sub(1).unwrap_or_else(|| self.open())
    }

    pub fn homecomings(&self) -> u64 {
        self.homecomings.load(SeqCst)
    }

    pub fn count_homecoming(&self) {
        self.homecomings.store(self.homecomings() + 1, SeqCst);
    }

    pub fn reaps(&self) -> u64 {
        self.reaps.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_and_a_reused_one_is_told_apart() {
        let slot = Slot::default();
        let first = slot.try_claim(10).unwrap();
        assert_eq!(first.pid(), Some(10));
        assert_eq!(slot.try_claim(11), None);
        slot.set_open(5);
        assert!(slot.free(first));
        assert!(!slot.free(first));
        assert_eq!(slot.claim().pid(), None);
        let second = slot.try_claim(10).unwrap();
        assert_eq!(slot.open(), 0);
        assert_ne!(second, first);
        assert!(!slot.reap(first));
        assert!(slot.reap(second));
        assert_eq!(slot.reaps(), 1);
        assert_eq!(slot.try_claim(0), None);
    }

    #[test]
    fn the_hosts_figure_of_load_comes_first() {
        let slot = Slot::default();
        slot.set_open(3);
        assert_eq!(slot.load(), 3);
        slot.set_host_load(Some(0));
        assert_eq!(slot.load(), 0);
        slot.set_host_load(Some(u64::MAX));
        assert_eq!(slot.load(), u64::MAX - 1);
        slot.set_host_load(None);
        assert_eq!(slot.load(), 3);
    }
}
