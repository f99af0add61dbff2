//! The herd as one process sees it: settings, the shared region, bells, guard and listeners, made by
//! the parent and inherited by its children.

use crate::abi::{
    HERD_LISTEN_DUAL_STACK, HERD_MAX_WORKERS, herd_config, herd_listen_options, herd_stats,
};
use crate::accept::gate::wake_one_idle;
use crate::accept::guard;
use crate::accept::listener::{Acceptance, Listener};
use crate::log::Log;
use crate::mode::{Balance, Mode};
use crate::reactor::{LISTENER_LIMIT, RemoteQueue};
use crate::shm::Region;
use crate::shm::slot::Slot;
use crate::sys::address::Address;
use crate::sys::bell::Bell;
use crate::sys::clock::{US_PER_MS, now_us};
use crate::sys::guard_timer::GuardTimer;
use crate::sys::socket::ListenOptions;
use crate::sys::{Error, Result};
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

const DEFAULT_BACKLOG: u32 = 4096;

/// The configuration, checked and with its defaults filled in.
#[derive(Debug)]
pub struct Settings {
    pub mode: Mode,
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
        Ok(Settings {
            mode: Mode::resolve(config.mode)?,
            balance: Balance::resolve(config.balance)?,
            max_workers: in_range(config.max_workers, 64, 1..=HERD_MAX_WORKERS)?,
            worker_connections: in_range(config.worker_connections, 1024, 1..=1 << 30)?,
            accept_delay_us: u64::from(accept_delay_ms) * US_PER_MS,
            handover_delay_us: in_range(config.handover_delay_us, 500, 1..=1_000_000)?.into(),
            accept_batch: in_range(config.accept_batch, 1, 1..=1024)?,
            name: checked_name(name.unwrap_or("herd"))?.to_owned(),
        })
    }

    pub fn has_accept_right(&self) -> bool {
        self.mode.has_accept_right(self.max_workers)
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

/// What other threads and signal handlers ask of a worker.
#[derive(Default)]
pub struct Remote {
    /// `STOP` and `DRAIN` bits.
    pub requests: AtomicU32,
    pub posted: RemoteQueue,
}

impl Remote {
    pub const STOP: u32 = 1;
    pub const DRAIN: u32 = 2;
}

pub struct Herd {
    pub settings: Settings,
    pub log: Log,
    pub region: Region,
    /// One for each slot, made before the fork so that every worker can ring every other.
    pub bells: Vec<Bell>,
    /// One for each slot. Not shared: each process uses those of its own workers.
    pub remotes: Vec<Remote>,
    pub guard: GuardTimer,
    /// By number; None where one was removed.
    listeners: Mutex<Vec<Option<Arc<Listener>>>>,
}

impl Herd {
    pub fn new(settings: Settings, log: Log) -> Result<Herd> {
        let slots = settings.max_workers as usize;
        let region_name = CString::new(format!("herd-{}", settings.name));
        let region_name = region_name.expect("a checked name has no NUL");
        let herd = Herd {
            region: Region::new(&region_name, slots)?,
            bells: (0..slots).map(|_| Bell::new()).collect::<Result<_>>()?,
            remotes: (0..slots).map(|_| Remote::default()).collect(),
            guard: GuardTimer::new()?,
            listeners: Mutex::new(Vec::new()),
            settings,
            log,
        };
        let Settings { mode, balance, max_workers, .. } = &herd.settings;
        herd.log.info(format_args!("mode {mode}, balance {balance}, {max_workers} slots"));
        Ok(herd)
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
        let mut listeners = self.lock_listeners();
        let number = listeners.iter().position(Option::is_none).unwrap_or(listeners.len());
        if number >= LISTENER_LIMIT {
            return Err(Error::errno(libc::ENOSPC));
        }
        if number == listeners.len() {
            listeners.push(None);
        }
        listeners[number] = Some(Arc::new(listener));
        Ok(number)
    }

    pub fn remove_listener(&self, number: usize) -> Result<()> {
        let mut listeners = self.lock_listeners();
        let place = listeners.get_mut(number).ok_or(Error::NOT_FOUND)?;
        place.take().map(drop).ok_or(Error::NOT_FOUND)
    }

    pub fn listener(&self, number: usize) -> Result<Arc<Listener>> {
        self.lock_listeners().get(number).cloned().flatten().ok_or(Error::NOT_FOUND)
    }

    /// All listeners with their numbers.
    pub fn listeners(&self) -> Vec<(u16, Arc<Listener>)> {
        let listeners = self.lock_listeners();
        let numbered = listeners.iter().zip(0u16..);
        numbered.filter_map(|(place, number)| Some((number, place.clone()?))).collect()
    }

    fn lock_listeners(&self) -> std::sync::MutexGuard<'_, Vec<Option<Arc<Listener>>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn listener_fd(&self, number: usize) -> Result<RawFd> {
        Ok(self.listener(number)?.fd.as_raw_fd())
    }

    // --- workers ---

    /// Frees what a dead process left: the accept right, its slots and their load. Another worker
    /// is woken to accept. Returns the number of slots.
    pub fn reap(&self, pid: u32) -> Result<usize> {
        let lock = &self.region.lock;
        let mut freed = 0;
        for (slot, number) in self.region.slots().iter().zip(0u16..) {
            let claim = slot.claim();
            if claim.pid() != Some(pid) {
                continue;
            }
            // The word first: a new owner of the slot must not find its right taken.
            let word = lock.word();
            if word.holder() == Some(number) {
                lock.release(word);
            }
            freed += usize::from(slot.reap(claim));
        }
        if freed > 0 && self.settings.has_accept_right() {
            wake_one_idle(self.region.slots(), &self.bells, None);
            self.arm_guard_if_overdue(now_us())?;
        }
        if freed > 0 {
            self.log.info(format_args!("process {pid} is dead: {freed} slots freed"));
        }
        Ok(freed)
    }

    pub fn arm_guard_if_overdue(&self, now_us: u64) -> Result<()> {
        guard::arm_if_overdue(&self.guard, &self.region, now_us, self.settings.accept_delay_us)
    }

    // --- counters ---

    pub fn slot(&self, number: usize) -> Result<&Slot> {
        self.region.slots().get(number).ok_or(Error::INVALID)
    }

    /// Sums over `slots`. The `size` member is the caller's.
    pub fn stats<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> herd_stats {
        let mut total = herd_stats { size: size_of::<herd_stats>() as u32, ..Default::default() };
        for slot in slots {
            let counters = &slot.counters;
            total.workers += u32::from(slot.claim().pid().is_some());
            total.connections_open += slot.open();
            total.reaps += slot.reaps();
            total.accepted += counters.accepted.load(Relaxed);
            total.closed += counters.closed.load(Relaxed);
            total.turns += counters.turns.load(Relaxed);
            total.wakeups += counters.wakeups.load(Relaxed);
            total.wasted_wakeups += counters.wasted_wakeups.load(Relaxed);
            total.accept_eagain += counters.accept_eagain.load(Relaxed);
            total.accept_retries += counters.accept_retries.load(Relaxed);
            total.backoffs += counters.backoffs.load(Relaxed);
            total.acquisitions += counters.acquisitions.load(Relaxed);
            total.failed_tries += counters.failed_tries.load(Relaxed);
            total.handovers += counters.handovers.load(Relaxed);
            total.guard_ticks += counters.guard_ticks.load(Relaxed);
            total.thefts += counters.thefts.load(Relaxed);
            total.stale_events += counters.stale_events.load(Relaxed);
        }
        total
    }
}
