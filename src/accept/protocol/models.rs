//! Models of the protocol for loom, which runs each in every order that its threads' stores and loads
//! can take. Run by tests/sh/models.sh: `RUSTFLAGS='--cfg loom' cargo test --release models`.
//!
//! The invariant: when everybody has come to rest and a worker sleeps, then the right has a holder
//! that sleeps armed, or the guard is due soon. So a connection that comes then does not wait unseen.

use super::{BeforeWait, Condition, go_idle, leaves_idle_unaware};
use crate::accept::gate::Gate;
use crate::accept::neighbours::Neighbours;
use crate::atomics::{AtomicU32, Ordering::SeqCst};
use crate::shm::lock::AcceptLock;
use crate::shm::slot::{Slot, State};
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// How a worker came to rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// Waits, as the holder, with its listeners armed.
    Armed,
    /// Waits without the right.
    Asleep,
    /// Runs handlers for a long time.
    Busy,
}

#[derive(Default)]
struct Herd {
    lock: AcceptLock,
    slots: Vec<Slot>,
    guard_pulled_in: AtomicU32,
}

impl Herd {
    fn new(workers: usize) -> Herd {
        let herd =
            Herd { slots: (0..workers).map(|_| Slot::default()).collect(), ..Herd::default() };
        for slot in &herd.slots {
            slot.try_claim(1).unwrap();
        }
        herd
    }

    fn pull_guard_in(&self) {
        self.guard_pulled_in.store(1, SeqCst);
    }
}

struct Worker {
    herd: Arc<Herd>,
    slot: u16,
    gate: Gate,
    neighbours: Neighbours,
}

impl Worker {
    fn new(herd: &Arc<Herd>, slot: u16) -> Worker {
        let neighbours = Neighbours::of_worker(slot);
        Worker { herd: herd.clone(), slot, gate: Gate::new(slot), neighbours }
    }

    fn holding(herd: &Arc<Herd>, slot: u16) -> Worker {
        let worker = Worker::new(herd, slot);
        assert!(worker.gate.try_acquire(&herd.lock));
        worker
    }

    /// Turns without events, until the worker sleeps.
    fn idle(&self, condition: Condition) -> Rest {
        let herd = &self.herd;
        loop {
            if condition.competes && self.gate.try_acquire(&herd.lock) {
                assert_eq!(
                    go_idle(&herd.slots[usize::from(self.slot)], &herd.lock, condition),
                    BeforeWait::Wait
                );
                return Rest::Armed;
            }
            match go_idle(&herd.slots[usize::from(self.slot)], &herd.lock, condition) {
                BeforeWait::Wait => return Rest::Asleep,
                BeforeWait::TryAgain => thread::yield_now(),
                BeforeWait::PullGuardIn => {
                    herd.pull_guard_in();
                    return Rest::Asleep;
                }
            }
        }
    }

    /// Leaves its wait for an event of its own, and runs the handler unless it finds itself rung.
    fn work_on_own_event(&self) -> Rest {
        let herd = &self.herd;
        herd.slots[usize::from(self.slot)].set_state(State::Busy);
        if herd.slots[usize::from(self.slot)].take_asked() {
            return self.idle(COMPETING);
        }
        self.run_handlers()
    }

    fn run_handlers(&self) -> Rest {
        let herd = &self.herd;
        if leaves_idle_unaware(&self.neighbours, &herd.slots, &herd.lock) {
            herd.pull_guard_in();
        }
        Rest::Busy
    }

    /// Releases the right and goes on to run handlers.
    fn release_and_work(&self) -> Rest {
        assert!(self.gate.release(&self.herd.lock));
        self.run_handlers()
    }

    /// Releases the right and wakes another worker for it, if one is idle.
    fn release_to_another(&self) -> bool {
        let herd = &self.herd;
        assert!(self.gate.release(&herd.lock));
        let idle = self.neighbours.least_idle(&herd.slots);
        if let Some((slot, _)) = idle {
            herd.slots[usize::from(slot)].ask(0);
        }
        idle.is_some()
    }
}

const COMPETING: Condition = Condition { willing: true, competes: true };

fn run(worker: Worker, life: impl FnOnce(&Worker) -> Rest + 'static) -> JoinHandle<Rest> {
    thread::spawn(move || life(&worker))
}

/// Waits for all and checks the invariant.
fn check(herd: &Herd, workers: Vec<JoinHandle<Rest>>) {
    let rests: Vec<Rest> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let sleeps = |slot: usize| rests[slot] != Rest::Busy;
    let has_armed_holder =
        herd.lock.word().holder().is_some_and(|slot| rests[usize::from(slot)] == Rest::Armed);
    let somebody_is_due = has_armed_holder || herd.guard_pulled_in.load(SeqCst) == 1;
    let somebody_sleeps = (0..rests.len()).any(sleeps);
    assert!(!somebody_sleeps || somebody_is_due, "{rests:?} {:?}", herd.lock.word());
}

