//! Shared memory that cannot fail later: a memfd(2), sized, reserved and sealed, mapped shared.

use super::error::{Error, Result};
use super::{check, uninterrupted};
use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fchmod};
use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// Maps `bytes` of zeroed memory that children inherit. memmap2's own anonymous mapping is private,
/// hence the memfd. The seals keep every holder of the descriptor from shrinking it, which would make
/// a touch of it a SIGBUS.
///
/// Returns the file as well.
pub fn map_shared(name: &CStr, bytes: usize) -> Result<(MmapRaw, OwnedFd)> {
    let file = owners_memfd(name, MFdFlags::MFD_ALLOW_SEALING)?;
    reserve(&file, bytes)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok((map(&file, bytes)?, file))
}

/// Writes where a worker gone mad might. What lies beyond the end is left out.
#[cfg(any(test, feature = "fuzzing"))]
pub fn scribble(mapping: &MmapRaw, offset: usize, bytes: &[u8]) {
    for (at, byte) in (offset..mapping.len()).zip(bytes) {
        // SAFETY: inside the mapping, in which everything is made of atomics or an UnsafeCell.
        unsafe { mapping.as_mut_ptr().add(at).write_volatile(*byte) }
    }
}

/// A file that only its descriptor's holders know, to hold record locks on.
pub fn lock_file(name: &CStr) -> Result<OwnedFd> {
    owners_memfd(name, MFdFlags::empty())
}

/// The kernel makes it with all permission bits (shmem_get_inode in mm/shmem.c), which count for who opens
/// it anew, by /proc/PID/fd.
fn owners_memfd(name: &CStr, flags: MFdFlags) -> Result<OwnedFd> {
    let file = memfd_create(name, flags | MFdFlags::MFD_CLOEXEC)?;
    fchmod(&file, Mode::S_IRUSR | Mode::S_IWUSR)?;
    Ok(file)
}

/// Gives an empty file its size and its pages. Reserving them now makes a lack of memory an error
/// here, where ftruncate(2) alone would make it a SIGBUS at the first touch.
pub(super) fn reserve(file: &OwnedFd, bytes: usize) -> Result<()> {
    let length = i64::try_from(bytes).map_err(|_| Error::NO_MEMORY)?;
    // Above the limit the kernel would not answer with an error but with SIGXFSZ.
    if bytes as u64 > file_size_limit()? {
        return Err(Error::errno(libc::EFBIG));
    }
    // A pending signal ends it (shmem_fallocate in mm/shmem.c). A full memory file system answers ENOSPC.
    uninterrupted(|| fallocate(file, FallocateFlags::empty(), 0, length))
        .map_err(|error| if error == Error::errno(libc::ENOSPC) { Error::NO_MEMORY } else { error })
}

pub(super) fn map(file: &OwnedFd, bytes: usize) -> Result<MmapRaw> {
    let mapping = MmapOptions::new().len(bytes).map_raw(file);
    mapping.map_err(|error| error.raw_os_error().map_or(Error::NO_MEMORY, Error::errno))
}

fn file_size_limit() -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid during the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) })?;
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than a file can have: with less the kernel would begin to fill the machine's memory.
    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_no_sigbus() {
        assert_eq!(map_shared(c"herd-test", usize::MAX).err(), Some(Error::NO_MEMORY));
    }
}
