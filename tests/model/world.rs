//! Callers, a store, and a network between them that loses, repeats and delays.
//!
//! What was sent once may take effect at any time from then on, any number of times, or never.

use crate::caller::{Caller, End, LateRenewals, Phase};
use crate::ledger::{Ended, Ledger};
use crate::record::{Answer, Attempt, Change, Kept, NOBODY, Record, Request, Terms, Ticks, Verb};
use crate::seen::{Event, Seen};
use idempotent_runtime::Abandon;
use idempotent_runtime::store::State;
use std::collections::BTreeSet;

/// What is checked.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(crate) terms: Terms,
    pub(crate) store: Store,
    /// How many tokens each caller makes, at most.
    pub(crate) tokens: Vec<u8>,
    /// The fences that callers suggest: their clocks differ.
    pub(crate) seeds: Vec<u8>,
    /// How many attempts a record sees, at most.
    pub(crate) attempts: u8,
    /// How bodies end, if they do.
    pub(crate) ends: &'static [End],
    pub(crate) operator: Operator,
    pub(crate) pauses: Pauses,
    pub(crate) late_renewals: LateRenewals,
    pub(crate) seen: Seen,
}

/// How a store applies a verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Store {
    /// In one step.
    Atomic,
    /// By comparing and swapping, as the product's protocol does it. So many swaps are under way at a
    /// time, at most, beside those that are guessed.
    Swapping(Guard, usize),
}

/// Whether the end of a lease is compared as well when a record is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Guard {
    TimeToLive,
    None,
}

/// Whether somebody resolves unknown outcomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operator {
    Present,
    Absent,
}

/// Where a process can be paused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pauses {
    /// Anywhere, but not between the look at its lease and the start of its body.
    BetweenSteps,
    Anywhere,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) kept: Option<Kept>,
    pub(crate) callers: Vec<Caller>,
    pub(crate) ledger: Ledger,
    /// Verbs that were sent.
    sent: BTreeSet<Request>,
    /// Conditional writes that were sent.
    pub(crate) swaps: BTreeSet<Swap>,
}

/// A write on the condition that the record is still what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Swap {
    pub(crate) request: Request,
    pub(crate) seen: Option<Record>,
    /// The longest time to live that the seen record may have.
    pub(crate) at_most: Option<Ticks>,
    pub(crate) change: Change,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Time passes, for everybody.
    Tick,
    Call(usize),
    /// A verb takes effect, and its caller hears of it or not.
    Deliver(Request, Reply),
    /// A store that swaps has sent what follows from what its caller knows, and that arrives.
    Guess(Request, Reply),
    /// It reads record and time to live, of one moment.
    Look(Request, Reply),
    /// What it sent arrives.
    Swap(Swap, Reply),
    /// What it sent will not arrive again.
    Lose(Swap),
    /// A `begin` that swaps has found a record, and not how long that lives.
    Peek(usize),
    /// The caller, whose lease has little left or whose key is to be armed.
    Renew(usize),
    Start(usize),
    End(usize, End),
    /// The caller goes before its body starts, or was granted too late.
    GiveUp(usize),
    /// An operator decides.
    Resolve(Verb),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Arrives,
    Lost,
}

impl Protocol {
    pub(crate) fn first(&self) -> World {
        World {
            kept: None,
            callers: vec![Caller::FIRST; self.tokens.len()],
            ledger: Ledger::default(),
            sent: BTreeSet::new(),
            swaps: BTreeSet::new(),
        }
    }

