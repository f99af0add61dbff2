//! The other workers of the herd as one worker sees them: who is idle, who has the least load, and
//! who did not answer its bell.

use super::balance::{Balance, Cost, least_loaded};
use crate::shm::slot::{Slot, State};
use crate::sys::bell::Bell;
use std::cell::Cell;

pub struct Neighbours {
    /// None: the workers as somebody sees them who is none of them.
    own_slot: Option<u16>,
}

impl Neighbours {
    pub fn of_worker(own_slot: u16) -> Neighbours {
        Neighbours { own_slot: Some(own_slot) }
    }

    pub fn of_nobody() -> Neighbours {
        Neighbours { own_slot: None }
    }

    fn others<'a>(&self, slots: &'a [Slot]) -> impl Iterator<Item = (u16, &'a Slot)> {
        let own_slot = self.own_slot;
        (0u16..)
            .zip(slots)
            .filter(move |&(number, slot)| Some(number) != own_slot && slot.claim().pid().is_some())
    }

    pub fn any_idle(&self, slots: &[Slot]) -> bool {
        self.others(slots).any(|(_, slot)| slot.state() == State::Idle)
    }

    /// Slot and load of the least-loaded idle worker. One that was asked and has not come out of its
    /// wait since is on its way, or it is stopped or dead: it is not asked again.
    pub fn least_idle(&self, slots: &[Slot]) -> Option<(u16, u64)> {
        let idle =
            self.others(slots).filter(|(_, slot)| slot.state() == State::Idle && !slot.is_asked());
        least_loaded(idle.map(|(number, slot)| (number, slot.load())))
    }

    /// Slot and load of the least-loaded worker that accepts, busy or not.
    pub fn least_accepting(&self, slots: &[Slot]) -> Option<(u16, u64)> {
        let accepting = self.others(slots).filter(|(_, slot)| slot.state() != State::Resting);
        least_loaded(accepting.map(|(number, slot)| (number, slot.load())))
    }
}

/// Asks a worker that was seen idle to look for connections. It may have left its wait meanwhile, and run its
/// own handlers first, or be stopped.
pub fn ask(slots: &[Slot], bells: &[Bell], number: u16, now_us: u64) {
    slots[usize::from(number)].ask(now_us);
    bells[usize::from(number)].ring();
}

/// When to look for a worker to let accept. Looking at all slots costs a cache miss for each, so it
/// is done only when the own load has grown by the slack since the last look.
#[derive(Default)]
pub struct Lookout {
    /// The smallest load seen, or the own one if there was nobody else.
    least_seen: Cell<u64>,
}

impl Lookout {
    /// Whom to let accept, if anybody. `find` looks for the least-loaded candidate.
    pub fn look(
        &self,
        balance: &Balance,
        load: u64,
        cost: Cost,
        find: impl FnOnce() -> Option<(u16, u64)>,
    ) -> Option<u16> {
        // Connections may have been closed since.
        let least_seen = self.least_seen.get().min(load);
        self.least_seen.set(least_seen);
        if !balance.should_look(load, least_seen, cost) {
            return None;
        }
        let found = find();
        self.least_seen.set(found.map_or(load, |(_, least)| least));
        let better = found.filter(|&(_, least)| balance.should_yield(load, least, cost));
        better.map(|(slot, _)| slot)
    }

    /// This worker now comes after all others: what it still gets, nobody else could take, so it
    /// need not look before its load has grown by the slack.
    pub fn comes_last(&self, load: u64) {
        self.least_seen.set(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_looks_only_after_its_load_has_grown() {
        let lookout = Lookout::default();
        let looks = Cell::new(0);
        let look = |load, least: Option<u64>| {
            lookout.look(&Balance::Spread, load, Cost::Reorder, || {
                looks.set(looks.get() + 1);
                least.map(|least| (9, least))
            })
        };
        assert_eq!((look(1, Some(0)), looks.get()), (None, 0));
        assert_eq!((look(2, Some(0)), looks.get()), (Some(9), 1));
        assert_eq!((look(3, Some(2)), looks.get()), (None, 2));
        assert_eq!((look(4, Some(4)), looks.get()), (None, 3));
        assert_eq!((look(5, Some(0)), looks.get()), (None, 3));
        assert_eq!((look(6, None), looks.get()), (None, 4));
        assert_eq!((look(7, Some(0)), looks.get()), (None, 4));
        lookout.comes_last(8);
        assert_eq!((look(9, Some(0)), looks.get()), (None, 4));
        // All connections were closed, and new ones came.
        assert_eq!((look(0, Some(0)), looks.get()), (None, 4));
        assert_eq!((look(2, Some(0)), looks.get()), (Some(9), 5));
    }

    #[test]
    fn a_worker_that_does_not_answer_is_not_asked_again() {
        let slots: Vec<Slot> = (0..4).map(|_| Slot::default()).collect();
        for (number, slot) in slots.iter().enumerate() {
            slot.try_claim(100 + number as u32).unwrap();
            slot.set_open(number as u64);
            slot.set_state(State::Idle);
        }
        let bells: Vec<Bell> = (0..4).map(|_| Bell::new().unwrap()).collect();
        let neighbours = Neighbours::of_worker(3);
        assert_eq!(neighbours.least_idle(&slots), Some((0, 0)));
        ask(&slots, &bells, 0, 7);
        assert_eq!(neighbours.least_idle(&slots), Some((1, 1)));
        assert!(slots[0].take_asked() && !slots[0].take_asked() && slots[0].asked_us() == 7);
        assert_eq!(neighbours.least_idle(&slots), Some((0, 0)));
        slots[0].set_state(State::Busy);
        slots[1].set_state(State::Resting);
        assert_eq!(neighbours.least_idle(&slots), Some((2, 2)));
        assert_eq!(neighbours.least_accepting(&slots), Some((0, 0)));
        slots[2].set_state(State::Resting);
        assert!(!neighbours.any_idle(&slots));
    }
}
