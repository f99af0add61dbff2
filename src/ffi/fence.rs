//! No panic crosses into C: it becomes HERD_EINTERNAL, and what it would have printed goes to the
//! log.

use crate::sys::{Error, Result};
use nix::errno::Errno;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Where and why the last panic of this thread happened, for the log.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the body of an export, and leaves errno as it was. `on_panic` gets a description of the panic.
pub fn fence<T>(body: impl FnOnce() -> Result<T>, on_panic: impl FnOnce(&str)) -> Result<T> {
    let errno = Errno::last_raw();
    let result = contain(body, on_panic);
    Errno::set_raw(errno);
    result
}

fn contain<T>(body: impl FnOnce() -> Result<T>, on_panic: impl FnOnce(&str)) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let described = LAST_PANIC.take().unwrap_or_else(|| describe(payload.as_ref()).to_owned());
        // Dropping a payload may panic as well; leaking one is the lesser evil.
        std::mem::forget(payload);
        let _ = panic::catch_unwind(AssertUnwindSafe(|| on_panic(&described)));
        Err(Error::INTERNAL)
    })
}

fn describe(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}

/// The default hook would write to the host's stderr. Panics of this library's own code are kept for
/// the log instead; those of a Rust program around it go where they went before.
pub fn install_hook() {
    // No Once: in a child that is forked while a thread of the parent is in it, it would never be done.
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if !INSTALLED.swap(true, Ordering::Relaxed) {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo| {
            let own = info.location().filter(|location| location.file().starts_with(source_root()));
            match own {
                Some(location) => {
                    let text = format!("{} at {location}", describe(info.payload()));
                    LAST_PANIC.set(Some(text));
                }
                None => former(info),
            }
        }));
    }
}

/// The folder of this library's sources as the compiler names it in panics.
fn source_root() -> &'static str {
    file!().trim_end_matches("ffi/fence.rs")
}

/// A result as the C API returns it. A count that does not fit is as large as it can be.
pub fn code(result: Result<usize>) -> c_int {
    match result {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(error) => error.code(),
    }
}
