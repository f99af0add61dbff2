//! libherd: nginx-style accept serialization for C and C++ servers.
//!
//! The product is the C library; include/herd.h is its documentation. Layers, from the lowest; none
//! imports a higher one (tests/house.rs checks it):
//!
//! `abi` (the C face's data), `sys` (kernel wrappers), `shm` (shared memory), `reactor` (one
//! worker's epoll core), `accept` (listeners and the right to accept), `mode`, `observe` (reading the
//! counters), `herd`, `worker` (the turn), `ffi` (the C face's calls).

pub mod abi;
mod accept;
mod atomics;
pub mod ffi;
mod herd;
mod log;
mod mode;
mod observe;
mod reactor;
mod settings;
mod shm;
mod sys;
mod worker;
