//! Effects inside Redis that happen together with their record, in one atomic step.

use super::RedisStore;
use super::answers::ttl_of;
use super::error::{misconfigured, unexpected};
use super::links::Failed;
use super::mark;
use super::name::Name;
use super::script::Script;
use super::server::Server;
use super::swaps::{AtMost, RecordBytes};
use crate::key::RecordKey;
use crate::store::{Found, Head, Seen, StoreError, Value as StoredValue, wire};
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

    /// Adds an argument that may be any bytes.
    pub fn arg_bytes(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Refuses keys that lie in another slot than the record.
    fn check_slots(&self, record: &Name<'_>) -> Result<(), StoreError> {
        match self.keys.iter().find(|key| Slot::for_key(key) != record.slot()) {
            None => Ok(()),
            Some(key) => Err(misconfigured(format!(
                "the key `{key}` lies in another slot than the record\n\
                 help: give the operation a hash tag, and put the same one into every key: {{tag}}"
            ))),
        }
    }
}

/// The records that an effect leaves behind, whichever way it ends.
#[derive(Clone, Debug)]
pub(crate) struct EffectRecords {
    /// While it runs, and if it fails half way: its outcome is unknown.
    pub(crate) unknown: Head,
    pub(crate) unknown_ttl: Duration,
    /// Its answer, which is added to this value.
    pub(crate) done: Head,
    pub(crate) envelope: StoredValue,
    /// It refused: the key is free.
    pub(crate) free: Head,
    /// The time to live of an answer, and of a free key.
    pub(crate) ttl: Duration,
}

/// The end of a script that runs only if its record is the one that was seen.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It happened. The answer as the script gave it.
    Done { answer: Vec<u8> },
    /// It happened, and it is not known whether enough replicas have it.
    Unconfirmed(StoreError),
    /// The script refused. The key is free.
    Refused { reason: String },
    /// The script failed half way. Its outcome is unknown.
    Failed { reason: String },
    /// It did not run: the record is not what it was taken for.
    Found(Option<Found>),
}

impl RedisStore {
    /// Runs an effect if the record is the one that was seen, and writes what came of it: one atomic
    /// step, one round trip.
    pub(crate) async fn run_effect(
        &self,
        key: &RecordKey,
        effect: &Effect,
        seen: &Seen,
        records: &EffectRecords,
    ) -> Result<Ran, StoreError> {
        let name = Name::of(key);
        effect.check_slots(&name)?;
        let ran = run(self.server(), &name, effect, seen, records).await;
        match ran {
            // A server that does not run scripts that write may still show the record that keeps this
            // one away.
            Err(failed) if *seen == Seen::Nothing && failed.leaves_reads() => {
                match self.server().load(&name).await {
                    Ok(Some(record)) => Ok(Ran::Found(Some(record.into()))),
                    Ok(None) | Err(_) => Err(failed.into()),
                }
            }
            ran => Ok(ran?),
        }
    }

    /// `true` if both are handles to one store.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

async fn run(
    server: &Server,
    name: &Name<'_>,
    effect: &Effect,
    seen: &Seen,
    records: &EffectRecords,
) -> Result<Ran, Failed> {
    let arguments = |command: &mut Cmd| {
        command.arg(1 + effect.keys.len()).arg(name.as_str()).arg(&effect.keys);
        command.arg(RecordBytes::seen(seen)).arg(AtMost::of(seen));
        command.arg(RecordBytes::new(&records.unknown, None));
        command.arg(wire::millis(records.unknown_ttl));
        command.arg(RecordBytes::new(&records.done, Some(&records.envelope)));
        command.arg(RecordBytes::new(&records.free, None)).arg(wire::millis(records.ttl));
        for argument in &effect.arguments {
            command.arg(argument);
        }
    };
    let (answer, written) = match server.script(&effect.script, &arguments).await {
        Err(Failed::Sent(error) | Failed::Resent(error)) if is_broken_script(&error) => {
            let text = format!("the script does not compile: {error}");
            return Err(Failed::Answered(misconfigured(text)));
        }
        answer => answer?,
    };
    let ran = read(answer)?;
    if let Ran::Done { .. } = ran
        && let Err(failed) = written.check()
    {
        return Ok(Ran::Unconfirmed(failed.into()));
    }
    Ok(ran)
}

/// Scripts are compiled before anything of them runs.
fn is_broken_script(error: &redis::RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("compiling script"))
}

fn read(answer: Value) -> Result<Ran, Failed> {
    let broken = || Failed::Answered(unexpected("a script"));
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
            Ran::Done { answer }
        }
        "refused" => Ran::Refused { reason: text(part) },
        "failed" => Ran::Failed { reason: text(part) },
        "seen" => match (part, parts.next()) {
            (Value::BulkString(bytes), Some(ttl)) => {
                Ran::Found(Some(mark::decode(bytes, ttl_of(&ttl)?)?))
            }
            (Value::Nil, _) => Ran::Found(None),
            _ => return Err(broken()),
        },
        _ => return Err(broken()),
    })
}
