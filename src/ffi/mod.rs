//! The C face's calls: one file for each family. Every export is a plain function that checks its
//! pointers and calls one method of the layers below inside the panic fence.

mod fence;
mod handle;
mod handoff;
mod sized;

pub mod accept;
pub mod config;
pub mod error;
pub mod event;
pub mod herd;
pub mod host_loop;
pub mod load;
pub mod master;
pub mod nginx;
pub mod observe;
pub mod stats;
pub mod systemd;
pub mod timer;
pub mod version;
pub mod worker;

/// cbindgen:ignore
#[cfg(feature = "test-hooks")]
pub mod test_hooks;
