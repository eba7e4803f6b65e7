//! One request, as an exchange of messages with a store.

use super::request::{Expected, Request};
use super::table::Write;
use crate::store::{Found, Next, Record, Seen, State, StoreError, StoreErrorKind, Swap, Swapped};
use std::fmt;

/// The most times that a request is made again because the record changed under it.
const ROUNDS: usize = 16;

/// One request under way: asks the table, has the record replaced on the condition that it still is
/// the one the table was asked about, and looks again if it is not.
///
/// It does no input or output. Its owner does what [`next`](Self::next) says and tells the result,
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
/// let Ok(Action::Swap(_swap)) = exchange.next() else { unreachable!() };
/// let answer = exchange.swapped(Swapped::Done);
/// assert!(matches!(answer, Some(Begun::Fresh(_))));
/// ```
pub struct Exchange<R: Request> {
    request: R,
    known: Known,
    /// The answer if the swap that is under way is done.
    pending: Option<R::Answer>,
    rounds: usize,
}

/// The record as far as it is known.
enum Known {
    /// It has to be loaded.
    Nothing,
    /// It is expected to be this.
    Expected(Option<Found>),
    /// The store has shown it.
    Shown(Option<Found>),
}

/// The next step of an [`Exchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<A> {
    /// Load the record, and tell it to [`Exchange::loaded`].
    Load,
    /// Replace the record, and tell [`Exchange::swapped`] what came of it.
    Swap(Swap),
    /// Confirm what the store has for this key; then this is the answer.
    Confirm(A),
    /// This is the answer.
    Answer(A),
}

impl<R: Request> Exchange<R> {
    /// A request of which nothing has been sent.
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
    /// The record was another one at every look.
    pub fn next(&mut self) -> Result<Action<R::Answer>, StoreError> {
        let (found, expected) = match &self.known {
            Known::Nothing => return Ok(Action::Load),
            Known::Expected(found) => (found.as_ref(), true),
            Known::Shown(found) => (found.as_ref(), false),
        };
        if let Some(Found { head, ttl: None, .. }) = found
            && self.request.depends_on_life(head)
        {
            return Ok(Action::Load);
        }
        let (answer, write) = self.request.step(found);
        let next = match write {
            // What is only expected is no answer.
            Write::Keep if expected => return Ok(Action::Load),
            Write::Keep if R::relies_on_record(&answer) => return Ok(Action::Confirm(answer)),
            Write::Keep => return Ok(Action::Answer(answer)),
            Write::Delete => Next::Nothing,
            Write::Extend { ttl } => Next::Extend { ttl },
            Write::Put { head, ttl } => {
                let (value, when_full) = (self.request.value().cloned(), self.request.when_full());
                Next::Put { head, value, ttl, when_full }
            }
        };
        self.rounds = self.rounds.checked_sub(1).ok_or_else(contended)?;
        let swap = Swap { seen: seen(found, &next), next, verb: self.request.verb() };
        self.pending = Some(answer);
        Ok(Action::Swap(swap))
    }

    /// The record was loaded.
    pub fn loaded(&mut self, loaded: Option<Record>) {
        self.known = Known::Shown(loaded.map(Found::from));
    }

    /// The answer, if the swap was done. Otherwise the exchange goes on.
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

/// The record that a swap relies on.
fn seen(found: Option<&Found>, next: &Next) -> Seen {
    let Some(Found { head, ttl, .. }) = found else { return Seen::Nothing };
    // Renewals change nothing but the time to live: who relies on the end of a lease has to compare
    // that as well.
    let at_most = match (ttl, next) {
        (Some(ttl), Next::Put { .. } | Next::Nothing)
            if head.state == State::Processing && head.lease_left(*ttl).is_zero() =>
        {
            Some(head.attempt.claim.linger())
        }
        _ => None,
    };
    Seen::This { head: *head, at_most }
}

/// The error of a request that found another record each time.
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
