//! Effects inside Redis that happen together with their record, in one atomic step.

use super::RedisStore;
use super::error::{Failure, contended, misconfigured, unexpected};
use super::links::Failed;
use super::name::Name;
use super::script::Script;
use super::server::Server;
use super::{verbs, wire};
use crate::key::RecordKey;
use crate::store::table::{self, Living, Write};
use crate::store::{
    BeginRequest, Begun, Binding, Failure as Failing, Head, State, StoreError, Value as StoredValue,
};
use redis::cluster_routing::Slot;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// A Lua script whose effect happens once per key, together with the record of its answer.
///
/// The script sees its own `KEYS` and `ARGV`. It returns its answer as JSON text, or
/// `refuse('reason')` for a business result that is no success: the key is free then, and the
/// next call runs the script again. See also
/// [`bind_payload_after_failure`](crate::Operation::bind_payload_after_failure).
///
/// **A script must validate before its first write.** Redis does not take back what a script wrote
/// before it failed. If it fails, the key is `Indeterminate` until somebody resolves it.
///
/// All keys lie in one slot of a cluster, that of the operation's
/// [`hash_tag`](crate::Operation::hash_tag); a key elsewhere is refused before anything is sent.
///
/// ```
/// use idempotent_runtime::store::Effect;
///
/// let deduct = Effect::new(
///     "local left = tonumber(redis.call('GET', KEYS[1]) or '0')
///      if left < tonumber(ARGV[1]) then return refuse('not enough stock') end
///      return redis.call('DECRBY', KEYS[1], ARGV[1])",
/// );
/// let one_lamp = deduct.key("stock:{lamp}").arg(1);
/// ```
#[derive(Clone, Debug)]
#[must_use = "an effect does nothing until an operation runs it"]
pub struct Effect {
    script: Arc<Script>,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Effect {
    /// An effect without keys and arguments yet. Made once and cloned, it is compiled once.
    pub fn new(lua: &str) -> Self {
        let text = format!(
            "local function refuse(reason) return {{ refused = reason }} end\n\
             local function effect(KEYS, ARGV)\n{lua}\nend\n{}",
            include_str!("scripts/effect.lua")
        );
        Self { script: Arc::new(Script::new(text)), keys: Vec::new(), arguments: Vec::new() }
    }

    /// Adds a key of the data that the script reads or writes.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl ToString) -> Self {
        self.arguments.push(argument.to_string().into_bytes());
        self
    }

    /// Refuses keys that lie in another slot than the record.
    fn check_slots(&self, record: &Name) -> Result<(), StoreError> {
        match self.keys.iter().find(|key| Slot::for_key(key) != record.slot()) {
            None => Ok(()),
            Some(key) => Err(misconfigured(format!(
                "the key `{key}` lies in another slot than the record\n\
                 help: give the operation a hash tag, and put the same one into every key: {{tag}}"
            ))),
        }
    }
}

/// The end of an effect.
#[derive(Debug)]
pub(crate) enum Effected {
    /// It happened, in this call. The answer as the script gave it.
    Done { number: u32, answer: Vec<u8> },
    /// It happened, in this call, and it is not known whether enough replicas have it.
    Unconfirmed(StoreError),
    /// The script refused. The key is free.
    Refused { reason: String },
    /// The script failed half way. The key is blocked.
    Failed { reason: String },
    /// It did not run: the record says what there is instead.
    Found(Begun),
}

/// What the record of an effect is to say.
#[derive(Clone, Debug)]
pub(crate) struct EffectTerms {
    pub(crate) request: BeginRequest,
    /// How long the answer is kept.
    pub(crate) retention: Duration,
    /// How long an unknown outcome is kept.
    pub(crate) block_retention: Duration,
    /// The payload that may follow a refusal.
    pub(crate) binding: Binding,
    /// What comes before the answer in the stored value.
    pub(crate) envelope: StoredValue,
}

/// How often a script is sent that was not answered, or whose record changed.
const ROUNDS: usize = 8;

impl RedisStore {
    /// Runs an effect unless the record says that it is not to run.
    pub(crate) async fn effect(
        &self,
        key: &RecordKey,
        effect: &Effect,
        terms: &EffectTerms,
    ) -> Result<Effected, StoreError> {
        let name = Name::of(key);
        effect.check_slots(&name)?;
        let server = self.server();
        let mut found: Option<(Vec<u8>, Duration)> = None;
        let mut refused: Option<Failed> = None;
        for _ in 0..ROUNDS {
            let living = match &found {
                None => None,
                Some((bytes, ttl)) => {
                    let head = wire::decode(bytes)?.head;
                    if head.attempt.token == terms.request.token {
                        // Sent before: its answer was lost, and it is in the record.
                        return own(server, &name, bytes).await;
                    }
                    Some(Living { head, ttl: *ttl })
                }
            };
            let (answer, write) = table::begin(living, &terms.request);
            let Write::Put { head, .. } = write else {
                let value = || found.as_ref().and_then(|(it, _)| wire::decode(it).ok()?.value);
                return Ok(Effected::Found(answer.with_value(value)));
            };
            if let Some(failed) = refused {
                return Err(failed.into());
            }
            match run(server, &name, effect, terms, &head, found.as_ref()).await {
                Ok(Ran::Ended(effected)) => return Ok(effected),
                Ok(Ran::Seen(now)) => found = now,
                // A server that does not run scripts that write may still say what is recorded.
                Err(failed) if failed.leaves_reads() => match server.look(&name).await {
                    Ok(now) => (found, refused) = (unmarked(now), Some(failed)),
                    Err(_) => return Err(failed.into()),
                },
                Err(failed) => return Err(failed.into()),
            }
        }
        Err(contended())
    }
}

