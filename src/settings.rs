//! The host's configuration, checked and with its defaults filled in.

use crate::abi::{
    HERD_ANY_SLOT, HERD_MAX_WORKERS, HERD_MODE_HANDOFF, HERD_MODE_REUSEPORT, herd_config,
};
use crate::accept::balance::{Balance, Pick};
use crate::log::Log;
use crate::mode::Mode;
use crate::sys::clock::US_PER_MS;
use crate::sys::host::HostPointer;
use crate::sys::{Error, Result};
use std::ops::RangeInclusive;

pub struct Settings {
    /// What the host asked for; see `Herd::mode` for what it got.
    pub wished_mode: u32,
    pub balance: Balance,
    /// Comes before `balance`.
    pub pick: Option<Pick>,
    /// The slot whose worker alone accepts, in HANDOFF.
    pub acceptor_slot: Option<u16>,
    pub max_workers: u32,
    pub worker_connections: u32,
    pub accept_delay_us: u64,
    pub handover_delay_us: u64,
    pub accept_batch: u32,
    /// The host left accept_batch to the library.
    pub adapts_batch: bool,
    pub name: String,
    /// Whether the host gave the name: then others find the herd by it.
    pub is_named: bool,
}

pub const DEFAULT_NAME: &str = "herd";

const DEFAULT_WORKERS: u32 = 64;

/// Default of accept_batch where a batch is shared out among the workers.
pub const HANDOFF_ACCEPT_BATCH: u32 = 16;

impl Settings {
    pub fn new(config: &herd_config, name: &str, log: &Log) -> Result<Settings> {
        let check = Check { log };
        if config.reserved != 0 {
            return check.says("reserved", config.reserved, Err(Error::errno(libc::E2BIG)));
        }
        let balance_data = HostPointer(config.balance_data);
        let balance = Balance::resolve(config.balance, config.balance_callback, balance_data);
        let accept_delay = config.accept_delay_ms;
        let passes_on = config.mode == HERD_MODE_HANDOFF;
        let balance = balance.and_then(|balance| {
            if balance.fits(passes_on) { Ok(balance) } else { Err(Error::INVALID) }
        });
        let default_batch = if passes_on { HANDOFF_ACCEPT_BATCH } else { 1 };
        Ok(Settings {
            // A mode that does not exist is refused before anything is made.
            wished_mode: check
                .says("mode", config.mode, Mode::resolve(config.mode, true))
                .map(|_| config.mode)?,
            balance: check.fits(config.mode, check.says("balance", config.balance, balance)?)?,
            pick: check.pick(config)?,
            acceptor_slot: check.acceptor_slot(config)?,
            max_workers: check.range(
                "max_workers",
                config.max_workers,
                DEFAULT_WORKERS,
                1..=HERD_MAX_WORKERS,
            )?,
            worker_connections: check.range(
                "worker_connections",
                config.worker_connections,
                1024,
                1..=1 << 30,
            )?,
            accept_delay_us: u64::from(check.range(
                "accept_delay_ms",
                accept_delay,
                500,
                1..=60_000,
            )?) * US_PER_MS,
            handover_delay_us: check
                .range("handover_delay_us", config.handover_delay_us, 500, 1..=1_000_000)?
                .into(),
            adapts_batch: passes_on && config.accept_batch == 0,
            accept_batch: check.range(
                "accept_batch",
                config.accept_batch,
                default_batch,
                1..=1024,
            )?,
            name: check.name(name)?,
            is_named: !config.name.is_null(),
        })
    }
}

/// Whether a herd can have this name. It becomes a part of a file's name, and where
/// hosts make files of their own by it, `.` and `..` would be folders.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=63).contains(&name.len()) && name.bytes().all(allowed) && ![".", ".."].contains(&name)
}

/// Says in the log what is wrong with a member.
struct Check<'a> {
    log: &'a Log,
}

impl Check<'_> {
    fn says<T>(&self, member: &str, value: u32, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            self.log.error(format_args!("create: {member} {value}: {error}"));
        })
    }

    /// The kernel, or the program that steers, spreads connections over the members of a listener.
    fn fits(&self, mode: u32, balance: Balance) -> Result<Balance> {
        if mode == HERD_MODE_REUSEPORT && matches!(balance, Balance::Pack) {
            self.log.error(format_args!("create: mode reuseport does not go with balance pack"));
            return Err(Error::INVALID);
        }
        Ok(balance)
    }

    fn range(
        &self,
        member: &str,
        value: u32,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32> {
        match value {
            0 => Ok(default),
            value if range.contains(&value) => Ok(value),
            _ => {
                let (least, most) = range.into_inner();
                self.log
                    .error(format_args!("create: {member} {value} is not in {least} to {most}"));
                Err(Error::INVALID)
            }
        }
    }

    fn pick(&self, config: &herd_config) -> Result<Option<Pick>> {
        if config.pick_callback.is_some() && config.mode != HERD_MODE_HANDOFF {
            self.log.error(format_args!("create: pick_callback goes with HERD_MODE_HANDOFF only"));
            return Err(Error::INVALID);
        }
        let data = HostPointer(config.pick_data);
        Ok(config.pick_callback.map(|callback| Pick { callback, data }))
    }

    fn acceptor_slot(&self, config: &herd_config) -> Result<Option<u16>> {
        let slot = config.acceptor_slot;
        if slot == HERD_ANY_SLOT || slot == 0 {
            return Ok(None);
        }
        if config.mode != HERD_MODE_HANDOFF {
            self.log.error(format_args!("create: acceptor_slot goes with HERD_MODE_HANDOFF only"));
            return Err(Error::INVALID);
        }
        let slots = if config.max_workers == 0 { DEFAULT_WORKERS } else { config.max_workers };
        let number = u16::try_from(slot).ok().filter(|&number| u32::from(number) < slots);
        let Some(number) = number else {
            self.log.error(format_args!(
                "create: acceptor_slot is {slot}, and must be 1 to {}, one less than max_workers",
                slots.saturating_sub(1)
            ));
            return Err(Error::INVALID);
        };
        Ok(Some(number))
    }

    fn name(&self, name: &str) -> Result<String> {
        if is_name(name) {
            return Ok(name.to_owned());
        }
        self.log.error(format_args!(
            "create: a name is 1 to 63 letters, digits, '_', '-' and '.', and neither '.' nor '..'"
        ));
        Err(Error::INVALID)
    }
}
