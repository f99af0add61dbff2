//! Taking connections out of the backlogs of the listeners that are ready, in turn, and keeping
//! them until the host gets them.

use super::arming::Arming;
use super::error_class::{ErrorClass, classify};
use super::handoff::Origin;
use super::listener::{Acceptance, Delivery};
use crate::shm::slot::{Counters, count};
use crate::sys::of_process::OfProcess;
use crate::sys::socket::{self, Connection};
use crate::sys::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A connection that the host has not got yet.
pub struct Accepted {
    pub connection: Connection,
    pub origin: Origin,
    /// The worker's number of the listener's socket, for one that it accepted itself.
    pub place: u16,
    pub acceptance: Acceptance,
}

/// Why a try brought no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoConnection {
    /// No listener is ready (any more).
    Empty,
    /// Out of descriptors or memory: stop accepting for a while.
    BackOff(Error),
    /// The listener's socket at this place cannot be used.
    Fatal { place: u16, error: Error },
}

/// Connections that failed by themselves and are skipped in one turn. More wait for the next, so
/// that a flood of them does not keep the worker from its other events.
const RETRIES_PER_TURN: u32 = 64;

pub struct Acceptor {
    /// Listeners reported ready and not yet found empty: nginx's posted accept events.
    ready: RefCell<Vec<u16>>,
    /// Where the next pass over the ready listeners starts, so that each gets its turn whatever
    /// order the kernel reports them in.
    next_place: Cell<u16>,
    /// Connections that may still be accepted in this turn.
    budget: Cell<u32>,
    retries_left: Cell<u32>,
    accepted: OfProcess<RefCell<VecDeque<Accepted>>>,
    /// How many these are, for a look that costs a load.
    kept: Cell<usize>,
}

impl Acceptor {
    /// Room for all listeners and for all connections that one turn brings, so that it allocates
    /// nothing.
    pub fn new(listeners: usize, connections: usize) -> Result<Acceptor> {
        let mut ready = Vec::new();
        ready.try_reserve_exact(listeners).map_err(|_| Error::NO_MEMORY)?;
        let mut accepted = VecDeque::new();
        accepted.try_reserve_exact(connections).map_err(|_| Error::NO_MEMORY)?;
        Ok(Acceptor {
            ready: RefCell::new(ready),
            next_place: Cell::new(0),
            budget: Cell::new(0),
            retries_left: Cell::new(0),
            accepted: OfProcess::new(RefCell::new(accepted))?,
            kept: Cell::new(0),
        })
    }

    /// Forgets what was ready in the last turn: level-triggered, it will be reported again.
    pub fn begin_turn(&self, budget: u32) {
        self.ready.borrow_mut().clear();
        self.budget.set(budget);
        self.retries_left.set(RETRIES_PER_TURN);
    }

    /// epoll reports a listener once in a wait, so it is not in the list yet.
    pub fn set_ready(&self, listener: u16) {
        self.ready.borrow_mut().push(listener);
    }

    pub fn ready_count(&self) -> usize {
        self.ready.borrow().len()
    }

    /// Takes one connection from the next ready listener that `eligible` admits.
    pub fn accept_one(
        &self,
        arming: &Arming,
        counters: &Counters,
        eligible: impl Fn(u16) -> bool,
    ) -> std::result::Result<Accepted, NoConnection> {
        while self.budget.get() > 0 {
            let place = self.next_ready(&eligible).ok_or(NoConnection::Empty)?;
            let (Some(listener), Some((fd, number))) =
                (arming.listener(place), arming.socket(place))
            else {
                self.set_empty(place);
                continue;
            };
            let error = match socket::accept(fd) {
                Ok(connection) => {
                    self.budget.set(self.budget.get() - 1);
                    self.next_place.set(place.wrapping_add(1));
                    let acceptance = listener.acceptance;
                    let origin = Origin::Listener(number);
                    return Ok(Accepted { connection, origin, place, acceptance });
                }
                Err(error) => error,
            };
            match classify(-error.code()) {
                ErrorClass::Empty => {
                    count(&counters.accept_eagain, 1);
                    self.set_empty(place);
                }
                ErrorClass::Retry => {
                    count(&counters.accept_retries, 1);
                    self.retries_left.set(self.retries_left.get() - 1);
                    if self.retries_left.get() == 0 {
                        self.budget.set(0);
                    }
                }
                ErrorClass::BackOff => return Err(NoConnection::BackOff(error)),
                ErrorClass::Fatal => {
                    self.set_empty(place);
                    return Err(NoConnection::Fatal { place, error });
                }
            }
        }
        Err(NoConnection::Empty)
    }

    /// The first ready listener from `next_place` on, around the end.
    fn next_ready(&self, eligible: impl Fn(u16) -> bool) -> Option<u16> {
        let start = self.next_place.get();
        let ready = self.ready.borrow();
        let candidates = ready.iter().copied().filter(|&number| eligible(number));
        candidates.min_by_key(|number| number.wrapping_sub(start))
    }

    fn set_empty(&self, listener: u16) {
        self.ready.borrow_mut().retain(|&number| number != listener);
    }

    pub fn keep(&self, accepted: Accepted) {
        self.accepted.borrow_mut().push_back(accepted);
        self.kept.set(self.kept.get() + 1);
    }

    /// The oldest kept connection that the host gets in this way.
    pub fn take_kept(&self, delivery: Delivery) -> Option<Accepted> {
        let mut accepted = self.accepted.borrow_mut();
        let at = accepted.iter().position(|kept| kept.acceptance.delivery() == delivery)?;
        self.kept.set(accepted.len() - 1);
        // The first, as usual, leaves no gap to close.
        if at == 0 { accepted.pop_front() } else { accepted.remove(at) }
    }

    pub fn has_kept(&self) -> bool {
        self.kept.get() > 0
    }

    pub fn kept_count(&self, delivery: Delivery) -> usize {
        self.accepted.borrow().iter().filter(|kept| kept.acceptance.delivery() == delivery).count()
    }
}
