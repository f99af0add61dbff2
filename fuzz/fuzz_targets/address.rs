//! Texts as addresses.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::address(bytes));
