//! An instance: a store, a configuration, and the thread that keeps its leases.

pub use crate::install::InstallError;
pub use crate::record_handle::RecordHandle;
pub use crate::switch::{DISABLED, REQUIRE_INSTALLED};

use crate::clock::Clock;
use crate::codec::{Codec, Codecs};
use crate::config::{Config, ConfigError, ReplayCache};
use crate::engine::{Engine, Instance, Replays, Values, scoped};
use crate::install;
use crate::key::RecordKey;
use crate::operation::Operation;
use crate::operation_name::OperationName;
use crate::race::{First, race};
use crate::store::{MemoryStore, Store, StoreError, StoreErrorKind};
use crate::switch::Switch;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs operations once per key on one store. Cheap to clone; clones share one instance.
///
/// ```
/// use idempotent_runtime::{Config, Idempotency, Mode};
/// use idempotent_runtime::store::MemoryStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::builder()
///     .store(MemoryStore::new())
///     .config(Config::new().with_mode(Mode::Strong))
///     .build()?;
/// idem.install()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Idempotency(Arc<Engine>);

impl Idempotency {
    /// Returns a builder for an instance.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// An instance on an embedded memory store with the default configuration.
    ///
    /// # Errors
    /// The keeper's thread cannot be started.
    pub fn in_memory() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Makes this the instance that attributed functions use.
    ///
    /// # Errors
    /// One was installed before, or the default one has already been used.
    pub fn install(&self) -> Result<(), InstallError> {
        install::install(self.clone())
    }

    /// Runs `future` with this instance in place of the installed one, for functions that do not name
    /// another by `with`. It does not cross `tokio::spawn`.
    ///
    /// Adapters that are built for an instance call their functions so.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        scoped::scope(Arc::clone(self.engine()), future).await
    }

    /// Returns the operation with this name, to run it or to manage its records.
    ///
    /// ```
    /// use idempotent_runtime::{Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// let order: Result<u64, Error> = idem
    ///     .operation("orders.create")
    ///     .key(("acme", 42))
    ///     .mode(Mode::Strong)
    ///     .run(async { Ok(7) })
    ///     .await;
    /// assert_eq!(order?, 7);
    /// # Ok(()) }
    /// ```
    pub fn operation(&self, name: impl Into<Cow<'static, str>>) -> Operation<'_> {
        Operation::new(self, OperationName::from(name))
    }

    /// The record of a key that a [scan](Store::scan) listed, or that an operator gives as text.
    ///
    /// ```
    /// use idempotent_runtime::key::RecordKey;
    /// use idempotent_runtime::protocol::{Forgotten, Resolved};
    /// use idempotent_runtime::store::{Filter, State};
    /// use idempotent_runtime::{Abandon, Idempotency, Resolution};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::in_memory()?;
    /// # let pay = idem.operation("payments.create").key(42).abandon(Abandon::Block);
    /// # drop(pay.begin().await?);
    /// # while idem.in_flight() > 0 { tokio::task::yield_now().await }
    /// # while pay.get().await?.is_none_or(|it| it.head.state != State::Abandoned) {
    /// #     tokio::task::yield_now().await
    /// # }
    /// let blocked = Filter::new().blocked();
    /// let page = idem.store().scan(&blocked, None, 100).await?;
    /// let text = page.records[0].key.as_str(); // shown to an operator, who looks at the bank's books
    ///
    /// let record = idem.record(&text.parse::<RecordKey>()?);
    /// assert_eq!(record.operation(), "payments.create");
    /// assert_eq!(record.resolve(Resolution::Succeeded(Some(&"paid"))).await?, Resolved::Done);
    /// assert_eq!(record.get().await?.map(|it| it.head.state), Some(State::Succeeded));
    /// assert_eq!(record.forget(false).await?, Forgotten::Deleted);
    /// # Ok(()) }
    /// ```
    pub fn record(&self, key: &RecordKey) -> RecordHandle<'_> {
        RecordHandle::of_key(self, key.clone())
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.0.config.load_full()
    }

    /// Reads the configuration, without the reference that [`config`](Self::config) takes, which threads count together.
    #[doc(hidden)]
    pub fn read_config<R>(&self, read: impl FnOnce(&Config) -> R) -> R {
        read(&self.0.config.load())
    }

    /// Replaces the configuration. Calls that have begun keep the one they began with.
    ///
    /// `cleanup_interval` is read once, when the instance is built.
    ///
    /// # Errors
    /// A value is out of range; the old configuration stays in force.
    pub fn reconfigure(&self, config: Config) -> Result<(), ConfigError> {
        config.validate()?;
        self.0.config.store(Arc::new(config));
        Ok(())
    }

    /// The number of attempts that run in this process.
    pub fn in_flight(&self) -> usize {
        self.0.keeper.registry().count()
    }

    /// `true` if the instance protects bodies against duplicates; `false` after
    /// [`Builder::disabled`], or if the environment turned it off.
    pub fn is_enabled(&self) -> bool {
        !self.0.is_disabled()
    }

    /// The time on the clock that counts leases, since an arbitrary origin. It never goes back.
    ///
    /// For adapters that measure periods: a test that moves the instance's clock moves them too.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.clock.now().as_nanos())
    }

    /// The store of the instance.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// The contents of the [replay cache](Builder::replay_cache); `None` if the instance has none.
    pub fn replay_cache(&self) -> Option<ReplayCacheUsage> {
        let replays = self.0.replays.as_ref()?;
        let (entries, bytes) = replays.usage();
        Some(ReplayCacheUsage { is_listening: replays.is_listening(), entries, bytes })
    }

    /// Refuses new calls, and waits up to `grace` for attempts and background work to end. An
    /// attempt that has not ended by then holds its key until its lease ends.
    ///
    /// Leases are renewed until the last clone of the instance is dropped; the keeper's thread ends
    /// with it.
    pub async fn shutdown(&self, grace: Duration) -> Drained {
        let engine = &self.0;
        engine.keeper.stop_accepting();
        let end = engine.clock.now().after(grace);
        match race(engine.keeper.drained(), engine.sleep_until(end)).await {
            First::Left(()) => Drained::All,
            First::Right(()) => Drained::Left { attempts: self.in_flight() },
        }
    }

    /// Waits on the clock of this instance, for layers around it. Works on any runtime, including
    /// one without timers.
    #[doc(hidden)]
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.0.sleep_until(self.0.clock.now().after(duration))
    }

    #[cfg(all(test, feature = "testing"))]
    pub(crate) fn from_engine(engine: Arc<Engine>) -> Self {
        Self(engine)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Idempotency").field(&self.0.instance).finish()
    }
}

