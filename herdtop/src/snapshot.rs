//! A herd's figures at one moment, by the library's C interface.

use crate::process::{self, Process};
use libherd::abi::*;
use libherd::ffi::error::herd_strerror;
use libherd::ffi::herd::{herd_balance, herd_destroy, herd_mode};
use libherd::ffi::observe::{herd_is_alive, herd_open, herd_slots};
use libherd::ffi::stats::{herd_stats_histogram, herd_stats_total, herd_stats_worker};
use nix::time::{ClockId, clock_gettime};
use std::ffi::{CStr, CString, c_int};
use std::mem::size_of;
use std::ptr;

const NOT_FOUND: c_int = -(nix::errno::Errno::ENOENT as c_int);

pub struct Herd {
    handle: *mut herd,
    name: String,
}

/// One slot that has, or once had, a worker.
#[derive(Clone, Default)]
pub struct Slot {
    pub number: usize,
    pub stats: herd_stats,
    pub process: Process,
}

#[derive(Clone, Default)]
pub struct Snapshot {
    pub is_alive: bool,
    /// For how long nothing has been heard of a herd that has ended; 0: it has not, or never was.
    pub ended_for_us: u64,
    pub mode: &'static str,
    pub balance: &'static str,
    pub total: herd_stats,
    pub slots: Vec<Slot>,
    pub right_held: herd_histogram,
    pub accept_delay: herd_histogram,
    pub handover: herd_histogram,
    pub turn_work: herd_histogram,
}

impl Snapshot {
    /// Whether only the holder of the accept right accepts.
    pub fn has_right(&self) -> bool {
        ["mutex", "handoff"].contains(&self.mode)
    }
}

fn checked(code: c_int) -> Result<c_int, String> {
    if code >= 0 {
        return Ok(code);
    }
    let text = herd_strerror(code);
    // SAFETY: herd_strerror returns static text.
    Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl Herd {
    pub fn open(name: &str) -> Result<Herd, String> {
        let text = CString::new(name).map_err(|_| "a name has no NUL".to_owned())?;
        let mut handle = ptr::null_mut();
        match herd_open(text.as_ptr(), &mut handle) {
            NOT_FOUND => return Err(format!("{name}: no herd has this name (see --list)")),
            code => checked(code).map_err(|why| format!("{name}: {why}"))?,
        };
        Ok(Herd { handle, name: name.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The herd that has the name now, if this one has died. True: it is another one.
    pub fn follow(&mut self) -> bool {
        if !self.is_alive()
            && let Ok(next) = Herd::open(&self.name)
            && next.is_alive()
        {
            *self = next;
            return true;
        }
        false
    }

    pub fn is_alive(&self) -> bool {
        herd_is_alive(self.handle) == 1
    }

    pub fn snapshot(&self) -> Result<Snapshot, String> {
        self.look().map_err(|why| format!("{}: {why}", self.name))
    }

    fn look(&self) -> Result<Snapshot, String> {
        // First, so that the figures of a herd that has ended are its last.
        let is_alive = self.is_alive();
        let mut total = empty();
        checked(herd_stats_total(self.handle, &mut total))?;
        let mut slots = Vec::new();
        for number in 0..checked(herd_slots(self.handle))? {
            let mut stats = empty();
            checked(herd_stats_worker(self.handle, number, &mut stats))?;
            if stats.workers > 0 || stats.turns > 0 || stats.opened > 0 {
                let process = match stats.pid {
                    pid if is_alive && pid != 0 => process::look(pid, &self.name),
                    _ => Process::default(),
                };
                slots.push(Slot { number: number as usize, stats, process });
            }
        }
        Ok(Snapshot {
            is_alive,
            ended_for_us: match total.now_us {
                last_us if !is_alive && last_us > 0 => now_us().saturating_sub(last_us),
                _ => 0,
            },
            mode: mode_name(checked(herd_mode(self.handle))? as u32),
            balance: balance_name(checked(herd_balance(self.handle))? as u32),
            total,
            slots,
            right_held: self.times(HERD_HISTOGRAM_RIGHT_HELD)?,
            accept_delay: self.times(HERD_HISTOGRAM_ACCEPT_DELAY)?,
            handover: self.times(HERD_HISTOGRAM_HANDOVER)?,
            turn_work: self.times(HERD_HISTOGRAM_TURN_WORK)?,
        })
    }

    fn times(&self, which: u32) -> Result<herd_histogram, String> {
        let mut histogram = herd_histogram::default();
        checked(herd_stats_histogram(self.handle, HERD_ALL_SLOTS, which, &mut histogram))?;
        Ok(histogram)
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        herd_destroy(self.handle);
    }
}

/// On the clock of `herd_stats.now_us`.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC exists on Linux");
    now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1000
}

fn empty() -> herd_stats {
    herd_stats { size: size_of::<herd_stats>() as u32, ..Default::default() }
}

fn mode_name(mode: u32) -> &'static str {
    match mode {
        HERD_MODE_EXCLUSIVE => "exclusive",
        HERD_MODE_MUTEX => "mutex",
        HERD_MODE_REUSEPORT => "reuseport",
        HERD_MODE_HANDOFF => "handoff",
        HERD_MODE_SHARED => "shared",
        _ => "unknown",
    }
}

fn balance_name(balance: u32) -> &'static str {
    match balance {
        HERD_BALANCE_SPREAD => "spread",
        HERD_BALANCE_PACK => "pack",
        HERD_BALANCE_CALLBACK => "callback",
        HERD_BALANCE_ROUND_ROBIN => "round-robin",
        _ => "unknown",
    }
}
