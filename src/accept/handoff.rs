//! The queue of connections on their way to one worker. The messages lie in the kernel, where they
//! outlive sender and receiver; the count of them, and who reads, lies in the shared region.

use crate::abi::{HERD_LISTENER_NONE, HERD_TAG_BYTES_MAX};
use crate::shm::queue::QueueLine;
use crate::sys::Result;
use crate::sys::socket::Connection;
use crate::sys::transfer::{self, First, Label, MESSAGE_FDS_MAX, Plain, Transfer};
use std::mem::size_of;
use std::os::fd::{OwnedFd, RawFd};

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

fn unlabel(label: &Label, fd: OwnedFd) -> (Origin, Connection) {
    let origin = match label.listener {
        HERD_LISTENER_NONE => Origin::Sent(Tag { bytes: label.tag, length: label.tag_bytes }),
        number => Origin::Listener(number as u16),
    };
    let peer = transfer::peer_from_bytes(label.peer);
    (origin, Connection { fd, peer, peer_length: label.peer_length })
}

/// Why taking connections ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Empty,
    /// As many as were wanted.
    Enough,
    /// The next message carries more than fit.
    TooMany,
    /// Too few free descriptors for the next message.
    Truncated,
    /// The next message is for the worker of this queue by name.
    Named,
    /// Another worker is reading.
    Taken,
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

/// Sends connections, one message for all; the caller has counted them as on their way. On an error
/// none was sent, and that is the caller's to undo.
pub fn send(line: &QueueLine, to: &Transfer, labels: &[Label], fds: &[RawFd]) -> Result<()> {
    let mut parts: [&[u8]; MESSAGE_FDS_MAX] = [&[]; MESSAGE_FDS_MAX];
    for (part, label) in parts.iter_mut().zip(labels) {
        *part = label.as_bytes();
    }
    to.send(&parts[..labels.len()], fds)?;
    line.note_sent(labels.len() as u64);
    Ok(())
}

/// Takes the connections that are wanted out of a queue. Each message is looked at, with its descriptors
/// duplicated, before it is taken out: one that this process has too few descriptors for stays whole
/// for others, and so does one whose reader is killed in between.
pub fn take(
    line: &QueueLine,
    from: &Transfer,
    reader: u64,
    wanted: Wanted,
    mut on_taken: impl FnMut(Origin, Connection),
) -> Result<End> {
    let Some(_reading) = line.try_read(reader) else { return Ok(End::Taken) };
    let mut room = [0; MESSAGE_FDS_MAX * size_of::<Label>()];
    let mut left = wanted.most;
    while left > 0 {
        let (bytes, mut fds) = match from.peek(&mut room)? {
            First::Nothing => return Ok(End::Empty),
            First::Truncated => return Ok(End::Truncated),
            First::Message { bytes, fds } => (bytes, fds),
        };
        let count = fds.count() as u64;
        if count > left {
            return Ok(End::TooMany);
        }
        let mut labels = room[..bytes].chunks(size_of::<Label>()).filter_map(Label::from_bytes);
        if !wanted.named_too && labels.clone().any(|label| label.is_named != 0) {
            return Ok(End::Named);
        }
        if wanted.marks_stuck {
            // Before it has room again.
            line.set_stuck();
        }
        from.drop_first()?;
        for index in 0..fds.count() {
            if let (Some(label), Some(fd)) = (labels.next(), fds.take(index)) {
                let (origin, connection) = unlabel(&label, fd);
                on_taken(origin, connection);
            }
        }
        line.note_taken(count);
        left -= count;
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
        let end = take(line, from, reader, wanted, |origin, connection| {
            let Origin::Sent(tag) = origin else { panic!("it came with a tag") };
            assert_eq!(connection.peer_length, 7);
            assert_eq!(nix::unistd::write(&connection.fd, tag.bytes()), Ok(tag.bytes().len()));
            tags.push(tag.bytes().to_vec());
        });
        (tags, end.unwrap())
    }

    #[test]
    fn each_connection_comes_with_its_own_label_and_whole_messages_only() {
        let (line, transfer) = (QueueLine::default(), Transfer::new().unwrap());
        let mut pipes = Vec::new();
        for message in [&["one", "two", "three"][..], &["four"], &["five", "six"]] {
            let ends: Vec<_> = message.iter().map(|_| pipe().unwrap()).collect();
            let fds: Vec<_> = ends.iter().map(|(_, to)| to.as_raw_fd()).collect();
            let labels: Vec<_> = message.iter().map(|tag| labelled(tag)).collect();
            assert!(message.iter().all(|_| line.reserve(WINDOW)));
            send(&line, &transfer, &labels, &fds).unwrap();
            pipes.extend(ends.into_iter().map(|(from, _)| from).zip(message));
        }
        assert_eq!((queued(&transfer), line.in_flight(), line.sent()), (Ok(6), 6, 6));
        assert_eq!(taken(&line, &transfer, 1, 2), (vec![], End::TooMany));
        assert!(!line.is_stuck());
        let (tags, end) = taken(&line, &transfer, 1, 4);
        assert_eq!((tags.len(), end), (3, End::Named));
        let (tags, end) = taken(&line, &transfer, 1, 2);
        assert_eq!((tags.len(), end), (1, End::TooMany));
        assert!(line.is_stuck());
        // A reader that was killed keeps others out until it is found dead.
        std::mem::forget(line.try_read(9));
        assert_eq!(taken(&line, &transfer, 1, 5), (vec![], End::Taken));
        line.free_reader(9);
        let (tags, end) = taken(&line, &transfer, 1, 5);
        assert_eq!((tags.len(), end), (2, End::Empty));
        assert_eq!((queued(&transfer), line.in_flight(), line.taken()), (Ok(0), 0, 6));
        for (mut from, tag) in pipes {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            assert_eq!(&text, tag);
        }
    }
}
