//! The monotonic clock. Every deadline of the library is a number of microseconds on it; all
//! processes of a machine share it.

use nix::time::{ClockId, clock_gettime};

pub const US_PER_MS: u64 = 1000;

/// Microseconds since an arbitrary start, never going back.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC exists on Linux");
    now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1000
}

/// Does nothing for a millisecond, or until a signal comes.
pub fn rest_a_millisecond() {
    // SAFETY: no descriptors, so no memory.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
}

/// Microseconds from 1970 to the start of `now_us`, as the system's clock is set at present.
pub fn start_since_1970_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).expect("CLOCK_REALTIME exists on Linux");
    let since_1970_us = now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1000;
    since_1970_us.saturating_sub(now_us())
}

/// Milliseconds until `deadline_us` as epoll_wait(2) wants them: rounded up, so that the wait does
/// not end before the deadline.
pub fn timeout_until_ms(deadline_us: u64, now_us: u64) -> i32 {
    let left_us = deadline_us.saturating_sub(now_us);
    left_us.div_ceil(US_PER_MS).min(i32::MAX as u64) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_and_never_wrap() {
        assert_eq!(timeout_until_ms(10, 20), 0);
        assert_eq!(timeout_until_ms(20, 20), 0);
        assert_eq!(timeout_until_ms(21, 20), 1);
        assert_eq!(timeout_until_ms(1020, 20), 1);
        assert_eq!(timeout_until_ms(1021, 20), 2);
        assert_eq!(timeout_until_ms(u64::MAX, 0), i32::MAX);
    }
}
