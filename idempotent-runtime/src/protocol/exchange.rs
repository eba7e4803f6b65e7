//! Execution of one request, as an exchange of messages with a store.

use super::request::{Expected, Request};
use super::table::Write;
use crate::store::{
    Found, Head, Next, Record, Seen, State, StoreError, StoreErrorKind, Swap, Swapped,
};
use std::fmt;
use std::mem;
use std::time::Duration;

/// The number of swaps after which a request gives up on a record that keeps changing.
const ROUNDS: usize = 16;

/// A request in progress: asks the table, replaces the record on the condition that it has not
/// changed since, and otherwise starts over with the record that the store has.
///
/// It performs no I/O. Its owner executes each [`action`](Self::action) and reports the result,
/// until there is an answer:
///
/// ```
/// use idempotent_runtime::protocol::{Action, BeginRequest, Begun, Exchange};
/// # use idempotent_runtime::store::{Claim, Swapped, Token};
/// # use idempotent_runtime::Abandon;
/// # use std::time::Duration;
/// # let second = Duration::from_secs(1);
/// # let claim = Claim::Lease { lease: second, linger: second, abandon: Abandon::Retry };
/// # let request = BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim };
/// let mut exchange = Exchange::new(request);
/// // Nothing is expected to be there, so the first step is to write.
/// let Ok(Action::Swap(_swap)) = exchange.action() else { unreachable!() };
/// let answer = exchange.swapped(Swapped::Done);
/// assert!(matches!(answer, Some(Begun::Fresh(_))));
/// ```
pub struct Exchange<R: Request> {
    request: R,
    known: Known,
    /// The answer if the current swap succeeds.
    pending: Option<R::Answer>,
    rounds: usize,
}

/// Knowledge about the record.
enum Known {
    /// Nothing: the record has to be loaded.
    Nothing,
    /// A guess, which a swap has to confirm.
    Expected(Option<Found>),
    /// The record as the store returned it.
    Shown(Option<Found>),
}

/// The next step of an [`Exchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, one a message")]
pub enum Action<A> {
    /// Load the record, and pass it to [`Exchange::loaded`].
    Load,
    /// Replace the record, and pass the result to [`Exchange::swapped`].
    Swap(Swap),
    /// Confirm earlier writes to this key; then this is the answer.
    Confirm(A),
    /// This is the answer.
    Answer(A),
}

impl<R: Request> Exchange<R> {
    /// Creates the exchange of a request. Nothing has been sent yet.
    pub fn new(request: R) -> Self {
        let known = match request.expects() {
            Expected::Nothing => Known::Expected(None),
            Expected::Held(head) => Known::Expected(Some(Found { head, value: None, ttl: None })),
            Expected::Any => Known::Nothing,
        };
        Self { request, known, pending: None, rounds: ROUNDS }
    }

    /// The next step.
    ///
    /// # Errors
    /// The record changed each time it was read.
    pub fn action(&mut self) -> Result<Action<R::Answer>, StoreError> {
        let (found, expected) = match mem::replace(&mut self.known, Known::Nothing) {
            Known::Nothing => return Ok(Action::Load),
            Known::Expected(found) => (found, true),
            Known::Shown(found) => (found, false),
        };
        let seen = found.as_ref().map(|found| (found.head, found.ttl));
        if let Some((head, None)) = &seen
            && self.request.depends_on_life(head)
        {
            return Ok(Action::Load);
        }
        let (answer, write) = self.request.step(found);
        let Some(next) = next(&self.request, &write) else {
            return Ok(match expected {
                // An answer must not rest on a guess.
                true => Action::Load,
                false if R::relies_on_record(&answer) => Action::Confirm(answer),
                false => Action::Answer(answer),
            });
        };
        self.rounds = self.rounds.checked_sub(1).ok_or_else(contended)?;
        let swap = Swap { seen: condition(seen, &next), next, verb: self.request.verb() };
        self.pending = Some(answer);
        Ok(Action::Swap(swap))
    }

    /// Takes the record that was loaded.
    pub fn loaded(&mut self, loaded: Option<Record>) {
        self.known = Known::Shown(loaded.map(Found::from));
    }

    /// Takes the result of a swap. Returns the answer if the swap was done; otherwise the exchange
    /// goes on.
    pub fn swapped(&mut self, swapped: Swapped) -> Option<R::Answer> {
        let answer = self.pending.take();
        match swapped {
            Swapped::Done => answer,
            Swapped::DoneWithoutValue => answer.map(R::without_value),
            Swapped::Found(found) => {
                self.known = Known::Shown(found);
                None
            }
        }
    }
}

/// The change to the record that a request makes; `None` if the record stays as it is.
pub(super) fn next<R: Request>(request: &R, write: &Write) -> Option<Next> {
    Some(match *write {
        Write::Keep => return None,
        Write::Delete => Next::Nothing,
        Write::Extend { ttl } => Next::Extend { ttl },
        Write::Put { head, ttl } => {
            let (value, when_full) = (request.value().cloned(), request.when_full());
            Next::Put { head, value, ttl, when_full }
        }
    })
}

/// The condition of a swap.
fn condition(seen: Option<(Head, Option<Duration>)>, next: &Next) -> Seen {
    let Some((head, ttl)) = seen else { return Seen::Nothing };
    // A renewal changes only the time to live, so a swap that relies on the end of a lease compares
    // that too.
    let at_most = match (ttl, next) {
        (Some(ttl), Next::Put { .. } | Next::Nothing)
            if head.state == State::Processing && head.lease_left(ttl).is_zero() =>
        {
            Some(head.attempt.claim.linger())
        }
        _ => None,
    };
    Seen::This { head, at_most }
}

/// The error of a request whose record changed each time.
fn contended() -> StoreError {
    let text = "the record changed each time it was looked at";
    StoreError::new(StoreErrorKind::Contended, text)
}

impl<R: Request> fmt::Debug for Exchange<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = match &self.known {
            Known::Nothing => None,
            Known::Expected(found) | Known::Shown(found) => Some(found),
        };
        formatter
            .debug_struct("Exchange")
            .field("verb", &self.request.verb())
            .field("known", &known)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}
