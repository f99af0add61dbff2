//! The events of a simulation, and the kernel's part: whom a connection or a tick wakes.

use super::cores::{Cores, SLICE};
use super::guard::Guard;
use super::shapes::{Random, Stay, US};
use super::worker::{Doing, Ready, Segment, Worker};
use super::{Outcome, Scenario, Way, jain};
use herd::policy::{AcceptLock, Line, Slot, State, steer};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Arrive,
    /// A connection that a master passes on, or a hash has chosen a worker for.
    Deliver {
        worker: usize,
        arrived: u64,
    },
    /// A worker gets a core.
    Start(usize),
    /// Its work, or its slice, is done.
    End(usize),
    Unblock(usize),
    /// The request of a connection that this worker has.
    Request {
        worker: usize,
        arrived: u64,
    },
    /// A client closes.
    Leave(usize),
    Tick {
        epoch: u64,
    },
    /// A wait's own timeout; stale unless that very wait still lasts.
    Timeout {
        worker: usize,
        wait: u64,
    },
}

/// Why a worker comes out of its wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Listener,
    Own,
    Library,
    Timeout,
}

/// A connection that waits to be accepted.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub arrived: u64,
    /// The worker whose socket it came to, where each has one.
    pub home: usize,
}

/// Samples of how even the open connections are.
const SAMPLES: u64 = 256;

pub struct Engine {
    pub scenario: Scenario,
    pub now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    pub random: Random,
    pub workers: Vec<Worker>,
    pub slots: Vec<Slot>,
    /// What the program that steers knows of the slots; none where there is no such program.
    pub lines: Vec<Line>,
    pub lock: AcceptLock,
    pub guard: Guard,
    /// Connections that any worker can accept which watches its listeners.
    pub backlog: VecDeque<Arrival>,
    /// Whom a connection was passed on to last.
    pub last_given: Option<u16>,
    cores: Cores,
    pub outcome: Outcome,
    /// EPOLL_CTL_ADDs so far, which is a place in the listener's wait queue.
    places: u64,
    arrived: u64,
    answered: u64,
    /// Before the next one that blocks its worker.
    requests_left: u64,
    open_jains: Vec<f64>,
}

impl Engine {
    pub fn new(scenario: Scenario) -> Engine {
        let count = scenario.workers;
        let lines = if scenario.way.is_steered() { count } else { 0 };
        let mut engine = Engine {
            scenario,
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            random: Random::new(scenario.seed),
            workers: (0..count).map(|slot| Worker::new(slot, scenario.way)).collect(),
            slots: (0..count).map(|_| Slot::default()).collect(),
            lines: (0..lines).map(|_| Line::default()).collect(),
            lock: AcceptLock::default(),
            guard: Guard::default(),
            backlog: VecDeque::new(),
            last_given: None,
            cores: Cores::new(scenario.cores),
            outcome: Outcome { accepted: vec![0; count], ..Outcome::default() },
            places: 0,
            arrived: 0,
            answered: 0,
            requests_left: 0,
            open_jains: Vec::new(),
        };
        for (number, slot) in engine.slots.iter().enumerate() {
            slot.try_claim(number as u32 + 1).expect("a new slot is free");
            slot.set_state(State::Busy);
        }
        engine.lines.iter().for_each(Line::withdraw);
        engine.draw_requests_left();
        if engine.is_coordinated() {
            engine.arm_guard(scenario.accept_delay);
        }
        for worker in 0..count {
            engine.start_soon(worker);
        }
        // Clients come to a server that is up, at any time of what it does every accept_delay.
        let start = 1_000 * US + count as u64 * 20 * US;
        let phase = engine.random.below(scenario.accept_delay as usize) as u64;
        engine.after(start + phase, Event::Arrive);
        engine
    }

    pub fn is_coordinated(&self) -> bool {
        self.scenario.way.balance().is_some() && self.scenario.workers > 1
    }

