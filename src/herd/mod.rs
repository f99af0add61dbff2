//! The herd as one process sees it: settings, the shared region, bells, guard and listeners, made by
//! the parent and inherited by its children.

mod activation;
pub mod handoff;
mod listeners;
mod slots;

use crate::abi::{HERD_MODE_EXCLUSIVE, HERD_MODE_REUSEPORT};
use crate::accept::balance::Balance;
use crate::accept::guard::Guard;
use crate::accept::listener::Acceptance;
use crate::accept::listener_table::ListenerTable;
use crate::log::{Log, Recurring, Task};
use crate::mode::Mode;
use crate::reactor::RemoteQueue;
use crate::settings::Settings;
use crate::shm::identity::Identity;
use crate::shm::region::place_of;
use crate::shm::slot::Slot;
use crate::shm::{Region, Steering};
use crate::sys::bell::Bell;
use crate::sys::clock::now_us;
use crate::sys::epoll::Epoll;
use crate::sys::fork::ForkToken;
use crate::sys::host::HostPointer;
use crate::sys::inherited::Inherited;
use crate::sys::transfer::Transfer;
use crate::sys::{Error, Result, epoll};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What concerns a slot in this process only: what other threads and signal handlers ask of its
/// worker.
#[derive(Default)]
pub struct Remote {
    /// `STOP` and `DRAIN` bits.
    pub requests: AtomicU32,
    pub posted: RemoteQueue,
    /// The process that has a worker on the slot, or is making one: its fork token; 0: none. Record
    /// locks do not tell the threads of one process apart, this does. A forked child inherits the
    /// value, which then is not its own.
    owner: AtomicU64,
}

impl Remote {
    pub const STOP: u32 = 1;
    pub const DRAIN: u32 = 2;
}

pub struct Herd {
    pub settings: Settings,
    pub mode: Mode,
    /// Whether workers compete for the lock. With one worker there is nobody to compete with.
    pub has_accept_right: bool,
    kernel_has_exclusive: bool,
    /// Sockets of a listener on an internet address: one, or one for each slot.
    pub group_size: usize,
    /// Sends new connections to the members of a listener; None: the kernel does by itself.
    pub steering: Option<Steering>,
    pub log: Log,
    pub region: Arc<Region>,
    /// One for each slot, made before the fork so that every worker can ring every other.
    pub bells: Vec<Bell>,
    /// One for each slot. Not shared: each process uses those of its own workers.
    pub remotes: Vec<Arc<Remote>>,
    pub guard: Guard,
    /// One for each slot, in HANDOFF: connections on their way to its worker.
    queues: Vec<Transfer>,
    /// What the host wants done with connections that were sent to it.
    sent_acceptance: Inherited<Acceptance>,
    listeners: Inherited<ListenerTable>,
}

