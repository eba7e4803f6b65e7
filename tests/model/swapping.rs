//! A store that cannot apply a verb in one step, as the one on Redis: it reads, asks the table, and
//! replaces what it read on the condition that it is still there. Anything may happen in between.

use crate::caller::{Peeked, Phase};
use crate::record::{Answer, Change, Kept, Record, Request, Ticks, Verb};
use crate::seen::Event;
use crate::world::{Guard, Protocol, Reply, Store, Swap, World};
use idempotent_runtime::store::State;

impl Protocol {
    /// The write that follows from what its caller can tell without reading: that there is no
    /// record yet, or that the one it holds is still there.
    pub(crate) fn guess(&self, request: Request) -> Option<Swap> {
        let Request { verb, attempt } = request;
        let guess = match verb {
            Verb::ResolveSucceeded | Verb::ResolveRetry => return None,
            Verb::Begin => None,
            _ => {
                let payload = self.terms.payload(attempt.token);
                Some(Record { attempt, state: State::Processing, value: None, payload })
            }
        };
        // No answer to these relies on how long the record lives.
        let guess = guess.map(|record| Kept { record, ttl: Ticks::MAX });
        self.propose(request, guess).ok()
    }

    /// Asks the table about what was read: the write that it calls for, else the answer.
    fn propose(&self, request: Request, read: Option<Kept>) -> Result<Swap, Answer> {
        let (answer, mut change) = self.terms.step(read, request);
        if let (Verb::Renew, Answer::Extended, Some(kept)) = (request.verb, answer, read) {
            // The server compares how long the record lives, when the renewal arrives.
            let linger = self.terms.linger_of(kept.record.attempt);
            change = Change::Put(Kept { ttl: linger + self.terms.lease, ..kept });
        }
        if change == Change::None {
            return Err(answer);
        }
        // Renewals change nothing but the time to live, so whoever relies on it compares it, too.
        let relies_on_time = read.filter(|kept| {
            kept.record.state == State::Processing
                && self.terms.lease_left(*kept) == 0
                && request.verb != Verb::Renew
                && matches!(self.store, Store::Swapping(Guard::TimeToLive, _))
        });
        let at_most = relies_on_time.map(|kept| self.terms.linger_of(kept.record.attempt));
        Ok(Swap { request, seen: read.map(|kept| kept.record), at_most, change, answer })
    }

    /// Answers, or sends what is to be written.
    pub(crate) fn decide(
        &self,
        world: &mut World,
        request: Request,
        read: Option<Kept>,
        reply: Reply,
    ) {
        match (self.propose(request, read), self.store) {
            (Err(answer), _) => self.answer(world, request, answer, reply),
            (Ok(swap), Store::Swapping(_, at_once)) => {
                // What was guessed arrives at any time anyway.
                let guessed = self.guess(request).is_some_and(|guess| guess.seen == swap.seen);
                if !guessed && world.swaps.len() < at_once {
                    world.swaps.insert(swap);
                }
            }
            (Ok(_), Store::Atomic) => {}
        }
    }

    pub(crate) fn swap(&self, world: &mut World, swap: Swap, reply: Reply) {
        let Swap { request, seen, at_most, change, answer } = swap;
        let ttl = world.kept.map_or(0, |kept| kept.ttl);
        if world.kept.map(|kept| kept.record) != seen {
            return;
        }
        if at_most.is_some_and(|at_most| ttl > at_most) {
            self.seen.note(Event::SwapOfLivingLeaseRefused);
            return;
        }
        match (request.verb, change) {
            (Verb::Renew, Change::Put(longer)) if longer.ttl <= ttl => {}
            _ => self.write(world, request, change),
        }
        self.answer(world, request, answer, reply);
    }

    /// `begin` has found a record, and does not know how long it lives.
    pub(crate) fn peek(&self, world: &mut World, index: usize) {
        let Phase::Asking { request, peeked, .. } = &mut world.callers[index].phase else { return };
        let Some(Kept { record, .. }) = world.kept else { return };
        let request = Request { verb: Verb::Begin, attempt: *request };
        let read = Some(Kept { record, ttl: Ticks::MAX });
        match self.terms.step(read, request) {
            (Answer::InFlight, _) => *peeked = Some(Peeked { record, ttl: None }),
            _ => self.decide(world, request, read, Reply::Arrives),
        }
    }

    /// It asks for the time to live. By now that may be another record's.
    pub(crate) fn peek_ttl(&self, world: &mut World, index: usize) {
        let Phase::Asking { request, peeked, .. } = &mut world.callers[index].phase else { return };
        let Some(Peeked { record, .. }) = peeked.take() else { return };
        let Some(Kept { ttl, .. }) = world.kept else { return };
        let request = Request { verb: Verb::Begin, attempt: *request };
        let read = Some(Kept { record, ttl });
        match self.terms.step(read, request) {
            (Answer::Indeterminate, _) => *peeked = Some(Peeked { record, ttl: Some(ttl) }),
            _ => self.decide(world, request, read, Reply::Arrives),
        }
    }

    /// Whether the outcome is unknown: the record must be the same at the time that is known.
    pub(crate) fn peek_again(&self, world: &mut World, index: usize) {
        let Phase::Asking { request, peeked, .. } = &mut world.callers[index].phase else { return };
        let Some(Peeked { record, ttl: Some(ttl) }) = peeked.take() else { return };
        let request = Request { verb: Verb::Begin, attempt: *request };
        match world.kept {
            Some(kept) if kept.record == record && kept.ttl <= ttl => {
                self.answer(world, request, Answer::Indeterminate, Reply::Arrives);
            }
            again => self.decide(world, request, again, Reply::Arrives),
        }
    }
}
