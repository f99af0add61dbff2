//! One simulated worker's turn. What it decides, the library's code decides; the order of the calls
//! is that of src/worker/ (`turn`, `right`, `handover`, `guarding`), and has to follow it.

use super::engine::{Cause, Engine};
use super::shapes::US;
use super::{Scenario, Way};
use herd::policy::*;
use std::collections::VecDeque;

/// nginx re-adds its listener after so many accepts (ngx_event_accept.c).
const ACCEPTS_PER_ROTATION: u64 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Waiting,
    Woken(Cause),
    Running,
    Blocked,
}

/// What epoll has for a worker beside its listener.
#[derive(Clone, Copy)]
pub enum Ready {
    Request { arrived: u64 },
    Closed,
}

/// What is left of a turn.
pub enum Segment {
    Cpu(u64),
    Block(u64),
    Answer { arrived: u64, has_blocked: bool },
    Close,
}

/// Why it looks for connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    ByBell,
    ByGuard,
}

pub struct Worker {
    pub slot: usize,
    pub doing: Doing,
    pub ready: VecDeque<Ready>,
    pub own_backlog: VecDeque<u64>,
    pub segments: VecDeque<Segment>,
    pub slice_used: u64,
    /// Waits so far.
    pub waits: u64,
    pub armed: bool,
    /// In the listener's wait queue.
    pub place: u64,
    pub willing: bool,
    gate: Option<Gate>,
    neighbours: Neighbours,
    lookout: Lookout,
    pace: Pace,
    suspicion: Suspicion,
    accept_disabled: u64,
    competes: bool,
    has_yielded: bool,
    has_woken: bool,
    asked: Option<Asked>,
    bell_rang: bool,
    /// The guard's tick that this worker has pulled in: from when, to when.
    pulled_in: Option<(u64, u64)>,
    turn_began_us: u64,
    accepted_in_turn: u64,
    holds: bool,
}

impl Worker {
    pub fn new(slot: usize, way: Way) -> Worker {
        let has_gate = matches!(way, Way::NginxMutex | Way::HerdMutex(_));
        Worker {
            slot,
            doing: Doing::Running,
            ready: VecDeque::new(),
            own_backlog: VecDeque::new(),
            segments: VecDeque::new(),
            slice_used: 0,
            waits: 0,
            armed: false,
            place: 0,
            willing: false,
            gate: has_gate.then(|| Gate::new(slot as u16)),
            neighbours: Neighbours::of_worker(slot as u16),
            lookout: Lookout::default(),
            pace: Pace::default(),
            suspicion: Suspicion::NONE,
            accept_disabled: 0,
            competes: false,
            has_yielded: false,
            has_woken: false,
            asked: None,
            bell_rang: false,
            pulled_in: None,
            turn_began_us: 0,
            accepted_in_turn: 0,
            holds: false,
        }
    }

    fn condition(&self) -> Condition {
        Condition { willing: self.willing, competes: self.competes, has_woken: self.has_woken }
    }
}

impl Engine {
    fn balance(&self) -> Option<Balance> {
        match self.scenario.way {
            Way::HerdExclusive(balance) | Way::HerdMutex(balance) => Some(balance),
            _ => None,
        }
    }

    fn spend(&mut self, worker: usize, time: u64) {
        self.outcome.overhead += time;
        self.workers[worker].segments.push_back(Segment::Cpu(time));
    }

    fn connection_waits(&self, worker: usize) -> bool {
        !self.backlog.is_empty() || !self.workers[worker].own_backlog.is_empty()
    }

    /// One turn up to its wait; what is ready at once does not let it sleep.
    pub fn turn(&mut self, worker: usize) {
        loop {
            self.try_right(worker);
            let own = &self.workers[worker];
            let has_events = !own.ready.is_empty()
                || own.bell_rang
                || (self.guard.ticked && own.willing)
                || (own.armed && self.connection_waits(worker));
            if has_events {
                return self.come_out_of_wait(worker, None);
            }
            if self.announce_idle(worker) {
                break;
            }
        }
        let own = &self.workers[worker];
        let timeout = match self.scenario.way {
            Way::NginxMutex if !own.holds => Some(self.scenario.accept_delay),
            _ => {
                let look_us = own.suspicion.next_look_us(self.scenario.handover_delay / US);
                look_us.map(|us| (us * US).saturating_sub(self.now).max(US))
            }
        };
        self.wait(worker, timeout);
    }

