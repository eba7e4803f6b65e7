//! Operations in plain code: the engine without the attribute.

mod options;
mod resolve;
mod run;

use crate::engine::{ArcRef, Call, Prepare, Prepared, prepare, record_key};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::instance::Idempotency;
use crate::key::{Encoded, RecordKey};
use crate::operation_name::OperationName;
use crate::options::Options;
use crate::protocol::Forgotten;
use crate::record_handle::RecordHandle;
use crate::store::Record;

/// One operation and key of an instance, with its options.
///
/// The same engine as [`#[idempotent]`](macro@crate::idempotent), for names and keys that are known
/// at run time, and for instances that are not installed:
///
/// ```
/// use idempotent_runtime::{Error, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// for _ in 0..2 {
///     // The body runs once, and the second round gets its answer.
///     let id = idem
///         .operation("orders.create")
///         .key("order-42")
///         .mode(Mode::Strong)
///         .run(async { Ok::<u64, Error>(42) })
///         .await?;
///     assert_eq!(id, 42);
/// }
/// # Ok(()) }
/// ```
///
/// Without a [`key`](Operation::key) the ambient token is the key, as with the attribute.
#[derive(Clone, Debug)]
#[must_use = "an operation does nothing until it is run, begun or looked at"]
pub struct Operation<'a> {
    instance: &'a Idempotency,
    name: OperationName,
    key: Encoded,
    scope: Option<Encoded>,
    hash_tag: Option<String>,
    fingerprint: Option<Fingerprint>,
    options: Options,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(instance: &'a Idempotency, name: OperationName) -> Self {
        let (key, options) = (Encoded::ambient(), Options::NONE);
        Self { instance, name, key, scope: None, hash_tag: None, fingerprint: None, options }
    }

    /// The instance of this operation.
    pub fn instance(&self) -> &'a Idempotency {
        self.instance
    }

    /// The record of this key, if there is one.
    ///
    /// # Errors
    /// The key is invalid, or the store does not answer.
    pub async fn get(&self) -> Result<Option<Record>, Error> {
        self.record()?.get().await
    }

    /// Removes the record, so that the next call runs, whatever its payload. A record that an
    /// attempt holds is removed only with `force`, which supersedes the attempt.
    ///
    /// # Errors
    /// The key is invalid, or the store does not answer. A `forget` that returned an error may still take effect: repeat it.
    pub async fn forget(&self, force: bool) -> Result<Forgotten, Error> {
        self.record()?.forget(force).await
    }

    /// The name of this key's record in the store.
    ///
    /// # Errors
    /// The key is missing or invalid.
    pub fn record_key(&self) -> Result<RecordKey, Error> {
        record_key(&self.call(), &self.instance.engine().config.load())
    }

    /// The record of this key, whose end by hand is kept for as long as one of this operation.
    fn record(&self) -> Result<RecordHandle<'a>, Error> {
        let record = RecordHandle::new(self.instance, self.record_key()?, self.name.clone());
        Ok(match self.options.expire {
            None => record,
            Some(expire) => record.expire(expire),
        })
    }

    fn call(&self) -> Call<'_> {
        self.call_with(self.key.clone(), self.scope.clone())
    }

    fn call_with(&self, key: Encoded, scope: Option<Encoded>) -> Call<'_> {
        Call {
            operation: self.name.clone(),
            options: &self.options,
            key,
            scope,
            hash_tag: self.hash_tag.as_deref(),
            fingerprint: self.fingerprint,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn name(&self) -> &OperationName {
        &self.name
    }

    pub(crate) fn prepare(&self) -> Result<Prepared<'_>, Error> {
        prepare(ArcRef::Borrowed(self.instance.engine()), self.call())
    }

    /// Like [`prepare`](Self::prepare), for a call that is made once: the key is not copied.
    fn prepare_once(&mut self) -> Result<Prepared<'_>, Error> {
        let key = std::mem::replace(&mut self.key, Encoded::ambient());
        let scope = self.scope.take();
        prepare(ArcRef::Borrowed(self.instance.engine()), self.call_with(key, scope))
    }
}

impl<'a> Prepare<'a> for &'a mut Operation<'_> {
    fn prepare(self) -> Result<Prepared<'a>, Error> {
        self.prepare_once()
    }
}
