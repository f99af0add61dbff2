//! Steering: which member of a SO_REUSEPORT group gets a new connection. The workers say in a BPF map
//! how they stand, with plain stores to memory that they have mapped, and a BPF program at the group
//! reads it for each connection: idle first, then least loaded. It knows slots by their numbers, and
//! no sockets beyond attaching the program.

use super::slot::State;
use crate::sys::Result;
use crate::sys::bpf::{self, Instruction};
use memmap2::MmapRaw;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::slice;
// The standard ones also in a build for the model checker: the kernel reads them.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the program knows of a slot: two lines of the cache, as everything that is written often.
#[repr(C, align(128))]
struct Line {
    /// The worker's `standing`, stored by its owner.
    standing: AtomicU64,
    /// Connections that the program has sent there.
    steered: AtomicU64,
    /// Those of them that are no longer on their way: accepted, or lost. Never above `steered`.
    settled: AtomicU64,
    /// `steered` as it was at a time in the past, and that time.
    marked: AtomicU64,
    marked_us: AtomicU64,
}

/// What was sent this long ago and was not accepted has never been completed by its client, such as
/// a SYN flood's.
const LOST_AFTER_US: u64 = 1_000_000;

const LINE_SHIFT: i32 = 7;
const _: () = assert!(size_of::<Line>() == 1 << LINE_SHIFT);

/// Slot numbers have this many bits in what the program compares.
const SLOT_BITS: u32 = 16;
/// The load in a standing; what is above it is the worker's kind.
const LOAD_BITS: u32 = 40;
/// A standing that is never chosen: no worker, or one that does not accept.
const ABSENT: u64 = 0x7f << LOAD_BITS;

/// The smaller, the better: idle before busy, then by load. A load that needs more bits counts as
/// the largest that leaves room for the connections on their way.
fn standing(state: State, load: u64) -> u64 {
    let kind: u64 = match state {
        State::Idle => 0,
        State::Busy => 1,
        State::Resting => return ABSENT,
    };
    kind << LOAD_BITS | load.min(1 << (LOAD_BITS - 1))
}

pub struct Steering {
    lines: MmapRaw,
    slots: usize,
    program: OwnedFd,
}

impl Steering {
    /// An error: the kernel, or who confines this process, does not let it. `complaint` gets what the
    /// kernel's verifier says beyond that.
    pub fn new(slots: usize, complaint: &mut String) -> Result<Steering> {
        let (map, lines) = bpf::map_array(slots * size_of::<Line>())?;
        assert!((lines.as_ptr() as usize).is_multiple_of(align_of::<Line>()));
        let program = bpf::load_selector(&selector(&map, slots), complaint)?;
        let steering = Steering { lines, slots, program };
        (0..slots).for_each(|slot| steering.withdraw(slot));
        Ok(steering)
    }

    /// `member` is one of a listener's members; the first to listen is slot 0's, the next slot 1's.
    pub fn attach(&self, member: &OwnedFd) -> Result<()> {
        bpf::attach_selector(member, &self.program)
    }