/// The result of [`Idempotency::shutdown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drained {
    /// Everything ended in time.
    All,
    /// Some attempts or background work did not end in time.
    Left {
        /// The number of attempts that were still running.
        attempts: usize,
    },
}

/// The contents of a [`ReplayCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayCacheUsage {
    /// The store tells of freed records, so that the cache is used. `false` until the first call has started the subscription.
    pub is_listening: bool,
    /// Answers, those included that are too old and not yet removed.
    pub entries: usize,
    /// Bytes of keys and values, with the cache's own cost per answer.
    pub bytes: usize,
}

/// Builds an [`Idempotency`].
#[derive(Debug, Default)]
pub struct Builder {
    store: Option<Arc<dyn Store>>,
    config: Config,
    clock: Clock,
    codecs: Codecs,
    codec_error: Option<crate::codec::CodecError>,
    switch: Switch,
    replay_cache: Option<ReplayCache>,
    #[cfg(feature = "encryption")]
    encryption: Option<crate::codec::Encryption>,
}

impl Builder {
    /// Sets the store. Default: a [`MemoryStore`] on the builder's clock.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets a store that is shared with other code.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the configuration, which applies where a function does not choose for itself.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the clock that counts leases and waits: a [`Clock`], or a
    /// `testing::ManualClock` in tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets the format in which values are written. Default: [`Json`](crate::codec::Json).
    #[must_use]
    pub fn codec(self, codec: impl Codec) -> Self {
        self.with_codecs(|codecs| codecs.writing_with(codec))
    }

    /// Adds a format that can be read, for values written before a change of codec.
    #[must_use]
    pub fn also_reads(self, codec: impl Codec) -> Self {
        self.with_codecs(|codecs| codecs.and_reading(codec))
    }