fn model(
    workers: usize,
    body: impl Fn(&Arc<Herd>) -> Vec<JoinHandle<Rest>> + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    // More than three preemptions of one run find nothing new in so small models, and take hours.
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let herd = Arc::new(Herd::new(workers));
        let threads = body(&herd);
        check(&herd, threads);
    });
}

/// A holder, and another worker that is seen as `other_is` when the model begins.
fn holder_and_other(holder: fn(&Worker) -> Rest, other_is: State, other: fn(&Worker) -> Rest) {
    model(2, move |herd| {
        let (first, second) = (Worker::holding(herd, 0), Worker::new(herd, 1));
        herd.slots[1].set_state(other_is);
        vec![run(first, holder), run(second, other)]
    });
}

/// Hands the right over, or tries again if nobody is idle.
fn yields(worker: &Worker) -> Rest {
    let has_yielded = worker.release_to_another();
    worker.idle(Condition { willing: true, competes: !has_yielded })
}

/// Full, say: does not accept at all.
fn steps_back(worker: &Worker) -> Rest {
    worker.release_to_another();
    worker.idle(Condition { willing: false, competes: false })
}

/// Over 7/8 of its connections, say: would accept if nobody else does.
fn leaves_to_others(worker: &Worker) -> Rest {
    worker.release_to_another();
    worker.idle(Condition { willing: true, competes: false })
}

/// Its last turn: it does nothing more.
fn ends(worker: &Worker) -> Rest {
    worker.release_to_another();
    worker.run_handlers()
}

fn goes_idle(worker: &Worker) -> Rest {
    worker.idle(COMPETING)
}

#[test]
fn a_holder_that_runs_handlers_and_a_worker_that_goes_idle_do_not_miss_each_other() {
    holder_and_other(Worker::release_and_work, State::Busy, goes_idle);
}

#[test]
fn a_holder_among_two_others_does_not_miss_both() {
    model(3, |herd| {
        let holder = Worker::holding(herd, 0);
        let [second, third] = [1, 2].map(|slot| Worker::new(herd, slot));
        vec![run(holder, Worker::release_and_work), run(second, goes_idle), run(third, goes_idle)]
    });
}

#[test]
fn a_worker_that_yields_leaves_the_right_with_somebody() {
    holder_and_other(yields, State::Busy, goes_idle);
}

/// The other was idle when it was chosen, and has left its wait for an event of its own before the
/// bell rang: it runs that event's handler first.
#[test]
fn a_worker_that_yields_to_one_that_just_got_busy_leaves_the_right_with_somebody() {
    holder_and_other(yields, State::Idle, Worker::work_on_own_event);
}

#[test]
fn a_worker_that_steps_back_leaves_the_right_with_somebody() {
    holder_and_other(steps_back, State::Busy, goes_idle);
}

#[test]
fn a_worker_that_ends_leaves_the_right_with_somebody() {
    holder_and_other(ends, State::Busy, goes_idle);
}

#[test]
fn a_worker_that_ends_does_not_rely_on_one_that_may_be_stopped_in_its_wait() {
    holder_and_other(ends, State::Idle, |_| Rest::Asleep);
}

#[test]
fn a_worker_that_leaves_the_right_to_others_who_are_all_busy_is_found_by_the_guard() {
    holder_and_other(leaves_to_others, State::Busy, |_| Rest::Busy);
}

#[test]
fn a_release_after_a_theft_takes_the_right_from_nobody() {
    loom::model(|| {
        let herd = Arc::new(Herd::new(3));
        let robbed = Worker::holding(&herd, 0);
        let seen = herd.lock.word();
        let [thief, third] = [1, 2].map(|slot| Worker::new(&herd, slot));
        let robbed = thread::spawn(move || robbed.gate.release(&robbed.herd.lock));
        let thief = thread::spawn(move || thief.gate.take_over(&thief.herd.lock, seen));
        let third = thread::spawn(move || third.gate.try_acquire(&third.herd.lock));
        let (released, stolen, acquired) =
            (robbed.join().unwrap(), thief.join().unwrap(), third.join().unwrap());
        // The robbed one's word can leave once only: by its own release or by the theft.
        assert!(released != stolen);
        let expected = if stolen { Some(1) } else { acquired.then_some(2) };
        assert_eq!(herd.lock.word().holder(), expected);
        assert!(!(stolen && acquired));
    });
}
