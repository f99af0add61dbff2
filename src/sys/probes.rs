//! Places that a tracer can watch: USDT probes of the provider `herd`, each a NOP and a note in the
//! ELF file that says where its arguments are. Off, they cost that NOP and no more: the arguments are
//! numbers that the caller has at hand. docs/observing.md has a use for each.

use probe::probe;

/// A connection was accepted.
#[inline(always)]
pub fn accept(slot: u16, listener: u16, fd: i32, open: u64) {
    probe!(herd, accept, slot, listener, fd, open);
}

/// The accept right was acquired.
#[inline(always)]
pub fn acquire(slot: u16) {
    probe!(herd, acquire, slot);
}

/// The accept right was given up, after `held_us`.
#[inline(always)]
pub fn release(slot: u16, held_us: u64) {
    probe!(herd, release, slot, held_us);
}

/// Another worker was asked to accept.
#[inline(always)]
pub fn handover(from_slot: u16, to_slot: u16, load: u64) {
    probe!(herd, handover, from_slot, to_slot, load);
}

/// The accept right was taken from a holder that makes no progress.
#[inline(always)]
pub fn theft(slot: u16, from_slot: u16) {
    probe!(herd, theft, slot, from_slot);
}