impl Herd {
    pub fn new(settings: Settings, log: Log) -> Result<Herd> {
        let slots = settings.max_workers as usize;
        let refused = |call: &'static str| {
            let log = &log;
            move |error: &Error| log.error(format_args!("create: {call}: {error}"))
        };
        // Every process that uses the herd will need it: a kernel without is told of here, and not by
        // the first worker.
        ForkToken::current().inspect_err(refused("madvise MADV_WIPEONFORK (Linux 4.14)"))?;
        let bells = (0..slots).map(|_| Bell::new()).collect::<Result<Vec<Bell>>>();
        let bells = bells.inspect_err(refused("eventfd"))?;
        let kernel_has_exclusive =
            Epoll::has_exclusive(bells[0].fd()).inspect_err(refused("epoll"))?;
        let mode = Mode::resolve(settings.wished_mode, kernel_has_exclusive)?;
        let region = Herd::make_region(&settings, mode, &log)?;
        let guard = Guard::new(settings.accept_delay_us, settings.handover_delay_us);
        let guard = guard.inspect_err(refused("timerfd_create"))?;
        let one_of_many = match mode {
            Mode::Mutex => true,
            Mode::Handoff => settings.acceptor_slot.is_none(),
            Mode::Exclusive | Mode::Reuseport | Mode::Shared => false,
        };
        let has_accept_right = one_of_many && settings.max_workers > 1;
        let queues = if mode == Mode::Handoff { slots } else { 0 };
        let queues = (0..queues).map(|_| Transfer::new()).collect::<Result<_>>();
        let queues = queues.inspect_err(refused("socketpair"))?;
        let group_size = if mode == Mode::Reuseport { slots } else { 1 };
        let may_steer = group_size > 1 && matches!(settings.balance, Balance::Spread);
        let steering = if may_steer { Herd::make_steering(slots, &log) } else { None };
        let herd = Herd {
            mode,
            has_accept_right,
            kernel_has_exclusive,
            group_size,
            steering,
            region: Arc::new(region),
            bells,
            remotes: (0..slots).map(|_| Arc::default()).collect(),
            guard,
            queues,
            sent_acceptance: Inherited::new(Acceptance::of_sent(
                None,
                HostPointer(ptr::null_mut()),
            )),
            listeners: Inherited::new(ListenerTable::new(group_size, has_accept_right)),
            settings,
            log,
        };
        let balance = herd.settings.balance;
        let how = if herd.steering.is_some() { ", steered" } else { "" };
        herd.log.info(format_args!("mode {mode}{how}, balance {balance}, {slots} slots"));
        let rests_on_exclusive = [HERD_MODE_EXCLUSIVE, HERD_MODE_REUSEPORT];
        if rests_on_exclusive.contains(&herd.settings.wished_mode) && mode == Mode::Mutex {
            herd.log.warning(format_args!("no EPOLLEXCLUSIVE here: mode {mode} instead"));
        }
        Ok(herd)
    }

    fn make_region(settings: &Settings, mode: Mode, log: &Log) -> Result<Region> {
        let Settings { name, is_named, balance, .. } = settings;
        let slots = settings.max_workers as usize;
        let place = is_named.then(|| place_of(None, name));
        let region = Region::new(place.clone(), Identity::new(slots, mode.code(), balance.code()));
        region.inspect_err(|&error| match place {
            Some(place) if error == Error::errno(libc::EADDRINUSE) => {
                log.error(format_args!("create: a herd named {name} runs already ({place})"));
            }
            Some(place) => log.error(format_args!("create: {place}: {error}")),
            None => log.error(format_args!("create: memfd_create, fallocate, mmap: {error}")),
        })
    }

    /// Whether a worker gets connections that another accepted, so that all must know the same
    /// listeners.
    pub fn shares_listeners(&self) -> bool {
        self.has_accept_right || self.has_queues()
    }

    /// None where this is not allowed or not known: that is no reason not to go on without.
    fn make_steering(slots: usize, log: &Log) -> Option<Steering> {
        let mut complaint = String::new();
        let made = Steering::new(slots, &mut complaint);
        made.inspect_err(|error| {
            let hash = "the kernel's hash places connections";
            // The kernel gives a reason for a program that it has looked at only.
            let reason = if complaint.is_empty() { "" } else { ": " };
            log.warning(format_args!("create: bpf: {error}: {hash}{reason}{complaint}"));
        })
        .ok()
    }

    /// Whether workers tell each other who should accept.
    pub fn is_coordinated(&self) -> bool {
        self.mode != Mode::Shared && self.settings.max_workers > 1
    }

    /// Has the guard wake an idle worker within handover_delay, whoever has the right by then. If that fails,
    /// the next regular tick does.
    pub fn demand_tick(&self) {
        if let Err(error) = self.guard.demand_tick(&self.region.guard, now_us()) {
            let task = Task::PullGuardIn;
            self.log.recurring(Recurring::Failure(task), format_args!("{task}: {error}"));
        }
    }

    /// How the guard is watched: a tick wakes one worker, where the kernel can do that.
    pub fn guard_events(&self) -> u32 {
        if self.kernel_has_exclusive { epoll::IN | epoll::EXCLUSIVE } else { epoll::IN }
    }

    pub fn slot(&self, number: usize) -> Result<&Slot> {
        self.region.slots().get(number).ok_or(Error::INVALID)
    }
}
