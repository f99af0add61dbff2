//! Structs that start with their own size, so that a program built against an older or a newer
//! header and this library understand each other.

use crate::sys::{Error, Result};
use std::mem::{align_of, size_of};
use std::{ptr, slice};

/// No struct of this API has ever been as large: such a size is garbage.
const SIZE_LIMIT: usize = 4096;

/// A public struct whose first member is `size: u32`, made of plain numbers and pointers, for
/// which any bytes are a value.
///
/// # Safety
/// The implementing struct is as described.
pub unsafe trait Sized32: Copy {}

// SAFETY: plain C structs that start with `size`.
unsafe impl Sized32 for crate::abi::herd_config {}
// SAFETY: as above.
unsafe impl Sized32 for crate::abi::herd_listen_options {}
// SAFETY: as above.
unsafe impl Sized32 for crate::abi::herd_accepted {}
// SAFETY: as above.
unsafe impl Sized32 for crate::abi::herd_stats {}
// SAFETY: as above.
unsafe impl Sized32 for crate::abi::herd_histogram {}

/// The size that the host's struct says it has.
fn size_of_hosts<T: Sized32>(hosts: *const T) -> Result<usize> {
    if hosts.is_null() {
        return Err(Error::INVALID);
    }
    // SAFETY: every version of the struct has its `size`.
    let size = unsafe { hosts.cast::<u32>().read() } as usize;
    check_size::<T>(size)
}

fn check_size<T: Sized32>(size: usize) -> Result<usize> {
    let possible = (8..=SIZE_LIMIT).contains(&size) && size.is_multiple_of(align_of::<T>());
    if possible { Ok(size) } else { Err(Error::ABI) }
}

/// Reads the host's struct. An older, smaller one gets `defaults` for what it lacks; a newer,
/// larger one is refused if it asks for something that this library does not know.
pub fn read<T: Sized32>(hosts: *const T, defaults: T) -> Result<T> {
    let size = size_of_hosts(hosts)?;
    let known = size.min(size_of::<T>());
    // SAFETY: the host's struct has `size` bytes.
    let unknown = unsafe { slice::from_raw_parts(hosts.cast::<u8>().add(known), size - known) };
    if unknown.iter().any(|&byte| byte != 0) {
        return Err(Error::errno(libc::E2BIG));
    }
    let mut value = defaults;
    // SAFETY: `known` bytes are readable there and writable here; any bytes are a value.
    unsafe { ptr::copy_nonoverlapping(hosts.cast::<u8>(), (&raw mut value).cast(), known) };
    Ok(value)
}

/// Checks an output struct before the work whose result goes there.
pub fn check_output<T: Sized32>(hosts: *mut T) -> Result<()> {
    size_of_hosts(hosts).map(|_| ())
}

/// Fills what the host's struct has room for; the rest of a larger one with zeros. `size` stays.
pub fn write<T: Sized32>(hosts: *mut T, value: T) -> Result<()> {
    let size = size_of_hosts(hosts)?;
    fill(hosts, value, size);
    Ok(())
}

/// The initialiser functions: like `write`, into memory of `size` bytes of any content.
pub fn init<T: Sized32>(hosts: *mut T, value: T, size: usize) -> Result<()> {
    if hosts.is_null() {
        return Err(Error::INVALID);
    }
    let size = check_size::<T>(size)?;
    fill(hosts, value, size);
    Ok(())
}

fn fill<T: Sized32>(hosts: *mut T, value: T, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: the host's memory has `size` bytes, of which the first four are its own size.
    unsafe {
        let bytes = hosts.cast::<u8>();
        ptr::copy_nonoverlapping((&raw const value).cast(), bytes, known);
        ptr::write_bytes(bytes.add(known), 0, size - known);
        hosts.cast::<u32>().write(size as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::herd_stats;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Newer {
        stats: herd_stats,
        added: u64,
    }

    fn stats(size: usize) -> herd_stats {
        herd_stats { size: size as u32, turns: 7, accepted: 1, ..Default::default() }
    }

    #[test]
    fn a_smaller_struct_gets_defaults_and_is_not_written_past_its_end() {
        let smaller = std::mem::offset_of!(herd_stats, closed);
        let defaults = herd_stats { closed: 9, turns: 9, ..Default::default() };
        let read = read(&stats(smaller), defaults).unwrap();
        assert_eq!((read.accepted, read.closed, read.turns), (1, 9, 9));
        let mut hosts = stats(smaller);
        write(&mut hosts, herd_stats { accepted: 5, turns: 5, ..Default::default() }).unwrap();
        assert_eq!((hosts.size as usize, hosts.accepted, hosts.turns), (smaller, 5, 7));
    }

    #[test]
    fn a_larger_struct_is_taken_if_it_asks_for_nothing_unknown() {
        let mut newer = Newer { stats: stats(size_of::<Newer>()), added: 0 };
        let hosts = (&raw mut newer).cast::<herd_stats>();
        assert_eq!(read(hosts, Default::default()).unwrap().turns, 7);
        newer.added = 1;
        assert_eq!(read(hosts, Default::default()).map(|_| ()), Err(Error::errno(libc::E2BIG)));
        write(hosts, herd_stats::default()).unwrap();
        assert_eq!((newer.added, newer.stats.size as usize), (0, size_of::<Newer>()));
    }

    #[test]
    fn garbage_sizes_are_refused() {
        for size in [0, 1, 4, 9, 4104, u32::MAX as usize] {
            assert_eq!(read(&stats(size), Default::default()).map(|_| ()), Err(Error::ABI));
        }
        assert_eq!(
            read(ptr::null::<herd_stats>(), Default::default()).map(|_| ()),
            Err(Error::INVALID)
        );
    }
}
