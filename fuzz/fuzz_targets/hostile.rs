//! A herd in whose memory anything can stand.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::hostile(bytes));