fn unmarked(record: Option<(Vec<u8>, Duration)>) -> Option<(Vec<u8>, Duration)> {
    record.map(|(bytes, ttl)| (wire::unmarked(bytes), ttl))
}

/// The end of an effect of this very call, as the record tells it.
async fn own(server: &Server, name: &Name, bytes: &[u8]) -> Result<Effected, StoreError> {
    let found = wire::decode(bytes)?;
    let number = found.head.attempt.number;
    Ok(match (found.head.state, found.value) {
        (State::Succeeded, Some(value)) => match verbs::confirm(server, name).await {
            Ok(()) => {
                let answer = value.as_bytes().get(1..).unwrap_or_default().to_vec();
                Effected::Done { number, answer }
            }
            Err(error) => Effected::Unconfirmed(error),
        },
        (State::Succeeded, None) => Effected::Found(Begun::Succeeded { number, value: None }),
        (State::Abandoned, _) => Effected::Failed { reason: "its reply was lost".to_owned() },
        // It refused, or an operator freed the key.
        (State::FailedFree, _) => Effected::Found(Begun::Superseded),
        _ => Effected::Found(Begun::Indeterminate { number }),
    })
}

enum Ran {
    Ended(Effected),
    /// The record is not what it was taken for.
    Seen(Option<(Vec<u8>, Duration)>),
}

async fn run(
    server: &Server,
    name: &Name,
    effect: &Effect,
    terms: &EffectTerms,
    head: &Head,
    found: Option<&(Vec<u8>, Duration)>,
) -> Result<Ran, Failed> {
    let unknown = wire::encode(&Head { state: State::Abandoned, ..*head }, None);
    let done = wire::encode(&Head { state: State::Succeeded, ..*head }, Some(&terms.envelope));
    let processing =
        Living { head: Head { state: State::Processing, ..*head }, ttl: Duration::MAX };
    let failing = Failing::Free(terms.binding);
    let free = match table::fail(Some(processing), &head.attempt, &failing, terms.retention) {
        (_, Write::Put { head, .. }) => wire::encode(&head, None),
        _ => return Err(Failed::Answered(contended())),
    };
    // A lease that was over when the record was seen must still be over.
    let (seen, at_most) = match found {
        None => (&[][..], String::new()),
        Some((bytes, ttl)) => {
            let head = wire::decode(bytes).map_err(Failed::Answered)?.head;
            let over = head.state == State::Processing && head.lease_left(*ttl).is_zero();
            let at_most = over.then(|| wire::millis(head.attempt.claim.linger()).to_string());
            (&bytes[..], at_most.unwrap_or_default())
        }
    };
    let arguments = |command: &mut Cmd| {
        command.arg(1 + effect.keys.len()).arg(name.as_str()).arg(&effect.keys);
        command.arg(seen).arg(&at_most);
        command.arg(&unknown).arg(wire::millis(terms.block_retention));
        command.arg(&done).arg(&free).arg(wire::millis(terms.retention));
        for argument in &effect.arguments {
            command.arg(argument);
        }
    };
    let answer = match server.write(&effect.script.by_hash(&arguments)).await {
        Err(failed) if failed.failure() == Failure::NoScript => {
            server.write(&effect.script.by_text(&arguments)).await
        }
        answer => answer,
    };
    let (answer, written) = match answer {
        Err(Failed::Sent(error) | Failed::Resent(error)) if is_broken_script(&error) => {
            let text = format!("the script does not compile: {error}");
            return Err(Failed::Answered(misconfigured(text)));
        }
        answer => answer?,
    };
    let ran = read(answer, head.attempt.number).map_err(Failed::Answered)?;
    if let Ran::Ended(Effected::Done { .. }) = ran
        && let Err(failed) = written.check()
    {
        return Ok(Ran::Ended(Effected::Unconfirmed(failed.into())));
    }
    Ok(ran)
}

/// Scripts are compiled before anything of them runs.
fn is_broken_script(error: &redis::RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("compiling script"))
}

fn read(answer: Value, number: u32) -> Result<Ran, StoreError> {
    let broken = || unexpected("a script");
    let Value::Array(parts) = answer else { return Err(broken()) };
    let mut parts = parts.into_iter();
    let word = parts.next().ok_or_else(broken)?;
    let word: String = redis::from_redis_value(word).map_err(|_| broken())?;
    let part = parts.next().unwrap_or(Value::Nil);
    let text = |part: Value| match part {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::SimpleString(text) => text,
        _ => String::new(),
    };
    Ok(match word.as_str() {
        "done" => {
            let answer = match part {
                Value::BulkString(bytes) => bytes,
                Value::Int(number) => number.to_string().into_bytes(),
                _ => return Err(broken()),
            };
            Ran::Ended(Effected::Done { number, answer })
        }
        "refused" => Ran::Ended(Effected::Refused { reason: text(part) }),
        "failed" => Ran::Ended(Effected::Failed { reason: text(part) }),
        "seen" => match (part, parts.next()) {
            (Value::BulkString(bytes), Some(Value::Int(ttl))) => {
                let ttl = Duration::from_millis(u64::try_from(ttl).unwrap_or(1).max(1));
                Ran::Seen(Some((wire::unmarked(bytes), ttl)))
            }
            (Value::Nil, _) => Ran::Seen(None),
            _ => return Err(broken()),
        },
        _ => return Err(broken()),
    })
}
