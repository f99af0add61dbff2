//! A worker's slot: what it tells the others about itself. What its owner counts it alone writes, with plain
//! stores, so that counting costs no locked instruction. Fields that others write too say so.

use super::COUNTS;
use super::queue::QueueLine;
use crate::abi::herd_stats;
use crate::atomics::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sys::clock::now_us;

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

/// The counters of a slot, by the names that they have in `herd_stats`.
macro_rules! counters {
    ($($name:ident,)*) => {
        /// Counters of one slot's workers, since the herd was created. Lines of their own, that
        /// nobody but the owner touches while he counts.
        #[repr(C, align(128))]
        #[derive(Default)]
        pub struct Counters {
            $(pub $name: AtomicU64,)*
        }

        impl Counters {
            fn add_to(&self, total: &mut herd_stats) {
                // What an observer reads can be anything.
                $(total.$name = total.$name.wrapping_add(self.$name.load(Relaxed));)*
            }
        }
    };
}

counters! {
    accepted,
    closed,
    turns,
    wakeups,
    wasted_wakeups,
    accept_eagain,
    accept_retries,
    backoffs,
    acquisitions,
    failed_tries,
    handovers,
    reorders,
    guard_ticks,
    guard_useful,
    blind_accepts,
    thefts,
    stale_events,
    handoff_received,
    handoff_rerouted,
    handoff_deferred,
    opened,
    requests,
    wakeups_by_listener,
    wakeups_by_event,
    wakeups_by_bell,
    wakeups_by_guard,
    wasted_bells,
    wasted_ticks,
    handovers_received,
    backoffs_emfile,
    backoffs_enfile,
    backoffs_enobufs,
    backoffs_enomem,
    backoffs_other,
    busy_us,
    waiting_us,
}

/// Adds to a counter that only the caller writes.
pub fn count(counter: &AtomicU64, more: u64) {
    if COUNTS {
        counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
    }
}

/// What the owner is at now. Written by it only, and read by nobody but observers.
#[repr(C)]
#[derive(Default)]
pub struct Now {
    /// 1: in its wait.
    waits: AtomicU32,
    /// Since when it waits or does not.
    since_us: AtomicU64,
    /// Since when it rests; 0: it does not.
    rests_since_us: AtomicU64,
    /// Since when it has the accept right; 0: it has not.
    pub right_since_us: AtomicU64,
    /// Posted events, when the wait last began or ended, and the most of these.
    posted: AtomicU64,
    posted_most: AtomicU64,
}

impl Now {
    pub fn waits_since(&self, now_us: u64) {
        self.since_us.store(now_us, Relaxed);
        self.waits.store(1, Relaxed);
    }

    pub fn is_busy_since(&self, now_us: u64) {
        self.since_us.store(now_us, Relaxed);
        self.waits.store(0, Relaxed);
    }

    pub fn note_posted(&self, posted: u64) {
        self.posted.store(posted, Relaxed);
        if posted > self.posted_most.load(Relaxed) {
            self.posted_most.store(posted, Relaxed);
        }
    }

    fn begin(&self) {
        self.is_busy_since(now_us());
        self.right_since_us.store(0, Relaxed);
        self.posted.store(0, Relaxed);
    }
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
    /// Connections that were open when their worker ended. Written by whoever freed the slot.
    lost: AtomicU64,
    /// When the owner was last asked. Written by who asked.
    asked_us: AtomicU64,
    /// Times that an owner has armed the slot's own members (REUSEPORT). Also written by whoever found
    /// that they listen, which the owner had not said.
    homecomings: AtomicU64,
    pub counters: Counters,
    pub now: Now,
    pub queue: QueueLine,
}

impl Slot {
    pub fn claim(&self) -> Claim {
        Claim(self.claim.load(SeqCst))
    }

    /// Takes the slot for process `pid` if it is free. One process tries at a time.
    pub fn try_claim(&self, pid: u32) -> Option<Claim> {
        let seen = self.claim();
        if pid == 0 || seen.pid().is_some() {
            return None;
        }
        let generation = (seen.0 >> 32).wrapping_add(1) << 32;
        let mine = generation | u64::from(pid);
        // Before the slot is claimed: whoever dies in between must not leave the former owner's connections
        // to be counted as lost once more.
        self.clear();
        self.claim.compare_exchange(seen.0, mine, SeqCst, SeqCst).ok()?;
        Some(Claim(mine))
    }

    /// Frees the slot if it still belongs to `claim`. Its figures stay until the next owner clears
    /// them: cleared here, they could be that owner's already.
    pub fn free(&self, claim: Claim) -> bool {
        // Before the slot is free: afterwards it can be the next owner's.
        let open = self.open();
        let generation = claim.0 >> 32 << 32;
        let freed = self.claim.compare_exchange(claim.0, generation, SeqCst, SeqCst).is_ok();
        if freed {
            self.lost.fetch_add(open, Relaxed);
        }
        freed
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
        self.now.begin();
    }

