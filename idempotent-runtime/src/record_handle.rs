//! The record of one key, for operators: look at it, forget it, resolve it.
//!
//! Operations get here with the key that they compose, and operators with one that a scan listed.

use crate::answer_policy::{AnswerPolicy, Encoding};
use crate::codec::Codecs;
use crate::engine::{Handoff, Instance, Kind};
use crate::error::{Error, ErrorKind};
use crate::instance::Idempotency;
use crate::key::RecordKey;
use crate::operation_name::OperationName;
use crate::options::whole_millis;
use crate::protocol::{Forgotten, Resolution, Resolved, StoreExt as _};
use crate::store::{Record, State, Store, StoreError};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Handle to the record of one key, which need not exist. See [`Idempotency::record`].
///
/// ```
/// use idempotent_runtime::protocol::Forgotten;
/// use idempotent_runtime::{Error, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let order = idem.operation("orders.create").key(42).mode(Mode::Strong);
/// order.clone().run(async { Ok::<u64, Error>(7) }).await?;
///
/// let record = idem.record(&order.record_key()?);
/// assert_eq!(record.operation(), "orders.create");
/// assert!(record.get().await?.is_some());
/// assert_eq!(record.forget(false).await?, Forgotten::Deleted);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a handle does nothing until it is asked for something"]
pub struct RecordHandle<'a> {
    instance: &'a Idempotency,
    key: RecordKey,
    operation: OperationName,
    expire: Option<Duration>,
}

impl<'a> RecordHandle<'a> {
    pub(crate) fn new(instance: &'a Idempotency, key: RecordKey, operation: OperationName) -> Self {
        Self { instance, key, operation, expire: None }
    }

    /// The handle of a key that was listed. A key that was not composed has no operation to name.
    pub(crate) fn of_key(instance: &'a Idempotency, key: RecordKey) -> Self {
        let operation = match key.parts() {
            Ok(parts) => parts.operation_name().into_owned().into(),
            Err(_) => "unknown".into(),
        };
        Self::new(instance, key, operation)
    }

    /// The time for which a [resolved](Self::resolve) record is kept; by default that of the
    /// configuration.
    pub fn expire(mut self, expire: Duration) -> Self {
        self.expire = Some(expire);
        self
    }

    /// The key.
    pub fn key(&self) -> &RecordKey {
        &self.key
    }

