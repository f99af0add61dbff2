//! Why a figure can be outside its limit, or a peer's be better, as experiments, perf, strace and the
//! sources tell.

/// By metric, and by the promise's words or the peer's name, each by its beginning.
const REASONS: [(&str, &str, &str); 21] = [
    // Of promises.
    ("keep_alive_cpu_of_1", "of raw epoll", NOISE),
    ("lock", "of a bare CAS pair", NEIGHBOURS),
    ("cpu", "of raw epoll", BOTH),
    ("cpu", "exclusive/spread of rotation", REMOVES),
    ("stall_", "accepted within", WORST),
    ("stall_", "share that waits", WORST),
    ("kill_", "kill -9", WORST),
    ("stop_", "SIGSTOP", WORST),
    ("orphan_", "no master", WORST),
    // Of peers.
    ("rate_sleeps", "", SLEEPS),
    ("rate_switches", "", SLEEPS),
    ("system_calls", "", REMOVES),
    ("cpu", "raw-mutex", ALONE),
    ("cpu", "nginx-mutex", ALONE),
    ("cpu", "raw-", REMOVES),
    ("keep_alive", "raw-", TOGETHER),
    ("hold_", "raw-pass", TURNS),
    ("timer", "libev", CLOCK),
    ("idle_bytes", "nginx", BUFFERS),
    ("turn_of_1", "", EVENTS),
    ("event_of_64", "", EVENTS),
];
const NOISE: &str = "where ~ here and the peer's ± in the table of kept connections are as large as what is missed, the rounds decide nothing";
const NEIGHBOURS: &str = "the hundred instructions around the two exchanges suffer more than the bare pair from what else the machine does just \
                          then. `make bench-promises` says what it is at another moment";
const REMOVES: &str = "libherd's hosts remove a connection from the set before they close it, one epoll_ctl more (strace), so \
                       that a forked helper which has the descriptor too brings no events of it";
const BOTH: &str = "libherd's hosts remove a connection from the epoll set before they close it, one epoll_ctl more, which the next row \
                    has both do (all other system calls are the same, counted). In MUTEX a worker that takes over while the holder is busy \
                    runs on another core; by hand nobody takes over. The row after that compares without it";
const WORST: &str = "the worst client of all rounds: compare with \"nothing happens\", which is what the machine adds by itself";
const SLEEPS: &str = "the scheduler's doing: a worker that is woken on the client's core in the middle of its connect takes that core at once \
                      or lets it send first, and then one sleep does for connection and request. With workers that push nobody \
                      off a core (SCHED_BATCH), or clients on a core of their own, the difference is gone: see the columns beside it";
const ALONE: &str = "while one worker holds the mutex by hand it serves alone, and no two cores touch one listener (raw-exclusive, \
                     where all do, takes more than libherd's best); whoever comes while it is blocked waits (see the blocked worker)";
const TOGETHER: &str = "the bare ways leave nearly all connections to one worker, whose waits bring more requests at a time than \
                        those of four. With one worker (the last column) all have the same number of them";
const TURNS: &str = "taking strict turns is exact by construction; each connection pays for it with a hop (see its CPU)";
const CLOCK: &str = "herd_timer_start checks its handles and reads the clock, so that a timer counts from the call; libev counts from \
                     the begin of the turn (callgrind)";
const BUFFERS: &str = "nginx gives a connection's buffers back while it is idle; hello_prefork, like all the small servers here, keeps \
                       them: the host's choice. libherd's own part is in the promises below";
const EVENTS: &str = "each event's registration and generation are checked, so that one of a closed descriptor is dropped, and \
                      it goes through the posted queue, which nginx's order needs (callgrind)";

/// `what`: the promise's words, or the peer's name.
pub fn reason(metric: &str, what: &str) -> &'static str {
    let fits =
        |&&(of, begin, _): &&(&str, &str, &str)| metric.starts_with(of) && what.starts_with(begin);
    REASONS.iter().find(fits).map_or("not found out", |&(_, _, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_and_what_is_lost_have_reasons_of_their_own() {
        assert_eq!(reason("cpu", "of raw epoll of its way"), BOTH);
        assert_eq!(reason("cpu", "raw-mutex"), ALONE);
        assert_eq!(reason("cpu", "raw-rotate"), REMOVES);
        assert_eq!(reason("keep_alive_cpu_of_1", "of raw epoll"), NOISE);
        assert_eq!(reason("keep_alive_cpu_of_1", "raw-exclusive"), TOGETHER);
        assert_eq!(reason("short", "libuv-shared"), "not found out");
    }
}
