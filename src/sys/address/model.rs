//! What must hold for any text that is given as an address. Driven by bytes, for property tests and the
//! fuzzer (src/fuzzing/).

use super::Address;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::net::SocketAddr;

/// Addresses are made of these, and so are texts that nearly are.
const PARTS: [&str; 24] = [
    "unix:",
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[fe80::1%1]",
    "[",
    "]",
    ":",
    "::",
    ":80",
    ":0",
    ":65535",
    ":65536",
    "+",
    "-",
    "0",
    "80",
    ".",
    " ",
    "ü",
    "tcp:",
    "%lo",
];

/// What is behind "unix:".
const NAME_PARTS: [&str; 6] = [
    "@",
    "/",
    "\0",
    "a name",
    "ü",
    "a path that is rather long and, taken twice, too long for a Unix socket's name",
];

pub fn drive(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let is_unix = first >= 128;
    let table = if is_unix { &NAME_PARTS[..] } else { &PARTS };
    let parts = bytes.iter().map(|&byte| table[usize::from(byte) % table.len()]);
    let text: String = parts.take(usize::from(first) % 6).collect();
    check(&if is_unix { format!("unix:{text}") } else { text });
}

fn check(text: &str) {
    let parsed = Address::parse(text);
    let Some(name) = text.strip_prefix("unix:") else {
        // The standard library's parser is the other opinion.
        let other: Option<SocketAddr> = text.parse().ok();
        assert_eq!(parsed.clone().ok(), other.map(Address::Inet), "{text:?}");
        if let Ok(address) = parsed {
            assert_eq!(Address::parse(&address.to_string()).as_ref(), Ok(&address), "{text:?}");
            assert_eq!(back(&address), address, "{text:?}");
        }
        return;
    };
    // unix(7): 108 bytes; a path needs its NUL, which also ends it; an abstract name has one before it.
    let (is_abstract, name) = name.strip_prefix('@').map_or((false, name), |name| (true, name));
    let fits = name.len() <= 107 && !name.is_empty() && (is_abstract || !name.contains('\0'));
    assert_eq!(parsed.is_ok(), fits, "{text:?}: {parsed:?}");
    if let Ok(address) = parsed {
        assert_eq!(address.unix_path().is_some(), !is_abstract, "{text:?}");
        assert_eq!(address.to_string(), text);
        assert_eq!(back(&address), address, "{text:?}");
    }
}

/// The address after its way through the kernel's form.
fn back(address: &Address) -> Address {
    let raw = address.to_socket_address().unwrap();
    // SAFETY: a valid address and its length.
    let storage = unsafe { SockaddrStorage::from_raw(raw.as_ptr(), Some(raw.len())) };
    Address::from_socket_address(&storage.unwrap()).unwrap()
}
