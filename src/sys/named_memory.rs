//! Shared memory that other processes find by a name: a file in /dev/shm, mapped shared. A lock that
//! the processes using it inherit tells a file in use from one whose processes have all ended.

use super::error::{Error, Result};
use super::memory::{map, reserve};
use super::record_lock::{hold_for_family, is_held_by_family};
use super::uninterrupted;
use memmap2::MmapRaw;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, lstat};
use nix::unistd::{geteuid, unlink};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Linux's place for shared memory (shm_overview(7)): in memory, writable for everybody, and sticky,
/// so that nobody can remove or replace another user's file.
const FOLDER: &str = "/dev/shm";

/// Another process can change what the path leads to between two looks; more often than this it does
/// so on purpose.
const TRIES: u32 = 100;

/// Where the memory called `name` of a user is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    path: PathBuf,
    user: u32,
}

impl Place {
    /// Users' names do not clash: each has its own.
    pub fn new(prefix: &str, user: Option<u32>, name: &str) -> Place {
        let user = user.unwrap_or_else(|| geteuid().as_raw());
        Place { path: Path::new(FOLDER).join(format!("{prefix}-{user}-{name}")), user }
    }

    fn open(&self, flags: OFlag) -> Result<OwnedFd> {
        let file = self.open_any(flags)?;
        self.check_owner(&file)?;
        Ok(file)
    }

    fn open_any(&self, flags: OFlag) -> Result<OwnedFd> {
        // The file may be anything that another user has put there: no link is followed, and
        // O_NONBLOCK keeps a pipe from blocking the open.
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        uninterrupted(|| open(&self.path, flags, Mode::S_IRUSR | Mode::S_IWUSR))
    }

    fn check_owner(&self, file: &OwnedFd) -> Result<()> {
        let found = fstat(file)?;
        let is_file = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        if !is_file || found.st_uid != self.user {
            return Err(Error::errno(libc::EPERM));
        }
        Ok(())
    }

