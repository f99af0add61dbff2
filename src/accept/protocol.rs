//! How workers that give the accept right up and workers that go idle do not miss each other.
//!
//! Both sides store first and look afterwards: who releases frees the word, then looks for idle
//! workers; who goes idle says so, then looks at the word. A worker that was rung for the right is no reason
//! to leave the guard where it is: it may be stopped. All these accesses are sequentially
//! consistent, so whatever the order, one of the two sees the other (docs/protocol.md; the models
//! below try all orders).

use super::neighbours::Neighbours;
use crate::shm::lock::AcceptLock;
use crate::shm::slot::{Slot, State};

/// What a worker that has nothing to do may do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeforeWait {
    /// Wait: the right has a holder.
    Wait,
    /// Not wait: the right is free, and this worker may take it.
    TryAgain,
    /// Pull the guard in, then wait: the right is free, this worker leaves it to others, and nobody
    /// may have noticed.
    PullGuardIn,
}

/// The part of a worker's condition that the protocol is about.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Accepts if it is asked to.
    pub willing: bool,
    /// Tries for the right in this turn.
    pub competes: bool,
}

/// To be called before every wait.
pub fn go_idle(slot: &Slot, lock: &AcceptLock, condition: Condition) -> BeforeWait {
    if condition.willing {
        slot.set_state(State::Idle);
    }
    if lock.word().holder().is_some() {
        BeforeWait::Wait
    } else if condition.competes {
        BeforeWait::TryAgain
    } else {
        BeforeWait::PullGuardIn
    }
}

/// Whether a worker that is about to run handlers, or does nothing more, has to pull the guard in: the right is
/// free, and others sleep.
pub fn leaves_idle_unaware(neighbours: &Neighbours, slots: &[Slot], lock: &AcceptLock) -> bool {
    lock.word().holder().is_none() && neighbours.any_idle(slots)
}

#[cfg(all(test, loom))]
mod models;
