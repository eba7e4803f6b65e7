//! The decisions of a call: the answer that its mode makes of a finding, and the end that is recorded
//! for its own.

use crate::ambient;
use crate::answer_policy::{AnswerPolicy, Encoding, ErrorAnswer};
use crate::codec::{CodecError, Codecs};
use crate::config::{Mode, OnStoreError, OnUnrecorded};
use crate::engine::attempt::{AttemptGuard, End, Kind};
use crate::engine::flight::{Acquired, NotGranted, Prepared};
use crate::error::{Error, ErrorKind};
use crate::observe::{self, CallEnd, Ending, names};
use crate::options::whole_millis;
use crate::outcome::{Outcome, Recorded};
use crate::protocol::{Failure, Updated};
use crate::store::{StoreError, StoreErrorKind, Value};
use std::any::type_name;
use std::ops::ControlFlow;

/// The answer to a call that could not be made.
pub(super) fn refuse<T, E>(error: Error, answers: &AnswerPolicy<T, E>) -> E {
    let mut end = CallEnd::new(error.operation().to_owned().into());
    end.refused(&error);
    (answers.refuse)(error)
}

pub(super) fn unprotected<T, E>(answer: Result<T, E>) -> Result<Outcome<T>, E> {
    answer.map(|value| Outcome { value, replayed: false, attempt: 1, recorded: Recorded::No })
}

/// The answer of a call, or the attempt as which its body runs: `None` if it runs unprotected.
pub(super) type Decision<'a, T, E> = ControlFlow<Result<Outcome<T>, E>, Option<AttemptGuard<'a>>>;

/// Decides what the call's mode makes of what it has got, and reports the end of a call that is
/// answered.
pub(super) fn decide<'a, T, E>(
    call: &Prepared<'_>,
    answers: &AnswerPolicy<T, E>,
    acquired: Acquired<'a>,
    end: &mut CallEnd,
) -> Decision<'a, T, E> {
    let found = match acquired {
        Ok(attempt) => return ControlFlow::Continue(Some(attempt)),
        Err(found) => found,
    };
    let keeps_values = call.policy.mode == Mode::Strong && answers.keeps_values();
    let error = match found {
        NotGranted::Disabled => {
            warn_disabled(call);
            return ControlFlow::Continue(None);
        }
        NotGranted::Refused(error) => {
            if runs_unprotected(call, &error) {
                return ControlFlow::Continue(None);
            }
            call.refusal(NotGranted::Refused(error))
        }
        NotGranted::Succeeded { number, value: Some(value) } if keeps_values => {
            match replay(call, answers, &value) {
                Ok(value) => {
                    answers.replayed(&value);
                    end.ends(Ending::Replayed);
                    let recorded = Recorded::Yes;
                    let outcome = Outcome { value, replayed: true, attempt: number, recorded };
                    return ControlFlow::Break(Ok(outcome));
                }
                Err(error) => error,
            }
        }
        NotGranted::FailedFinal { value: Some(value), .. } => {
            match replay_error(call, answers, &value) {
                Ok(error) => {
                    end.ends_finally(Ending::Replayed);
                    return ControlFlow::Break(Err(error));
                }
                Err(error) => error,
            }
        }
        found => call.refusal(found),
    };
    end.refused(&error);
    ControlFlow::Break(Err((answers.refuse)(error)))
}

/// Warns that a body runs on an instance that is disabled.
pub(crate) fn warn_disabled(call: &Prepared<'_>) {
    let operation: &str = &call.operation;
    let key = call.logged_key(&call.engine().config.load());
    tracing::warn!(target: "idempotent", operation, key, "disabled: running without protection");
}

/// `true` if a call that got no answer from the store is to run all the same.
fn runs_unprotected(call: &Prepared<'_>, error: &StoreError) -> bool {
    let operation: &str = &call.operation;
    let runs = call.policy.on_store_error == OnStoreError::Run
        && call.policy.may_run()
        && !matches!(error.kind(), StoreErrorKind::Undecodable | StoreErrorKind::Contended);
    match runs {
        true => {
            tracing::warn!(target: "idempotent", operation, %error, "running without protection");
        }
        false => tracing::warn!(target: "idempotent", operation, %error, "refused"),
    }
    runs
}

fn replay<T, E>(
    call: &Prepared<'_>,
    answers: &AnswerPolicy<T, E>,
    value: &Value,
) -> Result<T, Error> {
    let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_value(codecs, bytes);
    call.engine().values.read(Kind::Value, &call.key, value, read).map_err(|e| unreadable(call, e))
}

fn replay_error<T, E>(
    call: &Prepared<'_>,
    answers: &AnswerPolicy<T, E>,
    value: &Value,
) -> Result<E, Error> {
    let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_error(codecs, bytes);
    call.engine().values.read(Kind::Error, &call.key, value, read).map_err(|e| unreadable(call, e))
}

fn unreadable(call: &Prepared<'_>, error: CodecError) -> Error {
    call.error(ErrorKind::Undecodable).with_message(error.to_string()).with_source(error)
}