    /// Whether the path leads to this file.
    fn leads_to(&self, file: &OwnedFd) -> Result<bool> {
        match lstat(&self.path) {
            Ok(found) => Ok(identity(&found) == identity(&fstat(file)?)),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

fn identity(stat: &FileStat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The hold on a name, which is taken as long as a mapping of its file lives. The last to drop it removes
/// the file.
///
/// The mapping alone keeps the file open, with its lock. A descriptor would be inherited by every worker, and
/// with one a worker that has given up its rights could still shrink the file, which has no seals
/// (shmem_add_seals in mm/shmem.c): a touch of the memory would be a SIGBUS in all the others.
pub struct Hold {
    place: Place,
    /// Until it is mapped.
    file: Option<OwnedFd>,
    /// Once it is.
    identity: Option<(u64, u64)>,
}

impl Hold {
    /// Maps `bytes` of zeroed memory under a name that nobody uses. A file left by processes that
    /// have all ended is replaced, and not used again: observers may still look at it. -EADDRINUSE:
    /// the name is in use. Whoever looks before the maker has written something finds an empty or a
    /// zeroed file.
    pub fn create(place: Place, bytes: usize) -> Result<(MmapRaw, Hold)> {
        for _ in 0..TRIES {
            let file = place.open_any(OFlag::O_RDWR | OFlag::O_CREAT)?;
            // An error from here on removes the file, unless another process uses it.
            let mut hold = Hold { place: place.clone(), file: Some(file), identity: None };
            let file = hold.file.as_ref().expect("just stored");
            place.check_owner(file)?;
            if !hold_for_family(file)? {
                return Err(Error::errno(libc::EADDRINUSE));
            }
            // Another process may have replaced it between the open and the lock.
            if !place.leads_to(file)? {
                continue;
            }
            let found = fstat(file)?;
            if !is_fresh(&found) {
                unlink(&place.path)?;
                continue;
            }
            reserve(file, bytes)?;
            let mapping = map(file, bytes)?;
            (hold.identity, hold.file) = (Some(identity(&found)), None);
            return Ok((mapping, hold));
        }
        Err(Error::errno(libc::EADDRINUSE))
    }
}

/// Whether a file of this user is as this call makes one, or as another process just has. One that others
/// may open, or that has another name, somebody else can have put here for us to use.
fn is_fresh(found: &FileStat) -> bool {
    found.st_size == 0 && found.st_nlink == 1 && found.st_mode & 0o177 == 0
}

impl Drop for Hold {
    /// The name goes with the last process that uses it, if it ends in an orderly way. The caller has
    /// dropped the mapping before, which holds the file as well.
    fn drop(&mut self) {
        let unmapped = self.file.take().and_then(|file| fstat(&file).ok());
        let Some(own) = self.identity.or(unmapped.as_ref().map(identity)) else { return };
        // A new open of the file can lock it only if no mapping of the former one is left.
        let Ok(file) = self.place.open(OFlag::O_RDWR) else { return };
        let is_same = fstat(&file).is_ok_and(|found| identity(&found) == own);
        if is_same && hold_for_family(&file) == Ok(true) && self.place.leads_to(&file) == Ok(true) {
            let _ = unlink(&self.place.path);
        }
    }
}

/// A look from outside at memory that has a name. It is read with pread(2) and not mapped: its owner
/// can shrink the file at any time, and touching a mapping of it would then be a SIGBUS.
pub struct Look {
    file: OwnedFd,
}

impl Look {
    pub fn open(place: &Place) -> Result<Look> {
        Ok(Look { file: place.open(OFlag::O_RDONLY)? })
    }

    pub fn bytes(&self) -> Result<u64> {
        u64::try_from(fstat(&self.file)?.st_size).map_err(|_| Error::DAMAGED)
    }

    /// Fills `bytes` from `offset` on. Shorter than that: the file is damaged.
    pub fn read(&self, mut bytes: &mut [u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            let at = i64::try_from(offset).map_err(|_| Error::DAMAGED)?;
            let got = uninterrupted(|| nix::sys::uio::pread(&self.file, bytes, at))?;
            if got == 0 {
                return Err(Error::DAMAGED);
            }
            bytes = &mut bytes[got..];
            offset += got as u64;
        }
        Ok(())
    }

    /// Whether a process that uses the memory lives.
    pub fn is_in_use(&self) -> Result<bool> {
        is_held_by_family(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    fn place(name: &str) -> Place {
        Place::new("herd-test", None, &format!("{name}-{}", std::process::id()))
    }

    fn swapped((mapping, hold): (MmapRaw, Hold)) -> (Hold, MmapRaw) {
        (hold, mapping)
    }

    fn in_use() -> Option<Error> {
        Some(Error::errno(libc::EADDRINUSE))
    }

    #[test]
    fn a_name_is_taken_once_and_goes_with_its_last_user() {
        let _alone = NO_OTHER_FORK.lock();
        let place = place("once");
        assert_eq!(Look::open(&place).err(), Some(Error::NOT_FOUND));
        let (mapping, hold) = Hold::create(place.clone(), 4096).unwrap();
        assert_eq!(Hold::create(place.clone(), 4096).err(), in_use());
        let look = Look::open(&place).unwrap();
        assert_eq!((look.is_in_use(), look.bytes()), (Ok(true), Ok(4096)));
        drop(mapping);
        drop(hold);
        assert_eq!(Look::open(&place).err(), Some(Error::NOT_FOUND));
        assert_eq!(look.is_in_use(), Ok(false));
    }

    /// The kernel behaviour that telling dead herds from living ones rests on: a forked child holds
    /// the lock on, by its mapping alone, and a SIGKILL ends that.
    #[test]
    fn a_child_holds_the_name_on_until_it_ends_and_then_it_is_replaced() {
        let _alone = NO_OTHER_FORK.lock();
        let place = place("child");
        let (mapping, hold) = Hold::create(place.clone(), 4096).unwrap();
        // SAFETY: the child makes system calls only, and waits to be killed.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                loop {
                    // SAFETY: waits for the signal.
                    unsafe { libc::pause() };
                }
            }
        };
        drop(mapping);
        drop(hold);
        let old = Look::open(&place).unwrap();
        assert_eq!(old.is_in_use(), Ok(true));
        assert_eq!(Hold::create(place.clone(), 4096).err(), in_use());
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::kill(child.as_raw(), libc::SIGKILL) }, 0);
        let killed = WaitStatus::Signaled(child, nix::sys::signal::Signal::SIGKILL, false);
        assert_eq!(waitpid(child, None), Ok(killed));
        assert_eq!(old.is_in_use(), Ok(false));
        // Dropped in this order at the end: the mapping first.
        let (_hold, _mapping) = swapped(Hold::create(place.clone(), 8192).unwrap());
        // Who looked at the old one still does.
        assert_eq!((old.bytes(), old.is_in_use()), (Ok(4096), Ok(false)));
        assert_eq!(Look::open(&place).unwrap().bytes(), Ok(8192));
    }

    #[test]
    fn what_is_no_file_of_the_user_is_refused() {
        let _alone = NO_OTHER_FORK.lock();
        let place = place("link");
        std::os::unix::fs::symlink("/etc/passwd", &place.path).unwrap();
        let looked = Look::open(&place).err();
        let created = Hold::create(place.clone(), 4096).err();
        std::fs::remove_file(&place.path).unwrap();
        assert_eq!(
            (looked, created),
            (Some(Error::errno(libc::ELOOP)), Some(Error::errno(libc::ELOOP)))
        );
        std::fs::create_dir(&place.path).unwrap();
        let looked = Look::open(&place).err();
        std::fs::remove_dir(&place.path).unwrap();
        assert_eq!(looked, Some(Error::errno(libc::EPERM)));
        let others = Place { user: place.user + 1, ..place.clone() };
        let (_hold, _mapping) = swapped(Hold::create(place, 4096).unwrap());
        assert_eq!(Look::open(&others).err(), Some(Error::errno(libc::EPERM)));
    }
}
