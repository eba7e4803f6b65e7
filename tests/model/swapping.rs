//! A store that can do no more than compare and swap, and the [`Exchange`] that brings requests about
//! in it: the code of the product, one message at a time. Anything may happen in between.

use crate::caller::Phase;
use crate::record::{
    Answer, Change, Kept, Record, Request, Typed, abstracted, begun, resolved, ticks, updated,
};
use crate::seen::Event;
use crate::world::{Guard, Protocol, Reply, Store, Swap, World};
use idempotent_runtime::protocol::{self, Action, Exchange};
use idempotent_runtime::store::{Found, Next, Record as Loaded, Seen, Swap as Sent, Swapped};

/// News for an exchange.
enum Told {
    Nothing,
    /// A swap has found this record, and not how long it lives.
    Found(Found),
    /// The record was loaded.
    Loaded(Option<Loaded>),
}

/// The next step of an exchange.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Then {
    Load,
    Swap(Sent, Answer),
    Answer(Answer),
}

/// The next step of an exchange after some news.
fn then<R: protocol::Request>(
    request: R,
    told: Told,
    answer: impl Fn(R::Answer) -> Answer,
) -> Then {
    let mut exchange = Exchange::new(request);
    match told {
        Told::Nothing => {}
        Told::Found(found) => {
            exchange.action().expect("nobody has contended yet");
            assert!(exchange.swapped(Swapped::Found(Some(found))).is_none());
        }
        Told::Loaded(record) => exchange.loaded(record),
    }
    match exchange.action().expect("nobody has contended yet") {
        Action::Load => Then::Load,
        Action::Swap(swap) => {
            let done = exchange.swapped(Swapped::Done).expect("what is done is answered");
            Then::Swap(swap, answer(done))
        }
        Action::Confirm(done) | Action::Answer(done) => Then::Answer(answer(done)),
    }
}

impl Protocol {
    fn then(&self, request: Request, told: Told) -> Then {
        match self.terms.typed(request) {
            Typed::Begin(begin) => then(begin, told, |answer| begun(&answer)),
            Typed::Update(update) => then(update, told, |answer| updated(answer, request.verb)),
            Typed::Resolve(resolve) => then(resolve, told, resolved),
        }
    }

    fn swap_of(&self, request: Request, sent: Sent, answer: Answer) -> Swap {
        let (seen, at_most) = match sent.seen {
            Seen::Nothing => (None, None),
            Seen::This { head, at_most } => (Some(abstracted(head, None)), at_most.map(ticks)),
        };
        let compared = matches!(self.store, Store::Swapping(Guard::TimeToLive, _));
        let change = match sent.next {
            Next::Put { head, value, ttl, .. } => {
                let value = value.map(|value| value.as_bytes()[0]);
                Change::Put(Kept { record: abstracted(head, value), ttl: ticks(ttl) })
            }
            Next::Extend { ttl } => Change::Extend(ticks(ttl)),
            Next::Nothing => Change::Delete,
        };
        let at_most = at_most.filter(|_| compared);
        Swap { request, seen, at_most, change, answer }
    }

    /// The swap that follows from what its sender can tell without reading: that there is no record
    /// yet, or that the one it holds is still there.
    pub(crate) fn guess(&self, request: Request) -> Option<Swap> {
        match self.then(request, Told::Nothing) {
            Then::Swap(sent, answer) => Some(self.swap_of(request, sent, answer)),
            Then::Load | Then::Answer(_) => None,
        }
    }

    /// Answers, or sends what is to be written, now that the record was loaded.
    pub(crate) fn look(&self, world: &mut World, request: Request, reply: Reply) {
        let loaded = world.kept.map(|Kept { record, ttl }| {
            let Found { head, value, ttl } = self.terms.found(record, Some(ttl));
            Loaded::new(head, value, ttl.unwrap_or_default())
        });
        self.go_on(world, request, Told::Loaded(loaded), reply);
    }

    /// `begin` has found a record, and does not know how long that lives.
    pub(crate) fn peek(&self, world: &mut World, index: usize) {
        let Phase::Asking { request, .. } = world.callers[index].phase else { return };
        let Some(Kept { record, .. }) = world.kept else { return };
        let request = Request { verb: crate::record::Verb::Begin, attempt: request };
        let told = Told::Found(self.terms.found(record, None));
        self.go_on(world, request, told, Reply::Arrives);
    }

    fn go_on(&self, world: &mut World, request: Request, told: Told, reply: Reply) {
        let Store::Swapping(_, at_once) = self.store else { return };
        match self.then(request, told) {
            // At any time: see `look`.
            Then::Load => {}
            Then::Answer(answer) => self.answer(world, request, answer, reply),
            Then::Swap(sent, answer) => {
                let swap = self.swap_of(request, sent, answer);
                // What was guessed arrives at any time anyway.
                let guessed = self.guess(request).is_some_and(|guess| guess.seen == swap.seen);
                if !guessed && world.swaps.len() < at_once {
                    world.swaps.insert(swap);
                }
            }
        }
    }

    pub(crate) fn swap(&self, world: &mut World, swap: Swap, reply: Reply) {
        let Swap { request, seen, at_most, change, answer } = swap;
        let bare = |kept: Kept| Record { value: None, ..kept.record };
        if world.kept.map(bare) != seen {
            return;
        }
        let ttl = world.kept.map_or(0, |kept| kept.ttl);
        if at_most.is_some_and(|at_most| ttl > at_most) {
            self.seen.note(Event::SwapOfLivingLeaseRefused);
            return;
        }
        self.write(world, request, change);
        self.answer(world, request, answer, reply);
    }
}