/// The answer to the caller, once it is known how the end of its attempt was recorded.
pub(super) fn conclude<T, E>(
    attempt: &AttemptGuard<'_>,
    answers: &AnswerPolicy<T, E>,
    answer: Result<T, E>,
    ended: Result<Updated, StoreError>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E> {
    let answer = answer_of(attempt, answers, answer, ended, end);
    let is_unrecorded = matches!(&answer, Ok(outcome) if outcome.recorded == Recorded::NotYet);
    end.of_attempt(attempt.state().id().number, is_unrecorded);
    answer
}

fn answer_of<T, E>(
    attempt: &AttemptGuard<'_>,
    answers: &AnswerPolicy<T, E>,
    answer: Result<T, E>,
    ended: Result<Updated, StoreError>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E> {
    let operation = &attempt.state().operation;
    match (answer, ended) {
        (Ok(_), Ok(Updated::Superseded)) => {
            let error = attempt.error(ErrorKind::Superseded);
            Err((answers.refuse)(refused(attempt, error, end)))
        }
        (Ok(value), ended) => {
            end.ends(Ending::Executed);
            if let Err(error) = &ended {
                unrecorded(attempt, error);
            }
            let planned = attempt.planned();
            let recorded = match ended {
                Ok(Updated::DoneWithoutValue) => Recorded::WithoutValue,
                Ok(Updated::Done | Updated::Vanished | Updated::Superseded) => planned,
                // Nothing was to be recorded: the caller loses nothing by it.
                Ok(Updated::Gone) | Err(_) if planned == Recorded::No => planned,
                Ok(Updated::Gone) if attempt.on_unrecorded() == OnUnrecorded::Error => {
                    return Err((answers.refuse)(refused(attempt, gone(attempt), end)));
                }
                Ok(Updated::Gone) => Recorded::No,
                Err(error) => {
                    if attempt.on_unrecorded() == OnUnrecorded::Error {
                        let text = error.to_string();
                        let error = attempt.error(ErrorKind::Unrecorded).with_source(error);
                        let error = error.with_message(text).after_the_body_ran();
                        return Err((answers.refuse)(refused(attempt, error, end)));
                    }
                    Recorded::NotYet
                }
            };
            let number = attempt.state().id().number;
            Ok(Outcome { value, replayed: false, attempt: number, recorded })
        }
        (Err(error), ended) => {
            let is_superseded = matches!(ended, Ok(Updated::Superseded));
            if is_superseded {
                observe::rare(names::FAILED_LATE, operation);
            }
            // Of a superseded attempt, the answer of the other one counts.
            match attempt.fails_finally() && !is_superseded {
                true => end.ends_finally(Ending::Failed),
                false => end.ends(Ending::Failed),
            }
            Err(error)
        }
    }
}

/// Reports the refusal of a call whose body ran, maybe in another task than its caller's.
fn refused(attempt: &AttemptGuard<'_>, error: Error, end: &mut CallEnd) -> Error {
    end.refused(&error);
    if error.is_retryable()
        && let Some(around) = &attempt.state().parent
    {
        around.call_was_refused();
    }
    error
}

/// The error of an attempt whose record had vanished after its lease was lost.
pub(crate) fn gone(attempt: &AttemptGuard<'_>) -> Error {
    let text = "the record had vanished after the lease was lost";
    attempt.error(ErrorKind::Unrecorded).with_message(text).after_the_body_ran()
}

/// Warns that the store has not acknowledged an answer.
fn unrecorded(attempt: &AttemptGuard<'_>, error: &StoreError) {
    let operation = &attempt.state().operation;
    observe::rare(names::UNRECORDED, operation);
    let operation: &str = operation;
    let key = attempt.instance().logged_key(&attempt.state().key);
    tracing::warn!(target: "idempotent", operation, key, %error, "answer not recorded yet");
}

/// The end to record for the body's answer.
pub(super) fn end_of<T, E>(
    attempt: &AttemptGuard<'_>,
    answers: &AnswerPolicy<T, E>,
    answer: &Result<T, E>,
) -> End {
    let values = &attempt.instance().values;
    let free = End::Fail(Failure::Free(attempt.state().binding()));
    match answer {
        Ok(value) => {
            let retention = match answers.retention(value) {
                Some(chosen) if chosen.is_zero() => return free,
                Some(chosen) => {
                    let chosen = whole_millis(chosen);
                    ambient::report_retention(chosen);
                    chosen
                }
                None => attempt.state().retention,
            };
            let encoded = match attempt.keeps_values() {
                true => answers.encode_value(&values.codecs, value),
                false => None,
            };
            let value = encoded.and_then(|encoded| keep::<T>(attempt, Kind::Value, encoded));
            End::Complete { value, retention }
        }
        Err(error) => {
            let call_refused = attempt.state().is_call_refused();
            if call_refused && let Some(around) = &attempt.state().parent {
                // The error may reach the body around this one.
                around.call_was_refused();
            }
            match answers.keep_error(&values.codecs, error, call_refused) {
                ErrorAnswer::Final(encoded) => {
                    End::Fail(Failure::Final(keep::<E>(attempt, Kind::Error, encoded)))
                }
                ErrorAnswer::Refusal => {
                    let operation: &str = &attempt.state().operation;
                    tracing::warn!(target: "idempotent", operation, "a refusal is not a final error");
                    free
                }
                ErrorAnswer::Free => free,
            }
        }
    }
}

/// The bytes to store for an answer of type `A`; `None` if they cannot be stored, which is told.
pub(crate) fn keep<A>(attempt: &AttemptGuard<'_>, kind: Kind, encoded: Encoding) -> Option<Value> {
    let instance = attempt.instance();
    let limit = attempt.max_value_bytes();
    match instance.values.keep(kind, &attempt.state().key, encoded, limit) {
        Ok(value) => Some(value),
        Err(reason) => {
            observe::rare(names::NOT_KEPT, &attempt.state().operation);
            let operation: &str = &attempt.state().operation;
            tracing::warn!(
                target: "idempotent", operation, type_name = type_name::<A>(), %reason,
                "the value is not kept"
            );
            None
        }
    }
}
