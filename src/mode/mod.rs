//! The ways of sharing accepts among workers, and what differs between them.

use crate::abi::*;
use crate::sys::{Error, Result};
use std::fmt;

/// A mode in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every worker's listeners are always armed.
    Shared,
    /// The listeners are armed in the worker that holds the accept right.
    Mutex,
}

impl Mode {
    /// The mode for a host's wish, or the library's choice.
    pub fn resolve(wish: u32) -> Result<Mode> {
        match wish {
            HERD_MODE_AUTO | HERD_MODE_MUTEX => Ok(Mode::Mutex),
            HERD_MODE_SHARED => Ok(Mode::Shared),
            HERD_MODE_EXCLUSIVE | HERD_MODE_REUSEPORT | HERD_MODE_HANDOFF => Err(Error::MODE),
            _ => Err(Error::INVALID),
        }
    }

    pub fn code(self) -> u32 {
        match self {
            Mode::Shared => HERD_MODE_SHARED,
            Mode::Mutex => HERD_MODE_MUTEX,
        }
    }

    /// Whether workers compete for the accept right. With one worker there is nobody to compete
    /// with.
    pub fn has_accept_right(self, max_workers: u32) -> bool {
        self == Mode::Mutex && max_workers > 1
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Mode::Shared => "shared",
            Mode::Mutex => "mutex",
        })
    }
}

/// How the worker that accepts is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Balance {
    /// A worker keeps the right until 7/8 of its connections are in use.
    Pack,
}

impl Balance {
    pub fn resolve(wish: u32) -> Result<Balance> {
        match wish {
            HERD_BALANCE_DEFAULT | HERD_BALANCE_PACK => Ok(Balance::Pack),
            HERD_BALANCE_SPREAD | HERD_BALANCE_CALLBACK => Err(Error::MODE),
            _ => Err(Error::INVALID),
        }
    }

    pub fn code(self) -> u32 {
        match self {
            Balance::Pack => HERD_BALANCE_PACK,
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Balance::Pack => "pack",
        })
    }
}
