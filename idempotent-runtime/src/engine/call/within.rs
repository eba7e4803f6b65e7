//! A call inside a transaction of the caller's: claimed, run and recorded in it, and committed or
//! rolled back by the caller.
//!
//! The answer holds if the caller commits. Until then nothing of it is visible to others, and
//! nothing is announced.

use super::body::Body;
use super::run::{conclude, decide, end_of, refuse, unprotected};
use super::transacted::permit;
use crate::answer_policy::AnswerPolicy;
use crate::config::Mode;
use crate::engine::attempt::{AttemptGuard, End};
use crate::engine::flight::{NotGranted, Prepared, while_disabled};
use crate::error::{Error, ErrorKind};
use crate::observe::{CallEnd, Ending};
use crate::outcome::Outcome;
use crate::protocol::{Claimed, Failure, OpenTransaction, TransactionClaim, Updated};
use crate::store::{Seen, StoreError, Swap, Swapped, Token};
use std::ops::ControlFlow;
use std::time::Duration;

/// A call that holds its key in a transaction of the caller's.
pub(crate) struct Within<'a, T, E> {
    answers: AnswerPolicy<T, E>,
    /// `None` if the body runs unprotected.
    held: Option<(AttemptGuard<'a>, Seen)>,
    end: CallEnd,
    call: Prepared<'a>,
}

/// Claims the key, or answers the call.
pub(crate) async fn claim_within<'a, T, E>(
    call: Result<Prepared<'a>, Error>,
    answers: AnswerPolicy<T, E>,
    transaction: &mut impl OpenTransaction,
) -> ControlFlow<Result<Outcome<T>, E>, Within<'a, T, E>> {
    let call = match call {
        Ok(call) if call.policy.mode != Mode::Window => call,
        Ok(call) => {
            let text =
                "a window is not taken in a transaction\nhelp: use mode `reject` or `strong`";
            let error = call.error(ErrorKind::Misconfigured).with_message(text);
            return ControlFlow::Break(Err(refuse(error, &answers)));
        }
        Err(error) => return ControlFlow::Break(Err(refuse(error, &answers))),
    };
    let mut end = CallEnd::new(call.operation.clone());
    let found = match claim(&call, transaction).await {
        Ok(held) => return ControlFlow::Continue(Within { answers, held: Some(held), end, call }),
        Err(found) => found,
    };
    match decide(&call, &answers, Err(found), &mut end) {
        ControlFlow::Break(answer) => ControlFlow::Break(answer),
        ControlFlow::Continue(_) => {
            end.ends(Ending::Unprotected);
            ControlFlow::Continue(Within { answers, held: None, end, call })
        }
    }
}

async fn claim<'a>(
    call: &Prepared<'a>,
    transaction: &mut impl OpenTransaction,
) -> Result<(AttemptGuard<'a>, Seen), NotGranted> {
    let engine = call.engine();
    if engine.is_disabled() {
        return Err(while_disabled(call));
    }
    // Before the claim, which may have written something when it is granted.
    let permit = permit(call).await?;
    let claimed = transaction
        .claim(TransactionClaim {
            store: &*engine.store,
            key: &call.key,
            request: call.request(Token::random(), engine.clock.now()),
            wait: if call.policy.waits() { call.policy.wait } else { Duration::ZERO },
            max_run: call.policy.max_run,
            undoable: true,
        })
        .await;
    match claimed {
        Ok(Claimed::Granted { attempt, seen, .. }) => {
            let locks_store = transaction.locks_store();
            let exhausted = call.exhausted(&attempt);
            let mut attempt = call.granted_by_transaction(attempt, None, permit, locks_store);
            let Some(exhausted) = exhausted else { return Ok((attempt, seen)) };
            let end = End::Fail(Failure::Final(None));
            if let Some(swap) = attempt.swap(&end) {
                let written = transaction.swap(&call.key, Swap { seen, ..swap }).await;
                if let Swapped::Found(_) = written.map_err(NotGranted::Refused)? {
                    return Err(NotGranted::InFlight { lease_left: call.policy.lease });
                }
            }
            attempt.ended_in_transaction(&end, None);
            Err(exhausted)
        }
        Ok(Claimed::Answered(begun)) => Err(NotGranted::from_answer(Ok(begun))),
        Ok(Claimed::Held | Claimed::Outdated) => {
            Err(NotGranted::InFlight { lease_left: call.policy.lease })
        }
        Err(error) => Err(NotGranted::Refused(error)),
    }
}

impl<T, E> Within<'_, T, E> {
    /// The body, to run as the attempt.
    pub(crate) fn body<F>(&mut self, body: F) -> Body<F> {
        Body::started(body, self.held.as_mut().map(|(attempt, _)| attempt))
    }

    /// Records the end of the attempt, as part of the transaction.
    pub(crate) async fn settle(
        mut self,
        transaction: &mut impl OpenTransaction,
        answer: Result<T, E>,
    ) -> Result<Outcome<T>, E> {
        let Some((mut attempt, seen)) = self.held.take() else { return unprotected(answer) };
        let last = end_of(&attempt, &self.answers, &answer);
        let swap = attempt.swap(&last).map(|swap| Swap { seen, ..swap });
        let settled = match swap {
            Some(swap) => settle(transaction, &self.call, answer.is_ok(), swap).await,
            None => Ok(Updated::Superseded),
        };
        attempt.ended_in_transaction(&last, None);
        match (answer, settled) {
            // It is the caller's to roll back: the transaction may be unusable.
            (Ok(_), Err(error)) => {
                let error = self.call.store_error(error).after_the_body_ran();
                self.end.refused(&error);
                Err((self.answers.refuse)(error))
            }
            (answer, settled) => {
                let updated = settled.unwrap_or(Updated::Gone);
                conclude(&attempt, &self.answers, answer, Ok(updated), &mut self.end)
            }
        }
    }
}

/// Writes the record. The effects of a body that failed are undone first.
async fn settle(
    transaction: &mut impl OpenTransaction,
    call: &Prepared<'_>,
    succeeded: bool,
    swap: Swap,
) -> Result<Updated, StoreError> {
    if !succeeded {
        transaction.undo().await?;
    }
    Ok(match transaction.swap(&call.key, swap).await? {
        Swapped::Done => Updated::Done,
        Swapped::DoneWithoutValue => Updated::DoneWithoutValue,
        Swapped::Found(_) => Updated::Superseded,
    })
}
