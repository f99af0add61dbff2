//! A worker that receives what others pass on, and sees to connections on their way to one that does
//! not take them.

use super::Worker;
use super::handoff::Look;
use crate::accept::acceptor::Accepted;
use crate::accept::balance::Stance;
use crate::accept::handoff::{self, End, Origin, WINDOW, Wanted};
use crate::accept::neighbours::ask;
use crate::herd::Herd;
use crate::reactor::Source;
use crate::shm::slot::{State, count};
use crate::sys::clock::now_us;
use crate::sys::socket::Connection;
use crate::sys::transfer::set_nonblocking;
use crate::sys::{Error, Result, epoll};

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
    pub(super) fn leave_queue(&self) -> Result<()> {
        self.passing.queue_ready.set(false);
        if self.passing.watches_queue.replace(false) {
            self.reactor.unwatch(self.herd.queue(self.slot).receiver_fd())?;
        }
        self.herd.ask_to_look(self.slot);
        Ok(())
    }

    fn pause_queue(&self, us: u64) -> Result<()> {
        self.passing.queue_paused_until_us.set(Some(now_us() + us));
        self.leave_queue()
    }

    /// Takes the connections that were sent to this worker.
    pub(super) fn receive(&self) -> Result<()> {
        if !self.passing.queue_ready.replace(false) {
            return Ok(());
        }
        let settings = &self.herd.settings;
        let wanted = Wanted { most: WINDOW, named_too: true, marks_stuck: false };
        match self.take_from(self.slot, wanted)? {
            End::Empty | End::Enough | End::Named => Ok(()),
            End::TooMany => self.pause_queue(settings.accept_delay_us),
            End::Taken => self.pause_queue(settings.handover_delay_us),
            End::Truncated => {
                self.back_off("receive", Error::errno(libc::EMFILE));
                self.step_back(Stance::Refuse)
            }
        }
    }

    /// An error must not keep the host from what it already has: it is said in the log, and the queue is
    /// left to others for a while.
    pub(super) fn take_what_was_passed_on(&self) {
        let passed = self.pass_on().and_then(|()| self.receive());
        if let Err(error) = passed {
            self.back_off("pass connections on", error);
        }
    }

    fn take_from(&self, queue_of: u16, wanted: Wanted) -> Result<End> {
        let room = self.capacity().saturating_sub(self.my_slot().open());
        if room == 0 {
            return Ok(End::TooMany);
        }
        let line = &self.herd.slot_of(queue_of).queue;
        let reader = Herd::reader(self.slot, self.claim);
        let wanted = Wanted { most: wanted.most.min(room), ..wanted };
        let mut received = 0;
        let from = self.herd.queue(queue_of);
        let end = handoff::take(line, from, reader, wanted, |origin, connection| {
            received += 1;
            count(&self.counters().handoff_received, 1);
            count(&self.counters().handoff_rerouted, u64::from(queue_of != self.slot));
            self.keep_received(origin, connection);
        });
        if received > 0 {
            self.herd.tell_waiting();
        }
        end
    }

    fn keep_received(&self, origin: Origin, connection: Connection) {
        let acceptance = match origin {
            Origin::Listener(number) => self.arming.acceptance(number),
            Origin::Sent(_) => set_nonblocking(&connection.fd).ok().map(|()| self.passing.of_sent),
        };
        match acceptance {
            Some(acceptance) => self.keep(Accepted { connection, origin, place: 0, acceptance }),
            None => self.herd.log.error(format_args!(
                "slot {}: a connection closed whose listener is not known here",
                self.slot
            )),
        }
    }

    // --- those who do not take what is sent to them ---

    /// Looks after connections on their way to workers that died, that take none, or that have not
    /// taken any for handover_delay.
    pub(super) fn look_at_queues(&self) -> Result<()> {
        let passing = &self.passing;
        let now_us = now_us();
        let is_due = passing.next_look_us.get().is_some_and(|at_us| at_us <= now_us);
        if !self.herd.has_queues() || !(self.conduct.get().asked.is_some() || is_due) {
            return Ok(());
        }
        passing.forget_retry();
        passing.next_look_us.set(None);
        if self.only_accepts() && self.herd.has_others(self.slot) {
            // Another is to look, who can serve what it finds.
            let waits = |number| self.herd.slot_of(number).queue.in_flight() > 0;
            if (0..self.herd.queue_count()).any(waits)
                && let Some((slot, _)) = self.neighbours.least_idle(self.herd.region.slots())
            {
                ask(self.herd.region.slots(), &self.herd.bells, slot, now_us);
            }
            return Ok(());
        }
        if !self.conduct.get().willing {
            passing.looks.borrow_mut().fill(None);
            return Ok(());
        }
        let mut most = WINDOW;
        for number in (0..self.herd.queue_count()).filter(|&number| number != self.slot) {
            most = most.saturating_sub(self.look_at(number, most, now_us)?);
        }
        Ok(())
    }

    /// Returns how many connections it took.
    fn look_at(&self, number: u16, most: u64, now_us: u64) -> Result<u64> {
        let (slot, passing) = (self.herd.slot_of(number), &self.passing);
        let line = &slot.queue;
        let (taken, in_flight) = (line.taken(), line.in_flight());
        let first = passing.looks.borrow_mut()[usize::from(number)].take();
        if in_flight == 0 || most == 0 {
            return Ok(0);
        }
        let settings = &self.herd.settings;
        let mut delay_us = settings.handover_delay_us;
        let look = first.filter(|look| look.taken == taken);
        let look = look.unwrap_or(Look { taken, in_flight, since_us: now_us });
        let waited_us = now_us - look.since_us;
        let is_abandoned = slot.claim().pid().is_none() || slot.state() == State::Resting;
        if waited_us >= delay_us || is_abandoned {
            // A worker that was named may take its time, as long as a connection may wait at all.
            let named_too = is_abandoned || waited_us >= settings.accept_delay_us;
            let wanted = Wanted { most, named_too, marks_stuck: !is_abandoned };
            let end = self.take_from(number, wanted)?;
            let got = line.taken() - taken;
            if got > 0 && !is_abandoned {
                // It may be stopped in its wait: when it goes on, it finds that it is back.
                self.herd.bells[usize::from(number)].ring();
                self.herd.log.info(format_args!(
                    "slot {}: takes {got} connections that slot {number} has not taken",
                    self.slot
                ));
            }
            if end == End::Empty && got == 0 && waited_us >= delay_us {
                // Somebody died between counting and sending, or between taking and counting.
                line.correct(look.in_flight, 0);
            }
            if got > 0 {
                return Ok(got);
            }
            // Patience with a worker that was named, or a queue that cannot be read now.
            delay_us = match end {
                End::Named => settings.accept_delay_us,
                End::Empty => waited_us + delay_us,
                _ => waited_us + settings.accept_delay_us,
            };
        }
        passing.looks.borrow_mut()[usize::from(number)] = Some(look);
        let at_us = look.since_us + delay_us;
        let next_us = passing.next_look_us.get().map_or(at_us, |us| us.min(at_us));
        passing.next_look_us.set(Some(next_us));
        Ok(0)
    }
}
