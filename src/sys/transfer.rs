//! Passing descriptors between processes: a pair of sequenced-packet sockets (unix(7), SCM_RIGHTS),
//! whose ends all processes of a herd keep open. A message that its receiver did not live to read
//! stays in the kernel, and any other process can read it.

use super::error::{Error, Result};
use super::{check, uninterrupted};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::SockType;
use nix::sys::socket::{AddressFamily, SockFlag, SockType as Kind, getsockopt, socketpair};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Messages that one call sends, at most.
pub const SENT_AT_ONCE_MAX: usize = 16;

/// Room for the control message with one descriptor.
// SAFETY: it only computes.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(mem::size_of::<RawFd>() as u32) } as usize;

/// The same without the padding behind it, in which the kernel would put a second descriptor
/// (scm_max_fds in net/core/scm.c), if somebody sends two.
// SAFETY: it only computes.
const ONE_DESCRIPTOR: usize = unsafe { libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) } as usize;

/// A descriptor of the sending process, for who has set SO_PASSPIDFD at the socket (linux/socket.h).
const SCM_PIDFD: libc::c_int = 4;

/// What is first in the queue.
pub enum First {
    Nothing,
    /// Its descriptor could not be had: this process has none free. It stays in the queue, for
    /// somebody who has.
    Truncated,
    /// Nothing that `send` has sent: no descriptor, or several. Or the socket was shut down.
    Foreign,
    Message {
        bytes: usize,
        fd: OwnedFd,
    },
}

pub struct Transfer {
    sender: OwnedFd,
    receiver: OwnedFd,
}

/// Aligned as a cmsghdr.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

