//! What all processes know of the queue of connections on their way to one slot. The connections
//! themselves are in the kernel.

use crate::atomics::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

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
    /// When the last one was counted: its sender may not have sent it yet.
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
        let more = |count| if count < window { Some(count + 1) } else { None };
        let former = self.in_flight.fetch_update(SeqCst, SeqCst, more);
        match former {
            Ok(0) => self.waits_since_us.store(now_us, SeqCst),
            Ok(_) => {}
            Err(_) => {
                self.sent.fetch_sub(1, SeqCst);
                return false;
            }
        }
        self.reserved_us.store(now_us, SeqCst);
        true
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
    pub fn correct(&self, wrong: u64, right: u64) {
        if self.in_flight.compare_exchange(wrong, right, SeqCst, SeqCst).is_ok() {
            self.sent.fetch_add(right.wrapping_sub(wrong), SeqCst);
        }
    }

    pub fn waits_since_us(&self) -> u64 {
        self.waits_since_us.load(SeqCst)
    }

    pub fn reserved_us(&self) -> u64 {
        self.reserved_us.load(SeqCst)
    }

    /// The owner is taking.
    pub fn note_progress(&self, now_us: u64) {
        self.waits_since_us.store(now_us, SeqCst);
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
        assert_eq!((line.waits_since_us(), line.reserved_us()), (1, 4));
        line.give_back(5);
        assert_eq!((line.in_flight(), line.sent()), (0, 1));
        assert!(line.reserve(2, 6));
        assert_eq!(line.waits_since_us(), 6);
        line.correct(2, 0);
        assert_eq!((line.in_flight(), line.sent()), (1, 2));
        line.correct(1, 0);
        assert_eq!((line.in_flight(), line.sent()), (0, 1));
        // Its sender was only slow.
        line.note_taken();
        assert_eq!((line.in_flight(), line.sent()), (0, 2));
        line.correct(0, 3);
        assert_eq!((line.in_flight(), line.sent()), (3, 5));
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
