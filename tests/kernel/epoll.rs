//! What wakes whom: exclusive wake-ups, timers, bells and nested sets.

use crate::{add, connect, listener, new_set, wait};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

const LONG_MS: u16 = 5000;

/// Long enough for a wake-up that is going to come.
const QUIET: Duration = Duration::from_millis(100);

const EXCLUSIVE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLEXCLUSIVE);

/// Threads that wait for the same descriptor, each in a set of its own, one after the other added.
struct Waiters {
    woken: Receiver<usize>,
    threads: Vec<thread::JoinHandle<()>>,
}

fn is_asleep(thread_id: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

fn until_asleep(thread_id: i32) {
    for _ in 0..5000 {
        if is_asleep(thread_id) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("a thread did not go to sleep");
}

/// Starts a thread for each set; each waits once and says when it was woken.
fn start(sets: Vec<Epoll>) -> Waiters {
    let (tell_woken, woken): (Sender<usize>, _) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let tell_woken = tell_woken.clone();
        let (tell_id, id) = mpsc::channel();
        threads.push(thread::spawn(move || {
            // SAFETY: no arguments.
            tell_id.send(unsafe { libc::gettid() }).unwrap();
            if wait(&set, LONG_MS) > 0 {
                tell_woken.send(number).unwrap();
            }
        }));
        until_asleep(id.recv().unwrap());
    }
    Waiters { woken, threads }
}

impl Waiters {
    fn next(&self) -> usize {
        self.woken.recv_timeout(Duration::from_millis(LONG_MS.into())).unwrap()
    }

    fn none_within_quiet(&self) -> bool {
        self.woken.recv_timeout(QUIET).is_err()
    }

    fn join(self) {
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn an_exclusive_wake_up_goes_to_the_first_waiter_in_the_order_of_adding() {
    let listener = listener();
    let sets: Vec<Epoll> = (0..3).map(|_| new_set()).collect();
    // Added in another order than they go to sleep in: the wait queue is the listener's.
    for number in [2, 0, 1] {
        add(&sets[number], &listener, EXCLUSIVE);
    }
    let waiters = start(sets);
    let mut clients = vec![connect(&listener)];
    assert_eq!(waiters.next(), 2);
    assert!(waiters.none_within_quiet());
    clients.push(connect(&listener));
    assert_eq!(waiters.next(), 0);
    clients.push(connect(&listener));
    assert_eq!(waiters.next(), 1);
    waiters.join();
}

#[test]
fn adding_anew_moves_to_the_end_and_a_set_that_nobody_waits_on_is_passed_over() {
    let listener = listener();
    let (moved, busy) = (new_set(), new_set());
    let others: Vec<Epoll> = (0..2).map(|_| new_set()).collect();
    add(&moved, &listener, EXCLUSIVE);
    add(&busy, &listener, EXCLUSIVE);
    others.iter().for_each(|set| add(set, &listener, EXCLUSIVE));
    moved.delete(&listener).unwrap();
    add(&moved, &listener, EXCLUSIVE);
    let waiters = start(others.into_iter().chain([moved]).collect());
    let clients: Vec<_> = (0..3)
        .map(|expected| {
            let client = connect(&listener);
            assert_eq!(waiters.next(), expected);
            client
        })
        .collect();
    waiters.join();
    drop((clients, busy));
}

/// A worker's own set, which nobody waits on, tells what the host's was woken for.
#[test]
fn a_set_that_is_passed_over_on_the_way_to_a_waiter_reports_the_same() {
    let listener = listener();
    let (own, host) = (new_set(), new_set());
    add(&own, &listener, EXCLUSIVE);
    add(&host, &listener, EXCLUSIVE);
    let waiters = start(vec![host]);
    let client = connect(&listener);
    assert_eq!(waiters.next(), 0);
    assert_eq!(wait(&own, 0), 1);
    waiters.join();
    drop(client);
}

#[test]
fn behind_sets_that_others_poll_every_exclusive_waiter_wakes() {
    let listener = listener();
    let inner: Vec<Epoll> = (0..3).map(|_| new_set()).collect();
    let outer: Vec<Epoll> = (0..3).map(|_| new_set()).collect();
    for (inner, outer) in inner.iter().zip(&outer) {
        add(inner, &listener, EXCLUSIVE);
        add(outer, &inner.0, EpollFlags::EPOLLIN);
    }
    let waiters = start(outer);
    let client = connect(&listener);
    let mut woken: Vec<usize> = (0..3).map(|_| waiters.next()).collect();
    woken.sort();
    assert_eq!(woken, [0, 1, 2]);
    waiters.join();
    drop((client, inner));
}

#[test]
fn without_the_flag_every_waiter_wakes() {
    let listener = listener();
    let sets: Vec<Epoll> = (0..3).map(|_| new_set()).collect();
    sets.iter().for_each(|set| add(set, &listener, EpollFlags::EPOLLIN));
    let waiters = start(sets);
    let client = connect(&listener);
    let mut woken: Vec<usize> = (0..3).map(|_| waiters.next()).collect();
    woken.sort();
    assert_eq!(woken, [0, 1, 2]);
    waiters.join();
    drop(client);
}

#[test]
fn a_wake_up_given_to_one_that_does_not_accept_is_lost_until_another_adds_anew() {
    let listener = listener();
    let (declining, idle) = (new_set(), new_set());
    add(&declining, &listener, EXCLUSIVE);
    add(&idle, &listener, EXCLUSIVE);
    let waiters = start(vec![declining]);
    let client = connect(&listener);
    assert_eq!(waiters.next(), 0);
    waiters.join();
    assert_eq!(wait(&idle, 0), 0);
    idle.delete(&listener).unwrap();
    add(&idle, &listener, EXCLUSIVE);
    assert_eq!(wait(&idle, 0), 1);
    drop(client);
}

#[test]
fn the_exclusive_flag_goes_with_add_only() {
    let listener = listener();
    let set = new_set();
    add(&set, &listener, EXCLUSIVE);
    let change = |flags| set.modify(&listener, &mut EpollEvent::new(flags, 0));
    assert_eq!(change(EXCLUSIVE), Err(Errno::EINVAL));
    assert_eq!(change(EpollFlags::EPOLLIN), Err(Errno::EINVAL));
    let refused = EXCLUSIVE | EpollFlags::EPOLLRDHUP;
    assert_eq!(new_set().add(&listener, EpollEvent::new(refused, 0)), Err(Errno::EINVAL));
    // Nor can the inside of a nested set be exclusive from the outside.
    assert_eq!(new_set().add(&set.0, EpollEvent::new(EXCLUSIVE, 0)), Err(Errno::EINVAL));
}

#[test]
fn a_tick_of_a_shared_timer_wakes_one_exclusive_waiter() {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).unwrap();
    let sets: Vec<Epoll> = (0..3).map(|_| new_set()).collect();
    sets.iter().for_each(|set| add(set, timer.as_fd(), EXCLUSIVE));
    let waiters = start(sets);
    let soon = TimeSpec::from_duration(Duration::from_millis(1));
    timer.set(Expiration::OneShot(soon), TimerSetTimeFlags::empty()).unwrap();
    assert_eq!(waiters.next(), 0);
    assert!(waiters.none_within_quiet());
    for expected in [1, 2] {
        timer.set(Expiration::OneShot(soon), TimerSetTimeFlags::empty()).unwrap();
        assert_eq!(waiters.next(), expected);
    }
    waiters.join();
}

#[test]
fn every_ring_of_an_edge_triggered_bell_is_an_event_without_reading() {
    let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
    let set = new_set();
    add(&set, &bell, EpollFlags::EPOLLIN | EpollFlags::EPOLLET);
    for _ in 0..3 {
        assert_eq!(wait(&set, 0), 0);
        bell.write(1).unwrap();
        assert_eq!(wait(&set, 0), 1);
    }
}

#[test]
fn a_set_inside_a_set_is_level_triggered_and_switched_by_one_call() {
    let listeners = [listener(), listener()];
    let all = new_set();
    listeners.iter().for_each(|listener| add(&all, listener, EpollFlags::EPOLLIN));
    let outer = new_set();
    let client = connect(&listeners[1]);
    add(&outer, &all.0, EpollFlags::EPOLLIN);
    assert_eq!((wait(&outer, 0), wait(&outer, 0)), (1, 1));
    outer.delete(&all.0).unwrap();
    assert_eq!(wait(&outer, 0), 0);
    add(&outer, &all.0, EpollFlags::EPOLLIN);
    assert_eq!(wait(&outer, 0), 1);
    listeners[1].accept().unwrap();
    assert_eq!(wait(&outer, 0), 0);
    drop(client);
}