    /// Writes where a worker gone mad might. What lies beyond the end is left out.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn scribble(&self, offset: usize, bytes: &[u8]) {
        crate::sys::memory::scribble(&self.lines, offset, bytes);
    }

    fn line(&self, slot: usize) -> &Line {
        // SAFETY: the mapping holds `slots` lines, aligned, made of atomics only, and lives as long
        // as self.
        let lines =
            unsafe { slice::from_raw_parts(self.lines.as_ptr().cast::<Line>(), self.slots) };
        &lines[slot]
    }

    /// Says how the slot's worker stands.
    pub fn publish(&self, slot: usize, state: State, load: u64) {
        self.line(slot).standing.store(standing(state, load), Relaxed);
    }

    /// The slot has no worker any more.
    pub fn withdraw(&self, slot: usize) {
        self.line(slot).standing.store(ABSENT, Relaxed);
    }

    /// Connections that were sent to the slot so far.
    fn steered(&self, slot: usize) -> u64 {
        self.line(slot).steered.load(Relaxed)
    }

    /// A connection was accepted from the slot's member, by whomever. What the program did not send
    /// there has no place in the sum.
    pub fn settle_one(&self, slot: usize) {
        let line = self.line(slot);
        let most = self.steered(slot);
        let one_more = |settled: u64| settled.checked_add(1).filter(|&settled| settled <= most);
        let _ = line.settled.fetch_update(Relaxed, Relaxed, one_more);
    }

    /// Of the first `count` connections that were sent to the slot none is on its way any more.
    fn settle_first(&self, slot: usize, count: u64) {
        self.line(slot).settled.fetch_max(count, Relaxed);
    }

    /// Nothing is on its way to the slot: it has a new worker.
    pub fn settle_all(&self, slot: usize) {
        self.settle_first(slot, self.steered(slot));
    }

    /// Counts off what is lost, for all slots: an idle worker to which much seems to be on its way is
    /// sent nothing, so it would not wake to do it by itself. To be called now and then, by one worker.
    pub fn forget_lost(&self, now_us: u64) {
        for slot in 0..self.slots {
            let line = self.line(slot);
            // Far ahead is no time at which it was marked.
            if now_us.abs_diff(line.marked_us.load(Relaxed)) >= LOST_AFTER_US {
                self.settle_first(slot, line.marked.swap(self.steered(slot), Relaxed));
                line.marked_us.store(now_us, Relaxed);
            }
        }
    }
}

