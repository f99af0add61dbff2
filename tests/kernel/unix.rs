//! Unix sockets: passing descriptors (HERD_MODE_HANDOFF), and the file of a listening one.

use crate::NO_OTHER_FORK;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, bind, connect as connect_socket, listen, recvmsg, sendmsg, socket, socketpair,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Sending and receiving end.
fn packets() -> (OwnedFd, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap()
}

fn send(to: &OwnedFd, bytes: &[u8], fds: &[RawFd]) -> Result<(), Errno> {
    let control = [ControlMessage::ScmRights(fds)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(bytes)], &control, flags, None).map(|_| ())
}

/// Bytes, descriptors, and whether some of them are missing.
fn peek(from: &OwnedFd) -> Result<(usize, Vec<OwnedFd>, bool), Errno> {
    let mut room = [0; 256];
    let mut control = nix::cmsg_space!([RawFd; 16]);
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut parts = [IoSliceMut::new(&mut room)];
    let message = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let is_truncated = message.flags.contains(MsgFlags::MSG_CTRUNC);
    let mut fds = Vec::new();
    // nix keeps the messages of a truncated control to itself; the descriptors are there all the same.
    for control in message.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: new descriptors that nobody else owns.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok((message.bytes, fds, is_truncated))
}

fn drop_first(from: &OwnedFd) {
    let flags = MsgFlags::MSG_DONTWAIT;
    recvmsg::<()>(from.as_raw_fd(), &mut [], None, flags).unwrap();
}

fn queued_bytes(from: &OwnedFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the kernel writes one int.
    assert_eq!(unsafe { libc::ioctl(from.as_raw_fd(), libc::FIONREAD, &mut bytes) }, 0);
    bytes
}

/// Runs `body` in a child, which ends by _exit with its result.
fn in_child(body: impl FnOnce() -> bool) -> WaitStatus {
    let _alone = NO_OTHER_FORK.lock();
    // SAFETY: the child only makes system calls and small allocations, and ends with _exit or a signal.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
        ForkResult::Child => {
            let passed = body();
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(!passed)) }
        }
    }
}

fn passed(status: WaitStatus) -> bool {
    matches!(status, WaitStatus::Exited(_, 0))
}

#[test]
fn a_peek_installs_descriptors_of_its_own_and_leaves_the_message() {
    let (sender, receiver) = packets();
    let (mut from, to) = std::io::pipe().unwrap();
    send(&sender, b"abc", &[to.as_raw_fd(), to.as_raw_fd()]).unwrap();
    drop(to);
    let (bytes, fds, _) = peek(&receiver).unwrap();
    assert_eq!((bytes, fds.len(), queued_bytes(&receiver)), (3, 2, 3));
    let again = peek(&receiver).unwrap();
    assert_eq!((again.0, again.1.len()), (3, 2));
    drop(again);
    drop_first(&receiver);
    assert_eq!(peek(&receiver).unwrap_err(), Errno::EAGAIN);
    // The peeked ones live on, and are the last: when they go, the pipe ends.
    std::fs::File::from(fds.into_iter().next().unwrap()).write_all(b"x").unwrap();
    let mut read = Vec::new();
    from.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"x");
}

#[test]
fn messages_keep_their_borders_and_descriptors_and_their_bytes_are_summed() {
    let (sender, receiver) = packets();
    for count in [3, 1, 2] {
        let pipes: Vec<_> = (0..count).map(|_| std::io::pipe().unwrap()).collect();
        let fds: Vec<_> = pipes.iter().map(|(_, to)| to.as_raw_fd()).collect();
        send(&sender, &vec![count as u8; 10 * count], &fds).unwrap();
    }
    assert_eq!(queued_bytes(&receiver), 60);
    for count in [3, 1, 2] {
        let (bytes, fds, is_truncated) = peek(&receiver).unwrap();
        assert_eq!((bytes, fds.len(), is_truncated), (10 * count, count, false));
        drop_first(&receiver);
    }
    assert_eq!(queued_bytes(&receiver), 0);
}

