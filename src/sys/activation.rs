//! Descriptors that a service manager passed to this process: sd_listen_fds(3).

use super::error::{Error, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

/// SD_LISTEN_FDS_START of sd-daemon.h: the descriptors are this one and those that follow it.
const FIRST_FD: RawFd = 3;

/// What sd_listen_fds_with_names(3) calls a descriptor if no names were passed at all.
const NO_NAME: &str = "unknown";

/// The variables by which they are announced, as they are.
#[derive(Default)]
pub struct Announcement {
    pid: Option<OsString>,
    count: Option<OsString>,
    names: Option<OsString>,
}

/// A descriptor that was passed, and is open.
pub struct Passed {
    pub fd: RawFd,
    name: Vec<u8>,
}

impl Announcement {
    /// Reads the environment. To a program that runs with more rights than whoever started it, the
    /// latter has nothing to say: sd_listen_fds asks secure_getenv(3).
    pub fn read() -> Announcement {
        // SAFETY: no pointers.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return Announcement::default();
        }
        Announcement {
            pid: env::var_os("LISTEN_PID"),
            count: env::var_os("LISTEN_FDS"),
            names: env::var_os("LISTEN_FDNAMES"),
        }
    }

    /// The descriptors meant for the process `own_pid`. A child inherits the variables of its parent,
    /// so another process's are none, and no error.
    pub fn descriptors(&self, own_pid: u32) -> Result<Vec<Passed>> {
        let (Some(pid), Some(count)) = (&self.pid, &self.count) else { return Ok(Vec::new()) };
        if number(pid)? != own_pid {
            return Ok(Vec::new());
        }
        let count = number(count)?;
        let names: Option<Vec<&[u8]>> =
            self.names.as_ref().map(|names| names.as_bytes().split(|&byte| byte == b':').collect());
        let fits = names.as_ref().is_none_or(|names| names.len() == count as usize);
        if !fits || count > (RawFd::MAX - FIRST_FD) as u32 {
            return Err(Error::INVALID);
        }
        // One after the other up to the first that is not open: the count may be any number.
        let fds = FIRST_FD..FIRST_FD + count as RawFd;
        fds.enumerate()
            .map(|(index, fd)| {
                descriptor_flags(fd)?;
                let name = names.as_ref().map_or(NO_NAME.as_bytes(), |names| names[index]);
                Ok(Passed { fd, name: name.to_vec() })
            })
            .collect()
    }
}

impl Passed {
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name.as_bytes()
    }

    /// They have to be inheritable to arrive, and then it must end: sd_listen_fds does the same.
    pub fn close_on_exec(&self) -> Result<()> {
        let flags = descriptor_flags(self.fd)? | FdFlag::FD_CLOEXEC;
        fcntl(borrow(self.fd), FcntlArg::F_SETFD(flags))?;
        Ok(())
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let variables =
            [("PID", &self.pid), ("FDS", &self.count), ("FDNAMES", &self.names)].into_iter();
        let present = variables.filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (place, (name, value)) in present.enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}LISTEN_{name}={}", value.display())?;
        }
        Ok(())
    }
}

/// A positive decimal number and nothing else.
fn number(text: &OsString) -> Result<u32> {
    let digits = text.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).filter(|&number| number > 0).ok_or(Error::INVALID)
}

fn descriptor_flags(fd: RawFd) -> Result<FdFlag> {
    Ok(FdFlag::from_bits_retain(fcntl(borrow(fd), FcntlArg::F_GETFD)?))
}

fn borrow<'fd>(fd: RawFd) -> BorrowedFd<'fd> {
    // SAFETY: used for one call, in which the kernel answers EBADF if it is not open; never -1.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce(pid: Option<&str>, count: Option<&str>, names: Option<&str>) -> Announcement {
        Announcement {
            pid: pid.map(OsString::from),
            count: count.map(OsString::from),
            names: names.map(OsString::from),
        }
    }

    #[test]
    fn what_is_not_for_this_process_is_nothing() {
        for (pid, count) in
            [(None, None), (Some("7"), None), (None, Some("1")), (Some("8"), Some("nonsense"))]
        {
            assert!(announce(pid, count, None).descriptors(7).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_malformed_is_an_error() {
        for bad in
            ["", "0", "-1", "+1", " 1", "1 ", "1x", "0x1", "4294967296", "99999999999999999999"]
        {
            let error = announce(Some(bad), Some("1"), None).descriptors(7).err();
            assert_eq!(error, Some(Error::INVALID), "pid {bad:?}");
            let error = announce(Some("7"), Some(bad), None).descriptors(7).err();
            assert_eq!(error, Some(Error::INVALID), "count {bad:?}");
        }
        for (count, names) in [("1", "a:b"), ("2", "a"), ("3", "a:b:c:"), ("2147483647", "a")] {
            let error = announce(Some("7"), Some(count), Some(names)).descriptors(7).err();
            assert_eq!(error, Some(Error::INVALID), "{count} of {names}");
        }
        let error = announce(Some("7"), Some("2147483645"), None).descriptors(7).err();
        assert_eq!(error, Some(Error::INVALID));
    }

    #[test]
    fn messages_show_the_variables_as_they_are() {
        assert_eq!(announce(None, None, None).to_string(), "");
        let all = announce(Some("7"), Some(""), Some("a:b"));
        assert_eq!(all.to_string(), "LISTEN_PID=7 LISTEN_FDS= LISTEN_FDNAMES=a:b");
        assert_eq!(announce(None, Some("1"), None).to_string(), "LISTEN_FDS=1");
    }
}
