//! Who lives, told by the kernel: a process holds a record lock (fcntl(2), F_SETLK) on one byte of a
//! shared file, and the kernel drops it when the process ends, however it ends. That needs no
//! process ids, which are reused and differ between pid namespaces, and no help by the dead.

use super::error::Result;
use super::{check, uninterrupted};
use std::os::fd::{AsRawFd, OwnedFd};

/// Holds byte `index` for this process. It holds until the process ends, `release`s it, or closes
/// any descriptor of the file; forked children do not inherit it. False: another process has it.
pub fn hold(file: &OwnedFd, index: usize) -> Result<bool> {
    match set(file, libc::F_SETLK, libc::F_WRLCK, index) {
        Ok(_) => Ok(true),
        Err(error) if [libc::EAGAIN, libc::EACCES].contains(&-error.code()) => Ok(false),
        Err(error) => Err(error),
    }
}

pub fn release(file: &OwnedFd, index: usize) -> Result<()> {
    set(file, libc::F_SETLK, libc::F_UNLCK, index).map(|_| ())
}

/// Whether another process holds byte `index`. The caller's own hold does not show.
pub fn is_held_by_another(file: &OwnedFd, index: usize) -> Result<bool> {
    Ok(set(file, libc::F_GETLK, libc::F_WRLCK, index)? != libc::F_UNLCK)
}

/// Holds the file itself, for this process and every child forked from now on: the lock is the open
/// file description's (F_OFD_SETLK), which forks share, and is dropped when the last of them has
/// closed and unmapped it. Nobody else can close it away, as with the locks above. False: held by
/// another open of the file.
pub fn hold_for_family(file: &OwnedFd) -> Result<bool> {
    match set(file, libc::F_OFD_SETLK, libc::F_WRLCK, FAMILY_INDEX) {
        Ok(_) => Ok(true),
        Err(error) if [libc::EAGAIN, libc::EACCES].contains(&-error.code()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether any process of the family that holds the file lives. For an open of the file of its own;
/// it may be for reading only.
pub fn is_held_by_family(file: &OwnedFd) -> Result<bool> {
    Ok(set(file, libc::F_OFD_GETLK, libc::F_WRLCK, FAMILY_INDEX)? != libc::F_UNLCK)
}

/// No slot has this number.
const FAMILY_INDEX: usize = 1 << 30;

/// Returns the lock's type as the kernel left it.
fn set(file: &OwnedFd, command: i32, kind: i32, index: usize) -> Result<i32> {
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: index as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: `lock` is valid during the call.
    uninterrupted(|| check(unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) }))?;
    Ok(lock.l_type.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork, pipe, read};

    /// The kernel behaviour that finding dead workers rests on.
    #[test]
    fn a_hold_ends_with_its_process_even_by_sigkill() {
        let _alone = NO_OTHER_FORK.lock();
        let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
        assert!(!is_held_by_another(&file, 3).unwrap());
        let (from_child, to_parent) = pipe().unwrap();
        // SAFETY: the child makes system calls only and ends with _exit or SIGKILL.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let held = hold(&file, 3) == Ok(true);
                nix::unistd::write(&to_parent, &[u8::from(held)]).unwrap();
                loop {
                    // SAFETY: waits for the signal.
                    unsafe { libc::pause() };
                }
            }
        };
        let mut held = [0];
        assert_eq!(read(&from_child, &mut held), Ok(1));
        let seen = (is_held_by_another(&file, 3), is_held_by_another(&file, 4), hold(&file, 3));
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::kill(child.as_raw(), libc::SIGKILL) }, 0);
        waitpid(child, None).unwrap();
        assert_eq!((held, seen), ([1], (Ok(true), Ok(false), Ok(false))));
        assert!(!is_held_by_another(&file, 3).unwrap());
        assert!(hold(&file, 3).unwrap());
        assert!(!is_held_by_another(&file, 3).unwrap());
    }
}