#[test]
fn a_message_outlives_its_sender_and_a_reader_that_is_killed_before_it_takes_it() {
    let (sender, receiver) = packets();
    let (from, to) = std::io::pipe().unwrap();
    let sent = in_child(|| send(&sender, b"abc", &[to.as_raw_fd()]).is_ok());
    assert!(passed(sent));
    drop(to);
    let killed = in_child(|| {
        let _peeked = peek(&receiver).unwrap();
        // SAFETY: this child only.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) == 0 }
    });
    assert!(matches!(killed, WaitStatus::Signaled(..)));
    // Any process that has the end can read it.
    assert!(passed(in_child(|| peek(&receiver).is_ok_and(|(_, fds, _)| fds.len() == 1))));
    let (_, fds, _) = peek(&receiver).unwrap();
    drop_first(&receiver);
    std::fs::File::from(fds.into_iter().next().unwrap()).write_all(b"y").unwrap();
    let mut read = Vec::new();
    std::fs::File::from(OwnedFd::from(from)).read_to_end(&mut read).unwrap();
    assert_eq!(read, b"y");
}

#[test]
fn a_peek_without_enough_free_descriptors_says_so_and_leaves_the_message_whole() {
    let (sender, receiver) = packets();
    let (_from, to) = std::io::pipe().unwrap();
    let fd = to.as_raw_fd();
    send(&sender, b"abc", &[fd, fd, fd]).unwrap();
    let truncated = in_child(|| {
        let room = nix::unistd::dup(&to).unwrap();
        let lowest = room.as_raw_fd();
        drop(room);
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, lowest as u64 + 1, most).unwrap();
        // One is free below the limit.
        let few = peek(&receiver).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, lowest as u64, most).unwrap();
        let none = peek(&receiver).unwrap();
        few.2 && few.1.len() < 3 && none.2 && none.1.is_empty()
    });
    assert!(passed(truncated));
    let (_, fds, is_truncated) = peek(&receiver).unwrap();
    assert_eq!((fds.len(), is_truncated), (3, false));
}

#[test]
fn descriptors_on_their_way_are_limited_by_user_and_counted_until_their_message_is_taken() {
    if !nix::unistd::geteuid().is_root() {
        return; // it takes root to become somebody whose descriptors nobody else counts for
    }
    let user = nix::unistd::Uid::from_raw(100_000 + std::process::id());
    if !passed(in_child(|| nix::unistd::setuid(user).is_ok())) {
        return; // not in this user namespace
    }
    let (sender, receiver) = packets();
    let limited = in_child(|| {
        setrlimit(Resource::RLIMIT_NOFILE, 64, 64).unwrap();
        nix::unistd::setuid(user).unwrap();
        let fd = sender.as_raw_fd();
        let fits = (0..200).take_while(|_| send(&receiver, b"a", &[fd]).is_ok()).count();
        let full = send(&receiver, b"a", &[fd]);
        drop(peek(&sender));
        let still_full = send(&receiver, b"a", &[fd]);
        drop_first(&sender);
        let room = send(&receiver, b"a", &[fd]);
        (64..=66).contains(&fits)
            && full == Err(Errno::ETOOMANYREFS)
            && still_full == Err(Errno::ETOOMANYREFS)
            && room.is_ok()
    });
    assert!(passed(limited));
}

/// What tells the file of a dead server from that of one which is about to listen.
#[test]
fn a_unix_socket_of_another_type_is_told_whether_a_file_has_an_owner() {
    let _alone = NO_OTHER_FORK.lock();
    let path = std::env::temp_dir().join(format!("herd-kernel-{}.socket", std::process::id()));
    let name = UnixAddr::new(path.as_path()).unwrap();
    let make = |kind| socket(AddressFamily::Unix, kind, SockFlag::SOCK_NONBLOCK, None).unwrap();
    let ask = |kind| connect_socket(make(kind).as_raw_fd(), &name);
    let owner = make(SockType::Stream);
    bind(owner.as_raw_fd(), &name).unwrap();
    let bound = (ask(SockType::Stream), ask(SockType::Datagram));
    listen(&owner, Backlog::new(4).unwrap()).unwrap();
    let client = make(SockType::Stream);
    connect_socket(client.as_raw_fd(), &name).unwrap();
    let listens = ask(SockType::Datagram);
    // It has the owner's address too, and does not count.
    let accepted = nix::sys::socket::accept(&owner).unwrap();
    drop(owner);
    let is_gone = ask(SockType::Datagram);
    drop(accepted);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(bound, (Err(Errno::ECONNREFUSED), Err(Errno::EPROTOTYPE)));
    assert_eq!((listens, is_gone), (Err(Errno::EPROTOTYPE), Err(Errno::ECONNREFUSED)));
}