    /// The name of the operation whose record it is.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The record, if there is one.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn get(&self) -> Result<Option<Record>, Error> {
        self.answer(self.instance.store().load(&self.key).await)
    }

    /// Removes the record, so that the next call runs, whatever its payload. One that is held only
    /// with `force`; the attempt that holds it is then superseded.
    ///
    /// If this future is dropped, the removal goes on in the background, and is announced.
    ///
    /// # Errors
    /// The store does not answer. A `forget` that returned an error may still take effect, also later: repeat it.
    pub async fn forget(&self, force: bool) -> Result<Forgotten, Error> {
        // Taken before anything is sent: whichever attempt is freed, these have lost the key.
        // One that is granted while the answer is on its way may.
        let held = self.instance.engine().keeper.registry().of(self.key.as_str());
        let change = |store: Arc<dyn Store>, key| async move { store.forget(&key, force).await };
        let forgotten = self.change(change).await?;
        if forgotten == Forgotten::Freed {
            held.iter().for_each(|attempt| attempt.lose());
        }
        Ok(forgotten)
    }

    /// Ends an attempt whose outcome was unknown.
    ///
    /// If this future is dropped, the change goes on in the background, and is announced.
    ///
    /// # Errors
    /// The value cannot be kept, or the store does not answer. A `resolve` that returned an error may still take effect,
    /// also later: [`get`](Self::get) shows the record.
    pub async fn resolve<T: Serialize>(
        &self,
        resolution: Resolution<Option<&T>>,
    ) -> Result<Resolved, Error> {
        self.resolve_encoded(resolution, |codecs, value| Some(codecs.encode(value))).await
    }

    /// As [`resolve`](Self::resolve), for answers that are kept as `answers` says.
    ///
    /// # Errors
    /// The value cannot be kept, or the store does not answer.
    pub async fn resolve_as<T, E>(
        &self,
        answers: AnswerPolicy<T, E>,
        resolution: Resolution<Option<&T>>,
    ) -> Result<Resolved, Error> {
        let encode = |codecs: &Codecs, value: &T| answers.encode_value(codecs, value);
        self.resolve_encoded(resolution, encode).await
    }

    /// The value in a record of this key, read as a replay reads it; `None` where the record holds
    /// none.
    ///
    /// # Errors
    /// The bytes are not a value of this type.
    pub fn value_of<T, E>(
        &self,
        record: &Record,
        answers: AnswerPolicy<T, E>,
    ) -> Result<Option<T>, Error> {
        let (State::Succeeded, Some(value)) = (record.head.state, &record.value) else {
            return Ok(None);
        };
        let read = |codecs: &Codecs, bytes: &[u8]| answers.decode_value(codecs, bytes);
        let values = &self.instance.engine().values;
        values.read(Kind::Value, &self.key, value, read).map(Some).map_err(|error| {
            let text = error.to_string();
            Error::new(ErrorKind::Undecodable, &self.operation)
                .with_message(text)
                .with_source(error)
        })
    }

    async fn resolve_encoded<T>(
        &self,
        resolution: Resolution<Option<&T>>,
        encode: impl Fn(&Codecs, &T) -> Option<Encoding>,
    ) -> Result<Resolved, Error> {
        let core = self.instance.engine();
        let config = core.config.load_full();
        let resolution = match resolution {
            Resolution::Retry => Resolution::Retry,
            Resolution::Succeeded(value) => {
                let encoded = value.and_then(|value| encode(&core.values.codecs, value));
                let limit = config.max_value_bytes;
                let keep = |it| core.values.keep(Kind::Value, &self.key, it, limit);
                let kept = encoded.map(keep).transpose().map_err(|reason| {
                    let text = format!("the value cannot be kept: {reason}");
                    Error::new(ErrorKind::ResultUnavailable, &self.operation).with_message(text)
                })?;
                Resolution::Succeeded(kept)
            }
        };
        let retention = whole_millis(self.expire.unwrap_or(config.expire));
        let change = |store: Arc<dyn Store>, key| async move {
            store.resolve(&key, resolution, retention).await
        };
        self.change(change).await
    }

    /// Changes the record. The keeper finishes what an operator who goes away leaves: a change that is made and not
    /// announced would be replayed by other processes.
    async fn change<A, F>(
        &self,
        change: impl FnOnce(Arc<dyn Store>, RecordKey) -> F,
    ) -> Result<A, Error>
    where
        A: 'static,
        F: Future<Output = Result<A, StoreError>> + Send + 'static,
    {
        let instance = &self.instance.engine().instance;
        let kept = || DropsKept { instance: Arc::clone(instance), key: self.key.clone() };
        // Once when the operator has the answer or goes, and once when the change is made.
        let (_here, there) = (kept(), kept());
        let changed = change(Arc::clone(&instance.store), self.key.clone());
        let job = async move {
            let _there = there;
            changed.await
        };
        self.answer(Handoff::new(Arc::clone(instance), job).await)
    }

    fn answer<A>(&self, answer: Result<A, StoreError>) -> Result<A, Error> {
        answer.map_err(|error| Error::from_store(error, &self.operation))
    }
}

/// Drops what this process keeps of a record when it is dropped, whether or not the store has answered.
struct DropsKept {
    instance: Arc<Instance>,
    key: RecordKey,
}

impl Drop for DropsKept {
    fn drop(&mut self) {
        if let Some(replays) = &self.instance.replays {
            replays.freed(self.key.as_str());
        }
    }
}
