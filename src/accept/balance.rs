//! Who should accept: pure decisions, numbers in and an answer out.

use crate::abi::*;
use crate::sys::host::HostPointer;
use crate::sys::{Error, Result};
use std::fmt;

/// nginx's `ngx_accept_disabled` (ngx_event_accept.c): above 0 while more than 7/8 of the
/// connections are in use, and by how much. A worker skips as many tries for the accept right.
pub fn accept_disabled(capacity: u64, open: u64) -> u64 {
    let free = capacity.saturating_sub(open);
    (capacity / 8).saturating_sub(free)
}

/// What a worker knows about itself when it decides whether to accept.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub draining: bool,
    /// Out of descriptors or memory a moment ago.
    pub backing_off: bool,
    /// Connections accepted that the host has not taken yet.
    pub not_taken: usize,
    pub open: u64,
    pub capacity: u64,
    /// Tries still to leave to others.
    pub accept_disabled: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    /// Try for the accept right.
    Compete,
    /// Let others try first. Overruled when another worker or the guard asks, so that a connection
    /// is not left waiting when all have skipped.
    Skip,
    /// Do not accept at all, whatever waits.
    Refuse,
}

pub fn stance(standing: &Standing) -> Stance {
    let refuses = standing.draining
        || standing.backing_off
        || standing.not_taken > 0
        || standing.open >= standing.capacity;
    if refuses {
        Stance::Refuse
    } else if standing.accept_disabled > 0 {
        Stance::Skip
    } else {
        Stance::Compete
    }
}

/// How the worker that accepts is chosen.
#[derive(Clone, Copy)]
pub enum Balance {
    /// The least loaded one.
    Spread,
    /// The same one, until 7/8 of its connections are in use.
    Pack,
    /// The host says.
    Callback {
        decide: extern "C-unwind" fn(*mut std::ffi::c_void, u64, u64) -> i32,
        data: HostPointer,
    },
    /// Each in turn.
    RoundRobin,
}

impl Balance {
    pub fn resolve(wish: u32, callback: herd_balance_fn, data: HostPointer) -> Result<Balance> {
        match (wish, callback) {
            (HERD_BALANCE_DEFAULT | HERD_BALANCE_SPREAD, None) => Ok(Balance::Spread),
            (HERD_BALANCE_PACK, None) => Ok(Balance::Pack),
            (HERD_BALANCE_CALLBACK, Some(decide)) => Ok(Balance::Callback { decide, data }),
            (HERD_BALANCE_ROUND_ROBIN, None) => Ok(Balance::RoundRobin),
            _ => Err(Error::INVALID),
        }
    }

    /// Whether it is about who accepts next, or (`passes_on`) about who gets what was accepted.
    pub fn fits(&self, passes_on: bool) -> bool {
        match self {
            Balance::Spread | Balance::Pack => true,
            Balance::Callback { .. } => !passes_on,
            Balance::RoundRobin => passes_on,
        }
    }

    pub fn is_in_turn(&self) -> bool {
        matches!(self, Balance::RoundRobin)
    }

    pub fn code(&self) -> u32 {
        match self {
            Balance::Spread => HERD_BALANCE_SPREAD,
            Balance::Pack => HERD_BALANCE_PACK,
            Balance::Callback { .. } => HERD_BALANCE_CALLBACK,
            Balance::RoundRobin => HERD_BALANCE_ROUND_ROBIN,
        }
    }

    /// Whether a worker that has just accepted should look for a less loaded one. `least_seen` is
    /// the smallest load that it saw when it last looked.
    pub fn should_look(&self, load: u64, least_seen: u64, cost: Cost) -> bool {
        match self {
            Balance::Spread => exceeds(load, least_seen, cost),
            Balance::Pack | Balance::RoundRobin => false,
            Balance::Callback { .. } => true,
        }
    }

    /// Whether connections that come together go to several workers at once, rather than to the one
    /// that has the right as soon as it comes back to it.
    pub fn shares_bursts(&self) -> bool {
        !matches!(self, Balance::Pack)
    }

    /// Whether a worker should let the one with the `least` load accept.
    pub fn should_yield(&self, load: u64, least: u64, cost: Cost) -> bool {
        match self {
            Balance::Spread => exceeds(load, least, cost),
            Balance::Pack | Balance::RoundRobin => false,
            Balance::Callback { decide, data } => decide(data.0, load, least) > 0,
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Balance::Spread => "spread",
            Balance::Pack => "pack",
            Balance::Callback { .. } => "callback",
            Balance::RoundRobin => "round robin",
        })
    }
}

/// What it costs to let another worker accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// A move in the kernel's wait queue: two system calls, and nobody wakes.
    Reorder,
    /// The other one's wake-up.
    WakeUp,
    /// The same, while connections come so fast that it shows.
    FastWakeUp,
}

/// What spreads exactly.
pub fn slack(load: u64) -> u64 {
    1 + load / 16
}

/// A load that differs by the slack or less is as good: moving the accepts would cost more than it
/// gains. One connection and a sixteenth of the load spread exactly. Where a hand-over wakes somebody,
/// there is at most one for six connections (a fifth of a sleep each), or for nine at a fast pace.
fn slack_at(load: u64, cost: Cost) -> u64 {
    let exact = slack(load);
    match cost {
        Cost::Reorder => exact,
        Cost::WakeUp => exact.max(5),
        Cost::FastWakeUp => exact.max(8),
    }
}

