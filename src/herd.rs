//! The herd as one process sees it: settings, the shared region, bells, guard and listeners, made by
//! the parent and inherited by its children.

use crate::abi::{
    HERD_LISTEN_DUAL_STACK, HERD_MAX_WORKERS, HERD_MODE_EXCLUSIVE, herd_config,
    herd_listen_options, herd_stats,
};
use crate::accept::balance::Balance;
use crate::accept::guard::Guard;
use crate::accept::listener::{Acceptance, Listener};
use crate::accept::listener_table::{ListenerSet, ListenerTable};
use crate::accept::neighbours::{Neighbours, ask};
use crate::log::Log;
use crate::mode::Mode;
use crate::reactor::RemoteQueue;
use crate::shm::Region;
use crate::shm::lock::Word;
use crate::shm::slot::{Claim, Slot};
use crate::sys::address::Address;
use crate::sys::bell::Bell;
use crate::sys::clock::{US_PER_MS, now_us};
use crate::sys::epoll::Epoll;
use crate::sys::fork::ForkToken;
use crate::sys::host::HostPointer;
use crate::sys::record_lock;
use crate::sys::socket::ListenOptions;
use crate::sys::{Error, Result, epoll};
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DEFAULT_BACKLOG: u32 = 4096;

/// The configuration, checked and with its defaults filled in.
pub struct Settings {
    /// What the host asked for; see `Herd::mode` for what it got.
    wished_mode: u32,
    pub balance: Balance,
    pub max_workers: u32,
    pub worker_connections: u32,
    pub accept_delay_us: u64,
    pub handover_delay_us: u64,
    pub accept_batch: u32,
    pub name: String,
}

impl Settings {
    pub fn new(config: &herd_config, name: Option<&str>) -> Result<Settings> {
        let accept_delay_ms = in_range(config.accept_delay_ms, 500, 1..=60_000)?;
        // A mode that does not exist is refused before anything is made.
        Mode::resolve(config.mode, true)?;
        let balance_data = HostPointer(config.balance_data);
        Ok(Settings {
            wished_mode: config.mode,
            balance: Balance::resolve(config.balance, config.balance_callback, balance_data)?,
            max_workers: in_range(config.max_workers, 64, 1..=HERD_MAX_WORKERS)?,
            worker_connections: in_range(config.worker_connections, 1024, 1..=1 << 30)?,
            accept_delay_us: u64::from(accept_delay_ms) * US_PER_MS,
            handover_delay_us: in_range(config.handover_delay_us, 500, 1..=1_000_000)?.into(),
            accept_batch: in_range(config.accept_batch, 1, 1..=1024)?,
            name: checked_name(name.unwrap_or("herd"))?.to_owned(),
        })
    }
}

fn in_range(value: u32, default: u32, range: RangeInclusive<u32>) -> Result<u32> {
    match value {
        0 => Ok(default),
        value if range.contains(&value) => Ok(value),
        _ => Err(Error::INVALID),
    }
}

fn checked_name(name: &str) -> Result<&str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let good = (1..=63).contains(&name.len()) && name.bytes().all(allowed);
    if good { Ok(name) } else { Err(Error::INVALID) }
}

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
    pub log: Log,
    pub region: Region,
    /// One for each slot, made before the fork so that every worker can ring every other.
    pub bells: Vec<Bell>,
    /// One for each slot. Not shared: each process uses those of its own workers.
    pub remotes: Vec<Remote>,
    pub guard: Guard,
    listeners: Mutex<ListenerTable>,
}

