//! herd-bench: libherd beside its peers, measured here and simulated beyond.

use herd_bench::sim::{studies, validation};

fn main() {
    for check in validation::validate(|_, _| None) {
        let verdict = if check.holds() { "ok" } else { "OFF" };
        println!(
            "{:20} {:20} {:8.4} {:8.4} {verdict}",
            check.metric, check.contender, check.simulated, check.measured
        );
    }
    for row in studies::run(40_000) {
        println!(
            "{:8} {:40} {:18} {:8.3} {:7.3} {:7.2} {:10.0} {:10.0} {:10.0} {:6.1}",
            row.study,
            row.case,
            row.way,
            row.jain,
            row.moves_per_connection,
            row.sleeps_per_connection,
            row.accept_p999_us,
            row.accept_worst_us,
            row.answer_p999_us,
            row.overhead_us
        );
    }
}
