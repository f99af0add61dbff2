//! Listeners and the right to accept from them: who may, when one steps back, and what happens when
//! the one who may makes no progress. It knows the reactor and the shared region; not the turn.

pub mod acceptor;
pub mod arming;
pub mod balance;
pub mod choice;
pub mod error_class;
pub mod gate;
pub mod guard;
pub mod handoff;
pub mod listener;
pub mod listener_table;
pub mod neighbours;
pub mod pace;
pub mod protocol;
pub mod suspicion;
