//! The file of a Unix socket: made by bind(2), taken over from a server that is gone, and removed by who
//! made it, wherever that process has changed to meanwhile.

use super::error::{Error, Result};
use super::uninterrupted;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::poll::{PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, connect, socket};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use std::fs::{remove_file, symlink_metadata};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How often a lock that another has is tried, once a millisecond: a herd has it for three system calls,
/// another program maybe for ever.
const LOCK_TRIES: u32 = 1000;

/// To be removed only while it is still the one that was made: another server may have put its own in the
/// place.
pub struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl SocketFile {
    /// Binds `fd` to `path`, whose file gets the permission bits of `mode` in any case, or those that the
    /// socket has less the umask.
    pub fn bind(fd: &OwnedFd, path: &Path, mode: Option<u32>) -> Result<SocketFile> {
        let rooted = from_root(path)?;
        // The path from the root can be longer than a socket's name, where the given one is not.
        let name = UnixAddr::new(rooted.as_path()).or_else(|_| UnixAddr::new(path))?;
        match bind(fd.as_raw_fd(), &name) {
            Err(Errno::EADDRINUSE) if remove_if_nobodys(&rooted, &name) => {
                bind(fd.as_raw_fd(), &name)?
            }
            result => result?,
        }
        let made = || {
            if let Some(mode) = mode {
                add_what_the_umask_took(&rooted, mode)?;
            }
            device_and_inode(&rooted)
        };
        match made() {
            Ok(device_and_inode) => Ok(SocketFile { path: rooted, device_and_inode }),
            Err(error) => {
                let _ = remove_file(&rooted);
                Err(error)
            }
        }
    }

    pub fn remove(&self) {
        if device_and_inode(&self.path) == Ok(self.device_and_inode) {
            let _ = remove_file(&self.path);
        }
    }
}

/// The path that leads to the same from every working directory; as it was given where none is known
/// (getcwd(2)), or a folder on the way from the root may not be searched.
fn from_root(path: &Path) -> Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let Ok(rooted) = std::path::absolute(path) else { return Ok(path.to_owned()) };
    match symlink_metadata(folder_of(&rooted)) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(path.to_owned()),
        Err(error) => Err(io_error(error)),
        Ok(_) => Ok(rooted),
    }
}

/// Whoever may write in the folder can have put a link there since, so none is followed. glibc asks
/// /proc for that where the kernel is older than fchmodat2(2), and cannot before its version 2.32.
fn add_what_the_umask_took(path: &Path, mode: u32) -> Result<()> {
    let metadata = symlink_metadata(path).map_err(io_error)?;
    if metadata.mode() & 0o7777 != mode {
        let mode = Mode::from_bits_truncate(mode);
        fchmodat(AT_FDCWD, path, mode, FchmodatFlags::NoFollowSymlink)?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes what a crashed server leaves behind. False: the file is no such, or is somebody's.
///
/// Nothing removes a file only if it is still the one that was looked at: of two servers that start at
/// once, the slower one would remove the file that the other has just made. So one at a time looks and
/// removes. The bind(2) after it needs no lock: it makes a file or says that there is one.
fn remove_if_nobodys(path: &Path, name: &UnixAddr) -> bool {
    is_nobodys(path, name) && {
        let _alone = FolderLock::take(folder_of(path));
        is_nobodys(path, name) && remove_file(path).is_ok()
    }
}

/// Whether a file is a socket's that no process has open any more. A socket of another type asks: the
/// kernel answers EPROTOTYPE if there is any, ECONNREFUSED if there is none (unix_find_bsd in
/// net/unix/af_unix.c). One of the same type would get ECONNREFUSED also from a server that has bound
/// its socket and is about to listen, and one that listens would have to accept it.
fn is_nobodys(path: &Path, name: &UnixAddr) -> bool {
    let is_socket = symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    is_socket
        && socket(AddressFamily::Unix, SockType::Datagram, flags, None)
            .is_ok_and(|probe| connect(probe.as_raw_fd(), name) == Err(Errno::ECONNREFUSED))
}

/// The right to remove what crashed servers left in a folder: flock(2) on it, which leaves nothing behind
/// and ends with the process. Advice only: None where the folder may not be read, its file system has no
/// locks, or another program keeps it locked. Then it goes on without.
struct FolderLock(OwnedFd);

impl FolderLock {
    fn take(folder: &Path) -> Option<FolderLock> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = uninterrupted(|| open(folder, flags, Mode::empty())).ok()?;
        for _ in 0..LOCK_TRIES {
            match uninterrupted(|| flock(&fd, libc::LOCK_EX | libc::LOCK_NB)) {
                Err(Error::AGAIN) => {}
                result => return result.ok().map(|()| FolderLock(fd)),
            }
            let _ = poll(&mut [], PollTimeout::from(1_u8));
        }
        None
    }
}

impl Drop for FolderLock {
    /// A child that another thread has forked meanwhile has the lock as well, until one of them says so.
    fn drop(&mut self) {
        let _ = flock(&self.0, libc::LOCK_UN);
    }
}

/// nix's needs a type that unlocks by closing the descriptor.
fn flock(fd: &OwnedFd, operation: i32) -> Result<()> {
    // SAFETY: takes numbers only.
    super::check(unsafe { libc::flock(fd.as_raw_fd(), operation) }).map(|_| ())
}

fn device_and_inode(path: &Path) -> Result<(u64, u64)> {
    let metadata = symlink_metadata(path).map_err(io_error)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn io_error(error: std::io::Error) -> Error {
    Error::errno(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork::NO_OTHER_FORK;
    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork};

    #[test]
    fn a_folder_is_free_again_though_a_child_was_forked_meanwhile() {
        let _alone = NO_OTHER_FORK.lock();
        let folder = std::env::temp_dir().join(format!("herd-folder-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let lock = FolderLock::take(&folder).unwrap();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let other = open(&folder, flags, Mode::empty()).unwrap();
        let try_lock = || flock(&other, libc::LOCK_EX | libc::LOCK_NB);
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
        let held = try_lock();
        drop(lock);
        let freed = try_lock();
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::kill(child.as_raw(), libc::SIGKILL) }, 0);
        waitpid(child, None).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!((held, freed), (Err(Error::AGAIN), Ok(())));
    }
}
