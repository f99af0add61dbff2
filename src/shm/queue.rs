//! What all processes know of the queue of connections on their way to one slot. The connections
//! themselves are in the kernel.

use crate::atomics::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sys::clock;

/// Zeroed memory is an empty queue that nobody reads.
#[repr(C, align(128))]
#[derive(Default)]
pub struct QueueLine {
    /// Connections sent, or about to be, and not taken out. A sender that is killed between counting
    /// and sending leaves it too large, a reader that is killed between taking and counting as well:
    /// `correct` mends it.
    in_flight: AtomicU64,
    /// Who is reading the queue; 0: nobody. Unlike the accept right this is never taken from one that
    /// lives: reading is two steps, and two readers between them would lose a message.
    reader: AtomicU64,
    /// Connections ever counted as on their way, less those that turned out not to be.
    sent: AtomicU64,
    /// 1: the owner let others take its connections, and has not come out of its wait or handler since.
    is_stuck: AtomicU64,
    /// Since when connections lie here of which the owner has taken none. Without a meaning while there
    /// are none.
    waits_since_us: AtomicU64,
    /// When the last one was counted, or was about to be: its sender may not have sent it yet.
    reserved_us: AtomicU64,
}

impl QueueLine {
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(SeqCst)
    }

    /// Counts one more on its way, if there are fewer than `window`.
    pub fn reserve(&self, window: u64, now_us: u64) -> bool {
        // First of all: who is killed in between must not leave more received than sent.
        self.sent.fetch_add(1, SeqCst);
        let more = |count| {
            if count >= window {
                return None;
            }
            // Before the count: who sees it must not judge by what was long ago.
            if count == 0 {
                move_on(&self.waits_since_us, now_us);
            }
            move_on(&self.reserved_us, now_us);
            Some(count + 1)
        };
        let is_counted = self.in_flight.fetch_update(SeqCst, SeqCst, more).is_ok();
        if !is_counted {
            self.sent.fetch_sub(1, SeqCst);
        }
        is_counted
    }

    /// Counts less on their way. Returns how many of `count` were counted at all.
    fn lower(&self, count: u64) -> u64 {
        let less = |now: u64| Some(now.saturating_sub(count));
        let former = self.in_flight.fetch_update(SeqCst, SeqCst, less).unwrap_or(0);
        former.min(count)
    }

    /// They were counted, and could not be sent.
    pub fn give_back(&self, count: u64) {
        self.sent.fetch_sub(self.lower(count), SeqCst);
    }

    /// Sets the count right, unless it is no longer what it was when it was found wrong.
    pub fn correct(&self, wrong: u64, right: u64, now_us: u64) {
        if wrong == right {
            return;
        }
        if wrong == 0 {
            // As in `reserve`.
            move_on(&self.waits_since_us, now_us);
        }
        if self.in_flight.compare_exchange(wrong, right, SeqCst, SeqCst).is_ok() {
            self.sent.fetch_add(right.wrapping_sub(wrong), SeqCst);
        }
    }

    pub fn waits_since_us(&self, now_us: u64) -> u64 {
        passed_us(&self.waits_since_us, now_us)
    }

    /// Whether who counted the last one has had `delay_us` to send it, or was killed.
    pub fn is_settled(&self, now_us: u64, delay_us: u64) -> bool {
        now_us >= self.settles_us(now_us, delay_us)
    }

    /// From when on.
    pub fn settles_us(&self, now_us: u64, delay_us: u64) -> u64 {
        passed_us(&self.reserved_us, now_us) + delay_us
    }

    /// The owner is taking.
    pub fn note_progress(&self, now_us: u64) {
        move_on(&self.waits_since_us, now_us);
    }

    /// `reader` is not 0, and different for each worker. None: somebody else reads.
    pub fn try_read(&self, reader: u64) -> Option<Reading<'_>> {
        self.reader.compare_exchange(0, reader, SeqCst, SeqCst).ok()?;
        Some(Reading { line: self, reader })
    }

    /// Who reads; 0: nobody.
    pub fn reader(&self) -> u64 {
        self.reader.load(SeqCst)
    }

    /// Lets others read after `reader` has died.
    pub fn free_reader(&self, reader: u64) {
        let _ = self.reader.compare_exchange(reader, 0, SeqCst, SeqCst);
    }

    pub fn note_taken(&self) {
        // One that was counted no longer, since its sender was slow.
        self.sent.fetch_add(1 - self.lower(1), SeqCst);
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub fn set_stuck(&self) {
        self.is_stuck.store(1, SeqCst);
    }

    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(SeqCst) != 0
    }

    /// To be called by the owner whenever it comes out of its wait. True: it was marked.
    pub fn clear_stuck(&self) -> bool {
        self.is_stuck() && self.is_stuck.swap(0, SeqCst) != 0
    }
}

/// Stores a time. Never puts one back: others may have looked at the clock later, and be here earlier. But a
/// time that is yet to come nobody has from the clock.
fn move_on(time_us: &AtomicU64, now_us: u64) {
    let is_wrong = |us| us < now_us || us > now_us && us > clock::now_us();
    let _ = time_us.fetch_update(SeqCst, SeqCst, |us| is_wrong(us).then_some(now_us));
}