    pub fn now_us(&self) -> u64 {
        self.now / US
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now + delay, self.scheduled, event)));
    }

    pub fn run(mut self) -> Outcome {
        while self.answered < self.scenario.connections {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::Arrive => self.arrive(),
                Event::Deliver { worker, arrived } => self.deliver(worker, arrived),
                Event::Start(worker) => self.start(worker),
                Event::End(worker) => self.end(worker),
                Event::Unblock(worker) => self.start_soon(worker),
                Event::Request { worker, arrived } => {
                    self.become_ready(worker, Ready::Request { arrived });
                }
                Event::Leave(worker) => self.become_ready(worker, Ready::Closed),
                Event::Tick { epoch } if epoch == self.guard.epoch => self.tick(),
                Event::Timeout { worker, wait } if self.workers[worker].waits == wait => {
                    self.wake(worker, Cause::Timeout);
                }
                Event::Tick { .. } | Event::Timeout { .. } => {}
            }
        }
        let mut outcome = self.outcome;
        outcome.accept_waits.sort_unstable();
        outcome.answer_waits.sort_unstable();
        outcome.open_jain =
            self.open_jains.iter().sum::<f64>() / self.open_jains.len().max(1) as f64;
        outcome
    }

    // --- clients ---

    fn arrive(&mut self) {
        let Scenario { way, arrivals, connections, .. } = self.scenario;
        let (arrived, number) = (self.now, self.arrived);
        match way {
            Way::Reuseport => self.arrive_by_hash(arrived),
            Way::RoundRobin => self.arrive_at_master(number, arrived),
            Way::HerdReuseport(_) => self.arrive_steered(arrived),
            _ => {
                self.backlog.push_back(Arrival { arrived, home: 0 });
                self.wake_for_connection();
            }
        }
        self.arrived += 1;
        let step = (connections / 2 / SAMPLES).max(1);
        if number >= connections / 2 && number.is_multiple_of(step) {
            let open: Vec<u64> = self.slots.iter().map(Slot::open).collect();
            self.open_jains.push(jain(&open));
        }
        if self.arrived < connections {
            let gap = arrivals.gap(&mut self.random, number);
            self.after(gap, Event::Arrive);
        }
    }

    /// The owner of the socket comes first in its wait queue, and then nobody else sees the connection. If
    /// it does not wait, the others do.
    fn arrive_steered(&mut self, arrived: u64) {
        // Nobody accepts: as the hash has it.
        let home = steer(&self.lines).unwrap_or_else(|| self.random.below(self.scenario.workers));
        let owner = &self.workers[home];
        if owner.armed && owner.doing == Doing::Waiting {
            self.deliver(home, arrived);
        } else {
            self.backlog.push_back(Arrival { arrived, home });
            self.wake_for_connection();
        }
    }

    pub fn deliver(&mut self, worker: usize, arrived: u64) {
        self.workers[worker].own_backlog.push_back(arrived);
        self.wake(worker, Cause::Listener);
    }

    fn become_ready(&mut self, worker: usize, ready: Ready) {
        self.workers[worker].ready.push_back(ready);
        self.wake(worker, Cause::Own);
    }

    /// A worker has accepted a connection: its request is there, or comes.
    pub fn expect_request(&mut self, worker: usize, arrived: u64) {
        let at = arrived + self.scenario.request_after.draw(&mut self.random);
        if at <= self.now {
            self.workers[worker].ready.push_back(Ready::Request { arrived });
        } else {
            self.after(at - self.now, Event::Request { worker, arrived });
        }
    }

    /// `__wake_up_common`: all who wait, or with EPOLLEXCLUSIVE the first of them.
    fn wake_for_connection(&mut self) {
        let waits = |worker: &&Worker| worker.armed && worker.doing == Doing::Waiting;
        if self.scenario.way.is_exclusive() {
            let first = self.workers.iter().filter(waits).min_by_key(|worker| worker.place);
            if let Some(worker) = first.map(|worker| worker.slot) {
                self.wake(worker, Cause::Listener);
            }
        } else {
            // Who of several comes first is up to the scheduler: any.
            let count = self.workers.len();
            let first = self.random.below(count);
            for worker in (first..count).chain(0..first) {
                if self.workers[worker].armed {
                    self.wake(worker, Cause::Listener);
                }
            }
        }
    }

    pub fn answer(&mut self, worker: usize, arrived: u64, has_blocked: bool) {
        self.answered += 1;
        if !has_blocked {
            self.outcome.answer_waits.push(self.now - arrived);
        }
        match self.scenario.stay {
            Stay::No => self.close(worker),
            Stay::Forever => {}
            Stay::For(times) => {
                let time = times.draw(&mut self.random);
                self.after(time, Event::Leave(worker));
            }
        }
    }

    pub fn close(&mut self, worker: usize) {
        self.set_open(worker, self.slots[worker].open() - 1);
    }

    /// The end of the wait queue (EPOLL_CTL_ADD).
    pub fn place_last(&mut self, worker: usize) {
        self.places += 1;
        self.workers[worker].place = self.places;
    }

    /// Whether the next request blocks its worker: one in `block_every`, at distances that are drawn, as
    /// bench/clients does (it says why).
    pub fn next_blocks(&mut self) -> bool {
        if self.scenario.block_every == 0 {
            return false;
        }
        let blocks = self.requests_left == 0;
        if blocks {
            self.draw_requests_left();
        } else {
            self.requests_left -= 1;
        }
        blocks
    }

    fn draw_requests_left(&mut self) {
        let two_thirds = self.scenario.block_every * 2 / 3;
        let more = self.random.below(two_thirds as usize + 1) as u64;
        self.requests_left = (two_thirds + more).saturating_sub(1);
    }

    pub fn arm_guard(&mut self, delay: u64) {
        self.guard.due = self.now + delay;
        self.guard.epoch += 1;
        let epoch = self.guard.epoch;
        self.after(delay, Event::Tick { epoch });
    }

    // --- who runs ---

    pub fn wake(&mut self, worker: usize, cause: Cause) {
        let own = &mut self.workers[worker];
        if own.doing == Doing::Waiting {
            own.doing = Doing::Woken(cause);
            own.waits += 1;
            self.start_soon(worker);
        }
    }

    fn start_soon(&mut self, worker: usize) {
        if self.cores.take(worker) {
            let latency = self.scenario.costs.wake / 2;
            self.after(latency, Event::Start(worker));
        }
    }

    fn start(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        own.slice_used = 0;
        match std::mem::replace(&mut own.doing, Doing::Running) {
            Doing::Woken(cause) => self.come_out_of_wait(worker, Some(cause)),
            _ => self.proceed(worker),
        }
    }

    fn end(&mut self, worker: usize) {
        let own = &mut self.workers[worker];
        if own.slice_used >= SLICE && self.cores.anybody_waits() {
            self.leave_core();
            self.cores.take(worker);
        } else {
            self.proceed(worker);
        }
    }

    fn leave_core(&mut self) {
        if let Some(next) = self.cores.release() {
            self.after(self.scenario.costs.wake / 2, Event::Start(next));
        }
    }

    /// Goes on with what the turn has to do, and then with the next turn.
    pub fn proceed(&mut self, worker: usize) {
        loop {
            match self.workers[worker].segments.pop_front() {
                None => return self.turn(worker),
                Some(Segment::Cpu(time)) => {
                    let own = &mut self.workers[worker];
                    let now = time.min(SLICE);
                    own.slice_used += now;
                    if time > now {
                        own.segments.push_front(Segment::Cpu(time - now));
                    }
                    return self.after(now, Event::End(worker));
                }
                Some(Segment::Block(time)) => {
                    self.workers[worker].doing = Doing::Blocked;
                    self.outcome.sleeps += 1;
                    self.after(time, Event::Unblock(worker));
                    return self.leave_core();
                }
                Some(Segment::Answer { arrived, has_blocked }) => {
                    self.answer(worker, arrived, has_blocked);
                }
                Some(Segment::Close) => self.close(worker),
            }
        }
    }

    /// Sleeps in epoll_wait until something wakes it, or for `timeout`.
    pub fn wait(&mut self, worker: usize, timeout: Option<u64>) {
        let own = &mut self.workers[worker];
        own.doing = Doing::Waiting;
        let wait = own.waits;
        self.outcome.sleeps += 1;
        self.outcome.overhead += self.scenario.costs.wake;
        if let Some(delay) = timeout {
            self.after(delay, Event::Timeout { worker, wait });
        }
        self.leave_core();
    }
}
