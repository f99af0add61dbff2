//! One simulated worker's turn. What it decides, the library's code decides; the order of the calls
//! is that of src/worker/ (`turn`; `right`, `guard` and `passing` are named as there), and has to follow it.

use super::Scenario;
use super::engine::{Arrival, Cause, Engine};
use super::shapes::US;
use super::worker::{Asked, Ready, Segment};
use herd::policy::{HANDOFF_ACCEPT_BATCH, State, accept_disabled};

impl Engine {
    pub fn spend(&mut self, worker: usize, time: u64) {
        self.outcome.overhead += time;
        self.workers[worker].segments.push_back(Segment::Cpu(time));
    }

    /// At a listener that the worker watches.
    pub fn connection_waits(&self, worker: usize) -> bool {
        !self.backlog.is_empty() || !self.is_passed_to(worker) && self.has_own(worker)
    }

    fn has_own(&self, worker: usize) -> bool {
        !self.workers[worker].own_backlog.is_empty()
    }

    /// Others have sent it connections.
    fn is_passed_to(&self, worker: usize) -> bool {
        self.scenario.way.passes_on() && self.has_own(worker)
    }

    pub fn set_state(&mut self, worker: usize, state: State) {
        self.slots[worker].set_state(state);
        self.publish(worker);
    }

    pub fn set_open(&mut self, worker: usize, open: u64) {
        self.slots[worker].set_open(open);
        self.publish(worker);
    }

    /// Tells the program that steers.
    fn publish(&self, worker: usize) {
        if let Some(line) = self.lines.get(worker) {
            line.publish(self.slots[worker].state(), self.slots[worker].load());
        }
    }

    /// One turn up to its wait; what is ready at once does not let it sleep.
    pub fn turn(&mut self, worker: usize) {
        loop {
            self.try_right(worker);
            let own = &self.workers[worker];
            let has_events = !own.ready.is_empty()
                || own.bell_rang
                || (self.guard.ticked && own.willing)
                || (own.armed && self.connection_waits(worker))
                || self.is_passed_to(worker);
            if has_events {
                return self.come_out_of_wait(worker, None);
            }
            if self.announce_idle(worker) {
                break;
            }
        }
        let own = &self.workers[worker];
        let look_us = own.suspicion.next_look_us(self.scenario.handover_delay / US);
        let looks_us = [look_us, own.next_look_us].into_iter().flatten();
        let until_look = |us: u64| (us * US).saturating_sub(self.now).max(US);
        let timeout = self.nginx_timeout(worker).or(looks_us.min().map(until_look));
        self.wait(worker, timeout);
    }

    /// `cause`: of the wake-up, if it slept.
    pub fn come_out_of_wait(&mut self, worker: usize, cause: Option<Cause>) {
        let now_us = self.now_us();
        let own = &mut self.workers[worker];
        own.has_rung = false;
        own.bell_rang = false;
        own.turn_began_us = now_us;
        own.accepted_in_turn = 0;
        if self.is_coordinated() {
            self.look_after_others(worker);
        }
        let events = std::mem::take(&mut self.workers[worker].ready);
        let has_events = |engine: &Engine| !events.is_empty() || engine.is_passed_to(worker);
        if self.workers[worker].asked.is_some() && has_events(self) {
            self.try_right(worker);
        }
        let accepts = self.accept_batch(worker);
        if accepts == 0 && cause == Some(Cause::Listener) && events.is_empty() {
            self.outcome.futile += 1;
        }
        self.spend(worker, self.scenario.costs.turn);
        self.unlock(worker, has_events(self));
        if self.is_passed_to(worker) {
            self.receive(worker);
        }
        for event in events {
            self.handle(worker, event);
        }
        self.proceed(worker);
    }

    /// What it was woken for beside its own events.
    fn look_after_others(&mut self, worker: usize) {
        if self.workers[worker].willing {
            self.set_state(worker, State::Busy);
        }
        if self.slots[worker].take_asked() {
            self.workers[worker].asked = Some(Asked::ByBell);
        }
        if self.guard.ticked && self.workers[worker].willing {
            self.workers[worker].asked = Some(Asked::ByGuard);
            self.guard.ticked = false;
            self.outcome.guard_ticks += 1;
            self.arm_guard(self.scenario.accept_delay);
        }
        if self.scenario.way.passes_on() {
            self.look_at_queues(worker);
        }
    }

    /// Connections that it takes in a turn.
    pub fn batch(&self, worker: usize) -> u64 {
        let shares_out = self.scenario.way.passes_on() && self.workers[worker].pace.is_fast();
        if shares_out { HANDOFF_ACCEPT_BATCH.into() } else { 1 }
    }

    /// Returns how many it accepted.
    fn accept_batch(&mut self, worker: usize) -> u64 {
        let batch = self.batch(worker);
        let has_room = |engine: &Engine| {
            let pending = engine.workers[worker].pending.len() as u64;
            engine.slots[worker].open() + pending < engine.scenario.capacity
        };
        let mut accepts = 0;
        while accepts < batch
            && self.workers[worker].armed
            && has_room(self)
            && self.connection_waits(worker)
        {
            self.accept(worker);
            accepts += 1;
        }
        accepts
    }

    fn accept(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        let of_own = if self.scenario.way.passes_on() { None } else { own.own_backlog.pop_front() };
        let of_own = of_own.map(|arrived| Arrival { arrived, home: worker });
        let arrival = of_own.or_else(|| self.backlog.pop_front());
        let Arrival { arrived, home } = arrival.expect("a connection waits");
        if own.accepted_in_turn == 0 {
            own.pace.note_accept(own.turn_began_us);
        }
        own.accepted_in_turn += 1;
        own.accepted_from = home;
        if let Some(line) = self.lines.get(home) {
            line.settle_one();
        }
        if self.scenario.way.passes_on() {
            self.workers[worker].pending.push(arrived);
        } else {
            self.take_in(worker, arrived);
        }
        self.spend(worker, self.accept_cost());
        self.rotate(worker);
    }

    /// The connection is this worker's.
    pub fn take_in(&mut self, worker: usize, arrived: u64) {
        let open = self.slots[worker].open() + 1;
        self.set_open(worker, open);
        self.workers[worker].accept_disabled = accept_disabled(self.scenario.capacity, open);
        self.outcome.accepted[worker] += 1;
        self.outcome.accept_waits.push(self.now - arrived);
        self.expect_request(worker, arrived);
    }

    fn handle(&mut self, worker: usize, event: Ready) {
        let Scenario { costs, service, block, .. } = self.scenario;
        match event {
            Ready::Closed => {
                self.spend(worker, costs.call * 3);
                self.workers[worker].segments.push_back(Segment::Close);
            }
            Ready::Request { arrived } => {
                self.spend(worker, costs.request);
                let time = service.draw(&mut self.random);
                let has_blocked = self.next_blocks();
                let segments = &mut self.workers[worker].segments;
                segments.push_back(Segment::Cpu(time));
                if has_blocked {
                    segments.push_back(Segment::Block(block));
                }
                segments.push_back(Segment::Answer { arrived, has_blocked });
            }
        }
    }
}