/// At most `now_us`. Whatever a worker has written there, nobody has noted a time that is yet to come: it counts as
/// long ago, or it would hold everything up.
fn passed_us(time_us: &AtomicU64, now_us: u64) -> u64 {
    let us = time_us.load(SeqCst);
    if us > now_us && us > clock::now_us() { 0 } else { us.min(now_us) }
}

/// The exclusive use of a queue's reading end, until it is dropped.
pub struct Reading<'a> {
    line: &'a QueueLine,
    reader: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.line.free_reader(self.reader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_never_exceeded_and_the_count_never_below_nothing() {
        let line = QueueLine::default();
        assert!(line.reserve(2, 1) && line.reserve(2, 2) && !line.reserve(2, 3));
        line.note_taken();
        assert!(line.reserve(2, 4) && !line.reserve(2, 5));
        assert_eq!((line.waits_since_us.load(SeqCst), line.reserved_us.load(SeqCst)), (1, 4));
        line.give_back(5);
        assert_eq!((line.in_flight(), line.sent()), (0, 1));
        assert!(line.reserve(2, 6));
        assert_eq!(line.waits_since_us.load(SeqCst), 6);
        line.correct(2, 0, 7);
        assert_eq!((line.in_flight(), line.sent()), (1, 2));
        line.correct(1, 0, 7);
        assert_eq!((line.in_flight(), line.sent()), (0, 1));
        // Its sender was only slow.
        line.note_taken();
        assert_eq!((line.in_flight(), line.sent()), (0, 2));
        assert_eq!(line.waits_since_us.load(SeqCst), 6);
        line.correct(0, 3, 8);
        assert_eq!((line.in_flight(), line.sent(), line.waits_since_us.load(SeqCst)), (3, 5, 8));
        line.correct(3, 4, 9);
        assert_eq!((line.in_flight(), line.sent(), line.waits_since_us.load(SeqCst)), (4, 6, 8));
    }

    #[test]
    fn who_was_slow_puts_no_time_back_and_one_to_come_does_not_stay() {
        let line = QueueLine::default();
        assert!(line.reserve(2, 9));
        line.note_taken();
        assert!(line.reserve(2, 8));
        assert_eq!((line.waits_since_us.load(SeqCst), line.reserved_us.load(SeqCst)), (9, 9));
        line.note_progress(7);
        assert_eq!(line.waits_since_us.load(SeqCst), 9);
        line.give_back(1);
        line.correct(0, 1, 6);
        assert_eq!(line.waits_since_us.load(SeqCst), 9);
        // One for which there is no room has not been counted.
        assert!(!line.reserve(1, 10));
        assert_eq!(line.reserved_us.load(SeqCst), 9);
        line.waits_since_us.store(u64::MAX, SeqCst);
        line.reserved_us.store(u64::MAX, SeqCst);
        assert_eq!((line.waits_since_us(11), line.settles_us(11, 5)), (0, 5));
        line.note_taken();
        assert!(line.reserve(1, 11));
        assert_eq!((line.waits_since_us.load(SeqCst), line.reserved_us.load(SeqCst)), (11, 11));
    }

    #[test]
    fn one_reads_at_a_time_and_a_dead_reader_is_told_apart() {
        let line = QueueLine::default();
        let reading = line.try_read(7).unwrap();
        assert!(line.try_read(8).is_none() && line.try_read(7).is_none());
        line.free_reader(8);
        assert!(line.try_read(8).is_none());
        line.free_reader(7);
        let next = line.try_read(8).unwrap();
        drop(reading);
        assert!(line.try_read(9).is_none());
        drop(next);
        assert!(line.try_read(9).is_some());
    }
}

/// As in src/accept/protocol/models.rs.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const LATELY_US: u64 = 10;

    /// `others` count connections at the same time, in a queue that was empty for long.
    fn looker_and_others<const COUNT: usize>(others: [fn(&QueueLine); COUNT]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let line = Arc::new(QueueLine::default());
            let run = |body: fn(&QueueLine)| {
                let line = line.clone();
                thread::spawn(move || body(&line))
            };
            let (looker, threads) = (run(look), others.map(run));
            looker.join().unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(line.waits_since_us.load(SeqCst) >= LATELY_US);
        });
    }

    fn look(line: &QueueLine) {
        if line.in_flight() > 0 {
            assert!(line.waits_since_us.load(SeqCst) >= LATELY_US);
        }
    }

    fn send(line: &QueueLine) {
        assert!(line.reserve(2, LATELY_US));
    }

    fn send_a_moment_later(line: &QueueLine) {
        assert!(line.reserve(2, LATELY_US + 1));
    }

    fn raise(line: &QueueLine) {
        line.correct(0, 1, LATELY_US);
    }

    #[test]
    fn who_sees_a_count_sees_since_when() {
        looker_and_others([send, send_a_moment_later]);
    }

    #[test]
    fn who_sees_the_count_of_the_only_sender_sees_since_when() {
        looker_and_others([send]);
    }

    #[test]
    fn who_sees_a_count_that_was_raised_sees_since_when() {
        looker_and_others([raise]);
    }
}
