//! Operations whose body is a script inside Redis.

use crate::codec::id;
use crate::config::Abandon;
use crate::engine::{NotGranted, Prepared, Resend, Values};
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{CallEnd, Ending};
use crate::operation::Operation;
use crate::options::{Policy, whole_millis};
use crate::outcome::{Outcome, Recorded};
use crate::protocol::table::{self, Living, Write};
use crate::protocol::{BeginRequest, Begun, Binding, Connection, Failure, execute};
use crate::store::{
    Claim, Effect, EffectRecords, Found, Head, Next, Ran, Record, RedisStore, State, Store,
    StoreError, StoreErrorKind, Swap, Swapped, Token, Value,
};
use serde::de::DeserializeOwned;
use std::any::Any;
use std::time::Duration;

/// The result of [`Operation::run_effect`].
///
/// ```
/// use idempotent_runtime::EffectOutcome;
///
/// fn told(outcome: EffectOutcome<i64>) -> String {
///     match outcome {
///         EffectOutcome::Applied(left) if left.replayed => format!("{} left, taken before", left.value),
///         EffectOutcome::Applied(left) => format!("{} left", left.value),
///         EffectOutcome::Refused { reason } => reason,
///         _ => "unknown".to_owned(),
///     }
/// }
/// # drop(told);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectOutcome<T> {
    /// The script ran once, in this call or in an earlier one.
    Applied(Outcome<T>),
    /// The script refused, for this reason. The key is free: the next call runs it again.
    Refused {
        /// The reason that the script gave.
        reason: String,
    },
}

impl Operation<'_> {
    /// Runs a script inside Redis once per key, and writes its record in the same step: both happen
    /// or neither. A repeat call gets the recorded answer.
    ///
    /// ```no_run
    /// use idempotent_runtime::store::{Effect, RedisStore};
    /// use idempotent_runtime::{EffectOutcome, Error, Idempotency};
    ///
    /// async fn deduct(
    ///     idem: &Idempotency,
    ///     redis: &RedisStore,
    ///     order: u64,
    /// ) -> Result<EffectOutcome<i64>, Error> {
    ///     let script = Effect::new(
    ///         "local left = tonumber(redis.call('GET', KEYS[1]) or '0')
    ///          if left < tonumber(ARGV[1]) then return refuse('not enough stock') end
    ///          return redis.call('DECRBY', KEYS[1], ARGV[1])",
    ///     );
    ///     idem.operation("stock.deduct")
    ///         .key(order)
    ///         .hash_tag("lamp")
    ///         .run_effect(redis, &script.key("stock:{lamp}").arg(1))
    ///         .await
    /// }
    /// ```
    ///
    /// # Errors
    /// The reason for a refusal. [`ErrorKind::Indeterminate`] with
    /// [`BodyRun::Ran`](crate::BodyRun::Ran) if the script failed half way.
    /// [`BodyRun::Unknown`](crate::BodyRun::Unknown) if a server did not answer: the script may
    /// have run, or may still run, once. A call with the same key and the same payload is safe, and
    /// returns the outcome.
    pub async fn run_effect<T: DeserializeOwned>(
        &self,
        store: &RedisStore,
        effect: &Effect,
    ) -> Result<EffectOutcome<T>, Error> {
        let mut end = CallEnd::new(self.name().clone());
        let answer = match self.prepare() {
            Ok(call) => run(&call, store, effect).await,
            Err(error) => Err(error),
        };
        end.ends(match &answer {
            Ok(EffectOutcome::Applied(outcome)) if outcome.replayed => Ending::Replayed,
            Ok(EffectOutcome::Applied(_)) => Ending::Executed,
            Ok(EffectOutcome::Refused { .. }) => Ending::Failed,
            Err(error) => error.kind().into(),
        });
        answer
    }
}

