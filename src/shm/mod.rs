//! The shared region: memory that all workers of a herd see. It knows layout and atomics, not what
//! they are used for.

pub mod layout;
pub mod lock;
pub mod queue;
pub mod region;
pub mod slot;
pub mod steering;

pub use region::{Part, Region};
pub use steering::Steering;
