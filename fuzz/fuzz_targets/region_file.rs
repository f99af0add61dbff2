//! A herd's file with any content, looked at by an observer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::region_file(bytes));
