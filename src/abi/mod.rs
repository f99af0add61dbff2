//! The C face's data: every public struct, callback type and constant, as a C program sees them.
//! Lowest layer: it knows nothing of the code that fills or reads them. The comments here are
//! those of include/herd.h, so they are written for a reader of C.

#![allow(non_camel_case_types)]

pub mod config;
pub mod error;
pub mod event;
pub mod handle;
pub mod handoff;
pub mod listen;
pub mod stats;

pub use config::*;
pub use error::*;
pub use event::*;
pub use handle::*;
pub use handoff::*;
pub use listen::*;
pub use stats::*;
