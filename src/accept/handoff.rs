//! The queue of connections on their way to one worker. The messages lie in the kernel, where they
//! outlive sender and receiver; the count of them, and who reads, lies in the shared region.

#[cfg(any(test, feature = "fuzzing"))]
pub mod model;

use crate::abi::{HERD_LISTENER_NONE, HERD_TAG_BYTES_MAX};
use crate::shm::queue::QueueLine;
use crate::sys::Result;
use crate::sys::socket::Connection;
use crate::sys::transfer::{self, First, Label, Plain, SENT_AT_ONCE_MAX, Transfer};
use std::mem::size_of;
use std::os::fd::RawFd;

/// Connections on their way to one worker, at most: what it has to lose when it is stopped.
pub const WINDOW: u64 = 32;

/// What a sender says about a connection that no listener of the herd gave.
#[derive(Clone, Copy)]
pub struct Tag {
    bytes: [u8; HERD_TAG_BYTES_MAX as usize],
    length: u32,
}

impl Tag {
    /// None: it is too long.
    pub fn new(text: &[u8]) -> Option<Tag> {
        let mut bytes = [0; HERD_TAG_BYTES_MAX as usize];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Tag { bytes, length: text.len() as u32 })
    }

    /// As it was received. None: no sender has made it.
    fn received(bytes: [u8; HERD_TAG_BYTES_MAX as usize], length: u32) -> Option<Tag> {
        (length <= HERD_TAG_BYTES_MAX).then_some(Tag { bytes, length })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    /// With zeros up to the longest.
    pub fn padded(&self) -> [u8; HERD_TAG_BYTES_MAX as usize] {
        self.bytes
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub enum Origin {
    Listener(u16),
    /// `herd_handoff_send`.
    Sent(Tag),
}

pub fn label(
    origin: &Origin,
    is_named: bool,
    peer: &libc::sockaddr_storage,
    peer_length: u32,
) -> Label {
    let (listener, tag) = match origin {
        Origin::Listener(number) => (u32::from(*number), None),
        Origin::Sent(tag) => (HERD_LISTENER_NONE, Some(tag)),
    };
    let tag = tag.copied().unwrap_or(Tag { bytes: Label::EMPTY.tag, length: 0 });
    let (peer, tag_bytes, tag) = (transfer::peer_bytes(peer), tag.length, tag.bytes);
    Label { listener, peer_length, tag_bytes, is_named: is_named.into(), peer, tag }
}

/// What a message says. None: no worker of a herd sends such a one; whoever has the socket can.
fn decode(message: &[u8]) -> Option<(Label, Origin)> {
    let label = Label::from_bytes(message)?;
    let origin = match label.listener {
        HERD_LISTENER_NONE => Origin::Sent(Tag::received(label.tag, label.tag_bytes)?),
        number => Origin::Listener(u16::try_from(number).ok()?),
    };
    // The host reads so many bytes of the address.
    (label.peer_length as usize <= label.peer.len()).then_some((label, origin))
}

/// Why taking connections ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Empty,
    /// As many as were wanted.
    Enough,
    /// This worker has as many connections as it may.
    Full,
    /// No free descriptor for the next connection.
    Truncated,
    /// The next connection is for the worker of this queue by name.
    Named,
    /// Another worker is reading.
    Taken,
    /// A message was dropped that no worker of the herd has sent.
    Foreign,
}

/// What a reader wants of a queue.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub most: u64,
    /// Those too for which the worker of this queue was named.
    pub named_too: bool,
    /// That worker lives, and takes none: it is to get no more until it has come back.
    pub marks_stuck: bool,
}

/// Sends connections, each in a message of its own; the caller has counted them as on their way. Returns
/// how many were sent, the first ones; the others are the caller's to undo.
pub fn send(to: &Transfer, labels: &[Label], fds: &[RawFd]) -> Result<usize> {
    let mut parts: [&[u8]; SENT_AT_ONCE_MAX] = [&[]; SENT_AT_ONCE_MAX];
    for (part, label) in parts.iter_mut().zip(labels) {
        *part = label.as_bytes();
    }
    to.send(&parts[..labels.len()], fds)
}