    /// Leaves word for the owner, who was seen idle: it takes it when its wait ends.
    pub fn ask(&self, now_us: u64) {
        self.asked_us.store(now_us, Relaxed);
        self.asked.store(1, SeqCst);
    }

    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst) != 0
    }

    /// To be called after every wait, when the state is no longer `Idle`.
    pub fn take_asked(&self) -> bool {
        self.is_asked() && self.asked.swap(0, SeqCst) != 0
    }

    /// When the word was left that the owner has taken last.
    pub fn asked_us(&self) -> u64 {
        self.asked_us.load(Relaxed)
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

    /// The owner does not accept, from `now_us` on unless it has not for longer.
    pub fn rest(&self, now_us: u64) {
        if self.state() != State::Resting {
            self.now.rests_since_us.store(now_us, Relaxed);
        }
        self.set_state(State::Resting);
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
        self.homecomings.fetch_add(1, SeqCst);
    }

    /// Adds this slot's figures to `stats`, those of the present moment included: what the owner has
    /// been at since its last turn began or ended counts already.
    pub fn add_to(&self, stats: &mut herd_stats, now_us: u64) {
        stats.reaps = stats.reaps.wrapping_add(self.reaps.load(Relaxed));
        stats.lost = stats.lost.wrapping_add(self.lost.load(Relaxed));
        stats.handoff_sent = stats.handoff_sent.wrapping_add(self.queue.sent());
        self.counters.add_to(stats);
        stats.posted_most = stats.posted_most.max(self.now.posted_most.load(Relaxed));
        if self.claim().pid().is_none() {
            return;
        }
        stats.workers += 1;
        stats.connections_open = stats.connections_open.wrapping_add(self.open());
        stats.load = stats.load.wrapping_add(self.load());
        stats.posted = stats.posted.wrapping_add(self.now.posted.load(Relaxed));
        let since_us = now_us.saturating_sub(self.now.since_us.load(Relaxed));
        let waits = self.now.waits.load(Relaxed) != 0;
        let running = if waits { &mut stats.waiting_us } else { &mut stats.busy_us };
        *running = running.wrapping_add(since_us);
    }

    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Relaxed)
    }

    /// Since when the owner has had the accept right; 0: it has not.
    pub fn right_since_us(&self) -> u64 {
        self.now.right_since_us.load(Relaxed)
    }

    /// The latest time in it: when its owners, or those that asked them, last noted one. What lies after
    /// `now_us` is damage.
    pub fn noted_us(&self, now_us: u64) -> u64 {
        let Now { since_us, rests_since_us, right_since_us, .. } = &self.now;
        let times = [since_us, rests_since_us, right_since_us, &self.asked_us];
        let noted = times.map(|time| time.load(Relaxed)).into_iter().filter(|&us| us <= now_us);
        noted.max().unwrap_or(0)
    }

    /// What the owner is at now, and since when; None: the slot is free.
    pub fn condition(&self) -> Option<Condition> {
        let pid = self.claim().pid()?;
        let rests = self.state() == State::Resting;
        let waits = self.now.waits.load(Relaxed) != 0;
        let since = if rests { &self.now.rests_since_us } else { &self.now.since_us };
        Some(Condition { pid, rests, waits, since_us: since.load(Relaxed) })
    }
}

/// A slot's owner as an observer sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition {
    pub pid: u32,
    pub rests: bool,
    pub waits: bool,
    pub since_us: u64,
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
        slot.set_open(0);
        let mut stats = herd_stats::default();
        slot.add_to(&mut stats, 0);
        // Five were open when the first one left.
        assert_eq!((stats.reaps, stats.lost, stats.workers), (1, 5, 0));
        assert_eq!(slot.try_claim(0), None);
    }

    #[test]
    fn the_last_time_noted_is_not_one_to_come() {
        let slot = Slot::default();
        assert_eq!(slot.noted_us(1000), 0);
        let times = [
            &slot.asked_us,
            &slot.now.since_us,
            &slot.now.rests_since_us,
            &slot.now.right_since_us,
        ];
        for (later, time) in times.into_iter().enumerate() {
            time.store(100 + later as u64, Relaxed);
            assert_eq!(slot.noted_us(1000), 100 + later as u64);
        }
        slot.now.since_us.store(u64::MAX, Relaxed);
        assert_eq!(slot.noted_us(1000), 103);
        assert_eq!(slot.noted_us(50), 0);
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