    /// What can happen. What changes nothing may be among it.
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        let replies = |request: Request| {
            let heard = self.hearer(world, request).is_some();
            std::iter::once(Reply::Lost).chain(heard.then_some(Reply::Arrives))
        };
        for &request in &world.sent {
            match self.store {
                Store::Atomic => {
                    actions.extend(replies(request).map(|it| Action::Deliver(request, it)));
                }
                Store::Swapping(..) => {
                    actions.extend(replies(request).map(|it| Action::Guess(request, it)));
                    actions.extend(replies(request).map(|it| Action::Look(request, it)));
                }
            }
        }
        for &swap in &world.swaps {
            actions.extend(replies(swap.request).map(|it| Action::Swap(swap, it)));
            actions.push(Action::Lose(swap));
        }
        for (index, caller) in world.callers.iter().enumerate() {
            self.possible_for(index, caller, actions);
        }
        if self.operator == Operator::Present {
            actions.push(Action::Resolve(Verb::ResolveRetry));
            actions.push(Action::Resolve(Verb::ResolveSucceeded));
        }
    }

    fn possible_for(&self, index: usize, caller: &Caller, actions: &mut Vec<Action>) {
        match caller.phase {
            Phase::Idle if caller.tokens < self.tokens[index] => actions.push(Action::Call(index)),
            Phase::Idle => {}
            Phase::Asking { .. } => {
                if self.store != Store::Atomic {
                    actions.push(Action::Peek(index));
                }
                actions.push(Action::GiveUp(index));
            }
            Phase::Granted { attempt, left, .. } => {
                if left > 0 {
                    if self.terms.abandon == Abandon::Retry || attempt.armed {
                        actions.push(Action::Start(index));
                    }
                    actions.push(Action::Renew(index));
                }
                actions.push(Action::GiveUp(index));
            }
            Phase::Paused { .. } => actions.push(Action::Start(index)),
            Phase::Running { .. } => {
                actions.extend(self.ends.iter().map(|end| Action::End(index, *end)));
            }
        }
    }

    pub(crate) fn after(&self, mut world: World, action: Action) -> World {
        match action {
            Action::Tick => self.tick(&mut world),
            Action::Call(index) => self.call(&mut world, index),
            Action::Deliver(request, reply) => {
                let (answer, change) = self.terms.step(world.kept, request);
                self.write(&mut world, request, change);
                self.answer(&mut world, request, answer, reply);
            }
            Action::Guess(request, reply) => {
                if let Some(swap) = self.guess(request) {
                    self.swap(&mut world, swap, reply);
                }
            }
            Action::Look(request, reply) => self.look(&mut world, request, reply),
            Action::Swap(swap, reply) => self.swap(&mut world, swap, reply),
            Action::Lose(swap) => drop(world.swaps.remove(&swap)),
            Action::Peek(index) => self.peek(&mut world, index),
            Action::Renew(index) => {
                if let Phase::Granted { attempt, renewing, .. } = &mut world.callers[index].phase {
                    *renewing = Some(0);
                    if self.terms.abandon == Abandon::Block && !attempt.armed {
                        world.sent.insert(Request { verb: Verb::Arm, attempt: *attempt });
                    }
                }
            }
            Action::Start(index) => self.start(&mut world, index),
            Action::End(index, end) => self.end(&mut world, index, end),
            Action::GiveUp(index) => {
                if let Phase::Granted { left: 0, .. } = world.callers[index].phase {
                    self.seen.note(Event::TooLate);
                }
                let attempt = world.callers[index].gives_up();
                world.sent.extend(attempt.map(|attempt| Request { verb: Verb::Release, attempt }));
            }
            Action::Resolve(verb) => {
                let attempt = Attempt { token: NOBODY, number: 0, fence: 0, armed: false };
                world.sent.insert(Request { verb, attempt });
            }
        }
        world
    }

    fn tick(&self, world: &mut World) {
        for caller in &mut world.callers {
            caller.tick(self.terms.lease);
        }
        let Some(kept) = &mut world.kept else { return };
        kept.ttl -= 1;
        if kept.ttl == 0 {
            world.kept = None;
            world.ledger.expires();
        }
    }

    fn call(&self, world: &mut World, index: usize) {
        let Caller { tokens: made, phase } = &mut world.callers[index];
        let token = self.tokens[..index].iter().sum::<u8>() + *made;
        let request = Attempt { token, number: 1, fence: self.seeds[index], armed: false };
        *made += 1;
        *phase = Phase::Asking { request, left: self.terms.lease };
        world.sent.insert(Request { verb: Verb::Begin, attempt: request });
    }

    fn start(&self, world: &mut World, index: usize) {
        let attempt = match world.callers[index].phase {
            Phase::Granted { attempt, .. } if self.pauses == Pauses::Anywhere => {
                world.callers[index].phase = Phase::Paused { attempt };
                return;
            }
            Phase::Granted { attempt, .. } | Phase::Paused { attempt } => attempt,
            _ => return,
        };
        let payload = self.terms.payload(attempt.token);
        world.ledger.starts(attempt.token, attempt.fence, payload, world.kept);
        if world.ledger.life.started.count() > 1 {
            self.seen.note(Event::StartedAgain);
        }
        world.callers[index].phase = Phase::Running { attempt };
    }

    fn end(&self, world: &mut World, index: usize, end: End) {
        let Phase::Running { attempt } = world.callers[index].phase else { return };
        let Attempt { token, .. } = attempt;
        let verb = match end {
            End::Value | End::LateValue => {
                world.ledger.values.add(token);
                if end == End::Value { Verb::Complete } else { Verb::CompleteLate }
            }
            End::FinalError => {
                world.ledger.final_errors.add(token);
                Verb::FailFinal
            }
            End::Error => {
                world.ledger.ends(token, Ended::WithError, self.terms.abandon);
                Verb::Fail
            }
            End::Drop => {
                world.ledger.ends(token, Ended::InNoWay, self.terms.abandon);
                Verb::Abandon
            }
        };
        // It is recorded behind its caller, however long that takes.
        world.callers[index].phase = Phase::Idle;
        world.sent.insert(Request { verb, attempt });
    }

    pub(crate) fn write(&self, world: &mut World, request: Request, change: Change) {
        let change = match (change, world.kept) {
            (Change::Extend(ttl), Some(kept)) if ttl > kept.ttl => {
                Change::Put(Kept { ttl, ..kept })
            }
            (Change::Extend(_), _) => return,
            (change, _) => change,
        };
        world.ledger.writes(world.kept, change, &self.terms);
        if let (Verb::ResolveRetry, Change::Put(kept)) = (request.verb, change) {
            let Attempt { token, .. } = kept.record.attempt;
            world.ledger.ends(token, Ended::Resolved, self.terms.abandon);
        }
        match change {
            Change::None | Change::Extend(_) => {}
            Change::Delete => world.kept = None,
            Change::Put(kept) => {
                if let Some(old) = world.kept
                    && old.record.state == State::Processing
                    && old.record.attempt.token != kept.record.attempt.token
                {
                    self.seen.note(Event::TakenOver);
                }
                world.kept = Some(kept);
            }
        }
    }

    /// The store answers, and whoever waits for that hears it unless the reply is lost.
    pub(crate) fn answer(&self, world: &mut World, request: Request, answer: Answer, reply: Reply) {
        world.ledger.told(request, answer);
        self.seen.answered(request.verb, answer);
        if answer == Answer::Mismatch {
            let free = world.kept.is_some_and(|kept| kept.record.state == State::FailedFree);
            self.seen.note(if free { Event::MismatchWhileFree } else { Event::MismatchWhileHeld });
        }
        let Some(index) = self.hearer(world, request).filter(|_| reply == Reply::Arrives) else {
            return;
        };
        let caller = &mut world.callers[index];
        let unused = caller.hears(request.verb, answer, self.terms.lease, self.late_renewals);
        if let Phase::Granted { attempt, .. } = caller.phase {
            // From here on the keeper renews.
            world.sent.insert(Request { verb: Verb::Renew, attempt });
        }
        world.sent.extend(unused.map(|attempt| Request { verb: Verb::Release, attempt }));
    }

    /// Who waits for the answer to this request.
    fn hearer(&self, world: &World, request: Request) -> Option<usize> {
        world.callers.iter().position(|caller| caller.awaits(request))
    }
}