async fn run<T: DeserializeOwned>(
    call: &Prepared<'_>,
    store: &RedisStore,
    effect: &Effect,
) -> Result<EffectOutcome<T>, Error> {
    let engine = call.engine();
    if engine.values.encrypts() {
        let text = "an answer that a script writes cannot be encrypted";
        return Err(call.error(ErrorKind::Misconfigured).with_message(text));
    }
    if !call.policy.may_run() {
        let text = "`repeats_only` does not go together with `run_effect`";
        return Err(call.error(ErrorKind::Misconfigured).with_message(text));
    }
    let is_own = |own: &dyn Any| own.downcast_ref::<RedisStore>().is_some_and(|own| own.is(store));
    if !is_own(&*engine.store) {
        let text = "an effect runs on the store of its instance, and this is another one\n\
                    help: give it a clone of the store that the instance was built with";
        return Err(call.error(ErrorKind::Misconfigured).with_message(text));
    }
    let mut resend = Resend::new();
    let mut composed = Composed::new(call, store, effect);
    let effected = loop {
        let request = composed.request;
        match execute(&mut composed, &call.key, request).await {
            // The script refused, and the reply was lost. The token has ended, so another one is
            // needed.
            Ok(Begun::Superseded) if resend.once_more() => composed.request.token = Token::random(),
            Ok(begun) => break composed.end(&call.key, begun).await,
            Err(error) => match resend.after(&error) {
                Some(pause) => engine.sleep_until(engine.clock.now().after(pause)).await,
                None => break Err(error),
            },
        }
    };
    let answer = match effected {
        Ok(effected) => end(call, effected),
        Err(error) => Err(call.store_error(error)),
    };
    // A copy of the script that was not answered may have run, or may yet arrive and run.
    answer.map_err(|error| if resend.was_unanswered() { error.with_body_unknown() } else { error })
}

/// The end of an effect.
#[derive(Debug)]
enum Effected {
    /// The script ran in this call, and returned this answer.
    Done { number: u32, answer: Vec<u8> },
    /// The script ran in this call, and it is unknown whether enough replicas have its record.
    Unconfirmed(StoreError),
    /// The script refused. The key is free.
    Refused { reason: String },
    /// The script failed half way. The key is blocked.
    Failed { reason: String },
    /// The script did not run: this is the answer for the record that was found.
    Found(Begun),
}

/// A connection that composes `begin` with the effect and with the record of its end: an attempt
/// that looks granted to the protocol has already ended when the server replies.
struct Composed<'a> {
    store: &'a RedisStore,
    effect: &'a Effect,
    request: BeginRequest,
    retention: Duration,
    binding: Binding,
    /// The end of the script, once it has run.
    ended: Option<Effected>,
    /// The record of this call, written by a copy of the script whose reply was lost.
    own: Option<Found>,
}

impl<'a> Composed<'a> {
    fn new(call: &Prepared<'_>, store: &'a RedisStore, effect: &'a Effect) -> Self {
        let engine = call.engine();
        let linger = whole_millis(engine.config.load().block_retention);
        // It never holds its key longer than the server takes for it.
        let lease = Duration::from_millis(1);
        let mut request = call.request(Token::random(), engine.clock.now());
        request.claim = Claim::Lease { lease, linger, abandon: Abandon::Block };
        let Policy { retention, binding, .. } = call.policy;
        Self { store, effect, request, retention, binding, ended: None, own: None }
    }

    /// The records that the effect of a granted attempt leaves behind.
    fn records(&self, granted: Head) -> EffectRecords {
        let held = Some(Living { head: granted, ttl: Duration::MAX });
        let failing = Failure::Free(self.binding);
        let free = match table::fail(held, &granted.attempt, &failing, self.retention) {
            (_, Write::Put { head, .. }) => head,
            _ => Head { state: State::FailedFree, ..granted },
        };
        EffectRecords {
            unknown: Head { state: State::Abandoned, ..granted },
            unknown_ttl: granted.attempt.claim.linger(),
            done: Head { state: State::Succeeded, ..granted },
            envelope: Value::from(&[id::JSON][..]),
            free,
            ttl: self.retention,
        }
    }

    /// Notes a record of this call: its script ran, and the reply was lost.
    fn note(&mut self, found: Option<&Found>) {
        self.own = found.filter(|it| it.head.attempt.token == self.request.token).cloned();
    }

