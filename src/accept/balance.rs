//! Who should accept: pure decisions, numbers in and an answer out.

/// nginx's `ngx_accept_disabled` (ngx_event_accept.c): above 0 while more than 7/8 of the
/// connections are in use, and by how much. A worker skips as many tries for the accept right.
pub fn accept_disabled(capacity: u64, open: u64) -> u64 {
    let free = capacity.saturating_sub(open);
    (capacity / 8).saturating_sub(free)
}

/// What a worker knows about itself when it decides whether to accept.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub draining: bool,
    /// Out of descriptors or memory a moment ago.
    pub backing_off: bool,
    /// Connections accepted that the host has not taken yet.
    pub not_taken: usize,
    pub open: u64,
    pub capacity: u64,
    /// Tries still to skip. Only counts where others could accept instead.
    pub accept_disabled: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    /// Try for the accept right.
    Compete,
    /// Let others try first; a tick of the guard overrules this, so that a connection is not left
    /// waiting when all have skipped.
    Skip,
    /// Do not accept at all, whatever waits.
    Refuse,
}

pub fn stance(standing: &Standing) -> Stance {
    let refuses = standing.draining
        || standing.backing_off
        || standing.not_taken > 0
        || standing.open >= standing.capacity;
    if refuses {
        Stance::Refuse
    } else if standing.accept_disabled > 0 {
        Stance::Skip
    } else {
        Stance::Compete
    }
}

/// The least loaded of `idle` (slot, load); the first of several.
pub fn least_loaded(idle: impl Iterator<Item = (u16, u64)>) -> Option<u16> {
    idle.min_by_key(|&(_, load)| load).map(|(slot, _)| slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_disabled_is_nginxs() {
        // capacity, open, connection_n / 8 - free_connection_n
        let table = [
            (1024, 0, 0),
            (1024, 895, 0),
            (1024, 896, 0),
            (1024, 897, 1),
            (1024, 1024, 128),
            (64, 56, 0),
            (64, 57, 1),
            (64, 64, 8),
            (7, 7, 0),
            (1, 1, 0),
            (64, 70, 8),
        ];
        for (capacity, open, disabled) in table {
            assert_eq!(accept_disabled(capacity, open), disabled, "{open} of {capacity}");
        }
    }

    #[test]
    fn a_worker_competes_unless_something_speaks_against_it() {
        let free = Standing {
            draining: false,
            backing_off: false,
            not_taken: 0,
            open: 0,
            capacity: 8,
            accept_disabled: 0,
        };
        let table = [
            (free, Stance::Compete),
            (Standing { open: 7, ..free }, Stance::Compete),
            (Standing { open: 8, ..free }, Stance::Refuse),
            (Standing { open: 9, ..free }, Stance::Refuse),
            (Standing { draining: true, ..free }, Stance::Refuse),
            (Standing { backing_off: true, ..free }, Stance::Refuse),
            (Standing { not_taken: 1, ..free }, Stance::Refuse),
            (Standing { accept_disabled: 1, ..free }, Stance::Skip),
            (Standing { accept_disabled: 1, open: 8, ..free }, Stance::Refuse),
        ];
        for (standing, expected) in table {
            assert_eq!(stance(&standing), expected, "{standing:?}");
        }
    }

    #[test]
    fn the_least_loaded_is_the_first_of_the_least() {
        assert_eq!(least_loaded([].into_iter()), None);
        assert_eq!(least_loaded([(4, 3), (1, 2), (2, 2), (3, 9)].into_iter()), Some(1));
    }
}
