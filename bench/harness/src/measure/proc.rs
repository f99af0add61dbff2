//! What the kernel says of a server's processes.

use std::fs;

/// Sums over a process and all its descendants.
#[derive(Clone, Copy, Default, Debug)]
pub struct Use {
    pub sleeps: f64,
    pub preemptions: f64,
    pub cpu_us: f64,
    pub resident_bytes: f64,
}

/// A process and all its descendants.
pub fn tree(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(tree);
    std::iter::once(pid).chain(below).collect()
}

fn number_after(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

pub fn usage(pid: u32) -> Use {
    let mut total = Use::default();
    for pid in tree(pid) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let schedule = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        total.sleeps += number_after(&status, "voluntary_ctxt_switches:");
        total.preemptions += number_after(&status, "nonvoluntary_ctxt_switches:");
        total.resident_bytes += number_after(&status, "RssAnon:") * 1024.0;
        total.cpu_us += number_after(&schedule, "") / 1000.0;
    }
    total
}

/// Puts all of a server's processes under one of the ordinary policies of sched(7), which takes no privilege.
pub fn schedule(pid: u32, policy: i32) {
    let parameters = libc::sched_param { sched_priority: 0 };
    for pid in tree(pid) {
        // SAFETY: sched_setscheduler(2) reads the parameters, and keeps no pointer to them.
        unsafe { libc::sched_setscheduler(pid as i32, policy, &parameters) };
    }
}

pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_this_very_process() {
        let own = std::process::id();
        assert!(tree(own).contains(&own));
        let used = usage(own);
        assert!(used.cpu_us > 0.0 && used.resident_bytes > 0.0, "{used:?}");
        assert_eq!(number_after("a:\t3\nbb: 4 kB\n", "bb:"), 4.0);
    }
}
