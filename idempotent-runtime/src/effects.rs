//! Effects inside Redis, as a way to run an operation.

use crate::codec::id;
use crate::config::Abandon;
use crate::engine::{Prepared, Values};
use crate::error::{Error, ErrorKind};
use crate::observe::{CallEnd, Ending};
use crate::operation::{Operation, Outcome, Recorded};
use crate::options::whole_millis;
use crate::store::{
    Begun, Claim, Effect, EffectTerms, Effected, RedisStore, StoreError, StoreErrorKind, Token,
    Value,
};
use serde::de::DeserializeOwned;

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectOutcome<T> {
    /// It happened, once, in this call or before.
    Applied(Outcome<T>),
    /// The script refused, for this reason. The key is free: the next call runs it again.
    Refused {
        /// What the script said.
        reason: String,
    },
}

/// How often an effect that was not answered is sent.
const SENDS: u32 = 3;

impl Operation<'_> {
    /// Runs a script inside Redis once per key, together with its record: both happen or neither.
    /// A repeat gets the recorded answer.
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
    /// finds out.
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
    let core = call.core();
    if core.values.encrypts() {
        let text = "an answer that a script writes cannot be encrypted";
        return Err(call.error(ErrorKind::Misconfigured).with_message(text));
    }
    if !call.policy.may_run() {
        let text = "`repeats_only` does not go together with `run_effect`";
        return Err(call.error(ErrorKind::Misconfigured).with_message(text));
    }
    let config = core.config.load_full();
    let block_retention = whole_millis(config.block_retention);
    let retention = call.policy.retention;
    // It never holds its key longer than the server takes for it.
    let lease = std::time::Duration::from_millis(1);
    let claim = Claim::Lease { lease, linger: block_retention, abandon: Abandon::Block };
    let mut request = call.request(Token::random(), core.clock.now());
    request.claim = claim;
    let envelope = Value::from(&[id::JSON][..]);
    let binding = call.policy.binding;
    let mut terms = EffectTerms { request, retention, block_retention, binding, envelope };
    let mut sends = 0;
    let mut unanswered = false;
    let effected = loop {
        sends += 1;
        match store.effect(&call.key, effect, &terms).await {
            // Refused, and the reply was lost. A token that ended is of no use.
            Ok(Effected::Found(Begun::Superseded)) if sends <= SENDS => {
                terms.request.token = Token::random();
            }
            Err(error) => {
                unanswered |= error.may_have_taken_effect();
                if error.kind() != StoreErrorKind::Unavailable || sends >= SENDS {
                    break Err(error);
                }
            }
            answer => break answer,
        }
    };
    let answer = match effected {
        Ok(effected) => end(call, effected),
        Err(error) => Err(refused(call, error)),
    };
    // A copy of the script that was not answered may have run, or may yet arrive and run.
    answer.map_err(|error| if unanswered { error.with_body_unknown() } else { error })
}

fn refused(call: &Prepared<'_>, error: StoreError) -> Error {
    let key = call.logged_key(&call.core().config.load());
    Error::from_store(error, &call.operation).with_key(key)
}

/// The answer to a caller whose script was answered.
fn end<T: DeserializeOwned>(
    call: &Prepared<'_>,
    effected: Effected,
) -> Result<EffectOutcome<T>, Error> {
    match effected {
        Effected::Done { number, answer } => {
            let stored = [&[id::JSON], &answer[..]].concat();
            let values = &call.core().values;
            let value = decode(call, values, &stored.into()).map_err(Error::after_the_body_ran)?;
            let recorded = Recorded::Yes;
            let outcome = Outcome { value, replayed: false, attempt: number, recorded };
            Ok(EffectOutcome::Applied(outcome))
        }
        Effected::Unconfirmed(error) => Err(refused(call, error).after_the_body_ran()),
        Effected::Refused { reason } => Ok(EffectOutcome::Refused { reason }),
        Effected::Failed { reason } => {
            let text = format!("the script failed, perhaps after it had written: {reason}");
            let error = call.error(ErrorKind::Indeterminate).with_message(text);
            Err(error.after_the_body_ran())
        }
        Effected::Found(begun) => found(call, begun),
    }
}

/// What the record says instead of a run.
fn found<T: DeserializeOwned>(
    call: &Prepared<'_>,
    begun: Begun,
) -> Result<EffectOutcome<T>, Error> {
    Err(match begun {
        Begun::Succeeded { number, value: Some(value) } => {
            let value = decode(call, &call.core().values, &value)?;
            let recorded = Recorded::Yes;
            let outcome = Outcome { value, replayed: true, attempt: number, recorded };
            return Ok(EffectOutcome::Applied(outcome));
        }
        Begun::Succeeded { value: None, .. } => call.error(ErrorKind::ResultUnavailable),
        Begun::Mismatch => call.error(ErrorKind::Mismatch),
        Begun::InFlight { retry_after, .. } => call.in_progress(retry_after),
        Begun::Indeterminate { number } => {
            let text = format!("attempt {number} began and never ended; resolve it to go on");
            call.error(ErrorKind::Indeterminate).with_message(text)
        }
        Begun::Taken { retry_after } => {
            call.error(ErrorKind::Duplicate).with_retry_after(retry_after)
        }
        Begun::FailedFinal { .. } | Begun::Fresh(_) | Begun::Superseded => {
            call.error(ErrorKind::Duplicate)
        }
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
