//! A listening socket of the herd, and what the host wants done with its connections.

use super::acceptor::Accepted;
use super::handoff::Origin;
use crate::abi::{herd_accept_fn, herd_handoff_fn, herd_worker};
use crate::shm::Steering;
use crate::sys::Result;
use crate::sys::address::Address;
use crate::sys::fork::ForkToken;
use crate::sys::host::HostPointer;
use crate::sys::socket::{self, ListenOptions};
use crate::sys::socket_file::SocketFile;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

/// What to do with an accepted connection.
#[derive(Clone, Copy)]
pub struct Acceptance {
    /// None: the host takes connections with `herd_accept`.
    pub callback: herd_accept_fn,
    /// For one that came by `herd_handoff_send`, in place of `callback`.
    pub of_sent: herd_handoff_fn,
    pub data: HostPointer,
}

/// How the host gets connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By the accept callback.
    Push,
    /// By calling `herd_accept`.
    Pull,
}

impl Acceptance {
    pub fn of_listener(callback: herd_accept_fn, data: HostPointer) -> Acceptance {
        Acceptance { callback, of_sent: None, data }
    }

    pub fn of_sent(of_sent: herd_handoff_fn, data: HostPointer) -> Acceptance {
        Acceptance { callback: None, of_sent, data }
    }

    pub fn delivery(&self) -> Delivery {
        if self.callback.is_some() || self.of_sent.is_some() {
            Delivery::Push
        } else {
            Delivery::Pull
        }
    }
}

/// How the members of a listener are made.
pub struct Group<'a> {
    /// Sockets of a listener: one, or one for each slot.
    pub size: usize,
    /// What sends connections to them, if not the kernel's hash.
    pub steering: Option<&'a Steering>,
}

pub struct Listener {
    /// The first is slot 0's. Where each slot has one, it is kept open in every process of the herd:
    /// the kernel resets what waits at a member when its last descriptor is closed.
    members: Vec<OwnedFd>,
    /// The file numbers of these.
    files: Vec<u64>,
    backlog: u32,
    /// As text for messages: where it listens.
    pub name: String,
    pub acceptance: Acceptance,
    /// A Unix socket's file that this process made and removes.
    file: Option<(SocketFile, ForkToken)>,
}

impl Listener {
    pub fn listen(
        address: &Address,
        options: &ListenOptions,
        acceptance: Acceptance,
        group: &Group,
    ) -> Result<Listener> {
        let maker = ForkToken::current()?;
        let (fd, file) = socket::listen_on(address, options)?;
        // An error from here on removes the file.
        let mut listener = Listener {
            members: vec![fd],
            files: Vec::new(),
            backlog: options.backlog,
            name: String::new(),
            acceptance,
            file: file.map(|file| (file, maker)),
        };
        let bound = socket::bound_address(listener.fd())?;
        listener.name = bound.as_ref().unwrap_or(address).to_string();
        if let Some(bound @ Address::Inet(_)) = bound.filter(|_| group.size > 1) {
            add_members(&mut listener.members, &bound, options, group)?;
        }
        listener.files = files_of(&listener.members)?;
        Ok(listener)
    }

    /// A listener that the host made: libherd works on a duplicate, the host's stays its own.
    pub fn adopt(fd: RawFd, acceptance: Acceptance) -> Result<Listener> {
        let fd = socket::adopt_listener(fd)?;
        let bound = socket::bound_address(&fd)?;
        let name = bound.map_or_else(|| format!("fd {}", fd.as_raw_fd()), |a| a.to_string());
        let members = vec![fd];
        let files = files_of(&members)?;
        Ok(Listener { members, files, backlog: 0, name, acceptance, file: None })
    }

    /// The one that every listener has.
    pub fn fd(&self) -> &OwnedFd {
        &self.members[0]
    }

    pub fn members(&self) -> &[OwnedFd] {
        &self.members
    }

    /// Whether its descriptors lead to its sockets in this process.
    pub fn is_open_here(&self) -> bool {
        files_of(&self.members).is_ok_and(|files| files == self.files)
    }

    /// Has a slot's member listen, if the slot has one of its own.
    pub fn listen_for(&self, slot: usize) -> Result<()> {
        match self.members.get(slot).filter(|_| self.members.len() > 1) {
            Some(member) => socket::start_listening(member, self.backlog),
            None => Ok(()),
        }
    }
}

fn files_of(members: &[OwnedFd]) -> Result<Vec<u64>> {
    members.iter().map(socket::file_number).collect()
}

/// With the hash, a member listens from when its slot has its first worker on, since the kernel
/// gives every member that listens its share. The program of `steering` answers with the number of a
/// slot, which the kernel takes for the place in the order of listening: so all listen, in order.
fn add_members(
    members: &mut Vec<OwnedFd>,
    bound: &Address,
    options: &ListenOptions,
    group: &Group,
) -> Result<()> {
    socket::open_group(&members[0])?;
    for _ in 1..group.size {
        members.push(socket::bind_into_group(bound, options)?);
    }
    if let Some(steering) = group.steering {
        members[1..].iter().try_for_each(|m| socket::start_listening(m, options.backlog))?;
        steering.attach(&members[0])?;
    }
    Ok(())
}

impl Drop for Listener {
    /// The file goes with the process that made it, not with a child that inherited the listener.
    fn drop(&mut self) {
        if let Some((file, maker)) = &self.file
            && maker.is_current()
        {
            file.remove();
        }
    }
}

/// Hands a connection to the host, whose own it is from then on.
pub fn deliver(accepted: Accepted, worker: *mut herd_worker) {
    let Accepted { connection, origin, acceptance, .. } = accepted;
    let peer = (&raw const connection.peer).cast();
    let peer_length = connection.peer_length;
    let data = acceptance.data.0;
    match (origin, acceptance.callback, acceptance.of_sent) {
        (Origin::Listener(_), Some(callback), _) => {
            callback(worker, connection.fd.into_raw_fd(), peer, peer_length, data);
        }
        (Origin::Sent(tag), _, Some(callback)) => {
            let (tag, fd) = (tag.bytes(), connection.fd.into_raw_fd());
            callback(worker, fd, peer, peer_length, tag.as_ptr().cast(), tag.len(), data);
        }
        _ => {}
    }
}
