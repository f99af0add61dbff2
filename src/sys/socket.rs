//! Listening sockets: making, checking and accepting from them.

use super::address::Address;
use super::error::{Error, Result};
use super::socket_file::SocketFile;
use super::{check, uninterrupted};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::socket::sockopt::{AcceptConn, Ipv6V6Only, ReuseAddr, ReusePort};
use nix::sys::socket::{
    Backlog, SockFlag, SockType, SockaddrStorage, bind, getsockname, getsockopt, listen,
    setsockopt, socket,
};
use nix::sys::stat::{Mode, fchmod, fstat};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub struct ListenOptions {
    pub backlog: u32,
    pub dual_stack: bool,
    /// Permission bits of a Unix socket's file; None leaves them to the umask.
    pub unix_mode: Option<u32>,
}

/// A socket for `listen_on`, with the options that bind(2) looks at.
fn unbound(address: &Address, options: &ListenOptions) -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(address.family(), SockType::Stream, flags, None)?;
    if let Address::Inet(inet) = address {
        // A restart must not wait for the TIME_WAIT of the old connections (socket(7)). Linux still
        // refuses a second listener on the address.
        setsockopt(&fd, ReuseAddr, &true)?;
        if inet.is_ipv6() {
            setsockopt(&fd, Ipv6V6Only, &!options.dual_stack)?;
        }
    } else if let Some(mode) = options.unix_mode {
        // The file that bind(2) makes gets it, less the umask (unix_bind_bsd in net/unix/af_unix.c), so
        // that it is never open to more than it should be.
        fchmod(&fd, Mode::from_bits_truncate(mode))?;
    }
    Ok(fd)
}

/// Makes a listening socket, non-blocking and close-on-exec, and the file of a Unix socket.
pub fn listen_on(
    address: &Address,
    options: &ListenOptions,
) -> Result<(OwnedFd, Option<SocketFile>)> {
    let fd = unbound(address, options)?;
    let file = match address.unix_path() {
        Some(path) => Some(SocketFile::bind(&fd, path, options.unix_mode)?),
        None => {
            bind(fd.as_raw_fd(), &*address.to_socket_address()?)?;
            None
        }
    };
    start_listening(&fd, options.backlog).inspect_err(|_| {
        if let Some(file) = &file {
            file.remove();
        }
    })?;
    Ok((fd, file))
}

/// Has a bound socket listen. One that listens already gets the backlog.
pub fn start_listening(fd: &OwnedFd, backlog: u32) -> Result<()> {
    let backlog = backlog.min(i32::MAX as u32) as i32;
    // Above somaxconn nix refuses what the kernel would quietly lower.
    Ok(listen(fd, Backlog::new(backlog).unwrap_or(Backlog::MAXCONN))?)
}

/// Lets other sockets of this user be bound to the address of `first`, which listens there already.
/// Not before: of two servers that start at the same moment with SO_REUSEPORT, the second would
/// quietly get a part of the first one's connections, where it must learn that the address is in
/// use (inet_csk_bind_conflict looks at the flag when the other is bound).
pub fn open_group(first: &OwnedFd) -> Result<()> {
    Ok(setsockopt(first, ReusePort, &true)?)
}

/// Makes a socket that is bound to an address whose group is open. It joins the group, and gets
/// connections, when it listens (inet_reuseport_add_sock).
pub fn bind_into_group(address: &Address, options: &ListenOptions) -> Result<OwnedFd> {
    let fd = unbound(address, options)?;
    setsockopt(&fd, ReusePort, &true)?;
    bind(fd.as_raw_fd(), &*address.to_socket_address()?)?;
    Ok(fd)
}

/// Whether a socket listens.
pub fn listens(fd: &OwnedFd) -> Result<bool> {
    Ok(getsockopt(fd, AcceptConn)?)
}

/// What tells the open file from every other socket (sock_alloc in net/socket.c numbers them).
pub fn file_number(fd: &OwnedFd) -> Result<u64> {
    Ok(fstat(fd)?.st_ino)
}

/// A duplicate of a listener that the host made, checked to be one, non-blocking and close-on-exec.
pub fn adopt_listener(fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::errno(libc::EBADF));
    }
    // SAFETY: the host says that the descriptor is open; if it is not, the kernel answers EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if !getsockopt(&borrowed, AcceptConn)? {
        return Err(Error::INVALID);
    }
    let duplicate = fcntl(borrowed, FcntlArg::F_DUPFD_CLOEXEC(0))?;
    // SAFETY: a new descriptor that nobody else owns.
    let duplicate = unsafe { OwnedFd::from_raw_fd(duplicate) };
    let flags = OFlag::from_bits_retain(fcntl(&duplicate, FcntlArg::F_GETFL)?);
    // Shared with the host's own descriptor: the flag belongs to the open file (fcntl(2)).
    fcntl(&duplicate, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    fcntl(&duplicate, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(duplicate)
}

/// The address that a socket is bound to, such as the port the kernel chose for port 0.
pub fn bound_address(fd: &OwnedFd) -> Result<Option<Address>> {
    let name: SockaddrStorage = getsockname(fd.as_raw_fd())?;
    Ok(Address::from_socket_address(&name))
}

/// A connection taken from a listener's backlog.
pub struct Connection {
    pub fd: OwnedFd,
    pub peer: libc::sockaddr_storage,
    pub peer_length: u32,
}

/// Takes a connection, non-blocking and close-on-exec.
pub fn accept(listener: &OwnedFd) -> Result<Connection> {
    let mut peer = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut peer_length = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `peer` has `peer_length` bytes of room.
    let fd = check(unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            peer.as_mut_ptr().cast(),
            &mut peer_length,
            libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        )
    })?;
    // SAFETY: a new descriptor that nobody else owns; all-zero bytes are a valid sockaddr_storage.
    Ok(unsafe {
        Connection { fd: OwnedFd::from_raw_fd(fd), peer: peer.assume_init(), peer_length }
    })
}

/// Whether any of `listeners` has a connection waiting. Never blocks.
pub fn any_readable(mut listeners: impl Iterator<Item = RawFd>) -> Result<bool> {
    let mut room = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; POLLED_AT_ONCE];
    loop {
        let mut count = 0;
        for (polled, fd) in room.iter_mut().zip(&mut listeners) {
            polled.fd = fd;
            count += 1;
        }
        if count == 0 || is_any_ready(&mut room[..count])? {
            return Ok(count > 0);
        }
    }
}

/// Sockets that one call of poll(2) looks at: a turn allocates nothing.
const POLLED_AT_ONCE: usize = 64;

fn is_any_ready(polled: &mut [libc::pollfd]) -> Result<bool> {
    let count = polled.len() as libc::nfds_t;
    // With a signal pending it says EINTR even without waiting (do_poll in fs/select.c).
    // SAFETY: the pointer and the count are those of the slice.
    let ready = uninterrupted(|| check(unsafe { libc::poll(polled.as_mut_ptr(), count, 0) }))?;
    Ok(ready > 0)
}
