//! The herd as one process sees it: settings, the shared region, bells, guard and listeners, made by
//! the parent and inherited by its children.

use crate::abi::{HERD_LISTEN_DUAL_STACK, HERD_MODE_EXCLUSIVE, herd_listen_options, herd_stats};
use crate::accept::guard::Guard;
use crate::accept::listener::{Acceptance, Listener};
use crate::accept::listener_table::{ListenerSet, ListenerTable};
use crate::accept::neighbours::{Neighbours, ask};
use crate::log::Log;
use crate::mode::Mode;
use crate::reactor::RemoteQueue;
use crate::settings::Settings;
use crate::shm::Region;
use crate::shm::lock::Word;
use crate::shm::slot::{Claim, Slot};
use crate::sys::address::Address;
use crate::sys::bell::Bell;
use crate::sys::clock::now_us;
use crate::sys::epoll::Epoll;
use crate::sys::fork::ForkToken;
use crate::sys::record_lock;
use crate::sys::socket::ListenOptions;
use crate::sys::{Error, Result, epoll};
use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DEFAULT_BACKLOG: u32 = 4096;

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
    /// The changes of listeners that this process knows of.
    known_changes: AtomicU64,
}

impl Herd {
    pub fn new(settings: Settings, log: Log) -> Result<Herd> {
        let slots = settings.max_workers as usize;
        let shared = Herd::make_shared(&settings, slots);
        let (region, bells, guard) =
            shared.inspect_err(|error| log.error(format_args!("create: {error}")))?;
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
            guard,
            listeners: Mutex::new(ListenerTable::new(has_accept_right)),
            known_changes: AtomicU64::new(0),
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

    /// What all processes of the herd have in common.
    fn make_shared(settings: &Settings, slots: usize) -> Result<(Region, Vec<Bell>, Guard)> {
        let region_name = CString::new(format!("herd-{}", settings.name));
        let region_name = region_name.expect("a checked name has no NUL");
        let region = Region::new(&region_name, slots)?;
        let bells: Vec<Bell> = (0..slots).map(|_| Bell::new()).collect::<Result<_>>()?;
        let guard = Guard::new(settings.accept_delay_us, settings.handover_delay_us)?;
        Ok((region, bells, guard))
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
        let listener = self.may_change_listeners().and_then(|()| {
            let address = Address::parse(text)?;
            Listener::listen(&address, &listen_options(options, &address)?, acceptance)
        });
        self.insert(listener, format_args!("listen {text}"))
    }

    pub fn add_listener(&self, fd: RawFd, acceptance: Acceptance) -> Result<usize> {
        let listener = self.may_change_listeners().and_then(|()| Listener::adopt(fd, acceptance));
        self.insert(listener, format_args!("add listener {fd}"))
    }

    fn insert(&self, made: Result<Listener>, what: std::fmt::Arguments) -> Result<usize> {
        let inserted = made.and_then(|listener| self.lock_listeners().insert(listener));
        if inserted.is_ok() {
            self.note_listener_change();
        }
        inserted.inspect_err(|error| self.log.error(format_args!("{what}: {error}")))
    }

    pub fn remove_listener(&self, number: usize) -> Result<()> {
        self.may_change_listeners()?;
        self.lock_listeners().remove(number)?;
        self.note_listener_change();
        Ok(())
    }

    fn note_listener_change(&self) {
        let changes = self.region.listener_changes.fetch_add(1, SeqCst) + 1;
        self.known_changes.store(changes, SeqCst);
    }

    /// A holder of the accept right accepts for all workers, so all must have the same listeners.
    fn may_change_listeners(&self) -> Result<()> {
        if self.has_accept_right && self.free_slots()? < self.region.slots().len() {
            return Err(Error::BUSY);
        }
        Ok(())
    }

    pub fn listener(&self, number: usize) -> Result<Arc<Listener>> {
        self.lock_listeners().get(number).ok_or(Error::NOT_FOUND)
    }

    /// The listeners as they are now, for a new worker. A child that was forked before they were
    /// changed does not know them all.
    pub fn listeners(&self) -> Result<ListenerSet> {
        let knows_all =
            self.known_changes.load(SeqCst) == self.region.listener_changes.load(SeqCst);
        if self.has_accept_right && !knows_all {
            self.log.error(format_args!("worker: forked before the listeners were changed"));
            return Err(Error::errno(libc::ESTALE));
        }
        Ok(self.lock_listeners().snapshot())
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

fn listen_options(hosts: &herd_listen_options, address: &Address) -> Result<ListenOptions> {
    let dual_stack = hosts.flags & HERD_LISTEN_DUAL_STACK != 0;
    let is_v6 = matches!(address, Address::Inet(inet) if inet.is_ipv6());
    let has_file = address.unix_path().is_some();
    let fits = hosts.flags & !HERD_LISTEN_DUAL_STACK == 0
        && hosts.unix_mode & !0o777 == 0
        && (is_v6 || !dual_stack)
        && (has_file || hosts.unix_mode == 0);
    if !fits {
        return Err(Error::INVALID);
    }
    Ok(ListenOptions {
        backlog: if hosts.backlog == 0 { DEFAULT_BACKLOG } else { hosts.backlog },
        dual_stack,
        unix_mode: Some(hosts.unix_mode).filter(|&mode| mode != 0),
    })
}
