//! How a worker conducts itself towards the accept right, and whether that changed since it last tried.

use super::right::Asked;
use crate::accept::suspicion::Suspicion;
use std::cell::Cell;

/// A default one is that of a worker which has not tried yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Conduct {
    /// Tries for the accept right still to be left to others (nginx: ngx_accept_disabled).
    pub accept_disabled: u64,
    pub back_off_until_us: Option<u64>,
    /// Would accept if it were asked to.
    pub willing: bool,
    /// Tried for the accept right when it last could.
    pub competes: bool,
    /// Handed the right over, and leaves the next try to the other.
    pub has_yielded: bool,
    pub watches_guard: bool,
    /// Why its next try comes first and looks for waiting connections.
    pub asked: Option<Asked>,
    pub suspicion: Suspicion,
}

/// Of a worker that competes and has nothing else to see to: a try is the compare-and-swap
/// alone, and nothing at all where there is no lock.
const PLAIN: Conduct = Conduct {
    accept_disabled: 0,
    back_off_until_us: None,
    willing: true,
    competes: true,
    has_yielded: false,
    watches_guard: true,
    asked: None,
    suspicion: Suspicion::NONE,
};

/// Where a worker's conduct is kept. All changes go through here, so that one load tells whether it
/// still is what the last try found.
#[derive(Default)]
pub struct ConductCell {
    conduct: Cell<Conduct>,
    is_plain: Cell<bool>,
}

impl ConductCell {
    pub fn get(&self) -> Conduct {
        self.conduct.get()
    }

    pub fn change(&self, edit: impl FnOnce(&mut Conduct)) {
        let former = self.conduct.get();
        let mut conduct = former;
        edit(&mut conduct);
        if conduct != former {
            self.conduct.set(conduct);
            self.look_closer();
        }
    }

    /// Takes one thing out of it, and leaves the default in its place.
    pub fn take<T: Default>(&self, thing: impl FnOnce(&mut Conduct) -> &mut T) -> T {
        let mut taken = T::default();
        self.change(|own| taken = std::mem::take(thing(own)));
        taken
    }

    /// Has the next try look at everything.
    pub fn look_closer(&self) {
        self.is_plain.set(false);
    }

    /// To be called at the end of a try that won, which has looked at everything.
    pub fn look_over(&self) {
        self.is_plain.set(self.conduct.get() == PLAIN);
    }

    /// True: a try that won found it so, and nothing has changed since.
    pub fn is_plain(&self) -> bool {
        self.is_plain.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_makes_the_next_try_look_closer() {
        let cell = ConductCell::default();
        cell.look_over();
        assert!(!cell.is_plain());
        cell.change(|own| *own = PLAIN);
        assert!(!cell.is_plain());
        cell.look_over();
        assert!(cell.is_plain());
        let edits: [fn(&mut Conduct); 6] = [
            |own| own.accept_disabled = 1,
            |own| own.back_off_until_us = Some(0),
            |own| own.willing = false,
            |own| own.competes = false,
            |own| own.has_yielded = true,
            |own| own.asked = Some(Asked::ByBell),
        ];
        for edit in edits {
            cell.change(|own| *own = PLAIN);
            cell.look_over();
            assert!(cell.is_plain());
            cell.change(edit);
            assert!(!cell.is_plain());
            cell.look_over();
            assert!(!cell.is_plain());
        }
        cell.change(|own| *own = PLAIN);
        cell.look_over();
        assert!(!cell.take(|own| &mut own.has_yielded));
        assert!(cell.is_plain());
        assert!(cell.take(|own| &mut own.watches_guard));
        assert!(!cell.is_plain());
    }
}
