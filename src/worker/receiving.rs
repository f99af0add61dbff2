//! A worker that receives what others pass on, and sees to connections on their way to one that does
//! not take them.

use super::Worker;
use crate::accept::acceptor::Accepted;
use crate::accept::handoff::{self, End, Origin, WINDOW, Wanted};
use crate::accept::neighbours::ask;
use crate::herd::Herd;
use crate::log::{Recurring, Task};
use crate::reactor::Source;
use crate::shm::slot::{State, count};
use crate::sys::clock::now_us;
use crate::sys::socket::Connection;
use crate::sys::{Error, Result, epoll};

/// What a look at a queue brought.
struct Took {
    end: Result<End>,
    /// Also before an error.
    connections: u64,
}

/// One look at a queue of another.
struct Look {
    number: u16,
    /// Connections that this worker still takes in this turn.
    most: u64,
    now_us: u64,
    /// When others were asked in its stead, by a worker that only accepts.
    asked_others_us: Option<u64>,
}

impl Worker {
    pub(super) fn watch_queue(&self) -> Result<()> {
        let passing = &self.passing;
        if !self.herd.has_queues() || passing.watches_queue.get() {
            return Ok(());
        }
        if passing.queue_paused_until_us.get().is_some_and(|until_us| now_us() < until_us) {
            return Ok(());
        }
        passing.queue_paused_until_us.set(None);
        self.reactor.watch(self.herd.queue(self.slot).receiver_fd(), epoll::IN, Source::Queue)?;
        passing.watches_queue.set(true);
        Ok(())
    }

    /// Others are to take what is on its way here.
    pub(super) fn leave_queue(&self) {
        self.passing.queue_ready.set(false);
        if self.passing.watches_queue.replace(false) {
            self.reactor.unwatch(self.herd.queue(self.slot).receiver_fd());
        }
        self.herd.ask_to_look(self.slot);
    }

    fn pause_queue(&self, us: u64) {
        self.passing.queue_paused_until_us.set(Some(now_us() + us));
        self.leave_queue();
    }

    /// Takes the connections that were sent to this worker.
    pub(super) fn receive(&self) {
        if !self.passing.queue_ready.replace(false) {
            return;
        }
        let settings = &self.herd.settings;
        let wanted = Wanted { most: WINDOW, named_too: true, marks_stuck: false };
        self.my_slot().queue.note_progress(now_us());
        match self.take_from(self.slot, wanted).end {
            Ok(End::Empty | End::Enough | End::Named) => {}
            Ok(End::Full | End::Foreign) => self.pause_queue(settings.accept_delay_us),
            Ok(End::Taken) => self.pause_queue(settings.handover_delay_us),
            Ok(End::Truncated) => self.rest_a_while(Task::Receive, Error::errno(libc::EMFILE)),
            Err(error) => self.rest_a_while(Task::Receive, error),
        }
    }

    pub(super) fn take_what_was_passed_on(&self) {
        if self.passing.pending_count() == 0 && !self.passing.has_received() {
            return;
        }
        self.pass_on();
        self.receive();
    }

    fn take_from(&self, queue_of: u16, wanted: Wanted) -> Took {
        let room = self.capacity().saturating_sub(self.my_slot().open());
        if room == 0 {
            return Took { end: Ok(End::Full), connections: 0 };
        }
        let line = &self.herd.slot_of(queue_of).queue;
        let reader = Herd::reader(self.slot, self.claim);
        let wanted = Wanted { most: wanted.most.min(room), ..wanted };
        let from = self.herd.queue(queue_of);
        let is_rerouted = u64::from(queue_of != self.slot);
        let mut connections = 0;
        let keep = |origin, connection| self.keep_received(origin, connection);
        let end = handoff::take(line, from, reader, wanted, keep, || {
            // After it counts as taken: never more are received than sent.
            count(&self.counters().handoff_received, 1);
            count(&self.counters().handoff_rerouted, is_rerouted);
            connections += 1;
        });
        if connections > 0 {
            self.herd.tell_waiting();
        }
        if end == Ok(End::Foreign) {
            // Also what a queue that was shut down answers, again and again.
            self.herd.log.recurring(Recurring::MessageDropped, format_args!(
                "slot {}: a message for slot {queue_of} dropped that no worker of the herd sends",
                self.slot
            ));
        }
        Took { end, connections }
    }

    fn keep_received(&self, origin: Origin, connection: Connection) {
        let acceptance = match origin {
            Origin::Listener(number) => self.arming.acceptance(number),
            Origin::Sent(_) => Some(self.passing.of_sent),
        };
        match acceptance {
            Some(acceptance) => self.keep(Accepted { connection, origin, place: 0, acceptance }),
            None => {
                let slot = self.slot;
                self.herd.log.recurring(
                    Recurring::ConnectionDropped,
                    format_args!(
                        "slot {slot}: a connection closed whose listener is not known here"
                    ),
                );
            }
        }
    }

    // --- those who do not take what is sent to them ---

