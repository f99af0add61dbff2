//! Steering: which member of a SO_REUSEPORT group gets a new connection. The workers say in a BPF map
//! how they stand, with plain stores to memory that they have mapped, and a BPF program at the group
//! reads it for each connection: idle first, then least loaded. It knows slots by their numbers, and
//! no sockets beyond attaching the program.

pub mod line;

use crate::sys::Result;
use crate::sys::bpf::{self, Instruction};
use line::{ABSENT, LOAD_BITS, Line, SLOT_BITS};
use memmap2::MmapRaw;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::slice;

const LINE_SHIFT: i32 = 7;
const _: () = assert!(size_of::<Line>() == 1 << LINE_SHIFT);

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
        steering.lines().iter().for_each(Line::withdraw);
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

    fn lines(&self) -> &[Line] {
        // SAFETY: the mapping holds `slots` lines, aligned, made of atomics only, and lives as long
        // as self.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast::<Line>(), self.slots) }
    }

    pub fn line(&self, slot: usize) -> &Line {
        &self.lines()[slot]
    }

    /// Counts off what is lost, for all slots: an idle worker to which much seems to be on its way is
    /// sent nothing, so it would not wake to do it by itself. To be called now and then, by one worker.
    pub fn forget_lost(&self, now_us: u64) {
        self.lines().iter().for_each(|line| line.forget_lost(now_us));
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
    use super::line::LOST_AFTER_US;
    use super::*;
    use crate::shm::slot::State;
    use crate::sys::Error;
    use crate::sys::address::Address;
    use crate::sys::socket::{self, ListenOptions, bound_address};
    use std::net::{TcpListener, TcpStream};

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
                group.steering.line(slot).publish(state, load);
                group.steering.line(slot).settle_all();
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
        group.steering.line(2).settle_one();
        assert_eq!(group.next(), 2);
        group.steering.line(1).settle_all();
        assert_eq!([(); 2].map(|()| group.next()), [1, 1]);
        // More cannot have arrived than were sent.
        (0..9).for_each(|_| group.steering.line(3).settle_one());
        group.steering.line(3).publish(Idle, 1);
        assert_eq!([(); 2].map(|()| group.next()), [3, 1]);
    }

    #[test]
    fn what_has_not_arrived_after_a_while_is_forgotten() {
        let Some(mut group) = Group::new(2) else { return };
        group.steering.line(0).publish(State::Idle, 0);
        assert_eq!([(); 3].map(|()| group.next()), [0; 3]);
        group.steering.line(1).publish(State::Idle, 1);
        group.steering.forget_lost(LOST_AFTER_US);
        group.steering.forget_lost(2 * LOST_AFTER_US - 1);
        assert_eq!(group.next(), 1);
        group.steering.forget_lost(2 * LOST_AFTER_US);
        assert_eq!(group.next(), 0);
    }

    /// The simulator steers with `line::steer`.
    #[test]
    fn the_program_decides_as_the_library_does() {
        let Some(mut group) = Group::new(7) else { return };
        let twins: [Line; 7] = Default::default();
        twins.iter().for_each(Line::withdraw);
        let mut random = 1u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            (random >> 33) % end
        };
        for round in 0..200 {
            let slot = below(7) as usize;
            let state = [State::Idle, State::Busy, State::Resting][below(3) as usize];
            let load = below(4);
            for line in [group.steering.line(slot), &twins[slot]] {
                line.publish(state, load);
                line.settle_one();
            }
            let sent = group.next();
            // The hash's choice is its own.
            assert_eq!(line::steer(&twins).unwrap_or(sent), sent, "{round}");
        }
    }

    #[test]
    fn without_a_worker_that_accepts_the_hash_decides() {
        let Some(mut group) = Group::new(64) else { return };
        let used: std::collections::BTreeSet<usize> = (0..64).map(|_| group.next()).collect();
        assert!(used.len() > 16, "{used:?}");
        group.steering.line(63).publish(State::Busy, 9);
        assert_eq!([(); 4].map(|()| group.next()), [63; 4]);
        group.steering.line(63).withdraw();
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
