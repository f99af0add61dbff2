//! Reading a region's figures, from inside the herd or from outside: sums, comparisons, percentiles.
//! It reads only, and trusts nothing that it reads.

pub mod imbalance;
mod percentile;
pub mod text;

use crate::abi::*;
use crate::shm::Source;
use crate::shm::slot::{Condition, Slot};
use crate::shm::times::{Histogram, Times};
use crate::sys::{Error, Result};
use imbalance::Imbalance;
use std::mem::size_of;

/// The figures of one slot. -EINVAL: no such slot.
pub fn worker(source: &dyn Source, slot: usize) -> Result<herd_stats> {
    let stats = empty(source)?;
    figures(source, slot, stats, stats.now_us)
}

/// The same without the present wait or turn. Its beginning and the sum of those before are not read
/// in one piece, and it ends with its worker: with it a counter can go back.
fn worker_counted(source: &dyn Source, slot: usize) -> Result<herd_stats> {
    figures(source, slot, empty(source)?, 0)
}

/// Fills in `stats`. What the worker has been at counts up to `until_us`.
fn figures(
    source: &dyn Source,
    slot: usize,
    mut stats: herd_stats,
    until_us: u64,
) -> Result<herd_stats> {
    let mut condition = None;
    let mut compared = Comparison::default();
    source.with_slot(slot, &mut |slot| {
        slot.add_to(&mut stats, until_us);
        condition = slot.condition();
        compared.add(slot);
    })?;
    if let Some(condition) = condition {
        stats.state = state(condition);
        stats.state_since_us = condition.since_us;
        stats.pid = condition.pid;
    }
    compared.store(&mut stats);
    note_holder(source, &mut stats)?;
    Ok(stats)
}

/// The sums of all slots.
pub fn total(source: &dyn Source) -> Result<herd_stats> {
    let mut stats = empty(source)?;
    let mut compared = Comparison::default();
    for number in 0..source.identity().slots() {
        source.with_slot(number, &mut |slot| {
            let now_us = stats.now_us;
            slot.add_to(&mut stats, now_us);
            compared.add(slot);
        })?;
    }
    compared.store(&mut stats);
    note_holder(source, &mut stats)?;
    Ok(stats)
}

/// The times of one slot, or of all. -EINVAL: no such slot or histogram.
pub fn histogram(source: &dyn Source, slot: Option<usize>, which: u32) -> Result<herd_histogram> {
    let mut sum = herd_histogram::default();
    let choose: fn(&Times) -> &Histogram = match which {
        HERD_HISTOGRAM_RIGHT_HELD => |times| &times.right_held,
        HERD_HISTOGRAM_ACCEPT_DELAY => |times| &times.accept_delay,
        HERD_HISTOGRAM_HANDOVER => |times| &times.handover,
        HERD_HISTOGRAM_TURN_WORK => |times| &times.turn_work,
        _ => return Err(Error::INVALID),
    };
    let slots = match slot {
        Some(slot) => slot..slot.saturating_add(1),
        None => 0..source.identity().slots(),
    };
    for number in slots {
        source.with_times(number, &mut |times| choose(times).add_to(&mut sum))?;
    }
    percentile::fill(&mut sum);
    Ok(sum)
}

fn empty(source: &dyn Source) -> Result<herd_stats> {
    Ok(herd_stats {
        size: size_of::<herd_stats>() as u32,
        now_us: source.until_us()?,
        slots: source.identity().slots() as u32,
        holder: -1,
        ..Default::default()
    })
}

fn state(condition: Condition) -> u32 {
    match condition {
        Condition { rests: true, .. } => HERD_STATE_RESTING,
        Condition { waits: true, .. } => HERD_STATE_IDLE,
        _ => HERD_STATE_BUSY,
    }
}

fn note_holder(source: &dyn Source, stats: &mut herd_stats) -> Result<()> {
    let holder = source.word()?.holder().filter(|&slot| source.check_slot(slot.into()).is_ok());
    if let Some(slot) = holder {
        stats.holder = slot.into();
        source.with_slot(slot.into(), &mut |slot| stats.holder_since_us = slot.right_since_us())?;
    }
    Ok(())
}

/// How unevenly the workers are loaded.
#[derive(Default)]
struct Comparison {
    open: Imbalance,
    accepted: Imbalance,
}

impl Comparison {
    fn add(&mut self, slot: &Slot) {
        if slot.condition().is_some() {
            self.open.add(slot.open());
            self.accepted.add(slot.accepted());
        }
    }

    fn store(&self, stats: &mut herd_stats) {
        (stats.open_least, stats.open_most) = self.open.range();
        (stats.accepted_least, stats.accepted_most) = self.accepted.range();
        stats.open_jain = self.open.jain();
        stats.accepted_jain = self.accepted.jain();
    }
}