/// The program: compares what each slot's line says and answers with the number of the best, which is
/// its member's index in the group. Above all members: nobody accepts, and the kernel's hash decides
/// (reuseport_select_sock in net/core/sock_reuseport.c).
///
/// ```text
///     for slot in 0..slots:
///         key = (standing + steered - settled) << 16 | slot
///         best = min(best, key)           without a jump
///     if best says absent: return -1
///     steered[best & 0xffff] += 1
///     return best & 0xffff
/// ```
///
/// What is counted in `steered` and not settled keeps a burst from going to one worker, which could
/// not say so before it has run. The smaller of two is found by arithmetic, since the verifier
/// follows every way through the loop: with a jump in it those double in each pass, and with 64
/// slots it gives up.
fn selector(map: &OwnedFd, slots: usize) -> Vec<Instruction> {
    const LOAD: u8 = 0x79; // to = *(u64 *)(from + offset)
    const LOAD_MAP_VALUE: u8 = 0x18; // to = address in the value of map `immediate`, two places long
    const ATOMIC_ADD: u8 = 0xdb; // *(u64 *)(to + offset) += from
    const ADD: u8 = 0x0f;
    const ADD_NUMBER: u8 = 0x07;
    const SUBTRACT: u8 = 0x1f;
    const OR: u8 = 0x4f;
    const AND: u8 = 0x5f;
    const AND_NUMBER: u8 = 0x57;
    const SHIFT_LEFT: u8 = 0x67;
    const SHIFT_RIGHT: u8 = 0x77;
    const SHIFT_RIGHT_SIGNED: u8 = 0xc7;
    const MOVE: u8 = 0xbf;
    const MOVE_NUMBER: u8 = 0xb7;
    const JUMP_IF_EQUAL: u8 = 0x15;
    const JUMP_IF_NOT_BELOW_NUMBER: u8 = 0x35; // unsigned, as the next
    const JUMP_IF_BELOW_NUMBER: u8 = 0xa5;
    const EXIT: u8 = 0x95;
    const FROM_VALUE: u8 = 2; // BPF_PSEUDO_MAP_VALUE
    const ANSWER: u8 = 0;
    const SLOT: u8 = 1;
    const LINE: u8 = 2;
    const KEY: u8 = 3;
    const OTHER: u8 = 4;
    const BEST: u8 = 5;

    let member = |offset: usize| offset as i16;
    let [standing, steered, settled] = [
        member(offset_of!(Line, standing)),
        member(offset_of!(Line, steered)),
        member(offset_of!(Line, settled)),
    ];
    let (fd, slots, i) = (map.as_raw_fd(), slots as i32, Instruction::new);
    vec![
        i(LOAD_MAP_VALUE, LINE, FROM_VALUE, 0, fd),
        i(0, 0, 0, 0, 0),
        i(MOVE_NUMBER, SLOT, 0, 0, 0),
        // The largest signed number, above all keys.
        i(MOVE_NUMBER, BEST, 0, 0, -1),
        i(SHIFT_RIGHT, BEST, 0, 0, 1),
        // The loop, which the verifier follows through all its passes (Linux 5.3).
        i(LOAD, KEY, LINE, standing, 0),
        i(LOAD, OTHER, LINE, settled, 0),
        i(SUBTRACT, KEY, OTHER, 0, 0),
        i(LOAD, OTHER, LINE, steered, 0),
        i(ADD, KEY, OTHER, 0, 0),
        i(SHIFT_LEFT, KEY, 0, 0, SLOT_BITS as i32),
        i(OR, KEY, SLOT, 0, 0),
        // best += key - best, if that is negative.
        i(SUBTRACT, KEY, BEST, 0, 0),
        i(MOVE, OTHER, KEY, 0, 0),
        i(SHIFT_RIGHT_SIGNED, OTHER, 0, 0, 63),
        i(AND, KEY, OTHER, 0, 0),
        i(ADD, BEST, KEY, 0, 0),
        i(ADD_NUMBER, LINE, 0, 0, 1 << LINE_SHIFT),
        i(ADD_NUMBER, SLOT, 0, 0, 1),
        i(JUMP_IF_BELOW_NUMBER, SLOT, 0, -15, slots),
        i(MOVE, KEY, BEST, 0, 0),
        i(SHIFT_RIGHT, KEY, 0, 0, (LOAD_BITS + SLOT_BITS) as i32),
        i(JUMP_IF_EQUAL, KEY, 0, 10, (ABSENT >> LOAD_BITS) as i32),
        i(AND_NUMBER, BEST, 0, 0, (1 << SLOT_BITS) - 1),
        // Always below; the verifier cannot know.
        i(JUMP_IF_NOT_BELOW_NUMBER, BEST, 0, 8, slots),
        i(MOVE, ANSWER, BEST, 0, 0),
        i(LOAD_MAP_VALUE, LINE, FROM_VALUE, 0, fd),
        i(0, 0, 0, 0, 0),
        i(SHIFT_LEFT, BEST, 0, 0, LINE_SHIFT),
        i(ADD, LINE, BEST, 0, 0),
        i(MOVE_NUMBER, OTHER, 0, 0, 1),
        i(ATOMIC_ADD, LINE, OTHER, steered, 0),
        i(EXIT, 0, 0, 0, 0),
        i(MOVE_NUMBER, ANSWER, 0, 0, -1),
        i(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Error;
    use crate::sys::address::Address;
    use crate::sys::socket::{self, ListenOptions, bound_address};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_smaller_standing_is_the_better_worker() {
        let order = [
            standing(State::Idle, 0),
            standing(State::Idle, 1),
            standing(State::Idle, u64::MAX),
            standing(State::Busy, 0),
            standing(State::Busy, 7),
            standing(State::Busy, u64::MAX),
            standing(State::Resting, 0),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{order:x?}");
        assert_eq!(standing(State::Resting, 5), ABSENT);
    }

    struct Group {
        steering: Steering,
        members: Vec<TcpListener>,
        clients: Vec<TcpStream>,
    }

    impl Group {
        /// None: bpf(2) is refused here.
        fn new(size: usize) -> Option<Group> {
            let mut complaint = String::new();
            let steering = match Steering::new(size, &mut complaint) {
                Ok(steering) => steering,
                Err(error) => {
                    assert_eq!(error, Error::errno(libc::EPERM), "{complaint}");
                    eprintln!("not tested, bpf: {error}");
                    return None;
                }
            };
            let options = ListenOptions { backlog: 64, dual_stack: false, unix_mode: None };
            let any_port = Address::parse("127.0.0.1:0").unwrap();
            let (first, _) = socket::listen_on(&any_port, &options).unwrap();
            let address = bound_address(&first).unwrap().unwrap();
            socket::open_group(&first).unwrap();
            let mut members = vec![first];
            for _ in 1..size {
                let member = socket::bind_into_group(&address, &options).unwrap();
                socket::start_listening(&member, options.backlog).unwrap();
                members.push(member);
            }
            steering.attach(&members[0]).unwrap();
            let members = members.into_iter().map(TcpListener::from).collect();
            Some(Group { steering, members, clients: Vec::new() })
        }

        /// The slot that a new connection goes to.
        fn next(&mut self) -> usize {
            let address = self.members[0].local_addr().unwrap();
            self.clients.push(TcpStream::connect(address).unwrap());
            self.members.iter().position(|member| member.accept().is_ok()).unwrap()
        }
    }

    #[test]
    fn the_program_sends_to_the_idle_first_then_to_the_least_loaded() {
        let Some(mut group) = Group::new(4) else { return };
        let publish = |group: &Group, standings: [(State, u64); 4]| {
            for (slot, (state, load)) in standings.into_iter().enumerate() {
                group.steering.publish(slot, state, load);
                group.steering.settle_all(slot);
            }
        };
        use State::*;
        publish(&group, [(Idle, 5), (Idle, 3), (Busy, 0), (Resting, 0)]);
        assert_eq!(group.next(), 1);
        publish(&group, [(Busy, 5), (Resting, 3), (Busy, 4), (Resting, 0)]);
        assert_eq!(group.next(), 2);
        publish(&group, [(Resting, 0), (Resting, 0), (Resting, 0), (Idle, 1 << 50)]);
        assert_eq!(group.next(), 3);

        // What is on its way counts, until it is accepted or lost.
        publish(&group, [(Idle, 0), (Idle, 0), (Idle, 1), (Busy, 0)]);
        assert_eq!([(); 6].map(|()| group.next()), [0, 1, 0, 1, 2, 0]);
        group.steering.settle_one(2);
        assert_eq!(group.next(), 2);
        group.steering.settle_all(1);
        assert_eq!([(); 2].map(|()| group.next()), [1, 1]);
        // More cannot have arrived than were sent.
        (0..9).for_each(|_| group.steering.settle_one(3));
        group.steering.publish(3, Idle, 1);
        assert_eq!([(); 2].map(|()| group.next()), [3, 1]);
    }

    #[test]
    fn what_has_not_arrived_after_a_while_is_forgotten() {
        let Some(mut group) = Group::new(2) else { return };
        group.steering.publish(0, State::Idle, 0);
        assert_eq!([(); 3].map(|()| group.next()), [0; 3]);
        group.steering.publish(1, State::Idle, 1);
        group.steering.forget_lost(LOST_AFTER_US);
        group.steering.forget_lost(2 * LOST_AFTER_US - 1);
        assert_eq!(group.next(), 1);
        group.steering.forget_lost(2 * LOST_AFTER_US);
        assert_eq!(group.next(), 0);
    }

    #[test]
    fn whatever_stands_in_a_line_can_be_counted_on() {
        let Some(group) = Group::new(2) else { return };
        let line = group.steering.line(1);
        for word in [&line.steered, &line.settled, &line.marked, &line.marked_us] {
            word.store(u64::MAX, Relaxed);
        }
        group.steering.settle_one(1);
        group.steering.settle_all(1);
        group.steering.forget_lost(LOST_AFTER_US);
        assert_eq!(line.marked_us.load(Relaxed), LOST_AFTER_US);
    }

    #[test]
    fn without_a_worker_that_accepts_the_hash_decides() {
        let Some(mut group) = Group::new(64) else { return };
        let used: std::collections::BTreeSet<usize> = (0..64).map(|_| group.next()).collect();
        assert!(used.len() > 16, "{used:?}");
        group.steering.publish(63, State::Busy, 9);
        assert_eq!([(); 4].map(|()| group.next()), [63; 4]);
        group.steering.withdraw(63);
        assert!((0..64).any(|_| group.next() != 63));
    }

    #[test]
    fn the_largest_herd_has_a_program_too() {
        let mut complaint = String::new();
        let is_allowed = Steering::new(1, &mut complaint).is_ok();
        let made = Steering::new(crate::abi::HERD_MAX_WORKERS as usize, &mut complaint);
        assert_eq!(made.err(), (!is_allowed).then_some(Error::errno(libc::EPERM)), "{complaint}");
    }
}
