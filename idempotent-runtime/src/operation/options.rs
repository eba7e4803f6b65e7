//! The options of an operation: its key, and what the attribute's arguments of the same names choose.

use super::Operation;
use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
use crate::fingerprint::Fingerprint;
use crate::key::{Encoded, KeyPart};
use crate::options::Runs;
use crate::protocol::Binding;
use std::borrow::Cow;
use std::time::Duration;

impl Operation<'_> {
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
}
