//! What property tests and the fuzzer (fuzz/) drive: each takes bytes, plays what they say, and panics when
//! something is not as it must be. No part of the product.

mod hostile;
#[cfg(test)]
mod properties;
mod region_file;

pub use crate::accept::handoff::model::drive as message;
pub use crate::reactor::model::drive as reactor;
pub use crate::reactor::timers::model::drive as timers;
pub use crate::sys::address::model::drive as address;
pub use hostile::drive as hostile;
pub use region_file::drive as region_file;
