//! libherd beside its peers: measured on the machine at hand, simulated beyond it, and written up.
//! A crate of its own, so that the library's dependencies stay as they are.

pub mod figures;
pub mod measure;
pub mod promises;
mod reasons;
pub mod report;
pub mod sim;
