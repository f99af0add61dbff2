//! What a queue of passed-on connections gives whatever was sent into it: the connections that a worker of a
//! herd can have sent, as they were sent, and nothing of the rest. Driven by bytes, for property tests and
//! the fuzzer (src/fuzzing/).

use super::{End, Origin, Wanted, take};
use crate::abi::{HERD_LISTENER_NONE, HERD_TAG_BYTES_MAX};
use crate::shm::queue::QueueLine;
use crate::sys::socket::Connection;
use crate::sys::transfer::{Transfer, set_nonblocking};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{IoSlice, Read, pipe};
use std::os::fd::{AsRawFd, RawFd};

/// Where the parts of a message are: listener, peer_length, tag_bytes and is_named, then peer and tag.
const PEER: usize = 16;
const PEER_BYTES: usize = 128;
const TAG: usize = PEER + PEER_BYTES;
const BYTES: usize = TAG + HERD_TAG_BYTES_MAX as usize;

struct Message {
    bytes: Vec<u8>,
    fds: usize,
}

impl Message {
    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn is_ours(&self) -> bool {
        if self.fds != 1 || self.bytes.len() != BYTES || self.number(4) as usize > PEER_BYTES {
            return false;
        }
        match self.number(0) {
            HERD_LISTENER_NONE => self.number(8) <= HERD_TAG_BYTES_MAX,
            listener => listener <= 0xffff,
        }
    }

    fn check(&self, origin: &Origin, connection: &Connection) {
        assert_eq!(connection.peer_length, self.number(4));
        match origin {
            Origin::Listener(number) => assert_eq!(u32::from(*number), self.number(0)),
            Origin::Sent(tag) => {
                assert_eq!(self.number(0), HERD_LISTENER_NONE);
                assert_eq!(tag.bytes(), &self.bytes[TAG..][..self.number(8) as usize]);
            }
        }
    }
}

pub fn drive(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let (line, queue) = (QueueLine::default(), Transfer::new().unwrap());
    let (mut end_of_pipe, connection) = pipe().unwrap();
    set_nonblocking(&end_of_pipe).unwrap();
    let mut sent = VecDeque::new();
    while let Some(operation) = bytes.next() {
        if operation % 4 == 0 {
            receive(&mut sent, &line, &queue, wanted(operation));
        } else {
            let message = message(operation, &mut bytes);
            if send(&queue, &message, connection.as_raw_fd()) {
                sent.push_back(message);
            }
        }
    }
    while !sent.is_empty() {
        receive(&mut sent, &line, &queue, Wanted { most: 4, named_too: true, marks_stuck: false });
    }
    drop((queue, connection));
    // Nobody has its other end open any more: what arrived of the rest was closed.
    assert_eq!(end_of_pipe.read(&mut [0]).expect("the end of the pipe"), 0);
}

fn wanted(operation: u8) -> Wanted {
    let (most, named_too) = (u64::from(operation / 16), operation & 4 != 0);
    Wanted { most, named_too, marks_stuck: operation & 8 != 0 }
}

/// A good one, changed here and there; or any bytes.
fn message(operation: u8, bytes: &mut impl Iterator<Item = u8>) -> Message {
    let mut next = || bytes.next().unwrap_or(0);
    let fds = if operation & 32 != 0 { usize::from(next()) % 4 } else { 1 };
    if operation % 4 == 3 {
        let length = usize::from(next()) * 2;
        return Message { bytes: (0..length).map(|_| next()).collect(), fds };
    }
    let mut good = vec![0; BYTES];
    let mut put = |at: usize, number: u32| good[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    let tag_bytes = u32::from(next()) % (HERD_TAG_BYTES_MAX + 1);
    let is_sent = operation % 4 == 2;
    put(0, if is_sent { HERD_LISTENER_NONE } else { u32::from(next()) });
    put(4, 16);
    put(8, if is_sent { tag_bytes } else { 0 });
    put(12, u32::from(next() & 1));
    good[TAG..].fill_with(&mut next);
    for _ in 0..next() % 3 {
        let at = usize::from(next()) % if operation & 64 == 0 { PEER } else { BYTES };
        good[at] = next();
    }
    if operation >= 240 {
        good.resize(BYTES + usize::from(next()) - 128, 0);
    }
    Message { bytes: good, fds }
}

/// False: the socket is full.
fn send(queue: &Transfer, message: &Message, fd: RawFd) -> bool {
    let fds = [fd; 3];
    let rights = [ControlMessage::ScmRights(&fds[..message.fds])];
    let control = if message.fds > 0 { &rights[..] } else { &[] };
    let parts = [IoSlice::new(&message.bytes)];
    match sendmsg::<()>(queue.sender_fd(), &parts, control, MsgFlags::MSG_DONTWAIT, None) {
        Ok(_) => true,
        Err(Errno::EAGAIN) => false,
        Err(errno) => panic!("{errno}"),
    }
}

fn receive(sent: &mut VecDeque<Message>, line: &QueueLine, queue: &Transfer, wanted: Wanted) {
    let mut received = Vec::new();
    let counted = line.sent();
    let keep = |origin, connection| received.push((origin, connection));
    let end = take(line, queue, 1, wanted, keep, || {}).unwrap();
    for (origin, connection) in &received {
        let message = sent.pop_front().expect("nothing comes twice");
        assert!(message.is_ours());
        message.check(origin, connection);
    }
    assert_eq!(line.sent() - counted, received.len() as u64);
    let is_enough = received.len() as u64 == wanted.most;
    let expected = match sent.front() {
        _ if is_enough => End::Enough,
        None => End::Empty,
        Some(next) if !next.is_ours() => End::Foreign,
        Some(_) => End::Named,
    };
    assert_eq!(end, expected);
    match end {
        End::Foreign => drop(sent.pop_front()),
        End::Named => assert!(!wanted.named_too && sent[0].number(12) != 0),
        _ => {}
    }
}