    /// Looks after connections on their way to workers that died, that take none, or that have not
    /// taken any for handover_delay: all of them, in each turn as many as it would accept, and others help.
    pub(super) fn look_at_queues(&self) {
        let passing = &self.passing;
        let now_us = now_us();
        let is_due = passing.next_look_us.get().is_some_and(|at_us| at_us <= now_us);
        if !self.herd.has_queues() || !(self.conduct.get().asked.is_some() || is_due) {
            return;
        }
        passing.forget_retry();
        let asked_others_us = passing.asked_others_us.take();
        passing.next_look_us.set(None);
        if !self.conduct.get().willing {
            return;
        }
        let (mut most, count) = (WINDOW.min(self.batch().into()), self.herd.queue_count());
        // From the next one on, so that those who help begin elsewhere.
        let numbers = (1..count).map(|distance| (self.slot + distance) % count);
        for number in numbers {
            let look = Look { number, most, now_us, asked_others_us };
            most = most.saturating_sub(self.look_at(&look));
            if !self.conduct.get().willing {
                break;
            }
        }
        if passing.next_look_us.get().is_some_and(|at_us| at_us <= now_us) {
            self.herd.ask_another();
        }
    }

    /// Returns how many connections it took.
    fn look_at(&self, look: &Look) -> u64 {
        let &Look { number, most, now_us, .. } = look;
        let slot = self.herd.slot_of(number);
        let (line, settings) = (&slot.queue, &self.herd.settings);
        let in_flight = line.in_flight();
        if in_flight == 0 {
            return 0;
        }
        let delay_us = settings.handover_delay_us;
        let since_us = line.waits_since_us(now_us);
        let waited_us = now_us.saturating_sub(since_us);
        let is_abandoned = slot.claim().pid().is_none() || slot.state() == State::Resting;
        if !is_abandoned && !line.is_stuck() && waited_us < delay_us {
            self.look_again_at(since_us + delay_us);
            return 0;
        }
        if self.leaves_to_others(look, waited_us) {
            return 0;
        }
        if most == 0 {
            self.look_again_at(now_us);
            return 0;
        }
        // A worker that was named may take its time, as long as a connection may wait at all.
        let named_too = is_abandoned || waited_us >= settings.accept_delay_us;
        let wanted = Wanted { most, named_too, marks_stuck: !is_abandoned };
        let Took { end, connections: got } = self.take_from(number, wanted);
        if got > 0 && !is_abandoned {
            self.grow_wary();
            // It may be stopped in its wait: when it goes on, it finds that it is back.
            self.herd.bells[usize::from(number)].ring();
            self.herd.log.recurring(
                Recurring::Rescue,
                format_args!(
                    "slot {}: takes {got} connections that slot {number} has not taken",
                    self.slot
                ),
            );
        }
        match end {
            Ok(End::Empty) if got == 0 && line.is_settled(now_us, delay_us) => {
                // Somebody died between counting and sending, or between taking and counting.
                line.correct(in_flight, 0, now_us);
            }
            Ok(End::Empty) if got == 0 => self.look_again_at(line.settles_us(now_us, delay_us)),
            Ok(End::Empty) => {}
            // Nobody is to be asked to help with nothing.
            Ok(End::Enough) if line.in_flight() == 0 => {}
            Ok(End::Enough | End::Full) => self.look_again_at(now_us),
            Ok(End::Named) => self.look_again_at(since_us + settings.accept_delay_us),
            Ok(End::Foreign) => self.look_again_at(now_us + settings.accept_delay_us),
            Ok(End::Taken) => self.look_again_at(now_us + delay_us),
            Ok(End::Truncated) => self.leave_queue_to_others(number, Error::errno(libc::EMFILE)),
            Err(error) => self.leave_queue_to_others(number, error),
        }
        got
    }

    fn leave_queue_to_others(&self, number: u16, error: Error) {
        self.rest_a_while(Task::Receive, error);
        self.herd.ask_to_look(number);
    }

    /// Whether a worker that only accepts leaves a queue to others. They get the time to show that they
    /// come, as long as a connection may wait at all.
    fn leaves_to_others(&self, look: &Look, waited_us: u64) -> bool {
        let herd = &self.herd;
        if !self.only_accepts() || !herd.has_willing_others(self.slot) {
            return false;
        }
        let (now_us, delay_us) = (look.now_us, herd.settings.handover_delay_us);
        let asked_us = look.asked_others_us.unwrap_or(now_us);
        let longest_us = now_us - waited_us + herd.settings.accept_delay_us;
        let ends_us = longest_us.max(asked_us + delay_us);
        if now_us >= ends_us {
            return false;
        }
        self.passing.asked_others_us.set(Some(asked_us));
        let slots = herd.region.slots();
        let next_us = match self.neighbours.least_idle(slots) {
            Some((slot, _)) => {
                ask(slots, &herd.bells, slot, now_us);
                ends_us.min(now_us + delay_us)
            }
            None => ends_us,
        };
        self.look_again_at(next_us);
        true
    }

    pub(super) fn look_again_at(&self, at_us: u64) {
        let next_us = self.passing.next_look_us.get().map_or(at_us, |us| us.min(at_us));
        self.passing.next_look_us.set(Some(next_us));
    }
}
