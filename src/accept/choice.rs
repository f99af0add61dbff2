//! Which worker gets a connection that another accepted. Pure: what is known of the workers in, one
//! of them out.

use super::balance::{Balance, slack};
use super::handoff::WINDOW;
use crate::shm::slot::{Slot, State};

/// A worker that passes on what it accepted.
#[derive(Clone, Copy)]
pub struct Giver {
    pub slot: u16,
    /// Has nothing to run before it could serve the connection itself.
    pub is_idle: bool,
}

/// A worker that can take one more connection now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub slot: u16,
    /// With those on their way to it.
    pub load: u64,
    /// Waits, so that it takes the connection at once. A worker that gives counts itself so.
    pub is_idle: bool,
    pub is_giver: bool,
}

/// What the worker of a slot is to `giver`; None: it can take no connection now.
pub fn candidate(
    number: u16,
    slot: &Slot,
    giver: Option<Giver>,
    capacity: u64,
) -> Option<Candidate> {
    slot.claim().pid()?;
    let giver = giver.filter(|giver| giver.slot == number);
    let in_flight = slot.queue.in_flight();
    let takes = match giver {
        Some(_) => true,
        None => slot.state() != State::Resting && !slot.queue.is_stuck() && in_flight < WINDOW,
    };
    let is_full = slot.open().saturating_add(in_flight) >= capacity;
    (takes && !is_full).then(|| Candidate {
        slot: number,
        load: slot.load().saturating_add(in_flight),
        is_idle: giver.map_or(slot.state() == State::Idle, |giver| giver.is_idle),
        is_giver: giver.is_some(),
    })
}

/// Chooses among `candidates`, which come in the order of their slots. `last` got the last one;
/// `capacity` is what one worker can have.
pub fn choose(
    balance: &Balance,
    candidates: impl Iterator<Item = Candidate> + Clone,
    last: Option<u16>,
    capacity: u64,
) -> Option<u16> {
    let chosen = match balance {
        Balance::RoundRobin => {
            let after = |candidate: &Candidate| last.is_none_or(|last| candidate.slot > last);
            candidates.clone().find(after).or_else(|| candidates.clone().next())
        }
        Balance::Pack => {
            let has_much_room = |candidate: &Candidate| candidate.load < capacity - capacity / 8;
            let first = candidates.clone().find(has_much_room);
            first.or_else(|| least(candidates))
        }
        Balance::Spread | Balance::Callback { .. } => least(candidates),
    };
    chosen.map(|candidate| candidate.slot)
}

/// The least loaded. One that is running handlers counts the slack more: the connection would wait for
/// them. Of equals the giver itself, which saves the message.
fn least(candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
    candidates.min_by_key(|candidate| {
        let waits = if candidate.is_idle { 0 } else { slack(candidate.load) };
        (candidate.load.saturating_add(waits), !candidate.is_giver)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(slot: u16, load: u64) -> Candidate {
        Candidate { slot, load, is_idle: true, is_giver: false }
    }

    fn chosen(balance: Balance, candidates: &[Candidate], last: Option<u16>) -> Option<u16> {
        choose(&balance, candidates.iter().copied(), last, 64)
    }

    #[test]
    fn who_can_take_a_connection_and_how_it_stands() {
        let slot = Slot::default();
        let seen = |giver: Option<u16>| {
            let giver = giver.map(|slot| Giver { slot, is_idle: true });
            candidate(3, &slot, giver, 4)
        };
        assert_eq!(seen(None), None, "nobody has the slot");
        slot.try_claim(100).unwrap();
        slot.set_open(1);
        assert_eq!(seen(None), Some(Candidate { is_idle: false, ..waiting(3, 1) }));
        slot.set_state(State::Idle);
        assert!(slot.queue.reserve(WINDOW, 0));
        assert_eq!(seen(Some(2)), Some(waiting(3, 2)));
        slot.set_state(State::Resting);
        assert_eq!(seen(None), None);
        assert_eq!(seen(Some(3)), Some(Candidate { is_giver: true, ..waiting(3, 2) }));
        slot.set_open(3);
        assert_eq!(seen(Some(3)), None, "full, with what is on its way");
        slot.set_open(0);
        slot.set_state(State::Busy);
        slot.queue.set_stuck();
        assert_eq!(seen(None), None);
        assert!(slot.queue.clear_stuck());
        assert!((1..WINDOW).all(|_| slot.queue.reserve(WINDOW, 0)));
        assert_eq!(candidate(3, &slot, None, 1 << 20), None, "its window is full");
    }

    #[test]
    fn the_least_loaded_gets_it_and_of_equals_the_giver() {
        let busy = |slot, load| Candidate { is_idle: false, ..waiting(slot, load) };
        let giver = |slot, load| Candidate { is_giver: true, ..waiting(slot, load) };
        let table = [
            (vec![], None),
            (vec![waiting(3, 9)], Some(3)),
            (vec![waiting(0, 2), waiting(1, 1), waiting(2, 1)], Some(1)),
            (vec![waiting(0, 1), giver(1, 1)], Some(1)),
            (vec![waiting(0, 1), giver(1, 2)], Some(0)),
            (vec![busy(0, 1), waiting(1, 1)], Some(1)),
            (vec![busy(0, 1), waiting(1, 2)], Some(0)),
            (vec![busy(0, 1), waiting(1, 3)], Some(0)),
            (vec![busy(0, 32), waiting(1, 34)], Some(1)),
            (vec![busy(0, 2), busy(1, 1)], Some(1)),
            (vec![busy(0, u64::MAX), waiting(1, u64::MAX - 1)], Some(1)),
        ];
        for (candidates, expected) in table {
            assert_eq!(chosen(Balance::Spread, &candidates, Some(0)), expected, "{candidates:?}");
        }
    }

    #[test]
    fn round_robin_goes_on_after_the_last_and_around_the_end() {
        let three = [waiting(1, 9), waiting(4, 0), waiting(6, 0)];
        let table =
            [(None, 1), (Some(0), 1), (Some(1), 4), (Some(4), 6), (Some(5), 6), (Some(6), 1)];
        for (last, expected) in table {
            assert_eq!(chosen(Balance::RoundRobin, &three, last), Some(expected), "{last:?}");
        }
        assert_eq!(chosen(Balance::RoundRobin, &[], Some(1)), None);
    }

    #[test]
    fn pack_fills_one_after_the_other_up_to_seven_eighths() {
        let two = |first, second| [waiting(0, first), waiting(1, second)];
        assert_eq!(chosen(Balance::Pack, &two(55, 0), None), Some(0));
        assert_eq!(chosen(Balance::Pack, &two(56, 0), None), Some(1));
        assert_eq!(chosen(Balance::Pack, &two(57, 56), None), Some(1));
    }
}
