//! What the kernel says of a worker's process. A worker that was stopped or killed cannot say so itself: in
//! the herd's memory it is in its last state until somebody notices.

use std::fs;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Process {
    /// As far as can be told: a worker's process id is that of its own pid namespace, where it can be
    /// another process's here, or nobody's.
    #[default]
    Runs,
    /// By SIGSTOP or a debugger.
    Stopped,
    /// And nobody has waited for it yet.
    Dead,
}

pub fn look(pid: u32, herd_name: &str) -> Process {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    match state(&read("stat")) {
        Some('T' | 't') if maps_herd(&read("maps"), herd_name) => Process::Stopped,
        Some('Z' | 'X') if !has_threads(pid) => Process::Dead,
        _ => Process::Runs,
    }
}

/// A process whose first thread has ended looks dead, and is not.
fn has_threads(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// From proc_pid_stat(5). The program's name, in parentheses, can have any characters.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// By proc_pid_maps(5): whether the herd's file is mapped, which may have lost its name meanwhile.
fn maps_herd(maps: &str, name: &str) -> bool {
    let name = name.split_once(':').map_or(name, |(_, name)| name);
    let path = |line: &str| line.find("/dev/shm/herd-").map(|at| line[at..].to_owned());
    let file = |path: String| path.trim_end_matches(" (deleted)").ends_with(&format!("-{name}"));
    maps.lines().filter_map(path).any(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_behind_the_programs_name() {
        assert_eq!(state("12 (server) T 1 12 12"), Some('T'));
        assert_eq!(state("12 (a) S ) S 1 12"), Some('S'));
        assert_eq!(state(""), None);
    }

    #[test]
    fn a_zombie_is_dead_and_a_living_process_is_not() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while look(child.id(), "web") != Process::Dead && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(look(child.id(), "web"), Process::Dead);
        child.wait().unwrap();
        assert_eq!(look(std::process::id(), "web"), Process::Runs);
        assert_eq!(look(u32::MAX, "web"), Process::Runs);
    }

    #[test]
    fn a_worker_has_mapped_its_herd() {
        let maps = "7f00-7f10 r--p 00000000 08:01 1  /usr/lib/libc.so\n\
                    7f10-7f20 rw-s 00000000 00:18 5  /dev/shm/herd-0-web\n";
        assert!(maps_herd(maps, "web") && maps_herd(maps, "0:web"));
        assert!(!maps_herd(maps, "we") && !maps_herd(maps, "eb") && !maps_herd("", "web"));
        assert!(maps_herd("7f10-7f20 rw-s 0 00:18 5 /dev/shm/herd-0-web (deleted)\n", "web"));
    }
}
