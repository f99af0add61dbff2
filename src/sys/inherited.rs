//! A value that the threads of a process share and forked children inherit. It is whole in a child
//! whatever the other threads of the parent were doing at the fork, of which the child has none: a
//! mutex that one of them held would stay locked for ever (fork(2), pthread_atfork(3)).

use super::error::Result;
use super::fork::ForkToken;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Two rules make it so. A lock whose holder is a thread of another process is nobody's here, and is
/// taken. And what it guards changes by one store of a pointer, so that no half of a change is seen:
/// fork(2) leaves a child what each thread had written up to some moment (dup_mmap in kernel/fork.c
/// protects all pages and flushes every TLB before any thread's next write goes on).
pub struct Inherited<T> {
    /// The fork token of the process whose thread has the lock; 0: nobody has it.
    holder: AtomicU64,
    value: AtomicPtr<T>,
    /// It owns the value, as a box does.
    _owned: std::marker::PhantomData<Box<T>>,
}

// SAFETY: the value goes with it.
unsafe impl<T: Send> Send for Inherited<T> {}
// SAFETY: one thread at a time gets at the value, and values come from any thread.
unsafe impl<T: Send> Sync for Inherited<T> {}

/// Has the lock until it is dropped.
struct Held<'a>(&'a AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<T> Inherited<T> {
    pub fn new(value: T) -> Inherited<T> {
        Inherited {
            holder: AtomicU64::new(0),
            value: AtomicPtr::new(Box::into_raw(Box::new(value))),
            _owned: std::marker::PhantomData,
        }
    }

    /// `look` must not call the host: it could call back, and wait for itself.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R> {
        let held = self.hold()?;
        Ok(look(self.value(&held)))
    }

    /// Puts what `change` makes of the value in its place; an error leaves it. As for `read`, no
    /// call of the host. A child that is forked meanwhile has the one or the other.
    pub fn replace<R>(&self, change: impl FnOnce(&T) -> Result<(T, R)>) -> Result<R> {
        let held = self.hold()?;
        let (fresh, result) = change(self.value(&held))?;
        let former = self.value.swap(Box::into_raw(Box::new(fresh)), Ordering::AcqRel);
        drop(held);
        // SAFETY: made by Box::into_raw; whoever has the lock from now on finds the fresh one.
        drop(unsafe { Box::from_raw(former) });
        Ok(result)
    }

    fn value<'a>(&'a self, _held: &'a Held) -> &'a T {
        // SAFETY: made by Box::into_raw, and freed only after another took its place, for which the
        // lock has to be had.
        unsafe { NonNull::new_unchecked(self.value.load(Ordering::Acquire)).as_ref() }
    }

    fn hold(&self) -> Result<Held<'_>> {
        /// Whoever has the lock may have a lower real-time priority: sched_yield(2) would not let it run.
        const REST: Duration = Duration::from_micros(50);
        let this_process = ForkToken::current()?.number();
        loop {
            let holder = self.holder.load(Ordering::Relaxed);
            if holder == this_process {
                std::thread::sleep(REST);
            } else {
                let taken = self.holder.compare_exchange(
                    holder,
                    this_process,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return Ok(Held(&self.holder));
                }
            }
        }
    }
}

impl<T> Drop for Inherited<T> {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw, and nobody else has it any more.
        drop(unsafe { Box::from_raw(*self.value.get_mut()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, alarm, fork};
    use std::sync::Barrier;

    /// Forks while another thread is in the midst of `work`, which waits twice; the child then has
    /// `expected`, and changes it.
    fn fork_amid(
        value: &Inherited<Vec<u32>>,
        expected: &[u32],
        work: impl FnOnce(&Barrier) + Send,
    ) {
        let _alone = NO_OTHER_FORK.lock();
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| work(&barrier));
            barrier.wait();
            // SAFETY: the child allocates, which the C library prepares for, and ends with _exit.
            let child = match unsafe { fork() }.unwrap() {
                ForkResult::Parent { child } => child,
                ForkResult::Child => {
                    alarm::set(20);
                    let is_whole = value.read(|numbers| numbers == expected) == Ok(true);
                    let changed = value.replace(|_| Ok((vec![9], ()))) == Ok(());
                    let ok = is_whole && changed && value.read(|n| n == &[9]) == Ok(true);
                    // SAFETY: ends the process at once.
                    unsafe { libc::_exit(if ok { 0 } else { 1 }) }
                }
            };
            let status = waitpid(child, None);
            barrier.wait();
            assert_eq!(status, Ok(WaitStatus::Exited(child, 0)));
        });
    }

    #[test]
    fn a_child_has_a_whole_value_whatever_another_thread_was_at() {
        let value = Inherited::new(vec![1, 2]);
        fork_amid(&value, &[1, 2], |barrier| {
            value
                .read(|_| {
                    barrier.wait();
                    barrier.wait();
                })
                .unwrap();
        });
        fork_amid(&value, &[1, 2], |barrier| {
            let change = |numbers: &Vec<u32>| {
                let fresh = [numbers.as_slice(), &[3]].concat();
                barrier.wait();
                barrier.wait();
                Ok((fresh, ()))
            };
            value.replace(change).unwrap();
        });
        // What the children did is theirs.
        assert_eq!(value.read(Vec::len), Ok(3));
    }

    #[test]
    fn changes_by_many_threads_come_one_after_the_other_and_an_error_is_none() {
        const EACH: u64 = 2000;
        let sum = Inherited::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        sum.replace(|now| Ok((now + 1, ()))).unwrap();
                        assert_eq!(
                            sum.replace(|_| Err::<(u64, ()), _>(crate::sys::Error::BUSY)),
                            Err(crate::sys::Error::BUSY)
                        );
                    }
                });
            }
        });
        assert_eq!(sum.read(|&now| now), Ok(4 * EACH));
    }
}