    /// `cause`: of the wake-up, if it slept.
    pub fn come_out_of_wait(&mut self, worker: usize, cause: Option<Cause>) {
        let now_us = self.now_us();
        let is_coordinated = self.is_coordinated();
        let own = &mut self.workers[worker];
        own.has_woken = false;
        own.bell_rang = false;
        own.turn_began_us = now_us;
        own.accepted_in_turn = 0;
        if is_coordinated {
            if own.willing {
                self.slots[worker].set_state(State::Busy);
            }
            if self.slots[worker].take_asked() {
                own.asked = Some(Asked::ByBell);
            }
            if self.guard.ticked && own.willing {
                own.asked = Some(Asked::ByGuard);
                self.guard.ticked = false;
                self.outcome.guard_ticks += 1;
                self.arm_guard(self.scenario.accept_delay);
            }
        }
        let events = std::mem::take(&mut self.workers[worker].ready);
        if self.workers[worker].asked.is_some() && !events.is_empty() {
            self.try_right(worker);
        }
        let may_accept =
            self.workers[worker].armed && self.slots[worker].open() < self.scenario.capacity;
        if may_accept && self.connection_waits(worker) {
            self.accept(worker);
        } else if cause == Some(Cause::Listener) && events.is_empty() {
            self.outcome.futile += 1;
        }
        self.spend(worker, self.scenario.costs.turn);
        self.unlock(worker, !events.is_empty());
        for event in events {
            self.handle(worker, event);
        }
        self.proceed(worker);
    }

    fn accept(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        let arrived = own.own_backlog.pop_front().or_else(|| self.backlog.pop_front());
        let arrived = arrived.expect("a connection waits");
        let open = self.slots[worker].open() + 1;
        self.slots[worker].set_open(open);
        own.accept_disabled = accept_disabled(self.scenario.capacity, open);
        own.accepted_in_turn += 1;
        own.pace.note_accept(own.turn_began_us);
        self.outcome.accepted[worker] += 1;
        self.outcome.accept_waits.push(self.now - arrived);
        self.expect_request(worker, arrived);
        // In the hand-off the master has accepted it.
        let is_passed = matches!(self.scenario.way, Way::RoundRobin);
        let Scenario { costs, .. } = self.scenario;
        self.spend(worker, if is_passed { costs.pass } else { costs.accept });
        let accepts = self.outcome.accepted[worker];
        if matches!(self.scenario.way, Way::Rotate) && accepts.is_multiple_of(ACCEPTS_PER_ROTATION)
        {
            self.move_to_end(worker);
        }
    }

    fn handle(&mut self, worker: usize, event: Ready) {
        let Scenario { costs, service, block_every, block, .. } = self.scenario;
        match event {
            Ready::Closed => {
                self.spend(worker, costs.call * 3);
                self.workers[worker].segments.push_back(Segment::Close);
            }
            Ready::Request { arrived } => {
                self.requests += 1;
                self.spend(worker, costs.request);
                let time = service.draw(&mut self.random);
                let has_blocked = block_every > 0 && self.requests.is_multiple_of(block_every);
                let segments = &mut self.workers[worker].segments;
                segments.push_back(Segment::Cpu(time));
                if has_blocked {
                    segments.push_back(Segment::Block(block));
                }
                segments.push_back(Segment::Answer { arrived, has_blocked });
            }
        }
    }

    // --- the right to accept ---

    fn stance(&self, worker: usize) -> Stance {
        let own = &self.workers[worker];
        let stance = stance(&Standing {
            draining: false,
            backing_off: false,
            not_taken: 0,
            open: self.slots[worker].open(),
            capacity: self.scenario.capacity,
            accept_disabled: own.accept_disabled,
        });
        let overruled = own.gate.is_none() || own.asked.is_some();
        if stance == Stance::Skip && overruled { Stance::Compete } else { stance }
    }