fn exceeds(load: u64, least: u64, cost: Cost) -> bool {
    load > least.saturating_add(slack_at(load, cost))
}

/// The host names the worker that gets a connection.
#[derive(Clone, Copy)]
pub struct Pick {
    pub callback: extern "C-unwind" fn(*mut std::ffi::c_void, *const libc::sockaddr, u32) -> i32,
    pub data: HostPointer,
}

impl Pick {
    pub fn ask(&self, peer: &libc::sockaddr_storage, peer_length: u32) -> Option<u16> {
        let named = (self.callback)(self.data.0, std::ptr::from_ref(peer).cast(), peer_length);
        u16::try_from(named).ok()
    }
}

/// The least loaded of `candidates` (slot, load); the first of several.
pub fn least_loaded(candidates: impl Iterator<Item = (u16, u64)>) -> Option<(u16, u64)> {
    candidates.min_by_key(|&(_, load)| load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_disabled_is_nginxs() {
        // capacity, open, connection_n / 8 - free_connection_n
        let table = [
            (1024, 0, 0),
            (1024, 895, 0),
            (1024, 896, 0),
            (1024, 897, 1),
            (1024, 1024, 128),
            (64, 56, 0),
            (64, 57, 1),
            (64, 64, 8),
            (7, 7, 0),
            (1, 1, 0),
            (64, 70, 8),
        ];
        for (capacity, open, disabled) in table {
            assert_eq!(accept_disabled(capacity, open), disabled, "{open} of {capacity}");
        }
    }

    #[test]
    fn a_worker_competes_unless_something_speaks_against_it() {
        let free = Standing {
            draining: false,
            backing_off: false,
            not_taken: 0,
            open: 0,
            capacity: 8,
            accept_disabled: 0,
        };
        let table = [
            (free, Stance::Compete),
            (Standing { open: 7, ..free }, Stance::Compete),
            (Standing { open: 8, ..free }, Stance::Refuse),
            (Standing { open: 9, ..free }, Stance::Refuse),
            (Standing { draining: true, ..free }, Stance::Refuse),
            (Standing { backing_off: true, ..free }, Stance::Refuse),
            (Standing { not_taken: 1, ..free }, Stance::Refuse),
            (Standing { accept_disabled: 1, ..free }, Stance::Skip),
            (Standing { accept_disabled: 1, open: 8, ..free }, Stance::Refuse),
        ];
        for (standing, expected) in table {
            assert_eq!(stance(&standing), expected, "{standing:?}");
        }
    }

    #[test]
    fn the_least_loaded_is_the_first_of_the_least() {
        assert_eq!(least_loaded([].into_iter()), None);
        assert_eq!(least_loaded([(4, 3), (1, 2), (2, 2), (3, 9)].into_iter()), Some((1, 2)));
    }

    #[test]
    fn a_worker_yields_beyond_the_slack_only() {
        // load, least, and whether it yields at the cost of a reorder, a wake-up, a fast one
        let table = [
            (1, 0, [false, false, false]),
            (2, 0, [true, false, false]),
            (5, 0, [true, false, false]),
            (6, 0, [true, true, false]),
            (9, 0, [true, true, true]),
            (0, 5, [false, false, false]),
            (100, 93, [false, false, false]),
            (100, 92, [true, true, false]),
            (100, 91, [true, true, true]),
            (200, 187, [false, false, false]),
            (200, 186, [true, true, true]),
            (u64::MAX, u64::MAX, [false, false, false]),
        ];
        for (load, least, expected) in table {
            let yields = [Cost::Reorder, Cost::WakeUp, Cost::FastWakeUp]
                .map(|cost| Balance::Spread.should_yield(load, least, cost));
            assert_eq!(yields, expected, "{load} {least}");
            assert!(!Balance::Pack.should_yield(load, least, Cost::Reorder));
        }
    }

    #[test]
    fn a_policy_and_its_callback_go_together() {
        extern "C-unwind" fn more_than_double(
            _: *mut std::ffi::c_void,
            own: u64,
            least: u64,
        ) -> i32 {
            i32::from(own > 2 * least)
        }
        let none = HostPointer(std::ptr::null_mut());
        let resolve = |wish, callback| Balance::resolve(wish, callback, none).map(|b| b.code());
        assert_eq!(resolve(HERD_BALANCE_DEFAULT, None), Ok(HERD_BALANCE_SPREAD));
        assert_eq!(resolve(HERD_BALANCE_PACK, None), Ok(HERD_BALANCE_PACK));
        assert_eq!(resolve(HERD_BALANCE_CALLBACK, None), Err(Error::INVALID));
        assert_eq!(resolve(HERD_BALANCE_PACK, Some(more_than_double)), Err(Error::INVALID));
        assert_eq!(resolve(HERD_BALANCE_ROUND_ROBIN, None), Ok(HERD_BALANCE_ROUND_ROBIN));
        assert_eq!(resolve(5, None), Err(Error::INVALID));
        let host = Balance::resolve(HERD_BALANCE_CALLBACK, Some(more_than_double), none).unwrap();
        assert!(host.should_look(0, 0, Cost::WakeUp));
        assert!(host.should_yield(5, 2, Cost::WakeUp) && !host.should_yield(4, 2, Cost::Reorder));
    }
}
