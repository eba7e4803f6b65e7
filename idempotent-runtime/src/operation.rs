//! Operations in plain code: the engine without the attribute.

mod resolve;

use crate::answer_policy::AnswerPolicy;
use crate::attempt::Begin;
use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
use crate::engine::{
    ArcRef, Call, FirstStep, Moves, Prepare, Prepared, acquire, acquire_now, prepare, record_key,
    run, run_batch, run_detached, run_transacted, run_unrecorded,
};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::instance::Idempotency;
use crate::key::{Encoded, KeyPart, RecordKey};
use crate::observe::CallEnd;
use crate::operation_name::OperationName;
use crate::options::{Options, Runs};
use crate::outcome::Outcome;
use crate::protocol::{Binding, Forgotten, TransactionSource};
use crate::record_handle::RecordHandle;
use crate::store::Record;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

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

    /// Sets the key, by which repeat calls are recognised. It is encoded as with the attribute.
    pub fn key(self, key: impl KeyPart) -> Self {
        self.encoded_key(Encoded::of(&key))
    }

    /// Sets a key that is already encoded, such as a template or an optional part.
    #[inline]
    pub fn encoded_key(mut self, key: Encoded) -> Self {
        self.key = key;
        self
    }

    /// Adds a scope, such as a tenant or a principal, to the ambient scope.
    pub fn scope(mut self, scope: impl KeyPart) -> Self {
        self.scope = Some(Encoded::of(&scope));
        self
    }

    /// Puts the record into the Redis cluster slot of the keys with `{tag}`. The tag is part of the
    /// key: the same key with another tag is a different key.
    pub fn hash_tag(mut self, tag: impl Into<String>) -> Self {
        self.hash_tag = Some(tag.into());
        self
    }

    /// Sets the fingerprint of the payload, which must not change under one key.
    #[inline]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Keeps the key bound to its [`fingerprint`](Self::fingerprint) after an attempt that ended
    /// without an answer; off by default.
    ///
    /// An attempt ends without an answer if its body returns an error that is not kept, is dropped
    /// or panics. The key is then free. By default it is free for any payload. With this option it
    /// is free for the same payload only: a call with another one is refused as
    /// [`Mismatch`](crate::ErrorKind::Mismatch) for as long as the record is kept. A call without a
    /// fingerprint is not compared, so it runs. [`forget`](Self::forget) and
    /// [`resolve`](Self::resolve) free the key for any payload.
    ///
    /// ```
    /// use idempotent_runtime::{Error, ErrorKind, Fingerprint, Idempotency, Mode};
    ///
    /// # #[derive(Debug)]
    /// # enum Failed { Busy, Refused(Error) }
    /// # impl From<Error> for Failed { fn from(error: Error) -> Self { Self::Refused(error) } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let pay = |cents: u64| {
    ///     let pay = idem.operation("payments.create").key(1).mode(Mode::Strong);
    ///     pay.fingerprint(Fingerprint::of(&cents)).bind_payload_after_failure(true)
    /// };
    /// let failed = pay(100).run(async { Err::<u64, _>(Failed::Busy) }).await;
    /// assert!(matches!(failed, Err(Failed::Busy)));
    ///
    /// let other = pay(900).run(async { Ok::<_, Failed>(900) }).await;
    /// assert!(matches!(other, Err(Failed::Refused(e)) if e.kind() == ErrorKind::Mismatch));
    /// assert_eq!(pay(100).run(async { Ok::<_, Failed>(100) }).await.unwrap(), 100);
    /// # }
    /// ```
    #[inline]
    pub fn bind_payload_after_failure(mut self, bind: bool) -> Self {
        self.options.binding = if bind { Binding::Kept } else { Binding::Lifted };
        self
    }

    /// Sets the answer to a duplicate.
    #[inline]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = Some(mode);
        self
    }

    /// Sets the time for which the answer is kept.
    #[inline]
    pub fn expire(mut self, expire: Duration) -> Self {
        self.options.expire = Some(expire);
        self
    }

    /// Sets the time for which a duplicate waits for the answer (strong mode).
    #[inline]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Sets the lease: the time for which other callers stay away from a key that is not renewed.
    #[inline]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Sets the time after which the lease is no longer renewed.
    #[inline]
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.options.max_run = Some(max_run);
        self
    }

    /// Sets the text for a rejected caller.
    pub fn message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.options.message = Some(message.into());
        self
    }

    /// Sets the treatment of a key whose attempt began and vanished.
    #[inline]
    pub fn abandon(mut self, abandon: Abandon) -> Self {
        self.options.abandon = Some(abandon);
        self
    }

    /// Sets the behaviour when the store does not answer.
    #[inline]
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.options.on_store_error = Some(on_store_error);
        self
    }

    /// Sets the answer to a caller whose value the store has not acknowledged.
    ///
    /// Functions that run without protection, keep no value, or take a window return their value in
    /// either case.
    ///
    /// ```
    /// use idempotent_runtime::{Error, Idempotency, OnUnrecorded};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let transfer = idem.operation("transfers.create").key(1).on_unrecorded(OnUnrecorded::Error);
    /// // `Ok` means that the result is recorded.
    /// transfer.run(async { Ok::<(), Error>(()) }).await?;
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn on_unrecorded(mut self, on_unrecorded: OnUnrecorded) -> Self {
        self.options.on_unrecorded = Some(on_unrecorded);
        self
    }

    /// Sets the longest `retry_after` of a caller that is refused because the key is held; a second
    /// by default. It is shorter if the lease ends earlier.
    #[inline]
    pub fn retry_after(mut self, at_most: Duration) -> Self {
        self.options.retry_after = Some(at_most);
        self
    }

    /// Answers repeat calls only, and never runs the body. A call whose body would run is refused
    /// with [`StoreFull`](crate::ErrorKind::StoreFull), and leaves no record.
    ///
    /// Use it to shed load: a service that is over a limit of its own can still replay recorded
    /// answers. `run_effect` refuses it as [`Misconfigured`](crate::ErrorKind::Misconfigured).
    ///
    /// ```
    /// use idempotent_runtime::{Error, ErrorKind, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let order = |id: u64| idem.operation("orders.create").key(id).mode(Mode::Strong);
    /// order(1).run(async { Ok::<_, Error>("shipped".to_owned()) }).await?;
    ///
    /// let overloaded = async { unreachable!("it does not run") };
    /// let replay: Result<String, Error> = order(1).repeats_only().run(overloaded).await;
    /// assert_eq!(replay?, "shipped");
    ///
    /// let overloaded = async { unreachable!("it does not run") };
    /// let refused: Result<String, Error> = order(2).repeats_only().run(overloaded).await;
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::StoreFull);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn repeats_only(mut self) -> Self {
        self.options.runs = Runs::Never;
        self
    }

    /// Leaves the body out of `max_concurrent`: for an attempt around other calls, which are counted
    /// themselves and would find its place taken.
    ///
    /// ```
    /// use idempotent_runtime::{Begin, Config, Error, Idempotency};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::new().with_max_concurrent(1);
    /// let idem = Idempotency::builder().config(config).build()?;
    /// let Begin::Fresh(import) = idem.operation("import").key(1).uncounted().begin().await? else {
    ///     return Ok(());
    /// };
    /// idem.operation("row").key((1, 1)).run(async { Ok::<_, Error>(1) }).await?;
    /// import.complete(&1).await?;
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn uncounted(mut self) -> Self {
        self.options.runs = Runs::Uncounted;
        self
    }

    /// Runs `body` once per key. Repeat calls are answered according to the
    /// [mode](Operation::mode).
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub async fn run<T, E, F>(self, body: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        Ok(self.run_as(AnswerPolicy::kept(), body).await?.value)
    }

    /// Like [`run`](Operation::run), and returns the origin of the value with it.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub async fn run_detailed<T, E, F>(self, body: F) -> Result<Outcome<T>, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        self.run_as(AnswerPolicy::kept(), body).await
    }

    /// Like [`run_detailed`](Operation::run_detailed), with [`AnswerPolicy`] to choose which answers are
    /// kept.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub async fn run_as<T, E, F>(
        mut self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> Result<Outcome<T>, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        run(self.prepare_once(), answers, body).await
    }

    /// Like [`run_as`](Operation::run_as), with a body that runs to its end even if the caller
    /// drops the future. A body that waits moves to a task of its own after its first poll.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_detached<T, E, F>(
        self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        // Not an `async fn`, whose future would hold the arguments twice.
        let (mut operation, body) = (self, Box::pin(body));
        async move { run_detached(&mut operation, answers, body, Moves::AtOnce).await }
    }

    /// Like [`run_detached`](Operation::run_detached), with a body that stays in the task of the
    /// caller until the future is dropped, and then moves to a task of its own.
    ///
    /// This is for adapters whose caller is the task of a connection: the body sees the task-locals
    /// of the middleware around it, and is spawned only if the client goes away. The caller must
    /// poll the future until it ends, or drop it: a future that is neither polled nor dropped holds
    /// the body, and with it the key, for up to `max_run`.
    ///
    /// # Errors
    /// The body's own error, or the reason for which the call was refused.
    pub fn run_in_place<T, E, F>(
        self,
        answers: AnswerPolicy<T, E>,
        body: F,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (mut operation, body) = (self, Box::pin(body));
        async move { run_detached(&mut operation, answers, body, Moves::WhenDropped).await }
    }

    /// Runs `body` once per key, in a database transaction that `source` begins and commits: the
    /// record and what the body writes are committed together.
    ///
    /// For adapters; `idempotent-sql` has the sources, and a method that is more convenient. `body`
    /// is called again if its transaction loses a race against another one, or if it returns an error
    /// for which `repeats` holds.
    ///
    /// # Errors
    /// The body's own error, in which case what it wrote is rolled back, or the reason for which the
    /// call was refused.
    pub fn run_in_transaction<T, E, S, B, F>(
        self,
        answers: AnswerPolicy<T, E>,
        source: S,
        repeats: fn(&E) -> bool,
        body: B,
    ) -> impl Future<Output = Result<Outcome<T>, E>> + Send
    where
        S: TransactionSource,
        B: FnMut(S::Lent) -> F + Send,
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Send,
    {
        let mut operation = self;
        async move {
            let call = operation.prepare_once();
            run_transacted(call, answers, source, repeats, body).await
        }
    }

    /// Runs `body` in a database transaction that `source` begins and commits, without a record:
    /// for calls without a key, whose body relies on a transaction. It is not called again.
    ///
    /// # Errors
    /// The body's own error, in which case what it wrote is rolled back, or the reason for which
    /// there was no transaction, or for which it was not committed.
    pub async fn run_in_transaction_without_key<T, E, S, B, F>(
        self,
        answers: AnswerPolicy<T, E>,
        source: S,
        body: B,
    ) -> Result<T, E>
    where
        S: TransactionSource,
        B: FnOnce(S::Lent) -> F,
        F: Future<Output = Result<T, E>>,
    {
        run_unrecorded(&self.name, &answers, source, body, |error| error).await
    }

    /// The instance of this operation.
    pub fn instance(&self) -> &'a Idempotency {
        self.instance
    }

    /// Runs `body` once for many keys: one round trip to begin them all, one to complete them.
    ///
    /// `body` gets the inputs whose keys are free, in their order, and returns one answer for each.
    /// The other inputs are answered from their records; a batch does not wait for a body that runs
    /// elsewhere. A key that occurs twice runs once. Inside the body [`current`](crate::current) is
    /// `None`, because it runs for many attempts.
    ///
    /// ```
    /// use idempotent_runtime::{Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let idem = Idempotency::in_memory().unwrap();
    /// let rows = [(1, "lamp"), (2, "chair"), (1, "lamp")];
    /// let inserted = idem
    ///     .operation("orders.import")
    ///     .mode(Mode::Strong)
    ///     .run_batch(rows, |items: Vec<&str>| async move {
    ///         assert_eq!(items, ["lamp", "chair"]);
    ///         items.iter().map(|item| Ok::<_, Error>(item.len())).collect()
    ///     })
    ///     .await;
    /// let lengths: Result<Vec<_>, Error> =
    ///     inserted.into_iter().map(|row| Ok(row?.value)).collect();
    /// assert_eq!(lengths?, [4, 5, 4]);
    /// # Ok(()) }
    /// ```
    pub async fn run_batch<K, I, T, E, B, F>(
        self,
        items: impl IntoIterator<Item = (K, I)>,
        body: B,
    ) -> Vec<Result<Outcome<T>, E>>
    where
        K: KeyPart,
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        B: FnOnce(Vec<I>) -> F,
        F: Future<Output = Vec<Result<T, E>>>,
    {
        let prepare = |(key, input): (K, I)| {
            let call = Call { key: Encoded::of(&key), ..self.call() };
            (prepare(ArcRef::Borrowed(self.instance.engine()), call), input)
        };
        let calls = items.into_iter().map(prepare).collect();
        run_batch(calls, &AnswerPolicy::kept(), body).await
    }

    /// Asks for the right to run, without running anything. In strong mode it waits up to `wait`
    /// for a running body.
    ///
    /// # Errors
    /// The call was refused for a reason that has no variant in [`Begin`].
    pub async fn begin(&self) -> Result<Begin, Error> {
        let mut end = CallEnd::new(self.name.clone());
        let call = self.prepare().inspect_err(|error| end.refused(error))?;
        let acquired = match acquire_now(&call) {
            FirstStep::Acquired(acquired) => acquired,
            FirstStep::Waits(awaited) => acquire(&call, awaited).await,
        };
        Begin::from_acquired(&call, acquired, end)
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
    /// The key is invalid, or the store does not answer.
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
