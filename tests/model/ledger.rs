//! What bodies did and what the store wrote, noted outside the store, and what must hold of it.

use crate::record::{Answer, Change, Kept, NOBODY, Request, Terms, Verb};
use idempotent_runtime::Abandon;
use idempotent_runtime::store::State;

/// A set of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tokens(u16);

impl Tokens {
    pub(crate) fn add(&mut self, token: u8) {
        self.0 |= 1 << token;
    }

    pub(crate) fn has(self, token: u8) -> bool {
        token < 16 && self.0 & (1 << token) != 0
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// Whose bodies ever returned a value, and whose a final error.
    pub(crate) values: Tokens,
    pub(crate) final_errors: Tokens,
    /// What follows holds for the life of a record.
    pub(crate) life: Life,
    /// The first guarantee that did not hold.
    pub(crate) broken: Option<Guarantee>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Life {
    /// Whose bodies started.
    pub(crate) started: Tokens,
    /// After whom another body may start.
    pub(crate) excused: Tokens,
    /// The greatest fence of a body that started.
    fence: u8,
    /// Whose answer is kept.
    pub(crate) answered: Option<u8>,
    /// The payload of the last body that started, unless an operator freed the key since.
    payload: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guarantee {
    Integrity,
    Agreement,
    OneHolder,
    NoStartAfterSuccess,
    Starts,
    Fences,
    Payload,
}

impl Ledger {
    /// A body starts, while the store holds `kept`.
    pub(crate) fn starts(&mut self, token: u8, fence: u8, payload: Option<u8>, kept: Option<Kept>) {
        let answered =
            |kept: Kept| matches!(kept.record.state, State::Succeeded | State::FailedFinal);
        self.demand(!kept.is_some_and(answered), Guarantee::NoStartAfterSuccess);
        self.demand(self.life.answered.is_none(), Guarantee::NoStartAfterSuccess);
        self.demand(fence > self.life.fence, Guarantee::Fences);
        self.life.fence = fence.max(self.life.fence);
        self.life.started.add(token);
        let differs = self.life.payload.zip(payload).is_some_and(|(bound, asked)| bound != asked);
        self.demand(!differs, Guarantee::Payload);
        self.life.payload = payload;
        let Life { started, excused, .. } = self.life;
        self.demand(started.count() <= 1 + started.and(excused).count(), Guarantee::Starts);
    }

    /// An attempt came to its end, and maybe another body may start.
    pub(crate) fn ends(&mut self, token: u8, how: Ended, abandon: Abandon) {
        let excused = match how {
            Ended::WithError | Ended::Resolved => true,
            Ended::InNoWay => abandon == Abandon::Retry,
        };
        if excused {
            self.life.excused.add(token);
        }
        if how == Ended::Resolved {
            self.life.payload = None;
        }
    }

    /// The store changes its record.
    pub(crate) fn writes(&mut self, old: Option<Kept>, change: Change, terms: &Terms) {
        let new = match change {
            Change::None | Change::Extend(_) => return,
            Change::Put(kept) => Some(kept.record),
            Change::Delete => None,
        };
        if let Some(old) = old {
            let held = matches!(old.record.state, State::Processing | State::Abandoned);
            let taken = new.is_none_or(|new| new.attempt.token != old.record.attempt.token);
            let answered = matches!(old.record.state, State::Succeeded | State::FailedFinal);
            self.demand(!answered, Guarantee::Agreement);
            if held && taken && new.is_some() {
                let over = old.record.state == State::Abandoned || terms.lease_left(old) == 0;
                self.demand(over, Guarantee::OneHolder);
                if over {
                    self.ends(old.record.attempt.token, Ended::InNoWay, terms.abandon);
                }
            }
        }
        let Some(new) = new else { return };
        if matches!(new.state, State::Succeeded | State::FailedFinal) {
            self.answers(new.attempt.token);
        }
        let returned = match (new.state, new.value) {
            (State::Succeeded, None) => new.attempt.token == NOBODY,
            (State::Succeeded, Some(value)) => self.values.has(value),
            (State::FailedFinal, Some(value)) => self.final_errors.has(value),
            (_, value) => value.is_none(),
        };
        self.demand(returned, Guarantee::Integrity);
    }

    fn answers(&mut self, token: u8) {
        let only = self.life.answered.is_none_or(|before| before == token);
        self.demand(only, Guarantee::Agreement);
        self.life.answered = Some(token);
    }

    /// The store answers.
    pub(crate) fn told(&mut self, request: Request, answer: Answer) {
        let token = match (request.verb, answer) {
            (Verb::Begin, Answer::Succeeded(value)) => {
                self.demand(value.is_none_or(|it| self.values.has(it)), Guarantee::Integrity);
                value.unwrap_or(NOBODY)
            }
            (Verb::Begin, Answer::FailedFinal(value)) => {
                self.demand(
                    value.is_some_and(|it| self.final_errors.has(it)),
                    Guarantee::Integrity,
                );
                value.unwrap_or(NOBODY)
            }
            (Verb::Complete | Verb::CompleteLate, Answer::Done | Answer::Vanished)
            | (Verb::FailFinal, Answer::Done) => request.attempt.token,
            _ => return,
        };
        self.demand(self.life.answered == Some(token), Guarantee::Agreement);
    }

    /// The record's life is over.
    pub(crate) fn expires(&mut self) {
        self.life = Life::default();
    }

    fn demand(&mut self, holds: bool, guarantee: Guarantee) {
        if !holds && self.broken.is_none() {
            self.broken = Some(guarantee);
        }
    }
}

/// How an attempt whose body started came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ended {
    /// The body returned an error that is not kept.
    WithError,
    /// It was dropped, or its lease ran out.
    InNoWay,
    /// An operator said that it did not happen.
    Resolved,
}
