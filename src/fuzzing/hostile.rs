//! A herd in whose memory anything can stand, as if one of its workers wrote it there: the parent, the other
//! workers and who reads the figures go on, with an error at worst.

use crate::abi::*;
use crate::accept::listener::Acceptance;
use crate::ffi::config::CONFIG_DEFAULTS;
use crate::herd::{Herd, Remote};
use crate::log::Log;
use crate::observe::{self, text};
use crate::reactor::Queue;
use crate::settings::Settings;
use crate::shm::layout::Header;
use crate::shm::slot::Slot;
use crate::sys::clock::now_us;
use crate::sys::host::HostPointer;
use crate::sys::transfer::take_fd;
use crate::sys::{Error, Result};
use crate::worker::Worker;
use nix::sys::socket::sockopt::Linger;
use nix::sys::socket::{
    SockFlag, SockType, SockaddrLike, SockaddrStorage, connect, getsockname, setsockopt, socket,
};
use std::fmt::Debug;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Arc;

const SLOTS: usize = 3;
const WORKERS: usize = 2;

/// The words of the header that others act on.
const OF_HERD: [usize; 10] = {
    let (guard, handoff) = (offset_of!(Header, guard), offset_of!(Header, handoff));
    let (lock, changes) = (offset_of!(Header, lock), offset_of!(Header, listener_changes));
    let homecomings = offset_of!(Header, homecomings);
    let [due, backup_due, from, to, looked] =
        [guard, guard + 8, guard + 16, guard + 24, guard + 32];
    [lock, due, backup_due, from, to, looked, handoff, handoff + 8, changes, homecomings]
};

/// The words of a slot that others act on: its own, the first of its counters, its queue.
fn of_slot(word: usize) -> usize {
    match word % 17 {
        own @ 0..8 => own * 8,
        counter @ 8..11 => offset_of!(Slot, counters) + (counter - 8) * 8,
        queued => offset_of!(Slot, queue) + (queued - 11) * 8,
    }
}

const MODES: [(u32, u32); 6] = [
    (HERD_MODE_MUTEX, HERD_BALANCE_SPREAD),
    (HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD),
    (HERD_MODE_HANDOFF, HERD_BALANCE_ROUND_ROBIN),
    (HERD_MODE_EXCLUSIVE, HERD_BALANCE_SPREAD),
    (HERD_MODE_REUSEPORT, HERD_BALANCE_SPREAD),
    (HERD_MODE_MUTEX, HERD_BALANCE_PACK),
];

struct World<'a> {
    herd: Arc<Herd>,
    workers: [Option<Worker>; WORKERS],
    /// What clients connect to.
    address: SockaddrStorage,
    bytes: std::slice::Iter<'a, u8>,
}

/// Any error is one that a host can meet, but for that of a defect; which would have panicked.
fn tolerate<T: Debug>(result: Result<T>) -> Option<T> {
    assert!(!matches!(result, Err(Error::INTERNAL | Error::POISONED)), "{result:?}");
    result.ok()
}

fn herd(mode: u32, balance: u32) -> Arc<Herd> {
    let config = herd_config {
        size: size_of::<herd_config>() as u32,
        mode,
        balance,
        max_workers: SLOTS as u32,
        worker_connections: 6,
        accept_delay_ms: 1,
        handover_delay_us: 100,
        ..CONFIG_DEFAULTS
    };
    let log = Log::new(None, HostPointer(ptr::null_mut()), "fuzz");
    Arc::new(Herd::new(Settings::new(&config, "fuzz", &log).unwrap(), log).unwrap())
}

fn listen(herd: &Herd, address: &str) -> usize {
    let options = herd_listen_options {
        size: size_of::<herd_listen_options>() as u32,
        backlog: 16,
        flags: 0,
        unix_mode: 0,
    };
    let acceptance = Acceptance::of_listener(None, HostPointer(ptr::null_mut()));
    herd.listen(address, &options, acceptance).unwrap()
}

