//! A listening socket of the herd, and what the host wants done with its connections.

use crate::abi::{herd_accept_fn, herd_worker};
use crate::sys::Result;
use crate::sys::address::Address;
use crate::sys::fork::ForkToken;
use crate::sys::host::HostPointer;
use crate::sys::socket::{self, Connection, ListenOptions, SocketFile};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

/// What to do with an accepted connection.
#[derive(Clone, Copy)]
pub struct Acceptance {
    /// None: the host takes connections with `herd_accept`.
    pub callback: herd_accept_fn,
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
    pub fn delivery(&self) -> Delivery {
        if self.callback.is_some() { Delivery::Push } else { Delivery::Pull }
    }
}

pub struct Listener {
    pub fd: OwnedFd,
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
    ) -> Result<Listener> {
        let maker = ForkToken::current()?;
        let fd = socket::listen_on(address, options)?;
        let bound = socket::bound_address(&fd)?;
        let name = bound.as_ref().unwrap_or(address).to_string();
        let file = address.unix_path().and_then(SocketFile::at).map(|file| (file, maker));
        Ok(Listener { fd, name, acceptance, file })
    }

    /// A listener that the host made: libherd works on a duplicate, the host's stays its own.
    pub fn adopt(fd: RawFd, acceptance: Acceptance) -> Result<Listener> {
        let fd = socket::adopt_listener(fd)?;
        let bound = socket::bound_address(&fd)?;
        let name = bound.map_or_else(|| format!("fd {}", fd.as_raw_fd()), |a| a.to_string());
        Ok(Listener { fd, name, acceptance, file: None })
    }
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
pub fn deliver(acceptance: Acceptance, worker: *mut herd_worker, connection: Connection) {
    let Some(callback) = acceptance.callback else { return };
    let peer = (&raw const connection.peer).cast();
    let peer_length = connection.peer_length;
    callback(worker, connection.fd.into_raw_fd(), peer, peer_length, acceptance.data.0);
}
