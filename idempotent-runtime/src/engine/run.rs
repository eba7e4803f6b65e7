//! The decisions of a call: what its mode makes of the store's answer, and how its own is recorded.

use super::acquire::Acquired;
use super::awaited::MOST_FAILED;
use super::call::Prepared;
use super::running::Running;
use super::settle::End;
use super::values::Kind;
use crate::answers::{Answers, Encoding};
use crate::codec::{CodecError, Codecs};
use crate::config::{Mode, OnStoreError, OnUnrecorded};
use crate::error::{Error, ErrorKind};
use crate::observe::{self, CallEnd, Ending, names};
use crate::operation::{Outcome, Recorded};
use crate::options::whole_millis;
use crate::protocol::{Failure, Updated};
use crate::store::{StoreError, StoreErrorKind, Value};
use std::any::type_name;

/// The answer to a call that could not be made.
pub(super) fn refuse<T, E>(error: Error, answers: &Answers<T, E>) -> E {
    let mut end = CallEnd::new(error.operation().to_owned().into());
    end.ends(Ending::from(error.kind()));
    (answers.refuse)(error)
}

pub(super) fn unprotected<T, E>(answer: Result<T, E>) -> Result<Outcome<T>, E> {
    answer.map(|value| Outcome { value, replayed: false, attempt: 1, recorded: Recorded::No })
}

pub(super) enum Decision<'a, T, E> {
    Run(Running<'a>),
    RunUnprotected,
    Answer(Result<Outcome<T>, E>, Ending),
}

impl<T, E> Decision<'_, T, E> {
    pub(super) fn into_owned(self) -> Decision<'static, T, E> {
        match self {
            Self::Run(running) => Decision::Run(running.into_owned()),
            Self::RunUnprotected => Decision::RunUnprotected,
            Self::Answer(answer, ending) => Decision::Answer(answer, ending),
        }
    }
}

/// What the call's mode makes of what it has got.
pub(super) fn decide<'a, T, E>(
    call: &Prepared<'_>,
    answers: &Answers<T, E>,
    acquired: Acquired<'a>,
) -> Decision<'a, T, E> {
    let error = match acquired {
        Acquired::Granted(running) => return Decision::Run(running),
        Acquired::Disabled => {
            warn_disabled(call);
            return Decision::RunUnprotected;
        }
        Acquired::Refused(error) => match refused(call, error) {
            Some(error) => error,
            None => return Decision::RunUnprotected,
        },
        Acquired::TooLate(error) => {
            let key = call.logged_key(&call.core().config.load());
            Error::from_store(error, &call.operation).with_key(key)
        }
        Acquired::Succeeded { number, value } => {
            if call.policy.mode != Mode::Strong {
                call.error(ErrorKind::Duplicate)
            } else {
                match replay(call, answers, value) {
                    Ok(value) => {
                        answers.replayed(&value);
                        let recorded = Recorded::Yes;
                        let outcome = Outcome { value, replayed: true, attempt: number, recorded };
                        return Decision::Answer(Ok(outcome), Ending::Replayed);
                    }
                    Err(error) => error,
                }
            }
        }
        Acquired::FailedFinal { value, .. } => match replay_error(call, answers, value) {
            Ok(error) => return Decision::Answer(Err(error), Ending::Replayed),
            Err(error) => error,
        },
        Acquired::OverLimit { limit } => over_limit(call, limit),
        Acquired::InFlight { lease_left } => call.in_progress(lease_left),
        Acquired::FailedTwice => call.after_failures(MOST_FAILED),
        Acquired::Taken { retry_after } => {
            call.error(ErrorKind::Duplicate).with_retry_after(retry_after)
        }
        Acquired::Mismatch => call.error(ErrorKind::Mismatch),
        Acquired::Indeterminate { number } => {
            let text = format!("attempt {number} began and never ended; resolve it to go on");
            call.error(ErrorKind::Indeterminate).with_message(text)
        }
    };
    let ending = Ending::from(error.kind());
    Decision::Answer(Err((answers.refuse)(error)), ending)
}

/// Tells that a body runs on an instance that is disabled.
pub(crate) fn warn_disabled(call: &Prepared<'_>) {
    let operation: &str = &call.operation;
    let key = call.logged_key(&call.core().config.load());
    tracing::warn!(target: "idempotent", operation, key, "disabled: running without protection");
}

/// The error of a call whose body would be one too many in this process.
pub(crate) fn over_limit(call: &Prepared<'_>, limit: usize) -> Error {
    let text = match call.policy.may_run() {
        true => format!("{limit} bodies run in this process, as many as `max_concurrent` allows"),
        false => "the key has no answer yet, and the call asked for repeats only".to_owned(),
    };
    call.error(ErrorKind::StoreFull).with_message(text)
}

/// The error of a call that got no answer from the store, unless it is to run all the same.
fn refused(call: &Prepared<'_>, error: StoreError) -> Option<Error> {
    let operation: &str = &call.operation;
    let runs = call.policy.on_store_error == OnStoreError::Run
        && call.policy.may_run()
        && !matches!(error.kind(), StoreErrorKind::Undecodable | StoreErrorKind::Contended);
    if runs {
        tracing::warn!(target: "idempotent", operation, %error, "running without protection");
        return None;
    }
    tracing::warn!(target: "idempotent", operation, %error, "refused");
    let key = call.logged_key(&call.core().config.load());
    Some(match error.kind() {
        StoreErrorKind::Contended => call.in_progress(call.policy.lease).with_source(error),
        _ => Error::from_store(error, &call.operation).with_key(key),
    })
}

