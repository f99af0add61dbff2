//! Timers, beside a sorted list.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::timers(bytes));