impl Transfer {
    pub fn new() -> Result<Transfer> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (sender, receiver) = socketpair(AddressFamily::Unix, Kind::SeqPacket, None, flags)?;
        Ok(Transfer { sender, receiver })
    }

    /// For who sends what `send` would not.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn sender_fd(&self) -> RawFd {
        self.sender.as_raw_fd()
    }

    pub fn receiver_fd(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    /// Sends one message for each descriptor, with one call. Never blocks. Returns how many were sent,
    /// the first ones, or why not even the first: EAGAIN: the socket is full; ETOOMANYREFS: this user
    /// has more descriptors on their way than RLIMIT_NOFILE (unix(7)).
    pub fn send(&self, parts: &[&[u8]], fds: &[RawFd]) -> Result<usize> {
        assert!(!fds.is_empty() && fds.len() <= SENT_AT_ONCE_MAX && parts.len() == fds.len());
        let mut controls = [Control([0; CONTROL_BYTES]); SENT_AT_ONCE_MAX];
        let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut vectors = [empty; SENT_AT_ONCE_MAX];
        // SAFETY: all-zero bytes are valid headers; `controls` has room for the descriptors, and all
        // that is pointed to lives, and stays in its place, until the call returns.
        let result = unsafe {
            let mut messages: [libc::mmsghdr; SENT_AT_ONCE_MAX] = mem::zeroed();
            for index in 0..fds.len() {
                let message = &mut messages[index].msg_hdr;
                let part = parts[index];
                vectors[index].iov_base = part.as_ptr().cast_mut().cast();
                vectors[index].iov_len = part.len();
                message.msg_iov = &raw mut vectors[index];
                message.msg_iovlen = 1;
                message.msg_control = (&raw mut controls[index]).cast();
                message.msg_controllen = CONTROL_BYTES as _;
                let header = libc::CMSG_FIRSTHDR(message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fds[index]);
            }
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            let (sender, count) = (self.sender.as_raw_fd(), fds.len() as u32);
            uninterrupted(|| {
                check(libc::sendmmsg(sender, messages.as_mut_ptr(), count, flags as _))
            })
        };
        Ok(result? as usize)
    }

    /// Copies the first message into `room` and duplicates its descriptor, close-on-exec, without
    /// taking it out of the queue: a peek installs one of its own (scm_fp_dup in
    /// net/core/scm.c). Never blocks.
    pub fn peek(&self, room: &mut [u8]) -> Result<First> {
        let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: all-zero bytes are a valid msghdr; the kernel fills the vector and the control
        // message within the given lengths, and the descriptor in it is new and nobody else's.
        let (result, fd, is_cut) = unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = ONE_DESCRIPTOR as _;
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            let receiver = self.receiver.as_raw_fd();
            let result =
                uninterrupted(|| check(libc::recvmsg(receiver, &mut message, flags) as i32));
            let header = libc::CMSG_FIRSTHDR(&message);
            // Whatever was sent: what has arrived as a descriptor is ours, to use or to close.
            let has_fd = result.is_ok()
                && !header.is_null()
                && (*header).cmsg_level == libc::SOL_SOCKET
                && [libc::SCM_RIGHTS, SCM_PIDFD].contains(&(*header).cmsg_type)
                && (*header).cmsg_len as usize == ONE_DESCRIPTOR;
            let fd = has_fd.then(|| {
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                let fd = OwnedFd::from_raw_fd(data.read_unaligned());
                (fd, (*header).cmsg_type == libc::SCM_RIGHTS)
            });
            (result, fd, message.msg_flags & libc::MSG_CTRUNC != 0)
        };
        match result {
            Ok(bytes) => Ok(match fd {
                Some((fd, true)) if !is_cut => First::Message { bytes: bytes as usize, fd },
                None if is_cut => First::Truncated,
                _ => First::Foreign,
            }),
            Err(Error::AGAIN) => Ok(First::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Takes the first message out of the queue and drops it. Without room for them the kernel drops
    /// its own reference to the descriptor (scm_destroy). False: there is none any more.
    pub fn drop_first(&self) -> Result<bool> {
        let (fd, flags) = (self.receiver.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no room, so nothing is written.
        match uninterrupted(|| check(unsafe { libc::recv(fd, ptr::null_mut(), 0, flags) } as i32)) {
            Ok(_) => Ok(true),
            Err(Error::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Bytes in the queue, of all messages: a sequenced-packet socket has their sum (unix_inq_len in
    /// net/unix/af_unix.c).
    pub fn queued_bytes(&self) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: the kernel writes one int.
        check(unsafe { libc::ioctl(self.receiver.as_raw_fd(), libc::FIONREAD, &mut bytes) })?;
        Ok(bytes as usize)
    }
}

/// The host's descriptor of a connection that is to be sent. EBADF, ENOTSOCK.
pub fn check_socket(fd: &RawFd) -> Result<BorrowedFd<'_>> {
    if *fd < 0 {
        return Err(Error::errno(libc::EBADF));
    }
    // SAFETY: the host says that the descriptor is open; if it is not, the kernel answers EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(*fd) };
    getsockopt(&borrowed, SockType)?;
    Ok(borrowed)
}

/// Takes the host's descriptor, to be closed.
pub fn take_fd(fd: RawFd) -> OwnedFd {
    // SAFETY: checked to be open, and the host gives it away.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The address of a socket's peer, and its length; 0 if it has none.
pub fn peer_of(socket: BorrowedFd) -> (libc::sockaddr_storage, u32) {
    let mut peer = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut length = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `peer` has `length` bytes of room; all-zero bytes are a valid sockaddr_storage.
    unsafe {
        let result = libc::getpeername(socket.as_raw_fd(), peer.as_mut_ptr().cast(), &mut length);
        (peer.assume_init(), if result < 0 { 0 } else { length })
    }
}

/// False: of a descriptor that can do nothing (O_PATH in open(2)).
pub fn set_nonblocking(fd: impl AsFd) -> Result<bool> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_PATH) {
        return Ok(false);
    }
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(true)
}

/// The bytes of a value that is passed between processes of one program.
///
/// # Safety
/// The implementing type has no padding, no pointers, and any bytes are a value.
pub unsafe trait Plain: Copy {
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: no padding, so all bytes are initialised.
        unsafe { std::slice::from_raw_parts(ptr::from_ref(self).cast(), mem::size_of::<Self>()) }
    }

    /// The value that `bytes` are.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: there are enough bytes, and any are a value.
        (bytes.len() == mem::size_of::<Self>())
            .then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

/// What goes with one connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Label {
    pub listener: u32,
    pub peer_length: u32,
    pub tag_bytes: u32,
    /// 1: this worker was named, and is not only the one that could take it best.
    pub is_named: u32,
    pub peer: [u8; mem::size_of::<libc::sockaddr_storage>()],
    pub tag: [u8; crate::abi::HERD_TAG_BYTES_MAX as usize],
}

impl Label {
    pub const EMPTY: Label = Label {
        listener: 0,
        peer_length: 0,
        tag_bytes: 0,
        is_named: 0,
        peer: [0; mem::size_of::<libc::sockaddr_storage>()],
        tag: [0; crate::abi::HERD_TAG_BYTES_MAX as usize],
    };
}

// SAFETY: integers only, without gaps between them: 16 bytes, then bytes.
unsafe impl Plain for Label {}

/// A peer's address as bytes, and back.
pub fn peer_bytes(peer: &libc::sockaddr_storage) -> [u8; mem::size_of::<libc::sockaddr_storage>()] {
    // SAFETY: the same size; made by zeroing, so its padding is initialised too.
    unsafe { mem::transmute(*peer) }
}

pub fn peer_from_bytes(
    bytes: [u8; mem::size_of::<libc::sockaddr_storage>()],
) -> libc::sockaddr_storage {
    // SAFETY: the same size, and any bytes are a sockaddr_storage.
    unsafe { mem::transmute(bytes) }
}
