//! A host's use of events, descriptors and posted queues, beside a model.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herd::fuzzing::reactor(bytes));
