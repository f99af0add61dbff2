//! The atomics of the shared region: the standard ones, or in a build with `--cfg loom` those of
//! the model checker, which tries every order in which other threads can see them (loom).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