fn replay<T, E>(
    call: &Prepared<'_>,
    answers: &Answers<T, E>,
    value: Option<Value>,
) -> Result<T, Error> {
    let Some(value) = value.filter(|_| answers.keeps_values()) else {
        return Err(call.error(ErrorKind::ResultUnavailable));
    };
    let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_value(codecs, bytes);
    call.core().values.read(Kind::Value, &call.key, &value, read).map_err(|e| unreadable(call, e))
}

fn replay_error<T, E>(
    call: &Prepared<'_>,
    answers: &Answers<T, E>,
    value: Option<Value>,
) -> Result<E, Error> {
    let Some(value) = value else { return Err(call.error(ErrorKind::ResultUnavailable)) };
    let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_error(codecs, bytes);
    call.core().values.read(Kind::Error, &call.key, &value, read).map_err(|e| unreadable(call, e))
}

fn unreadable(call: &Prepared<'_>, error: CodecError) -> Error {
    call.error(ErrorKind::Undecodable).with_message(error.to_string()).with_source(error)
}

/// What the caller gets, once it is known how the end of its attempt was recorded.
pub(super) fn conclude<T, E>(
    running: &Running<'_>,
    answers: &Answers<T, E>,
    answer: Result<T, E>,
    ended: Result<Updated, StoreError>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E> {
    let operation = &running.lease().operation;
    match (answer, ended) {
        (Ok(_), Ok(Updated::Superseded)) => {
            end.ends(Ending::Superseded);
            Err((answers.refuse)(running.error(ErrorKind::Superseded)))
        }
        (Ok(value), ended) => {
            end.ends(Ending::Executed);
            if let Err(error) = &ended {
                unrecorded(running, error);
            }
            let planned = running.planned();
            let recorded = match ended {
                Ok(Updated::DoneWithoutValue) => Recorded::WithoutValue,
                Ok(Updated::Done | Updated::Vanished | Updated::Superseded) => planned,
                // Nothing was to be recorded: the caller loses nothing by it.
                Ok(Updated::Gone) | Err(_) if planned == Recorded::No => planned,
                Ok(Updated::Gone) if running.on_unrecorded() == OnUnrecorded::Error => {
                    return Err((answers.refuse)(gone(running)));
                }
                Ok(Updated::Gone) => Recorded::No,
                Err(error) => {
                    if running.on_unrecorded() == OnUnrecorded::Error {
                        let text = error.to_string();
                        let error = running.error(ErrorKind::Unrecorded).with_source(error);
                        return Err((answers.refuse)(
                            error.with_message(text).after_the_body_ran(),
                        ));
                    }
                    Recorded::NotYet
                }
            };
            let attempt = running.lease().attempt().number;
            Ok(Outcome { value, replayed: false, attempt, recorded })
        }
        (Err(error), ended) => {
            if let Ok(Updated::Superseded) = ended {
                observe::rare(names::FAILED_LATE, operation);
            }
            end.ends(Ending::Failed);
            Err(error)
        }
    }
}

/// The error of an attempt whose record had vanished after its lease was lost.
pub(crate) fn gone(running: &Running<'_>) -> Error {
    let text = "the record had vanished after the lease was lost";
    running.error(ErrorKind::Unrecorded).with_message(text).after_the_body_ran()
}

/// Tells that the store has not acknowledged an answer.
fn unrecorded(running: &Running<'_>, error: &StoreError) {
    let operation = &running.lease().operation;
    observe::rare(names::UNRECORDED, operation);
    let operation: &str = operation;
    let key = running.lease().logged_key(running.core());
    tracing::warn!(target: "idempotent", operation, key, %error, "answer not recorded yet");
}

/// How the body's answer is to be recorded.
pub(super) fn verb<T, E>(
    running: &Running<'_>,
    answers: &Answers<T, E>,
    answer: &Result<T, E>,
) -> End {
    let values = &running.core().values;
    let free = End::Fail(Failure::Free(running.lease().binding));
    match answer {
        Ok(value) => {
            let retention = match answers.retention(value) {
                Some(chosen) if chosen.is_zero() => return free,
                Some(chosen) => whole_millis(chosen),
                None => running.lease().retention,
            };
            let encoded = match running.keeps_values() {
                true => answers.encode_value(&values.codecs, value),
                false => None,
            };
            let value = encoded.and_then(|encoded| keep::<T>(running, Kind::Value, encoded));
            End::Complete { value, retention }
        }
        Err(error) => match answers.encode_error(&values.codecs, error) {
            Some(encoded) => End::Fail(Failure::Final(keep::<E>(running, Kind::Error, encoded))),
            None => free,
        },
    }
}

/// The bytes to store for an answer of type `A`; `None` if they cannot be stored, which is told.
pub(crate) fn keep<A>(running: &Running<'_>, kind: Kind, encoded: Encoding) -> Option<Value> {
    let core = running.core();
    let limit = running.max_value_bytes();
    match core.values.keep(kind, &running.lease().key, encoded, limit) {
        Ok(value) => Some(value),
        Err(reason) => {
            observe::rare(names::NOT_KEPT, &running.lease().operation);
            let operation: &str = &running.lease().operation;
            tracing::warn!(
                target: "idempotent", operation, type_name = type_name::<A>(), %reason,
                "the value is not kept"
            );
            None
        }
    }
}
