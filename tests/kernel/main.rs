//! What the kernel does, as far as the library rests on it (docs/protocol.md): probes of the kernel
//! alone, so that one that behaves otherwise is noticed. More probes stand beside the code that they
//! belong to: src/sys/{fork,guard_timer,record_lock,socket_file}.rs.

mod epoll;
mod reuseport;
mod unix;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;

/// Held while a child runs, and by a test that closes a last descriptor: every child has them all.
static NO_OTHER_FORK: Mutex<()> = Mutex::new(());

fn new_set() -> Epoll {
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