pub fn drive(bytes: &[u8]) {
    let mut bytes = bytes.iter();
    let (mode, balance) = MODES[usize::from(*bytes.next().unwrap_or(&0)) % MODES.len()];
    let herd = herd(mode, balance);
    let name = format!("herd-fuzz-{}", std::process::id());
    let is_inet = mode == HERD_MODE_REUSEPORT;
    let text = if is_inet { "127.0.0.1:0".to_owned() } else { format!("unix:@{name}") };
    let listener = listen(&herd, &text);
    let address = getsockname(herd.listener_fd(listener).unwrap()).unwrap();
    let mut world = World { herd, workers: [None, None], address, bytes };
    (0..WORKERS).for_each(|worker| world.make(worker));
    while let Some(operation) = world.next() {
        world.step(operation);
    }
}

impl World<'_> {
    fn next(&mut self) -> Option<u8> {
        self.bytes.next().copied()
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % count
    }

    fn step(&mut self, operation: u8) {
        match operation % 16 {
            0..4 => self.scribble(),
            4 => self.scribble_widely(),
            5..8 => {
                // Sometimes long enough for a tick of the guard.
                let timeout_ms = i32::from(operation >= 224);
                self.with_worker(|worker| {
                    tolerate(worker.run_once(timeout_ms));
                });
            }
            8 => self.with_worker(turn_by_hand),
            9 => self.take_connections(),
            10 => self.connect(),
            11 => self.send(),
            12 => {
                tolerate(self.herd.free_dead_slots());
                tolerate(self.herd.free_slots());
            }
            13 => self.look(),
            14 => {
                let load = self.below(3) as u64;
                self.with_worker(|worker| worker.set_load(load.checked_sub(1)));
            }
            _ => self.replace(),
        }
    }

    fn make(&mut self, worker: usize) {
        let made = Worker::new(&self.herd, Some(worker as u16), |_| ptr::null_mut());
        assert!(!matches!(made, Err(Error::INTERNAL)));
        self.workers[worker] = made.ok();
    }

    fn replace(&mut self) {
        let worker = self.below(WORKERS);
        if let Some(former) = self.workers[worker].take()
            && self.below(2) == 0
        {
            former.request(Remote::DRAIN);
            tolerate(former.run_once(0));
        }
        self.make(worker);
    }

    fn with_worker(&mut self, work: impl FnOnce(&Worker)) {
        let worker = self.below(WORKERS);
        if let Some(worker) = &self.workers[worker] {
            work(worker);
        }
    }

    // --- the one gone mad ---

    fn value(&mut self) -> u64 {
        match self.below(20) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX - 1,
            3 => 1 << 63,
            4 => (1 << 48) | 1,
            5 => 0xffff << 48,
            6 => now_us(),
            7 => now_us() + 1_000_000,
            8 => now_us() + (1 << 40),
            9 => now_us() - 1_000_000,
            10 => u64::from(u32::MAX),
            11 => 0xffff,
            // The claims and readers of slots that there are.
            12 => (1 << 32) | u64::from(std::process::id()),
            13 => (2 << 32) | 1,
            14 => 1,
            byte => byte as u64,
        }
    }

    fn scribble(&mut self) {
        let (place, value) = (self.below(256), self.value().to_ne_bytes());
        let steering = self.herd.steering.as_ref().filter(|_| place % 8 == 0);
        if let Some(steering) = steering {
            return steering.scribble(place / 8 % SLOTS * 128 + place / 32 % 5 * 8, &value);
        }
        let offset = if place % 8 < 3 {
            OF_HERD[place / 8 % OF_HERD.len()]
        } else {
            let slot = size_of::<Header>() + place % SLOTS * size_of::<Slot>();
            slot + of_slot(self.below(256))
        };
        self.herd.region.scribble(offset, &value);
    }

    fn scribble_widely(&mut self) {
        let (place, value) = (self.below(256) * 128, self.value());
        let words = self.below(64);
        self.herd.region.scribble(place, &value.to_ne_bytes().repeat(words));
    }

    // --- the others ---

    fn take_connections(&mut self) {
        self.with_worker(|worker| {
            for _ in 0..4 {
                let Some(accepted) = tolerate(worker.accept_pulled().map(|a| a.connection.fd))
                else {
                    return;
                };
                drop(accepted);
                tolerate(worker.connection_closed());
            }
        });
    }

    fn connect(&self) {
        // Never waits: with a full backlog it fails. And leaves no port in TIME_WAIT.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let family = self.address.family().unwrap();
        let client = socket(family, SockType::Stream, flags, None).unwrap();
        setsockopt(&client, Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        let _ = connect(client.as_raw_fd(), &self.address);
    }

    fn send(&mut self) {
        let slot = self.below(SLOTS + 1) as u16;
        let (_, end) = UnixStream::pair().unwrap();
        let fd = end.into_raw_fd();
        let wanted = Some(slot).filter(|&slot| usize::from(slot) < SLOTS);
        if tolerate(self.herd.send_tagged(wanted, fd, b"tag")).is_none() {
            drop(take_fd(fd));
        }
    }

    fn look(&mut self) {
        let region = &*self.herd.region;
        for slot in 0..=SLOTS {
            assert_eq!(observe::worker(region, slot).is_ok(), slot < SLOTS);
        }
        let total = observe::total(region).unwrap();
        assert!(total.slots == SLOTS as u32 && (-1..SLOTS as i32).contains(&total.holder));
        observe::histogram(region, None, HERD_HISTOGRAM_HANDOVER).unwrap();
        let room = text::room_for(region).unwrap();
        assert!(text::text(region, true).unwrap().len() <= room);
    }
}

