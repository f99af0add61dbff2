//! The ways of sharing accepts among workers, and what differs between them.

use crate::abi::*;
use crate::sys::{Error, Result, epoll};
use std::fmt;

/// A mode in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every worker's listeners are always armed, and every idle worker wakes.
    Shared,
    /// The listeners are armed in the worker that holds the accept right.
    Mutex,
    /// Every worker's listeners are armed, and the kernel's wait queue is the accept right.
    Exclusive,
    /// The listeners are armed in the worker that holds the accept right, which passes connections on.
    Handoff,
    /// As in Exclusive, with a listening socket for each slot: its worker is the first in its wait queue.
    Reuseport,
}

impl Mode {
    /// The mode for a host's wish, or the library's choice.
    pub fn resolve(wish: u32, kernel_has_exclusive: bool) -> Result<Mode> {
        match wish {
            HERD_MODE_AUTO | HERD_MODE_EXCLUSIVE if kernel_has_exclusive => Ok(Mode::Exclusive),
            HERD_MODE_REUSEPORT if kernel_has_exclusive => Ok(Mode::Reuseport),
            HERD_MODE_AUTO | HERD_MODE_EXCLUSIVE | HERD_MODE_REUSEPORT | HERD_MODE_MUTEX => {
                Ok(Mode::Mutex)
            }
            HERD_MODE_SHARED => Ok(Mode::Shared),
            HERD_MODE_HANDOFF => Ok(Mode::Handoff),
            _ => Err(Error::INVALID),
        }
    }

    pub fn code(self) -> u32 {
        match self {
            Mode::Shared => HERD_MODE_SHARED,
            Mode::Mutex => HERD_MODE_MUTEX,
            Mode::Exclusive => HERD_MODE_EXCLUSIVE,
            Mode::Handoff => HERD_MODE_HANDOFF,
            Mode::Reuseport => HERD_MODE_REUSEPORT,
        }
    }

    /// How a listener is watched.
    pub fn listener_events(self) -> u32 {
        match self {
            Mode::Shared | Mode::Mutex | Mode::Handoff => epoll::IN,
            Mode::Exclusive | Mode::Reuseport => epoll::IN | epoll::EXCLUSIVE,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Mode::Shared => "shared",
            Mode::Mutex => "mutex",
            Mode::Exclusive => "exclusive",
            Mode::Handoff => "handoff",
            Mode::Reuseport => "reuseport",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_become_modes() {
        let table = [
            (HERD_MODE_AUTO, true, Ok(Mode::Exclusive)),
            (HERD_MODE_AUTO, false, Ok(Mode::Mutex)),
            (HERD_MODE_EXCLUSIVE, true, Ok(Mode::Exclusive)),
            (HERD_MODE_EXCLUSIVE, false, Ok(Mode::Mutex)),
            (HERD_MODE_MUTEX, true, Ok(Mode::Mutex)),
            (HERD_MODE_SHARED, true, Ok(Mode::Shared)),
            (HERD_MODE_REUSEPORT, true, Ok(Mode::Reuseport)),
            (HERD_MODE_REUSEPORT, false, Ok(Mode::Mutex)),
            (HERD_MODE_HANDOFF, true, Ok(Mode::Handoff)),
            (6, true, Err(Error::INVALID)),
        ];
        for (wish, kernel_has_exclusive, mode) in table {
            assert_eq!(Mode::resolve(wish, kernel_has_exclusive), mode, "{wish}");
        }
    }
}