    /// Encrypts values.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn encryption(mut self, encryption: crate::codec::Encryption) -> Self {
        self.encryption = Some(encryption);
        self
    }

    /// Answers repeat calls from the memory of this process where it can: see [`ReplayCache`], which
    /// says what this weakens.
    ///
    /// A local store needs no cache: there it is ignored.
    #[must_use]
    pub fn replay_cache(mut self, cache: ReplayCache) -> Self {
        self.replay_cache = Some(cache);
        self
    }

    /// Turns idempotency off, for local runs: every body runs, and the store is not asked.
    ///
    /// Each such run is reported as a warning and counted as `unprotected`. Keys are still checked,
    /// so that a call without one fails as it does elsewhere. One-time tokens, effects inside Redis
    /// and the verbs of operators still use the store.
    ///
    /// ```
    /// use idempotent_runtime::{Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let idem = Idempotency::builder().disabled().build()?;
    /// let order = || idem.operation("orders.create").key(42).mode(Mode::Strong);
    /// assert_eq!(order().run(async { Ok::<u8, Error>(1) }).await?, 1);
    /// assert_eq!(order().run(async { Ok::<u8, Error>(2) }).await?, 2);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.switch.disabled = true;
        self
    }

    /// Lets the environment turn idempotency off: `IDEMPOTENT_DISABLED=1`, or `true`, does what
    /// [`disabled`](Builder::disabled) does. It is read when the instance is built.
    ///
    /// Without this call the variable only causes a warning. Production programs should leave the
    /// call out, or guard it with `cfg!(debug_assertions)`.
    ///
    /// ```
    /// # use idempotent_runtime::Idempotency;
    /// let mut builder = Idempotency::builder();
    /// if cfg!(debug_assertions) {
    ///     builder = builder.allow_disable_by_env();
    /// }
    /// assert!(builder.build()?.is_enabled());
    /// # Ok::<(), idempotent_runtime::instance::BuildError>(())
    /// ```
    #[must_use]
    pub fn allow_disable_by_env(mut self) -> Self {
        self.switch.env_allowed = true;
        self
    }

    /// Builds the instance and starts its thread.
    ///
    /// # Errors
    /// The configuration is invalid, two codecs have the same id, [`DISABLED`] counts and is
    /// neither on nor off, the store is not one that a [`ReplayCache`] can be used with, or the thread
    /// cannot be started.
    pub fn build(self) -> Result<Idempotency, BuildError> {
        self.config.validate().map_err(BuildError::new)?;
        if let Some(error) = self.codec_error {
            return Err(BuildError::new(error));
        }
        let variable = std::env::var_os(DISABLED);
        let protection = self.switch.decide(variable.as_deref()).map_err(BuildError::new)?;
        let store = self.store.unwrap_or_else(|| {
            let options = crate::store::MemoryOptions::new().clock(self.clock.clone());
            Arc::new(MemoryStore::with(options))
        });
        let replays = match self.replay_cache {
            Some(cache) => replays(&cache, &*store).map_err(BuildError::new)?,
            None => None,
        };
        let values = Values {
            codecs: self.codecs,
            #[cfg(feature = "encryption")]
            encryption: self.encryption,
        };
        let mut instance =
            Instance::start(store, self.config, self.clock, values).map_err(BuildError::new)?;
        instance.protection = protection;
        instance.replays = replays;
        Ok(Idempotency(Arc::new(Engine::new(instance))))
    }

    fn with_codecs(
        mut self,
        change: impl FnOnce(Codecs) -> Result<Codecs, crate::codec::CodecError>,
    ) -> Self {
        match change(std::mem::take(&mut self.codecs)) {
            Ok(codecs) => self.codecs = codecs,
            Err(error) => self.codec_error = Some(error),
        }
        self
    }
}

/// The cache for a store; `None` if the store needs none.
fn replays(
    cache: &ReplayCache,
    store: &dyn Store,
) -> Result<Option<Replays>, Box<dyn StdError + Send + Sync>> {
    cache.validate()?;
    if store.is_local() {
        return Ok(None);
    }
    if !store.tells_all_freed() {
        let text = "a replay cache needs a store that tells of every record that an operator frees\n\
                    help: `RedisStore::connect` to one server, or to sentinels; or leave out \
                    `replay_cache`";
        return Err(StoreError::new(StoreErrorKind::Misconfigured, text).into());
    }
    Ok(Some(Replays::new(cache)))
}

/// The error of [`Builder::build`].
#[derive(Debug)]
pub struct BuildError(Box<dyn StdError + Send + Sync>);

impl BuildError {
    fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the instance cannot be built: {}", self.0)
    }
}

impl StdError for BuildError {
    /// The cause of the wrapped error, whose own text is part of this one's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
