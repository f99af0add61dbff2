//! The drivers as property tests: short inputs in the quick suite, shrunk when one fails.

use crate::sys::fork::NO_OTHER_FORK;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::PoisonError;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Bytes that begin operations come in groups: shrinking takes a whole one out.
fn operations(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<[u8; 4]>(), 0..most).prop_map(|groups| groups.concat())
}

macro_rules! property {
    ($name:ident, $driver:path, $cases:expr, $most:expr) => {
        proptest! {
            #![proptest_config(config($cases))]
            #[test]
            fn $name(bytes in operations($most)) {
                // A child of another test would hold descriptors open, and its death change who lives.
                let _alone = NO_OTHER_FORK.lock().unwrap_or_else(PoisonError::into_inner);
                $driver(&bytes);
            }
        }
    };
}

property!(the_reactor_is_as_its_model, super::reactor, 400, 150);
property!(timers_are_as_a_sorted_list, super::timers, 300, 150);
property!(addresses_are_parsed_or_refused, super::address, 2000, 4);
property!(messages_are_what_was_sent_or_dropped, super::message, 300, 60);
property!(any_file_is_looked_at_safely, super::region_file, 200, 20);
property!(a_herd_survives_any_memory, super::hostile, 250, 60);
