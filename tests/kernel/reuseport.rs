//! Groups of listening sockets (SO_REUSEPORT).

use crate::{NO_OTHER_FORK, add, connect, listener, new_set, wait};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::sockopt::{ReuseAddr, ReusePort};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket,
};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A socket bound to the address of `first`.
fn bind_beside(first: &TcpListener, reuse_port: bool) -> Result<OwnedFd, Errno> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)?;
    setsockopt(&fd, ReuseAddr, &true)?;
    setsockopt(&fd, ReusePort, &reuse_port)?;
    let SocketAddr::V4(address) = first.local_addr().unwrap() else { panic!("not IPv4") };
    bind(fd.as_raw_fd(), &SockaddrIn::from(address))?;
    Ok(fd)
}

fn join(first: &TcpListener) -> TcpListener {
    let fd = bind_beside(first, true).unwrap();
    listen(&fd, Backlog::new(64).unwrap()).unwrap();
    TcpListener::from(fd)
}

fn accept_all(listener: &TcpListener) -> usize {
    std::iter::from_fn(|| listener.accept().ok()).count()
}

/// Connections that wait at a listening socket.
fn waiting(listener: &TcpListener) -> usize {
    // SAFETY: zeroes are a tcp_info, and the kernel writes at most as many bytes as it is told.
    let (code, info) = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of_val(&info) as libc::socklen_t;
        let (fd, to) = (listener.as_raw_fd(), (&raw mut info).cast());
        (libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length), info)
    };
    assert_eq!(code, 0);
    info.tcpi_unacked as usize
}

/// `count` clients. When connect(2) returns, the last packet of a client may still be on its way.
fn connect_many(group: &[&TcpListener], count: usize) -> Vec<TcpStream> {
    let clients: Vec<_> = (0..count).map(|_| connect(group[0])).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    while group.iter().map(|member| waiting(member)).sum::<usize>() < count {
        assert!(Instant::now() < deadline, "not all clients wait at the group");
        std::thread::sleep(Duration::from_millis(1));
    }
    clients
}

#[test]
fn a_group_can_be_opened_after_listening_and_a_second_server_is_still_refused() {
    let first = listener();
    assert_eq!(bind_beside(&first, true).err(), Some(Errno::EADDRINUSE));
    setsockopt(&first, ReusePort, &true).unwrap();
    let second = join(&first);
    // What a second start of the same server does first.
    assert_eq!(bind_beside(&first, false).err(), Some(Errno::EADDRINUSE));
    let clients = connect_many(&[&first, &second], 64);
    let (at_first, at_second) = (accept_all(&first), accept_all(&second));
    assert!(at_first > 0 && at_second > 0 && at_first + at_second == clients.len());
}

#[test]
fn a_member_gets_connections_from_when_it_listens_on() {
    let first = listener();
    setsockopt(&first, ReusePort, &true).unwrap();
    let bound = bind_beside(&first, true).unwrap();
    let clients = connect_many(&[&first], 64);
    assert_eq!(accept_all(&first), clients.len());
    // Watched before, it would be reported as hung up.
    let set = new_set();
    add(&set, &bound, EpollFlags::EPOLLIN);
    assert_eq!(wait(&set, 0), 1);
    listen(&bound, Backlog::new(64).unwrap()).unwrap();
    assert_eq!(wait(&set, 0), 0);
}

#[test]
fn a_members_queue_is_reset_only_when_its_last_descriptor_is_closed() {
    let _alone = NO_OTHER_FORK.lock();
    let first = listener();
    setsockopt(&first, ReusePort, &true).unwrap();
    let (second, kept) = (join(&first), join(&first));
    let mut clients = connect_many(&[&first, &second, &kept], 96);
    let keeper = kept.try_clone().unwrap();
    drop((second, kept));
    let at_kept = accept_all(&keeper);
    let at_first = accept_all(&first);
    assert!(at_kept > 0 && at_first > 0);
    // The accepted ones are closed again, which is an end of file, or a reset if they were not.
    let was_reset = |client: &mut TcpStream| {
        let read = client.read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    };
    let resets = clients.iter_mut().map(was_reset).filter(|&reset| reset).count();
    assert!(resets > 0);
    assert_eq!(resets + at_kept + at_first, clients.len());
}
