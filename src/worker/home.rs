//! A worker and its own members in HERD_MODE_REUSEPORT: being the first in their wait queues, being
//! behind the others' owners in theirs, and telling the program that steers how it stands.

use super::Worker;
use crate::herd::Herd;
use crate::shm::slot::State;
use crate::sys::Result;
use crate::sys::clock::now_us;
use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

/// What a worker remembers of its and the others' homes.
#[derive(Default)]
pub(super) struct Home {
    /// Has armed its own members before: the others know of them.
    is_known: Cell<bool>,
    /// The homecomings of all workers that it has made way for.
    made_way_for: Cell<u64>,
}

impl Worker {
    /// Adds the listeners to the epoll set. A member of one's own gets its worker at the end of its
    /// wait queue by that, so the others are told to get behind it.
    pub(super) fn arm(&self) -> Result<()> {
        if self.arming.arm(&self.reactor)? {
            self.come_home();
        }
        Ok(())
    }

    pub(super) fn disarm(&self) {
        self.conduct.look_closer();
        self.arming.disarm(&self.reactor);
    }

    /// This worker is at the end of the wait queues of its own members now.
    pub(super) fn come_home(&self) {
        if self.herd.group_size == 1 {
            return;
        }
        self.herd.note_homecoming(self.slot);
        // They may sleep, and the member may listen only since now.
        if !self.home.is_known.replace(true) {
            self.herd.ring_others(self.slot);
        }
    }

    /// Gets behind the owners that have come home since the last time: one load, if none has.
    pub(super) fn make_way(&self) -> Result<()> {
        let Herd { region, .. } = &*self.herd;
        let all = region.homecomings.load(SeqCst);
        if self.home.made_way_for.get() == all {
            return Ok(());
        }
        let of_slot = |slot: usize| region.slots()[slot].homecomings();
        self.arming.make_way(&self.reactor, self.slot.into(), of_slot)?;
        self.home.made_way_for.set(all);
        Ok(())
    }

    /// A worker that was killed or stopped between having its members listen and saying so leaves them
    /// to whoever looks. The others are told in its place.
    pub(super) fn watch_untold(&self) -> Result<()> {
        let mut found = 0;
        let watched = self.arming.watch_untold(&self.reactor, |slot| {
            self.herd.note_homecoming(slot as u16);
            found += 1;
        });
        if found > 0 {
            self.herd.ring_others(self.slot);
        }
        watched
    }

    pub(super) fn set_state(&self, state: State) {
        if self.check_slot().is_err() {
            return; // another worker's by now
        }
        match state {
            State::Resting => self.my_slot().rest(now_us()),
            State::Busy | State::Idle => self.my_slot().set_state(state),
        }
        self.publish();
    }

    /// Tells the program that steers how this worker stands.
    pub(super) fn publish(&self) {
        if let Some(steering) = &self.herd.steering {
            let slot = self.my_slot();
            steering.line(self.slot.into()).publish(slot.state(), slot.load());
        }
    }

    /// A connection was accepted from the socket at `place`: it is not on its way any more.
    pub(super) fn note_arrival(&self, place: u16) {
        if let Some(steering) = &self.herd.steering
            && let Some(owner) = self.arming.home_of(place)
        {
            steering.line(owner).settle_one();
        }
    }

    /// Whether the program sees to it that this worker does not get too much from `place`.
    pub(super) fn is_steered_to(&self, place: u16) -> bool {
        self.herd.steering.is_some() && self.arming.home_of(place) == Some(self.slot.into())
    }
}
