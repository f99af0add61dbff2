//! Who accepts the next connection: libherd's modes, and what else there is.

use herd::policy::Balance;

#[derive(Clone, Copy)]
pub enum Way {
    /// Every worker watches the one listener.
    Shared,
    /// EPOLLEXCLUSIVE and nothing else.
    Exclusive,
    /// nginx from 1.21.6: EPOLLEXCLUSIVE, added anew after every 16 accepts.
    Rotate,
    /// nginx's accept_mutex: losers try again after accept_delay.
    NginxMutex,
    /// SO_REUSEPORT: a queue for each worker, chosen by a hash.
    Reuseport,
    /// A master accepts and passes connections on in turn.
    RoundRobin,
    HerdExclusive(Balance),
    HerdMutex(Balance),
    HerdReuseport(Balance),
    HerdHandoff(Balance),
}

impl Way {
    /// By the names that the measured contenders have. libherd's SHARED is what raw-shared is.
    pub const ALL: [(&'static str, Way); 11] = [
        ("raw-shared", Way::Shared),
        ("raw-exclusive", Way::Exclusive),
        ("raw-rotate", Way::Rotate),
        ("raw-mutex", Way::NginxMutex),
        ("raw-reuseport", Way::Reuseport),
        ("raw-pass", Way::RoundRobin),
        ("exclusive/spread", Way::HerdExclusive(Balance::Spread)),
        ("mutex/spread", Way::HerdMutex(Balance::Spread)),
        ("mutex/pack", Way::HerdMutex(Balance::Pack)),
        ("reuseport/spread", Way::HerdReuseport(Balance::Spread)),
        ("handoff/spread", Way::HerdHandoff(Balance::Spread)),
    ];

    pub fn named(name: &str) -> Option<Way> {
        Way::ALL.into_iter().find(|&(known, _)| known == name).map(|(_, way)| way)
    }

    /// None: it is not one of libherd's.
    pub fn balance(self) -> Option<Balance> {
        match self {
            Way::HerdExclusive(balance)
            | Way::HerdMutex(balance)
            | Way::HerdReuseport(balance)
            | Way::HerdHandoff(balance) => Some(balance),
            _ => None,
        }
    }

    pub fn has_lock(self) -> bool {
        matches!(self, Way::NginxMutex | Way::HerdMutex(_) | Way::HerdHandoff(_))
    }

    /// A connection wakes the first in the wait queue, not all.
    pub fn is_exclusive(self) -> bool {
        use Way::*;
        matches!(self, Exclusive | Rotate | HerdExclusive(_) | HerdReuseport(_))
    }

    /// Each worker has a listening socket of its own, and a program steers to these.
    pub fn is_steered(self) -> bool {
        matches!(self, Way::HerdReuseport(_))
    }

    /// Who accepts a connection and who serves it can be two workers.
    pub fn passes_on(self) -> bool {
        matches!(self, Way::HerdHandoff(_))
    }
}