    fn arm(&mut self, worker: usize) {
        if !self.workers[worker].armed {
            self.workers[worker].armed = true;
            self.place_last(worker);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    fn disarm(&mut self, worker: usize) {
        if std::mem::take(&mut self.workers[worker].armed) {
            self.spend(worker, self.scenario.costs.call);
        }
    }

    fn move_to_end(&mut self, worker: usize) {
        self.place_last(worker);
        self.outcome.reorders += 1;
        self.spend(worker, self.scenario.costs.reorder);
    }

    fn try_right(&mut self, worker: usize) {
        match self.scenario.way {
            Way::NginxMutex => self.try_nginx(worker),
            Way::HerdExclusive(_) | Way::HerdMutex(_) => self.try_herd(worker),
            _ => self.arm(worker),
        }
    }

    /// ngx_process_events_and_timers, ngx_trylock_accept_mutex.
    fn try_nginx(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        own.holds = false;
        if own.accept_disabled > 0 {
            own.accept_disabled -= 1;
            return;
        }
        let gate = own.gate.as_ref().expect("a mutex has a gate");
        own.holds = gate.holds(&self.lock) || gate.try_acquire(&self.lock);
        if own.holds { self.arm(worker) } else { self.disarm(worker) }
    }

    fn try_herd(&mut self, worker: usize) {
        let stance = self.stance(worker);
        let own = &mut self.workers[worker];
        let yields = std::mem::take(&mut own.has_yielded) && own.asked.is_none();
        if stance != Stance::Compete {
            own.accept_disabled = own.accept_disabled.saturating_sub(1);
            self.step_back(worker, stance);
        }
        if stance == Stance::Refuse {
            if self.workers[worker].asked.take().is_some() {
                self.leave_to_others(worker);
            }
            return;
        }
        let own = &mut self.workers[worker];
        own.willing = true;
        if stance == Stance::Skip || yields {
            return;
        }
        own.competes = true;
        if own.gate.is_some() {
            if self.acquire(worker) { self.arm(worker) } else { self.disarm(worker) }
        } else {
            self.arm(worker);
            if self.workers[worker].asked.take().is_some() && self.connection_waits(worker) {
                self.place_last(worker);
                self.spend(worker, self.scenario.costs.reorder);
            }
        }
    }

    fn acquire(&mut self, worker: usize) -> bool {
        let own = &mut self.workers[worker];
        let asked = own.asked.take();
        let gate = own.gate.as_ref().expect("a mutex has a gate");
        if gate.holds(&self.lock) {
            return true;
        }
        let acquired = gate.try_acquire(&self.lock) || self.take_over_if_stuck(worker, asked);
        if acquired {
            self.push_guard_back(worker);
            self.workers[worker].suspicion.clear();
        }
        acquired
    }

    fn take_over_if_stuck(&mut self, worker: usize, asked: Option<Asked>) -> bool {
        let connection_waits = self.connection_waits(worker);
        let (now_us, delay_us) = (self.now_us(), self.scenario.handover_delay / US);
        let own = &mut self.workers[worker];
        if asked != Some(Asked::ByGuard) && !own.suspicion.is_pending() {
            return false;
        }
        let word = self.lock.word();
        let held = word.holder().filter(|_| connection_waits).map(|_| word);
        let Verdict::TakeOver(word) = own.suspicion.judge(held, now_us, delay_us) else {
            return false;
        };
        let taken = own.gate.as_ref().is_some_and(|gate| gate.take_over(&self.lock, word));
        self.outcome.thefts += u64::from(taken);
        taken
    }

    fn release(&mut self, worker: usize) {
        if let Some(gate) = &self.workers[worker].gate {
            gate.release(&self.lock);
        }
    }

    fn unlock(&mut self, worker: usize, has_events: bool) {
        self.release(worker);
        let Some(balance) = self.balance() else { return };
        let accepted = self.workers[worker].accepted_in_turn > 0;
        let stance = self.stance(worker);
        if stance != Stance::Compete {
            self.step_back(worker, stance);
        } else if accepted && self.is_coordinated() {
            self.let_less_loaded_accept(worker, &balance);
        }
        if self.workers[worker].gate.is_some() && (accepted || has_events) {
            self.leave_right_to_idle(worker);
        }
    }

    fn let_less_loaded_accept(&mut self, worker: usize, balance: &Balance) {
        let own = &self.workers[worker];
        let load = self.slots[worker].load();
        if own.gate.is_some() {
            let find = || own.neighbours.least_idle(&self.slots);
            if let Some(slot) = own.lookout.look(balance, load, own.pace.handover_cost(), find) {
                let own = &mut self.workers[worker];
                own.has_yielded = true;
                own.competes = false;
                self.disarm(worker);
                self.ask(worker, slot);
            }
        } else {
            let find = || own.neighbours.least_accepting(&self.slots);
            let is_full_enough = matches!(balance, Balance::Pack) && own.accept_disabled > 0;
            if is_full_enough || own.lookout.look(balance, load, Cost::Reorder, find).is_some() {
                own.lookout.comes_last(load);
                self.move_to_end(worker);
            }
        }
    }

    fn ask(&mut self, worker: usize, slot: u16) {
        let asked = usize::from(slot);
        self.workers[worker].has_woken = self.slots[asked].ask(self.now_us());
        self.workers[asked].bell_rang = true;
        self.outcome.handovers += 1;
        self.spend(worker, self.scenario.costs.call);
        self.wake(asked, Cause::Library);
    }

    fn step_back(&mut self, worker: usize, stance: Stance) {
        self.release(worker);
        let own = &mut self.workers[worker];
        if stance == Stance::Refuse {
            own.willing = false;
            self.slots[worker].set_state(State::Resting);
        }
        own.suspicion.clear();
        let competed = std::mem::take(&mut own.competes);
        self.disarm(worker);
        if competed {
            self.leave_to_others(worker);
        }
    }

    fn leave_to_others(&mut self, worker: usize) {
        if let Some((slot, _)) = self.workers[worker].neighbours.least_idle(&self.slots) {
            self.ask(worker, slot);
        }
        let own = &self.workers[worker];
        if own.gate.is_none()
            && !own.has_woken
            && self.guard.due > self.now + self.scenario.handover_delay
        {
            self.arm_guard(self.scenario.handover_delay);
        }
    }

    /// False: it must not wait.
    fn announce_idle(&mut self, worker: usize) -> bool {
        if !self.is_coordinated() {
            return true;
        }
        let own = &self.workers[worker];
        if own.gate.is_none() {
            if own.willing {
                self.slots[worker].set_state(State::Idle);
            }
            return true;
        }
        match go_idle(&self.slots[worker], &self.lock, own.condition()) {
            BeforeWait::Wait => true,
            BeforeWait::TryAgain => false,
            BeforeWait::PullGuardIn => {
                self.pull_guard_in(worker);
                true
            }
        }
    }

    // --- the guard ---

    fn pull_in_delay(&self, worker: usize) -> u64 {
        let delay_us = self.scenario.handover_delay / US;
        self.workers[worker].pace.pull_in_delay_us(delay_us) * US
    }

    fn pull_guard_in(&mut self, worker: usize) {
        let delay = self.pull_in_delay(worker);
        if self.guard.due > self.now + delay {
            self.workers[worker].pulled_in = Some((self.guard.due, self.now + delay));
            self.arm_guard(delay);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    fn push_guard_back(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        let Some((from, to)) = own.pulled_in.take() else { return };
        if !own.pace.is_fast() && self.guard.due == to && from > self.now {
            self.arm_guard(from - self.now);
            self.spend(worker, self.scenario.costs.call);
        }
    }

    fn leave_right_to_idle(&mut self, worker: usize) {
        let may_pull_in = self.guard.due > self.now + self.pull_in_delay(worker);
        let own = &self.workers[worker];
        let may_ring = own.accepted_in_turn > 0
            && self.balance().is_some_and(|balance| balance.shares_bursts())
            && own.pace.affords_a_bell();
        if !(may_pull_in || may_ring)
            || !leaves_idle_unaware(&own.neighbours, &self.slots, &self.lock, own.condition())
        {
            return;
        }
        if may_ring
            && !self.backlog.is_empty()
            && let Some((slot, _)) = own.neighbours.least_idle(&self.slots)
        {
            self.ask(worker, slot);
        }
        if may_pull_in {
            self.pull_guard_in(worker);
        }
    }
}