impl Herd {
    pub fn new(settings: Settings, log: Log) -> Result<Herd> {
        let slots = settings.max_workers as usize;
        let region_name = CString::new(format!("herd-{}", settings.name));
        let region_name = region_name.expect("a checked name has no NUL");
        let region = Region::new(&region_name, slots)?;
        let bells: Vec<Bell> = (0..slots).map(|_| Bell::new()).collect::<Result<_>>()?;
        let kernel_has_exclusive = Epoll::has_exclusive(bells[0].fd())?;
        let mode = Mode::resolve(settings.wished_mode, kernel_has_exclusive)?;
        let has_accept_right = mode == Mode::Mutex && settings.max_workers > 1;
        let herd = Herd {
            mode,
            has_accept_right,
            kernel_has_exclusive,
            region,
            bells,
            remotes: (0..slots).map(|_| Remote::default()).collect(),
            guard: Guard::new(settings.accept_delay_us, settings.handover_delay_us)?,
            listeners: Mutex::new(ListenerTable::new(has_accept_right)),
            settings,
            log,
        };
        let balance = herd.settings.balance;
        herd.log.info(format_args!("mode {mode}, balance {balance}, {slots} slots"));
        if herd.settings.wished_mode == HERD_MODE_EXCLUSIVE && mode != Mode::Exclusive {
            herd.log.warning(format_args!("no EPOLLEXCLUSIVE here: mode {mode} instead"));
        }
        Ok(herd)
    }

    /// Whether workers tell each other who should accept.
    pub fn is_coordinated(&self) -> bool {
        self.mode != Mode::Shared && self.settings.max_workers > 1
    }

    /// How the guard is watched: a tick wakes one worker, where the kernel can do that.
    pub fn guard_events(&self) -> u32 {
        if self.kernel_has_exclusive { epoll::IN | epoll::EXCLUSIVE } else { epoll::IN }
    }

    // --- listeners ---

    pub fn listen(
        &self,
        text: &str,
        options: &herd_listen_options,
        acceptance: Acceptance,
    ) -> Result<usize> {
        if options.flags & !HERD_LISTEN_DUAL_STACK != 0 || options.unix_mode & !0o777 != 0 {
            return Err(Error::INVALID);
        }
        let options = ListenOptions {
            backlog: if options.backlog == 0 { DEFAULT_BACKLOG } else { options.backlog },
            dual_stack: options.flags & HERD_LISTEN_DUAL_STACK != 0,
            unix_mode: Some(options.unix_mode).filter(|&mode| mode != 0),
        };
        let listener = Address::parse(text)
            .and_then(|address| Listener::listen(&address, &options, acceptance));
        self.insert(listener, format_args!("listen {text}"))
    }

    pub fn add_listener(&self, fd: RawFd, acceptance: Acceptance) -> Result<usize> {
        self.insert(Listener::adopt(fd, acceptance), format_args!("add listener {fd}"))
    }

    fn insert(&self, made: Result<Listener>, what: std::fmt::Arguments) -> Result<usize> {
        let listener = made.inspect_err(|error| self.log.error(format_args!("{what}: {error}")))?;
        self.lock_listeners().insert(listener, self.has_workers())
    }

    pub fn remove_listener(&self, number: usize) -> Result<()> {
        self.lock_listeners().remove(number)
    }

    pub fn listener(&self, number: usize) -> Result<Arc<Listener>> {
        self.lock_listeners().get(number).ok_or(Error::NOT_FOUND)
    }

    /// The listeners as they are now, for a new worker.
    pub fn listeners(&self) -> ListenerSet {
        self.lock_listeners().snapshot()
    }

    fn has_workers(&self) -> bool {
        self.region.slots().iter().any(|slot| slot.claim().pid().is_some())
    }

