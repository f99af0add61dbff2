//! libherd: nginx-style accept serialization for C and C++ servers.
//!
//! The product is the C library; include/herd.h is its documentation. Layers, from the lowest; none
//! imports a higher one (tests/house.rs checks it):
//!
//! `abi` (the C face's data), `sys` (kernel wrappers), `shm` (shared memory), `reactor` (one
//! worker's epoll core), `accept` (listeners and the right to accept), `mode`, `observe` (reading the
//! counters), `herd`, `worker` (the turn), `ffi` (the C face's calls), `fuzzing` (what property tests and
//! the fuzzer drive; no part of the product).

pub mod abi;
mod accept;
mod atomics;
pub mod ffi;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod herd;
mod log;
mod mode;
mod observe;
mod reactor;
mod settings;
mod shm;
mod sys;
mod worker;

/// The library's decisions, for the simulator in bench/harness: it runs this very code. No part of
/// the product; the C face is.
#[doc(hidden)]
pub mod policy {
    pub use crate::accept::balance::{Balance, Cost, Stance, Standing, accept_disabled, stance};
    pub use crate::accept::choice::{Giver, candidate, choose};
    pub use crate::accept::gate::Gate;
    pub use crate::accept::handoff::WINDOW;
    pub use crate::accept::neighbours::{Lookout, Neighbours};
    pub use crate::accept::pace::Pace;
    pub use crate::accept::protocol::{BeforeWait, Condition, go_idle, leaves_idle_unaware};
    pub use crate::accept::suspicion::{Suspicion, Verdict};
    pub use crate::settings::HANDOFF_ACCEPT_BATCH;
    pub use crate::shm::lock::AcceptLock;
    pub use crate::shm::slot::{Slot, State};
    pub use crate::shm::steering::line::{Line, steer};
}
