//! Memory that changes while a thread works with it, and that a fork can therefore find half changed: a
//! vector that grows has freed its old place before it knows its new one.

use super::error::Result;
use super::fork::ForkToken;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is taken apart only by the process that made it. In a forked child what it owns stays
/// until the child ends or execs.
pub struct OfProcess<T> {
    value: ManuallyDrop<T>,
    maker: ForkToken,
}

/// What was left in this process; the last of it, which knows the one before.
static LEFT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

struct Left<T> {
    _value: ManuallyDrop<T>,
    _before: *mut (),
}

/// Where a checker finds it that looks for what was lost.
fn leave<T>(value: T) {
    let left = Left { _value: ManuallyDrop::new(value), _before: LEFT.load(Ordering::Relaxed) };
    LEFT.store(Box::into_raw(Box::new(left)).cast(), Ordering::Release);
}

impl<T> OfProcess<T> {
    pub fn new(value: T) -> Result<OfProcess<T>> {
        Ok(OfProcess { value: ManuallyDrop::new(value), maker: ForkToken::current()? })
    }

    /// To be taken apart by this process, which was forked from the maker's when nothing changed it.
    pub fn adopt(&mut self) -> Result<()> {
        self.maker = ForkToken::current()?;
        Ok(())
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        // SAFETY: not used afterwards.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if self.maker.is_current() {
            drop(value);
        } else {
            leave(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    use std::cell::Cell;

    struct Noting<'a>(&'a Cell<bool>);

    impl Drop for Noting<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn only_its_maker_takes_it_apart() {
        let _alone = NO_OTHER_FORK.lock();
        let is_apart = Cell::new(false);
        let value = OfProcess::new(Noting(&is_apart)).unwrap();
        // SAFETY: the child drops the value and ends with _exit.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                drop(value);
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(if is_apart.get() { 1 } else { 0 }) }
            }
        };
        assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
        drop(value);
        assert!(is_apart.get());
    }
}
