//! Messages to the host's log callback: the only way the library speaks besides return codes.

mod recurring;

pub use recurring::{Recurring, Task};

use crate::abi::{HERD_LOG_ERROR, HERD_LOG_INFO, HERD_LOG_WARNING, herd_log_fn};
use crate::sys::clock::now_us;
use crate::sys::fork::ForkToken;
use crate::sys::host::HostPointer;
use recurring::Said;
use std::ffi::{CString, c_int};
use std::fmt::Arguments;

pub struct Log {
    callback: herd_log_fn,
    data: HostPointer,
    /// The herd's name, put before every message.
    name: String,
    said: Said,
}

impl Log {
    pub fn new(callback: herd_log_fn, data: HostPointer, name: &str) -> Log {
        Log { callback, data, name: name.to_owned(), said: Said::default() }
    }

    pub fn error(&self, message: Arguments) {
        self.write(HERD_LOG_ERROR, message);
    }

    pub fn warning(&self, message: Arguments) {
        self.write(HERD_LOG_WARNING, message);
    }

    pub fn info(&self, message: Arguments) {
        self.write(HERD_LOG_INFO, message);
    }

    /// What can come for every connection or in every turn: once a second at most.
    pub fn recurring(&self, kind: Recurring, message: Arguments) {
        if self.callback.is_none() {
            return;
        }
        let process = ForkToken::current().map_or(0, ForkToken::number);
        match self.said.judge(kind, now_us(), process) {
            Some(0) => self.write(kind.level(), message),
            Some(more) => {
                self.write(kind.level(), format_args!("{message} ({more} more since the last)"))
            }
            None => {}
        }
    }

    fn write(&self, level: c_int, message: Arguments) {
        let Some(callback) = self.callback else { return };
        let mut line = format!("{}: {message}", self.name);
        // A path in a message may hold anything.
        line.retain(|character| !character.is_control());
        if let Ok(line) = CString::new(line) {
            callback(self.data.0, level, line.as_ptr());
        }
    }
}
