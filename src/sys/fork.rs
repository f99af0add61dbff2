//! Fork detection by a page that the kernel wipes in the child (MADV_WIPEONFORK, madvise(2), Linux
//! 4.14): finding out costs a load, where getpid(2) costs a system call.

use super::error::{Error, Result};
use super::{check, uninterrupted};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Names the process that was running when the token was taken, among it and its descendants.
#[derive(Clone, Copy, Debug)]
pub struct ForkToken {
    number: u64,
    /// Holds the number as long as that process runs, and in no other.
    word: &'static AtomicU64,
}

/// The page's one word: this process's token, or 0 right after a fork.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The last token given out along this line of descent. A child inherits the value and goes on
/// counting, so its token differs from those of all its ancestors.
static LAST_TOKEN: AtomicU64 = AtomicU64::new(0);

impl ForkToken {
    /// The token of the calling process.
    pub fn current() -> Result<ForkToken> {
        let word = match page() {
            Some(word) => word,
            None => map_page()?,
        };
        let token = word.load(Ordering::Relaxed);
        if token != 0 {
            return Ok(ForkToken { number: token, word });
        }
        let fresh = LAST_TOKEN.fetch_add(1, Ordering::Relaxed) + 1;
        let set = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        let number = set.map_or_else(|other_thread| other_thread, |_| fresh);
        Ok(ForkToken { number, word })
    }

    /// Never 0.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether the calling process is the one that took the token.
    pub fn is_current(self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number
    }
}

fn page() -> Option<&'static AtomicU64> {
    // SAFETY: PAGE is null or the start of a mapping that is never unmapped, aligned and zeroed.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

fn map_page() -> Result<&'static AtomicU64> {
    const PAGE_BYTES: usize = 4096;
    // SAFETY: a new private mapping that nothing else refers to.
    let fresh = unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if fresh == libc::MAP_FAILED {
        return Err(Error::last());
    }
    // SAFETY: the range is the mapping made above.
    let wipe = || check(unsafe { libc::madvise(fresh, PAGE_BYTES, libc::MADV_WIPEONFORK) });
    uninterrupted(wipe).map_err(|error| {
        // SAFETY: the mapping made above, not yet known to anybody.
        unsafe { libc::munmap(fresh, PAGE_BYTES) };
        // What a kernel says that does not know this advice.
        if error == Error::INVALID { Error::errno(libc::ENOSYS) } else { error }
    })?;
    let raced =
        PAGE.compare_exchange(ptr::null_mut(), fresh.cast(), Ordering::AcqRel, Ordering::Acquire);
    if raced.is_err() {
        // SAFETY: another thread was first; this mapping is not known to anybody.
        unsafe { libc::munmap(fresh, PAGE_BYTES) };
    }
    Ok(page().expect("set by this thread or by the one that was first"))
}

/// Held by unit tests that fork and by those that a child of another test would disturb: it has copies
/// of all descriptors for a moment.
#[cfg(test)]
pub static NO_OTHER_FORK: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    #[test]
    fn a_child_and_its_child_differ_from_their_ancestors() {
        let _alone = NO_OTHER_FORK.lock();
        let parent = ForkToken::current().unwrap();
        assert_eq!(ForkToken::current().unwrap().number(), parent.number());
        // SAFETY: the children only touch atomics and end with _exit.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let before_use = parent.is_current();
                let own = ForkToken::current().unwrap();
                // SAFETY: as above.
                let grandchild = match unsafe { fork() }.unwrap() {
                    ForkResult::Parent { child } => child,
                    ForkResult::Child => {
                        let fresh = ForkToken::current().unwrap();
                        let numbers = [own.number(), parent.number()];
                        let distinct = !numbers.contains(&fresh.number()) && !own.is_current();
                        // SAFETY: ends the process at once.
                        unsafe { libc::_exit(if distinct { 0 } else { 1 }) }
                    }
                };
                let ended = waitpid(grandchild, None) == Ok(WaitStatus::Exited(grandchild, 0));
                let ok =
                    !before_use && own.number() != parent.number() && !parent.is_current() && ended;
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(if ok { 0 } else { 1 }) }
            }
        };
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        assert!(parent.is_current());
    }
}
