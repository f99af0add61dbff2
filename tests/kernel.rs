//! What the kernel does, as far as the library rests on it (docs/protocol.md): probes of the kernel
//! alone, so that one that behaves otherwise is noticed. More probes stand beside the code that they
//! belong to: src/sys/{fork,guard_timer,record_lock,socket_file}.rs.

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::sockopt::{ReuseAddr, ReusePort};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrIn, UnixAddr, bind, connect as connect_socket, listen, recvmsg, sendmsg, setsockopt,
    socket, socketpair,
};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

const LONG_MS: u16 = 5000;

/// Long enough for a wake-up that is going to come.
const QUIET: Duration = Duration::from_millis(100);

fn epoll() -> Epoll {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap()
}

fn add<Fd: AsFd>(set: &Epoll, fd: Fd, flags: EpollFlags) {
    set.add(fd, EpollEvent::new(flags, 0)).unwrap();
}

/// Number of events that come within `ms`.
fn wait(set: &Epoll, ms: u16) -> usize {
    set.wait(&mut [EpollEvent::empty(); 8], EpollTimeout::from(ms)).unwrap()
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn connect(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap()).unwrap()
}

const EXCLUSIVE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLEXCLUSIVE);

/// Threads that wait for the same descriptor, each in a set of its own, one after the other added.
struct Waiters {
    woken: Receiver<usize>,
    threads: Vec<thread::JoinHandle<()>>,
}

