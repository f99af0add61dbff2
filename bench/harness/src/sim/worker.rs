//! What one simulated worker is and remembers. What it does is in `turn` and what that calls.

use super::Way;
use super::engine::Cause;
use herd::policy::*;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Waiting,
    Woken(Cause),
    Running,
    Blocked,
}

/// What epoll has for a worker beside its listener.
#[derive(Clone, Copy)]
pub enum Ready {
    Request { arrived: u64 },
    Closed,
}

/// What is left of a turn.
pub enum Segment {
    Cpu(u64),
    Block(u64),
    Answer { arrived: u64, has_blocked: bool },
    Close,
}

/// Why it looks for connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    ByBell,
    ByGuard,
}

pub struct Worker {
    pub slot: usize,
    pub doing: Doing,
    pub ready: VecDeque<Ready>,
    /// Connections that only this worker gets: its own socket's, or passed on to it.
    pub own_backlog: VecDeque<u64>,
    pub segments: VecDeque<Segment>,
    pub slice_used: u64,
    /// Waits so far.
    pub waits: u64,
    pub armed: bool,
    /// In the listener's wait queue.
    pub place: u64,
    pub willing: bool,
    pub gate: Option<Gate>,
    pub neighbours: Neighbours,
    pub lookout: Lookout,
    pub pace: Pace,
    pub suspicion: Suspicion,
    pub accept_disabled: u64,
    pub competes: bool,
    pub has_yielded: bool,
    pub has_rung: bool,
    pub asked: Option<Asked>,
    pub bell_rang: bool,
    pub turn_began_us: u64,
    pub accepted_in_turn: u64,
    /// Whose socket the last one came from.
    pub accepted_from: usize,
    /// Accepted in this turn, to be passed on.
    pub pending: Vec<u64>,
    /// When to look again at connections on their way to others.
    pub next_look_us: Option<u64>,
    /// Has nginx's mutex.
    pub holds: bool,
}

impl Worker {
    pub fn new(slot: usize, way: Way) -> Worker {
        Worker {
            slot,
            doing: Doing::Running,
            ready: VecDeque::new(),
            own_backlog: VecDeque::new(),
            segments: VecDeque::new(),
            slice_used: 0,
            waits: 0,
            armed: false,
            place: 0,
            willing: false,
            gate: way.has_lock().then(|| Gate::new(slot as u16)),
            neighbours: Neighbours::of_worker(slot as u16),
            lookout: Lookout::default(),
            pace: Pace::default(),
            suspicion: Suspicion::NONE,
            accept_disabled: 0,
            competes: false,
            has_yielded: false,
            has_rung: false,
            asked: None,
            bell_rang: false,
            turn_began_us: 0,
            accepted_in_turn: 0,
            accepted_from: slot,
            pending: Vec::new(),
            next_look_us: None,
            holds: false,
        }
    }

    pub fn condition(&self) -> Condition {
        Condition { willing: self.willing, competes: self.competes }
    }
}