    /// The end of the effect, once the protocol has answered.
    async fn end(mut self, key: &RecordKey, begun: Begun) -> Result<Effected, StoreError> {
        if let Some(ended) = self.ended.take() {
            return Ok(ended);
        }
        let Some(Found { head, value, .. }) = self.own.take() else {
            return Ok(Effected::Found(begun));
        };
        let number = head.attempt.number;
        Ok(match (head.state, value) {
            (State::Succeeded, Some(value)) => match Store::confirm(self.store, key).await {
                Ok(()) => {
                    let answer = value.as_bytes().get(1..).unwrap_or_default().to_vec();
                    Effected::Done { number, answer }
                }
                Err(error) => Effected::Unconfirmed(error),
            },
            (State::Abandoned, _) => Effected::Failed { reason: "its reply was lost".to_owned() },
            // The script refused, or an operator freed the key.
            (State::FailedFree, _) => Effected::Found(Begun::Superseded),
            (State::Succeeded, None) => Effected::Found(begun),
            _ => Effected::Found(Begun::Indeterminate { number }),
        })
    }
}

impl Connection for Composed<'_> {
    async fn load(&mut self, key: &RecordKey) -> Result<Option<Record>, StoreError> {
        let record = Store::load(self.store, key).await?;
        self.note(record.clone().map(Found::from).as_ref());
        Ok(record)
    }

    async fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let Next::Put { head, .. } = swap.next else {
            return Err(StoreError::new(StoreErrorKind::Misconfigured, "an effect only begins"));
        };
        let number = head.attempt.number;
        let records = self.records(head);
        self.ended =
            Some(match self.store.run_effect(key, self.effect, &swap.seen, &records).await? {
                Ran::Found(found) => {
                    self.note(found.as_ref());
                    return Ok(Swapped::Found(found));
                }
                Ran::Done { answer } => Effected::Done { number, answer },
                Ran::Unconfirmed(error) => Effected::Unconfirmed(error),
                Ran::Refused { reason } => Effected::Refused { reason },
                Ran::Failed { reason } => Effected::Failed { reason },
            });
        Ok(Swapped::Done)
    }
}

/// The answer to a caller whose script was answered.
fn end<T: DeserializeOwned>(
    call: &Prepared<'_>,
    effected: Effected,
) -> Result<EffectOutcome<T>, Error> {
    match effected {
        Effected::Done { number, answer } => {
            let stored = [&[id::JSON], &answer[..]].concat();
            let values = &call.engine().values;
            let value = decode(call, values, &stored.into()).map_err(Error::after_the_body_ran)?;
            let recorded = Recorded::Yes;
            let outcome = Outcome { value, replayed: false, attempt: number, recorded };
            Ok(EffectOutcome::Applied(outcome))
        }
        Effected::Unconfirmed(error) => Err(call.store_error(error).after_the_body_ran()),
        Effected::Refused { reason } => Ok(EffectOutcome::Refused { reason }),
        Effected::Failed { reason } => {
            let text = format!("the script failed, perhaps after it had written: {reason}");
            let error = call.error(ErrorKind::Indeterminate).with_message(text);
            Err(error.after_the_body_ran())
        }
        Effected::Found(begun) => found(call, begun),
    }
}

/// Turns the record that was found into the answer for the caller.
fn found<T: DeserializeOwned>(
    call: &Prepared<'_>,
    begun: Begun,
) -> Result<EffectOutcome<T>, Error> {
    Err(match begun {
        Begun::Succeeded { number, value: Some(value) } => {
            let value = decode(call, &call.engine().values, &value)?;
            let recorded = Recorded::Yes;
            let outcome = Outcome { value, replayed: true, attempt: number, recorded };
            return Ok(EffectOutcome::Applied(outcome));
        }
        Begun::Succeeded { value: None, .. } => call.error(ErrorKind::ResultUnavailable),
        Begun::FailedFinal { .. } | Begun::Fresh(_) | Begun::Superseded => {
            call.error(ErrorKind::Duplicate)
        }
        begun => call.refusal(NotGranted::from_answer(Ok(begun))),
    })
}

fn decode<T: DeserializeOwned>(
    call: &Prepared<'_>,
    values: &Values,
    stored: &Value,
) -> Result<T, Error> {
    values.codecs.decode(stored.as_bytes()).map_err(|error| {
        call.error(ErrorKind::Undecodable).with_message(error.to_string()).with_source(error)
    })
}
