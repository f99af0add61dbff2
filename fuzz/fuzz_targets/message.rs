//! Messages into the queue of passed-on connections.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::message(bytes));