/// nginx's cycle, written by hand.
fn turn_by_hand(worker: &Worker) {
    tolerate(worker.trylock());
    tolerate(worker.process_events(0, HERD_POST_EVENTS));
    tolerate(worker.accept_posted());
    worker.unlock();
    worker.run_posted(Queue::Events);
    let opened = worker.check_slot().map(|()| worker.connection_opened());
    if tolerate(opened).is_some() {
        tolerate(worker.connection_closed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::queue::QueueLine;
    use crate::sys::fork::NO_OTHER_FORK;

    #[test]
    fn the_largest_load_is_a_load_like_others() {
        let _alone = NO_OTHER_FORK.lock();
        let herd = herd(HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD);
        let (number, claim) = herd.claim_slot(Some(1)).unwrap();
        let slot = herd.slot_of(number);
        slot.set_host_load(Some(u64::MAX));
        let peer = crate::sys::transfer::peer_from_bytes([0; 128]);
        for _ in 0..4 {
            assert_eq!(herd.choose(None, &peer, 0), Some((1, false)));
        }
        slot.set_open(u64::MAX);
        assert_eq!(herd.choose(None, &peer, 0), None);
        herd.free_slot(number, claim);
    }

    #[test]
    fn a_queue_is_read_again_whose_reader_there_is_not() {
        let _alone = NO_OTHER_FORK.lock();
        let herd = herd(HERD_MODE_HANDOFF, HERD_BALANCE_SPREAD);
        let (slot, claim) = herd.claim_slot(Some(1)).unwrap();
        let line: &QueueLine = &herd.slot_of(0).queue;
        let is_freed = |reader: u64| {
            std::mem::forget(line.try_read(reader));
            herd.free_readers_of_nobody();
            line.reader() == 0
        };
        let own = Herd::reader(slot, claim);
        for nobody in [1, own + 1, own + (1 << 32), own - (1 << 32), 1 << 48, u64::MAX] {
            assert!(is_freed(nobody), "{nobody:x}");
        }
        assert!(!is_freed(own));
        herd.free_slot(slot, claim);
        herd.free_readers_of_nobody();
        assert_eq!(line.reader(), 0);
    }

    #[test]
    fn damage_is_not_taken_for_listeners_that_others_have_changed() {
        let _alone = NO_OTHER_FORK.lock();
        for (mode, shares_listeners) in
            [(HERD_MODE_MUTEX, true), (HERD_MODE_HANDOFF, true), (HERD_MODE_EXCLUSIVE, false)]
        {
            let refused = |error| shares_listeners.then_some(error);
            let herd = herd(mode, HERD_BALANCE_SPREAD);
            let refusal = || herd.listeners().err();
            listen(&herd, "127.0.0.1:0");
            assert_eq!(refusal(), None);
            herd.region.scribble(offset_of!(Header, listener_changes), &[7]);
            assert_eq!(refusal(), refused(Error::DAMAGED));
            // Who changes the listeners knows them all.
            listen(&herd, "127.0.0.1:0");
            assert_eq!(refusal(), None);
            // By another process.
            herd.region.listener_changes.count(0);
            assert_eq!(refusal(), refused(Error::errno(libc::ESTALE)));
        }
    }
}