fn is_asleep(thread_id: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

fn until_asleep(thread_id: i32) {
    for _ in 0..5000 {
        if is_asleep(thread_id) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("a thread did not go to sleep");
}

/// Starts a thread for each set; each waits once and says when it was woken.
fn start(sets: Vec<Epoll>) -> Waiters {
    let (tell_woken, woken): (Sender<usize>, _) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let tell_woken = tell_woken.clone();
        let (tell_id, id) = mpsc::channel();
        threads.push(thread::spawn(move || {
            // SAFETY: no arguments.
            tell_id.send(unsafe { libc::gettid() }).unwrap();
            if wait(&set, LONG_MS) > 0 {
                tell_woken.send(number).unwrap();
            }
        }));
        until_asleep(id.recv().unwrap());
    }
    Waiters { woken, threads }
}

impl Waiters {
    fn next(&self) -> usize {
        self.woken.recv_timeout(Duration::from_millis(LONG_MS.into())).unwrap()
    }

    fn none_within_quiet(&self) -> bool {
        self.woken.recv_timeout(QUIET).is_err()
    }

    fn join(self) {
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn an_exclusive_wake_up_goes_to_the_first_waiter_in_the_order_of_adding() {
    let listener = listener();
    let sets: Vec<Epoll> = (0..3).map(|_| epoll()).collect();
    // Added in another order than they go to sleep in: the wait queue is the listener's.
    for number in [2, 0, 1] {
        add(&sets[number], &listener, EXCLUSIVE);
    }
    let waiters = start(sets);
    let mut clients = vec![connect(&listener)];
    assert_eq!(waiters.next(), 2);
    assert!(waiters.none_within_quiet());
    clients.push(connect(&listener));
    assert_eq!(waiters.next(), 0);
    clients.push(connect(&listener));
    assert_eq!(waiters.next(), 1);
    waiters.join();
}

#[test]
fn adding_anew_moves_to_the_end_and_a_set_that_nobody_waits_on_is_passed_over() {
    let listener = listener();
    let (moved, busy) = (epoll(), epoll());
    let others: Vec<Epoll> = (0..2).map(|_| epoll()).collect();
    add(&moved, &listener, EXCLUSIVE);
    add(&busy, &listener, EXCLUSIVE);
    others.iter().for_each(|set| add(set, &listener, EXCLUSIVE));
    moved.delete(&listener).unwrap();
    add(&moved, &listener, EXCLUSIVE);
    let waiters = start(others.into_iter().chain([moved]).collect());
    let clients: Vec<_> = (0..3)
        .map(|expected| {
            let client = connect(&listener);
            assert_eq!(waiters.next(), expected);
            client
        })
        .collect();
    waiters.join();
    drop((clients, busy));
}

/// A worker's own set, which nobody waits on, tells what the host's was woken for.
#[test]
fn a_set_that_is_passed_over_on_the_way_to_a_waiter_reports_the_same() {
    let listener = listener();
    let (own, host) = (epoll(), epoll());
    add(&own, &listener, EXCLUSIVE);
    add(&host, &listener, EXCLUSIVE);
    let waiters = start(vec![host]);
    let client = connect(&listener);
    assert_eq!(waiters.next(), 0);
    assert_eq!(wait(&own, 0), 1);
    waiters.join();
    drop(client);
}

#[test]
fn behind_sets_that_others_poll_every_exclusive_waiter_wakes() {
    let listener = listener();
    let inner: Vec<Epoll> = (0..3).map(|_| epoll()).collect();
    let outer: Vec<Epoll> = (0..3).map(|_| epoll()).collect();
    for (inner, outer) in inner.iter().zip(&outer) {
        add(inner, &listener, EXCLUSIVE);
        add(outer, &inner.0, EpollFlags::EPOLLIN);
    }
    let waiters = start(outer);
    let client = connect(&listener);
    let mut woken: Vec<usize> = (0..3).map(|_| waiters.next()).collect();
    woken.sort();
    assert_eq!(woken, [0, 1, 2]);
    waiters.join();
    drop((client, inner));
}

#[test]
fn without_the_flag_every_waiter_wakes() {
    let listener = listener();
    let sets: Vec<Epoll> = (0..3).map(|_| epoll()).collect();
    sets.iter().for_each(|set| add(set, &listener, EpollFlags::EPOLLIN));
    let waiters = start(sets);
    let client = connect(&listener);
    let mut woken: Vec<usize> = (0..3).map(|_| waiters.next()).collect();
    woken.sort();
    assert_eq!(woken, [0, 1, 2]);
    waiters.join();
    drop(client);
}

#[test]
fn a_wake_up_given_to_one_that_does_not_accept_is_lost_until_another_adds_anew() {
    let listener = listener();
    let (declining, idle) = (epoll(), epoll());
    add(&declining, &listener, EXCLUSIVE);
    add(&idle, &listener, EXCLUSIVE);
    let waiters = start(vec![declining]);
    let client = connect(&listener);
    assert_eq!(waiters.next(), 0);
    waiters.join();
    assert_eq!(wait(&idle, 0), 0);
    idle.delete(&listener).unwrap();
    add(&idle, &listener, EXCLUSIVE);
    assert_eq!(wait(&idle, 0), 1);
    drop(client);
}

#[test]
fn the_exclusive_flag_goes_with_add_only() {
    let listener = listener();
    let set = epoll();
    add(&set, &listener, EXCLUSIVE);
    let change = |flags| set.modify(&listener, &mut EpollEvent::new(flags, 0));
    assert_eq!(change(EXCLUSIVE), Err(Errno::EINVAL));
    assert_eq!(change(EpollFlags::EPOLLIN), Err(Errno::EINVAL));
    let refused = EXCLUSIVE | EpollFlags::EPOLLRDHUP;
    assert_eq!(epoll().add(&listener, EpollEvent::new(refused, 0)), Err(Errno::EINVAL));
    // Nor can the inside of a nested set be exclusive from the outside.
    assert_eq!(epoll().add(&set.0, EpollEvent::new(EXCLUSIVE, 0)), Err(Errno::EINVAL));
}

#[test]
fn a_tick_of_a_shared_timer_wakes_one_exclusive_waiter() {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).unwrap();
    let sets: Vec<Epoll> = (0..3).map(|_| epoll()).collect();
    sets.iter().for_each(|set| add(set, timer.as_fd(), EXCLUSIVE));
    let waiters = start(sets);
    let soon = TimeSpec::from_duration(Duration::from_millis(1));
    timer.set(Expiration::OneShot(soon), TimerSetTimeFlags::empty()).unwrap();
    assert_eq!(waiters.next(), 0);
    assert!(waiters.none_within_quiet());
    for expected in [1, 2] {
        timer.set(Expiration::OneShot(soon), TimerSetTimeFlags::empty()).unwrap();
        assert_eq!(waiters.next(), expected);
    }
    waiters.join();
}

#[test]
fn every_ring_of_an_edge_triggered_bell_is_an_event_without_reading() {
    let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
    let set = epoll();
    add(&set, &bell, EpollFlags::EPOLLIN | EpollFlags::EPOLLET);
    for _ in 0..3 {
        assert_eq!(wait(&set, 0), 0);
        bell.write(1).unwrap();
        assert_eq!(wait(&set, 0), 1);
    }
}

#[test]
fn a_set_inside_a_set_is_level_triggered_and_switched_by_one_call() {
    let listeners = [listener(), listener()];
    let all = epoll();
    listeners.iter().for_each(|listener| add(&all, listener, EpollFlags::EPOLLIN));
    let outer = epoll();
    let client = connect(&listeners[1]);
    add(&outer, &all.0, EpollFlags::EPOLLIN);
    assert_eq!((wait(&outer, 0), wait(&outer, 0)), (1, 1));
    outer.delete(&all.0).unwrap();
    assert_eq!(wait(&outer, 0), 0);
    add(&outer, &all.0, EpollFlags::EPOLLIN);
    assert_eq!(wait(&outer, 0), 1);
    listeners[1].accept().unwrap();
    assert_eq!(wait(&outer, 0), 0);
    drop(client);
}

// --- SO_REUSEPORT ---

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

#[test]
fn a_group_can_be_opened_after_listening_and_a_second_server_is_still_refused() {
    let first = listener();
    assert_eq!(bind_beside(&first, true).err(), Some(Errno::EADDRINUSE));
    setsockopt(&first, ReusePort, &true).unwrap();
    let second = join(&first);
    // What a second start of the same server does first.
    assert_eq!(bind_beside(&first, false).err(), Some(Errno::EADDRINUSE));
    let clients: Vec<_> = (0..64).map(|_| connect(&first)).collect();
    let (at_first, at_second) = (accept_all(&first), accept_all(&second));
    assert!(at_first > 0 && at_second > 0 && at_first + at_second == clients.len());
}

#[test]
fn a_member_gets_connections_from_when_it_listens_on() {
    let first = listener();
    setsockopt(&first, ReusePort, &true).unwrap();
    let bound = bind_beside(&first, true).unwrap();
    let clients: Vec<_> = (0..64).map(|_| connect(&first)).collect();
    assert_eq!(accept_all(&first), clients.len());
    // Watched before, it would be reported as hung up.
    let set = epoll();
    add(&set, &bound, EpollFlags::EPOLLIN);
    assert_eq!(wait(&set, 0), 1);
    listen(&bound, Backlog::new(64).unwrap()).unwrap();
    assert_eq!(wait(&set, 0), 0);
}

#[test]
fn a_members_queue_is_reset_only_when_its_last_descriptor_is_closed() {
    let first = listener();
    setsockopt(&first, ReusePort, &true).unwrap();
    let (second, kept) = (join(&first), join(&first));
    let mut clients: Vec<_> = (0..96).map(|_| connect(&first)).collect();
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

// --- passing descriptors (HERD_MODE_HANDOFF) ---

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
    let (sender, receiver) = packets();
    let limited = in_child(|| {
        setrlimit(Resource::RLIMIT_NOFILE, 64, 64).unwrap();
        let user = nix::unistd::Uid::from_raw(54322);
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
