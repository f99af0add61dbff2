//! Passing descriptors between processes: a pair of sequenced-packet sockets (unix(7), SCM_RIGHTS),
//! whose ends all processes of a herd keep open. A message that its receiver did not live to read
//! stays in the kernel, and any other process can read it.

use super::check;
use super::error::{Error, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::SockType;
use nix::sys::socket::{AddressFamily, SockFlag, SockType as Kind, getsockopt, socketpair};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Descriptors in one message, at most. The kernel's own limit is 253 (SCM_MAX_FD).
pub const MESSAGE_FDS_MAX: usize = 16;

/// The descriptors of one message. They are closed with it.
#[derive(Default)]
pub struct Fds {
    fds: [Option<OwnedFd>; MESSAGE_FDS_MAX],
    count: usize,
}

impl Fds {
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn take(&mut self, index: usize) -> Option<OwnedFd> {
        self.fds[index].take()
    }

    fn push(&mut self, fd: OwnedFd) {
        self.fds[self.count] = Some(fd);
        self.count += 1;
    }
}

/// What is first in the queue.
pub enum First {
    Nothing,
    /// Some of its descriptors could not be had: this process has too few free. It stays in the
    /// queue, whole, for somebody who has.
    Truncated,
    Message {
        bytes: usize,
        fds: Fds,
    },
}

pub struct Transfer {
    sender: OwnedFd,
    receiver: OwnedFd,
}

/// Room for the control message, aligned as a cmsghdr.
#[repr(C, align(8))]
struct Control([u8; 128]);

impl Transfer {
    pub fn new() -> Result<Transfer> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (sender, receiver) = socketpair(AddressFamily::Unix, Kind::SeqPacket, None, flags)?;
        Ok(Transfer { sender, receiver })
    }

    pub fn receiver_fd(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }

    /// Sends one message, whole or not at all. Never blocks. EAGAIN: the socket is full;
    /// ETOOMANYREFS: this user has more descriptors on their way than RLIMIT_NOFILE (unix(7)).
    pub fn send(&self, parts: &[&[u8]], fds: &[RawFd]) -> Result<()> {
        assert!(!fds.is_empty() && fds.len() <= MESSAGE_FDS_MAX && parts.len() <= MESSAGE_FDS_MAX);
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MESSAGE_FDS_MAX];
        for (vector, part) in vectors.iter_mut().zip(parts) {
            *vector =
                libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        }
        let mut control = Control([0; 128]);
        let fds_bytes = mem::size_of_val(fds) as u32;
        // SAFETY: all-zero bytes are a valid msghdr; `control` has room for the message, as the
        // assertion below says, and all that is pointed to lives until the call returns.
        let result = unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = vectors.as_mut_ptr();
            message.msg_iovlen = parts.len() as _;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(fds_bytes) as _;
            assert!(libc::CMSG_SPACE(fds_bytes) as usize <= control.0.len());
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(fds_bytes) as _;
            let data = libc::CMSG_DATA(header);
            ptr::copy_nonoverlapping(fds.as_ptr().cast(), data, fds_bytes as usize);
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(self.sender.as_raw_fd(), &message, flags)
        };
        if result < 0 { Err(Error::last()) } else { Ok(()) }
    }

    /// Copies the first message into `room` and duplicates its descriptors, close-on-exec, without
    /// taking it out of the queue: a peek installs descriptors of its own (scm_fp_dup in
    /// net/core/scm.c). Never blocks.
    pub fn peek(&self, room: &mut [u8]) -> Result<First> {
        let mut vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut control = Control([0; 128]);
        let mut fds = Fds::default();
        // SAFETY: all-zero bytes are a valid msghdr; the kernel fills the vector and the control
        // message within the given lengths, and the descriptors in it are new and nobody else's.
        let (result, flags) = unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen =
                libc::CMSG_SPACE((MESSAGE_FDS_MAX * mem::size_of::<RawFd>()) as u32) as _;
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            let result = libc::recvmsg(self.receiver.as_raw_fd(), &mut message, flags);
            let header = libc::CMSG_FIRSTHDR(&message);
            if result >= 0 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let first = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / mem::size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
                }
            }
            (result, message.msg_flags)
        };
        if result < 0 {
            let error = Error::last();
            return if error == Error::AGAIN { Ok(First::Nothing) } else { Err(error) };
        }
        if flags & libc::MSG_CTRUNC != 0 {
            return Ok(First::Truncated);
        }
        Ok(First::Message { bytes: result as usize, fds })
    }

    /// Takes the first message out of the queue and drops it. Without room for them the kernel drops
    /// its own references to the descriptors (scm_destroy).
    pub fn drop_first(&self) -> Result<()> {
        let (fd, flags) = (self.receiver.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no room, so nothing is written.
        if unsafe { libc::recv(fd, ptr::null_mut(), 0, flags) } < 0 {
            return Err(Error::last());
        }
        Ok(())
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

pub fn set_nonblocking(fd: impl AsFd) -> Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
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

    /// The value at the start of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: there are enough bytes, and any are a value.
        (bytes.len() >= mem::size_of::<Self>())
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