/// Takes the connections that are wanted out of a queue. Each is looked at, with its descriptor
/// duplicated, before it is taken out: one that this process has no free descriptor for stays for
/// others, and so does one whose reader is killed in between.
pub fn take(
    line: &QueueLine,
    from: &Transfer,
    reader: u64,
    wanted: Wanted,
    mut keep: impl FnMut(Origin, Connection),
    mut on_counted: impl FnMut(),
) -> Result<End> {
    let Some(_reading) = line.try_read(reader) else { return Ok(End::Taken) };
    // With room for one more byte, so that a longer message is told.
    let mut room = [0; size_of::<Label>() + 1];
    for _ in 0..wanted.most {
        let (bytes, fd) = match from.peek(&mut room)? {
            First::Nothing => return Ok(End::Empty),
            First::Truncated => return Ok(End::Truncated),
            First::Foreign => (0, None),
            First::Message { bytes, fd } => (bytes, Some(fd)),
        };
        let (Some(fd), Some((label, origin))) = (fd, decode(&room[..bytes])) else {
            from.drop_first()?;
            return Ok(End::Foreign);
        };
        if !wanted.named_too && label.is_named != 0 {
            return Ok(End::Named);
        }
        // Who sent it may not have; and now, while one that cannot be had stays for others.
        if matches!(origin, Origin::Sent(_)) && !transfer::set_nonblocking(&fd)? {
            from.drop_first()?;
            return Ok(End::Foreign);
        }
        if wanted.marks_stuck {
            // Before it has room again.
            line.set_stuck();
        }
        if !from.drop_first()? {
            // Somebody has taken it who does not keep to the turns: it is his.
            return Ok(End::Empty);
        }
        let peer = transfer::peer_from_bytes(label.peer);
        keep(origin, Connection { fd, peer, peer_length: label.peer_length });
        line.note_taken();
        on_counted();
    }
    Ok(End::Enough)
}

/// Connections in the queue, as the kernel knows them.
pub fn queued(from: &Transfer) -> Result<u64> {
    Ok((from.queued_bytes()? / size_of::<Label>()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::AsRawFd;

    fn labelled(tag: &str) -> Label {
        let peer = transfer::peer_from_bytes(Label::EMPTY.peer);
        label(&Origin::Sent(Tag::new(tag.as_bytes()).unwrap()), tag == "four", &peer, 7)
    }

    /// Takes what is there; each connection's tag, by what its descriptor leads to.
    fn taken(line: &QueueLine, from: &Transfer, reader: u64, most: u64) -> (Vec<Vec<u8>>, End) {
        let mut tags = Vec::new();
        let wanted = Wanted { most, named_too: most != 4, marks_stuck: most == 2 };
        let keep = |origin, connection: Connection| {
            let Origin::Sent(tag) = origin else { panic!("it came with a tag") };
            assert_eq!(connection.peer_length, 7);
            assert_eq!(nix::unistd::write(&connection.fd, tag.bytes()), Ok(tag.bytes().len()));
            tags.push(tag.bytes().to_vec());
        };
        let end = take(line, from, reader, wanted, keep, || {});
        (tags, end.unwrap())
    }

    #[test]
    fn each_connection_comes_with_its_own_label() {
        let (line, transfer) = (QueueLine::default(), Transfer::new().unwrap());
        let mut pipes = Vec::new();
        for batch in [&["one", "two", "three"][..], &["four"], &["five", "six"]] {
            let ends: Vec<_> = batch.iter().map(|_| pipe().unwrap()).collect();
            let fds: Vec<_> = ends.iter().map(|(_, to)| to.as_raw_fd()).collect();
            let labels: Vec<_> = batch.iter().map(|tag| labelled(tag)).collect();
            assert!(batch.iter().all(|_| line.reserve(WINDOW, 0)));
            assert_eq!(send(&transfer, &labels, &fds), Ok(batch.len()));
            pipes.extend(ends.into_iter().map(|(from, _)| from).zip(batch));
        }
        assert_eq!((queued(&transfer), line.in_flight(), line.sent()), (Ok(6), 6, 6));
        let (tags, end) = taken(&line, &transfer, 1, 1);
        assert_eq!((tags.len(), end), (1, End::Enough));
        assert!(!line.is_stuck());
        let (tags, end) = taken(&line, &transfer, 1, 4);
        assert_eq!((tags.len(), end), (2, End::Named));
        let (tags, end) = taken(&line, &transfer, 1, 2);
        assert_eq!((tags.len(), end), (2, End::Enough));
        assert!(line.is_stuck());
        // A reader that was killed keeps others out until it is found dead.
        std::mem::forget(line.try_read(9));
        assert_eq!(taken(&line, &transfer, 1, 5), (vec![], End::Taken));
        line.free_reader(9);
        let (tags, end) = taken(&line, &transfer, 1, 5);
        assert_eq!((tags.len(), end), (1, End::Empty));
        assert_eq!((queued(&transfer), line.in_flight(), line.sent()), (Ok(0), 0, 6));
        for (mut from, tag) in pipes {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            assert_eq!(&text, tag);
        }
    }

    #[test]
    fn a_descriptor_that_nobody_can_use_does_not_stay_in_front_of_others() {
        let (line, transfer) = (QueueLine::default(), Transfer::new().unwrap());
        let useless =
            nix::fcntl::open("/", nix::fcntl::OFlag::O_PATH, nix::sys::stat::Mode::empty())
                .unwrap();
        let (mut from, to) = pipe().unwrap();
        let fds = [useless.as_raw_fd(), to.as_raw_fd()];
        assert!(fds.iter().all(|_| line.reserve(WINDOW, 0)));
        assert_eq!(send(&transfer, &[labelled("useless"), labelled("one")], &fds), Ok(2));
        drop(to);
        assert_eq!(taken(&line, &transfer, 1, 5), (vec![], End::Foreign));
        assert_eq!(taken(&line, &transfer, 1, 5), (vec![b"one".to_vec()], End::Empty));
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
    }
}
