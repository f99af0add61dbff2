//! Listeners that a service manager passed to this process: all that were asked for, or none.

use super::Herd;
use crate::accept::listener::{Acceptance, Listener};
use crate::sys::activation::Announcement;
use crate::sys::{Error, Result};
use std::fmt::Display;

impl Herd {
    /// Adds those of the name, or all, and returns how many.
    pub fn add_passed_listeners(
        &self,
        name: Option<&str>,
        acceptance: Acceptance,
    ) -> Result<usize> {
        let failed = |what: &dyn Display, error: Error| {
            self.log.error(format_args!("listen systemd: {what}: {error}"));
            error
        };
        let announcement = Announcement::read();
        let passed = self
            .may_change_listeners()
            .and_then(|()| announcement.descriptors(std::process::id()))
            .map_err(|error| failed(&announcement, error))?;
        let listeners = passed
            .iter()
            .filter(|passed| name.is_none_or(|name| passed.is_named(name)))
            .map(|passed| {
                Listener::adopt(passed.fd, acceptance)
                    .map_err(|error| failed(&format_args!("descriptor {}", passed.fd), error))
            })
            .collect::<Result<Vec<_>>>()?;
        let count = listeners.len();
        passed
            .iter()
            .try_for_each(|passed| passed.close_on_exec())
            .and_then(|()| self.insert_all(listeners))
            .map_err(|error| failed(&announcement, error))?;
        Ok(count)
    }
}
