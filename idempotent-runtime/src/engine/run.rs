//! A whole call: acquire, run, record, answer.

use super::acquire::{Acquired, acquire, acquire_now};
use super::awaited::MOST_FAILED;
use super::call::Prepared;
use super::lease::Lease;
use super::running::Running;
use super::settle::{Ended, Verb};
use super::values::Kind;
use crate::answers::{Answers, Encoding};
use crate::codec::{CodecError, Codecs};
use crate::config::{Mode, OnStoreError};
use crate::error::{Error, ErrorKind};
use crate::observe::{self, BodyTimer, CallEnd, Ending, LoggedKey, names};
use crate::operation::Outcome;
use crate::options::whole_millis;
use crate::store::{Failure, StoreError, StoreErrorKind, Value};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tracing::Instrument as _;

/// Runs `body` once per key, or answers as the record says.
///
/// What is large is borrowed: an argument of an async function lies in its future twice.
pub(crate) async fn run<T, E, F>(
    call: &Prepared<'_>,
    answers: &Answers<T, E>,
    body: Pin<&mut Option<F>>,
) -> Result<Outcome<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut end = CallEnd::new(call.operation.clone());
    let acquired = match acquire_now(call) {
        Some(acquired) => acquired,
        // Boxed: the rare path must not make the future of every call larger.
        None => Box::pin(acquire(call)).await,
    };
    match decide(call, answers, acquired) {
        Decision::Run(mut running) => execute(&mut running, answers, body, &mut end).await,
        Decision::RunUnprotected => {
            end.ends(Ending::Unprotected);
            unprotected(Body(body).await)
        }
        Decision::Answer(answer, ending) => {
            end.ends(ending);
            answer
        }
    }
}

/// The answer to a call that could not be made.
pub(crate) fn refuse<T, E>(error: Error, answers: &Answers<T, E>) -> E {
    let mut end = CallEnd::new(error.operation().to_owned().into());
    end.ends(Ending::from(error.kind()));
    (answers.refuse)(error)
}

pub(super) fn unprotected<T, E>(answer: Result<T, E>) -> Result<Outcome<T>, E> {
    answer.map(|value| Outcome { value, replayed: false, attempt: 1 })
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
    call: &'a Prepared<'_>,
    answers: &Answers<T, E>,
    acquired: Acquired<'a>,
) -> Decision<'a, T, E> {
    let error = match acquired {
        Acquired::Granted(running) => return Decision::Run(running),
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
                        let outcome = Outcome { value, replayed: true, attempt: number };
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

/// The error of a call whose body would be one too many in this process.
pub(crate) fn over_limit(call: &Prepared<'_>, limit: usize) -> Error {
    let text = format!("{limit} bodies run in this process, as many as `max_concurrent` allows");
    call.error(ErrorKind::StoreFull).with_message(text)
}

/// The error of a call that got no answer from the store, unless it is to run all the same.
fn refused(call: &Prepared<'_>, error: StoreError) -> Option<Error> {
    let operation: &str = &call.operation;
    let runs = call.policy.on_store_error == OnStoreError::Run
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

/// Runs the body of a granted attempt and records how it ended.
async fn execute<T, E, F>(
    running: &mut Running<'_>,
    answers: &Answers<T, E>,
    body: Pin<&mut Option<F>>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let answer = perform(running, body).await;
    record(running, answers, answer, end).await
}

/// Runs the body of a granted attempt.
pub(super) async fn perform<F: Future>(
    running: &mut Running<'_>,
    body: Pin<&mut Option<F>>,
) -> F::Output {
    let span = span(running);
    running.start();
    let timer = BodyTimer::start(&running.lease().operation);
    let answer = running.current().scope(Body(body)).instrument(span).await;
    timer.stop();
    answer
}

/// Records how the body ended. If this future is dropped, the keeper finishes it.
async fn record<T, E>(
    running: &mut Running<'_>,
    answers: &Answers<T, E>,
    answer: Result<T, E>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E> {
    let ended = running.end(verb(running, answers, &answer)).await;
    conclude(running, answers, answer, ended, end)
}

/// What the caller gets, once it is known how the end of its attempt was recorded.
pub(super) fn conclude<T, E>(
    running: &Running<'_>,
    answers: &Answers<T, E>,
    answer: Result<T, E>,
    ended: Result<Ended, StoreError>,
    end: &mut CallEnd,
) -> Result<Outcome<T>, E> {
    let operation = &running.lease().operation;
    match (answer, ended) {
        (Ok(_), Ok(Ended::Superseded)) => {
            end.ends(Ending::Superseded);
            Err((answers.refuse)(running.error(ErrorKind::Superseded)))
        }
        (Ok(value), ended) => {
            if let Err(error) = ended {
                observe::rare(names::UNRECORDED, operation);
                let operation: &str = operation;
                tracing::warn!(target: "idempotent", operation, %error, "answer not recorded yet");
            }
            end.ends(Ending::Executed);
            Ok(Outcome { value, replayed: false, attempt: running.lease().attempt.number })
        }
        (Err(error), ended) => {
            if let Ok(Ended::Superseded) = ended {
                observe::rare(names::FAILED_LATE, operation);
            }
            end.ends(Ending::Failed);
            Err(error)
        }
    }
}

/// A body that is dropped when it has ended or its caller has gone, and not later: its destructors
/// are part of the attempt, so they run before the key is free.
struct Body<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> Future for Body<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// How the body's answer is to be recorded.
pub(super) fn verb<T, E>(
    running: &Running<'_>,
    answers: &Answers<T, E>,
    answer: &Result<T, E>,
) -> Verb {
    let values = &running.core().values;
    match answer {
        Ok(value) => {
            let retention = match answers.retention(value) {
                Some(chosen) if chosen.is_zero() => return Verb::Fail(Failure::Free),
                Some(chosen) => whole_millis(chosen),
                None => running.lease().retention,
            };
            let encoded = match running.keeps_values() {
                true => answers.encode_value(&values.codecs, value),
                false => None,
            };
            let value = encoded.and_then(|encoded| keep(running, Kind::Value, encoded));
            Verb::Complete { value, retention }
        }
        Err(error) => match answers.encode_error(&values.codecs, error) {
            Some(encoded) => Verb::Fail(Failure::Final(keep(running, Kind::Error, encoded))),
            None => Verb::Fail(Failure::Free),
        },
    }
}

/// The bytes to store; `None` if they cannot be stored, which is told.
pub(crate) fn keep(running: &Running<'_>, kind: Kind, encoded: Encoding) -> Option<Value> {
    let core = running.core();
    let limit = running.max_value_bytes();
    match core.values.keep(kind, &running.lease().key, encoded, limit) {
        Ok(value) => Some(value),
        Err(reason) => {
            observe::rare(names::NOT_KEPT, &running.lease().operation);
            let operation: &str = &running.lease().operation;
            tracing::warn!(target: "idempotent", operation, %reason, "the value is not kept");
            None
        }
    }
}

fn span(running: &Running<'_>) -> tracing::Span {
    let Lease { operation, key, attempt, .. } = running.lease();
    let operation: &str = operation;
    tracing::debug_span!(
        target: "idempotent",
        "idempotent",
        operation,
        key = %LoggedKey { key, in_full: running.core().config.load().log_keys },
        attempt = attempt.number,
        fence = attempt.fence,
    )
}