    fn lock_listeners(&self) -> MutexGuard<'_, ListenerTable> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn listener_fd(&self, number: usize) -> Result<RawFd> {
        Ok(self.listener(number)?.fd.as_raw_fd())
    }

    // --- slots and their owners ---

    /// Takes a slot for a worker of this process: `wanted`, or any.
    pub fn claim_slot(&self, wanted: Option<u16>) -> Result<(u16, Claim)> {
        match wanted {
            Some(number) => {
                let slot = self.slot(number.into())?;
                Ok((number, self.try_claim(number, slot)?.ok_or(Error::BUSY)?))
            }
            None => {
                for (number, slot) in self.numbered_slots() {
                    if let Some(claim) = self.try_claim(number, slot)? {
                        return Ok((number, claim));
                    }
                }
                Err(Error::NO_SLOT)
            }
        }
    }

    /// Three marks, made in this order and undone in the reverse: `owner` keeps out the other threads
    /// of this process, the hold the other processes, and the claim tells everybody. So a claimed
    /// slot that nobody holds is a dead worker's.
    fn try_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        let this_process = ForkToken::current()?.number();
        let owner = &self.remotes[usize::from(number)].owner;
        let former = owner.load(SeqCst);
        if former == this_process
            || owner.compare_exchange(former, this_process, SeqCst, SeqCst).is_err()
        {
            return Ok(None);
        }
        let claimed = self.hold_and_claim(number, slot);
        if !matches!(claimed, Ok(Some(_))) {
            owner.store(0, SeqCst);
        }
        claimed
    }

    fn hold_and_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        if !record_lock::hold(self.region.file(), number.into())? {
            return Ok(None);
        }
        let left = slot.claim();
        if left.pid().is_some() {
            self.free_dead(number, slot, left, self.region.lock.word());
        }
        let claim = slot.try_claim(std::process::id());
        if claim.is_some() {
            let remote = &self.remotes[usize::from(number)];
            remote.requests.store(0, SeqCst);
            remote.posted.forget();
        }
        Ok(claim)
    }

    /// Gives a slot of this process back.
    pub fn free_slot(&self, number: u16, claim: Claim) {
        let index = usize::from(number);
        self.region.slots()[index].free(claim);
        let _ = record_lock::release(self.region.file(), index);
        self.remotes[index].owner.store(0, SeqCst);
    }

    /// The claim of a slot whose owner is dead.
    fn dead_claim(&self, number: u16, slot: &Slot) -> Result<Option<Claim>> {
        let claim = slot.claim();
        if claim.pid().is_none() {
            return Ok(None);
        }
        // The own process's holds do not show as held.
        let owner = self.remotes[usize::from(number)].owner.load(SeqCst);
        let lives = owner == ForkToken::current()?.number()
            || record_lock::is_held_by_another(self.region.file(), number.into())?;
        Ok(if lives { None } else { Some(claim) })
    }

    /// `word` was read before the owner was found dead: a later one is not the dead worker's.
    fn free_dead(&self, number: u16, slot: &Slot, claim: Claim, word: Word) -> bool {
        if word.holder() == Some(number) {
            self.region.lock.release(word);
        }
        slot.reap(claim)
    }

    /// Frees what dead workers left: the accept right, their slots and their load. If there were
    /// any, an idle worker is woken to accept. Returns the number of slots.
    pub fn free_dead_slots(&self) -> Result<usize> {
        let mut freed = 0;
        for (number, slot) in self.numbered_slots() {
            let word = self.region.lock.word();
            if let Some(claim) = self.dead_claim(number, slot)?
                && self.free_dead(number, slot, claim, word)
            {
                freed += 1;
                self.log.info(format_args!("slot {number}: its worker is dead, freed"));
            }
        }
        if freed > 0 && self.is_coordinated() {
            let slots = self.region.slots();
            if let Some((number, _)) = Neighbours::of_nobody().least_idle(slots) {
                ask(slots, &self.bells, number);
            }
            // All may be busy, and the one that was rung may be stopped: the first that waits looks.
            self.guard.pull_in_if_later(&self.region.guard, now_us())?;
        }
        Ok(freed)
    }

    pub fn free_slots(&self) -> Result<usize> {
        self.free_dead_slots()?;
        Ok(self.region.slots().iter().filter(|slot| slot.claim().pid().is_none()).count())
    }

    fn numbered_slots(&self) -> impl Iterator<Item = (u16, &Slot)> {
        (0u16..).zip(self.region.slots())
    }

    // --- counters ---

    pub fn slot(&self, number: usize) -> Result<&Slot> {
        self.region.slots().get(number).ok_or(Error::INVALID)
    }

    /// Sums over `slots`. The `size` member is the caller's.
    pub fn stats<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> herd_stats {
        let mut total = herd_stats { size: size_of::<herd_stats>() as u32, ..Default::default() };
        for slot in slots {
            if slot.claim().pid().is_some() {
                total.workers += 1;
                total.connections_open += slot.open();
            }
            total.reaps += slot.reaps();
            slot.counters.add_to(&mut total);
        }
        total
    }
}
