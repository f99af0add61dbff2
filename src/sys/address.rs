//! Addresses of listeners as text: "127.0.0.1:80", "[::1]:80", "unix:/path", "unix:@abstract".

#[cfg(any(test, feature = "fuzzing"))]
pub mod model;

use super::error::{Error, Result};
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, UnixAddr};
use std::fmt;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Inet(SocketAddr),
    UnixPath(PathBuf),
    /// A name in Linux's abstract namespace (unix(7)), without its leading NUL.
    UnixAbstract(Vec<u8>),
}

impl Address {
    /// What `parse` takes, for who gave something else.
    pub const EXAMPLES: &str = "127.0.0.1:80, [::1]:80, unix:/path or unix:@name";

    /// Only literal addresses: looking a name up would block, and can give several answers.
    pub fn parse(text: &str) -> Result<Address> {
        if let Some(name) = text.strip_prefix("unix:") {
            let (address, is_empty) = match name.strip_prefix('@') {
                Some(name) => (Address::UnixAbstract(name.as_bytes().to_vec()), name.is_empty()),
                None => (Address::UnixPath(PathBuf::from(name)), name.is_empty()),
            };
            return if is_empty { Err(Error::INVALID) } else { address.to_unix().map(|_| address) };
        }
        text.parse().map(Address::Inet).map_err(|_| Error::INVALID)
    }

    pub fn family(&self) -> AddressFamily {
        match self {
            Address::Inet(SocketAddr::V4(_)) => AddressFamily::Inet,
            Address::Inet(SocketAddr::V6(_)) => AddressFamily::Inet6,
            Address::UnixPath(_) | Address::UnixAbstract(_) => AddressFamily::Unix,
        }
    }

    /// The address as the kernel takes it.
    pub fn to_socket_address(&self) -> Result<Box<dyn SockaddrLike>> {
        Ok(match self {
            Address::Inet(inet) => Box::new(SockaddrStorage::from(*inet)),
            _ => Box::new(self.to_unix()?),
        })
    }

    fn to_unix(&self) -> Result<UnixAddr> {
        let address = match self {
            Address::UnixPath(path) => UnixAddr::new(path.as_path()),
            Address::UnixAbstract(name) => UnixAddr::new_abstract(name),
            Address::Inet(_) => return Err(Error::INVALID),
        };
        Ok(address?)
    }

    /// The address in `storage`; None for families that have no text here.
    pub fn from_socket_address(storage: &SockaddrStorage) -> Option<Address> {
        if let Some(v4) = storage.as_sockaddr_in() {
            return Some(Address::Inet(SocketAddr::V4(SocketAddrV4::from(*v4))));
        }
        if let Some(v6) = storage.as_sockaddr_in6() {
            return Some(Address::Inet(SocketAddr::V6(SocketAddrV6::from(*v6))));
        }
        let unix = storage.as_unix_addr()?;
        let path = unix.path().map(|path| Address::UnixPath(path.to_path_buf()));
        path.or_else(|| unix.as_abstract().map(|name| Address::UnixAbstract(name.to_vec())))
    }

    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Address::UnixPath(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Inet(inet) => inet.fmt(f),
            Address::UnixPath(path) => write!(f, "unix:{}", path.display()),
            Address::UnixAbstract(name) => write!(f, "unix:@{}", String::from_utf8_lossy(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_come_back_as_they_were() {
        for text in
            ["127.0.0.1:80", "0.0.0.0:0", "[::1]:8080", "[::]:65535", "unix:/run/a b", "unix:@name"]
        {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
            assert!(address.to_socket_address().is_ok(), "{text}");
        }
    }

    #[test]
    fn bad_addresses_are_refused() {
        let too_long = format!("unix:/{}", "x".repeat(200));
        for text in [
            "",
            ":",
            "80",
            ":80",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:65536",
            "127.0.0.1:-1",
            "127.0.0.1:80 ",
            " 127.0.0.1:80",
            "127.0.0.1:80x",
            "256.0.0.1:80",
            "localhost:80",
            "::1:80",
            "[::1]",
            "[::1]:",
            "[::1:80",
            "unix:",
            "unix:@",
            "tcp:127.0.0.1:80",
            too_long.as_str(),
        ] {
            let error = Address::parse(text).expect_err(text);
            assert!([libc::EINVAL, libc::ENAMETOOLONG].contains(&-error.code()), "{text}");
        }
    }
}
