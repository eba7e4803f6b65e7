//! Records in Redis or Valkey: one key a record, one round trip a swap where the server allows it.
//!
//! The files, in the order in which a swap goes through them: [`swaps`] turns it into a command, or
//! many into one pipeline, [`server`] adds the wait for replicas, [`links`] sends it, [`packed`]
//! together with others, [`target`] connects. [`scan`] lists records. [`mark`] is the one byte of a
//! record that is this store's own; [`moved`] keeps large records out of scripts. [`refusals`] is the
//! table of errors that servers answer with.
//! Behind sentinels, [`sentinel`] asks for the master, [`master`] judges the answers, and [`follow`]
//! ends connections to a master that was replaced.

mod answers;
mod builder;
mod effect;
mod error;
mod eviction;
mod features;
mod follow;
mod hearing;
mod links;
mod mark;
mod master;
mod moved;
mod name;
mod packed;
mod paused;
mod refusals;
mod replication;
mod scan;
mod script;
mod sentinel;
mod server;
mod swaps;
mod target;
mod turned_away;
mod wakes;

pub use builder::RedisBuilder;
pub use effect::Effect;
pub(crate) use effect::{EffectRecords, Ran};

use self::error::after_an_effect;
use self::name::Name;
use self::server::Server;
use self::wakes::Wakes;
use crate::key::RecordKey;
use crate::store::{
    Answer, Cursor, Filter, FreedListener, Page, Record, Store, StoreError, StoreFuture, Swap,
    Swapped, Watch,
};
use ::redis::aio::ConnectionLike;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keeps records in Redis 6.2 or later, or in Valkey: alone, behind sentinels, or in a cluster.
///
/// ```no_run
/// use idempotent_runtime::Idempotency;
/// use idempotent_runtime::store::RedisStore;
///
/// # async fn install() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// Idempotency::builder().store(store).build()?.install()?;
/// # Ok(()) }
/// ```
///
/// Each tokio runtime that uses the store has a connection of its own. A clone is another handle to
/// the same store. Time is the server's: clocks of callers decide nothing.
///
/// A [scan](Store::scan) is one `SCAN` a page, never `KEYS`, and reads heads without their values; in
/// a cluster it goes from master to master. As `SCAN` does, it may list a record more than once while
/// records are written. It misses none that is there throughout, unless its slot is moved to another
/// master or a server is replaced meanwhile. In a cluster a scan ends with an error when its master
/// is replaced; behind sentinels that is not noticed, so start it again after a failover.
#[derive(Clone)]
pub struct RedisStore(Arc<Shared>);

struct Shared {
    server: Server,
    wakes: Arc<Wakes>,
    version: String,
}

impl RedisStore {
    /// Connects to one server: `redis://user:password@host:6379/0`, `rediss://` for TLS (feature
    /// `redis-tls`), `unix:///path?db=0`.
    ///
    /// # Errors
    /// See [`RedisBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// A store on one server, with more settings.
    pub fn builder(url: &str) -> RedisBuilder {
        RedisBuilder::single(url)
    }

    /// A store on a cluster, of which some nodes are named.
    ///
    /// ```no_run
    /// # async fn connect() -> Result<(), idempotent_runtime::store::StoreError> {
    /// use idempotent_runtime::store::RedisStore;
    ///
    /// let nodes = ["redis://10.0.0.1:7000", "redis://10.0.0.2:7000"];
    /// let store = RedisStore::cluster(nodes).connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn cluster<U: AsRef<str>>(nodes: impl IntoIterator<Item = U>) -> RedisBuilder {
        RedisBuilder::cluster(nodes)
    }

    /// A store on the master that sentinels know by this name. Addresses are those of sentinels;
    /// who logs in to the master is said with [`RedisBuilder::login`].
    ///
    /// ```no_run
    /// # async fn connect() -> Result<(), idempotent_runtime::store::StoreError> {
    /// use idempotent_runtime::store::RedisStore;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let store = RedisStore::sentinel("mymaster", sentinels).connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn sentinel<U: AsRef<str>>(
        master: &str,
        sentinels: impl IntoIterator<Item = U>,
    ) -> RedisBuilder {
        RedisBuilder::sentinel(master, sentinels)
    }

    /// A store on a connection of the caller's own.
    ///
    /// The connection, its timeouts and its way of reconnecting stay the caller's. It lives on the
    /// runtime it was made on, and all callers share it; if that runtime is blocked or ends, so is
    /// the store. Nothing can be heard through it, so callers that wait for another process poll.
    pub fn with_connection(
        connection: impl ConnectionLike + Clone + Send + Sync + 'static,
    ) -> RedisBuilder {
        RedisBuilder::given(connection)
    }

    fn new(server: Server, wakes: Arc<Wakes>, version: String) -> Self {
        Self(Arc::new(Shared { server, wakes, version }))
    }

    /// The server that was found at connect, such as `redis 8.6.3`.
    pub fn server_version(&self) -> &str {
        &self.0.version
    }

    /// Pings the server, and returns how long that took.
    ///
    /// # Errors
    /// It did not answer in time.
    pub async fn health(&self) -> Result<Duration, StoreError> {
        let asked = Instant::now();
        self.0.server.links.command(::redis::cmd("PING")).await?;
        Ok(asked.elapsed())
    }

    fn server(&self) -> &Server {
        &self.0.server
    }
}

#[diagnostic::do_not_recommend]
impl Store for RedisStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        StoreFuture::new(async move { Ok(self.server().load(&Name::of(key)).await?) })
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        StoreFuture::new(async move { Ok(self.server().swap(&Name::of(key), &swap).await?) })
    }

    fn confirm<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, ()> {
        let server = self.server();
        if server.replication.is_none() {
            return StoreFuture::ready(Ok(()));
        }
        StoreFuture::new(async move {
            let confirmed = server.confirm(&Name::of(key)).await;
            confirmed.map_err(|failed| after_an_effect(failed.into()))
        })
    }

    fn swap_many<'a>(
        &'a self,
        swaps: &'a [(RecordKey, Swap)],
    ) -> StoreFuture<'a, Vec<Result<Swapped, StoreError>>> {
        StoreFuture::new(async move {
            let swapped = self.server().swap_many(swaps).await.into_iter();
            swapped.map(|swapped| swapped.map_err(StoreError::from)).collect()
        })
    }

    fn timeout(&self) -> Option<Duration> {
        let links = &self.server().links;
        // That of a connection of the caller's own is not known.
        links.target().can_be_heard().then(|| links.timeouts().response)
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        StoreFuture::new(async move {
            let name = Name::of(key);
            if !self.server().links.target().can_be_heard() {
                return Ok(Watch::never());
            }
            let watch = self.0.wakes.watch(&name).await;
            // Listen, then mark, then look: what ends after the mark is published.
            self.server().mark(&name).await?;
            Ok(watch)
        })
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::new(async move { Ok(self.server().scan(filter, after, limit).await?) })
    }

    fn on_freed(&self, listener: FreedListener) {
        self.0.wakes.on_freed(listener);
    }

    fn tells_all_freed(&self) -> bool {
        self.server().links.target().tells_all_freed()
    }

    fn announce_freed<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, ()> {
        StoreFuture::new(self.server().publish_freed(key.as_str()))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RedisStore")
            .field("target", &self.0.server.links)
            .field("server", &self.0.version)
            .field("runtimes", &self.0.server.links.runtimes())
            .finish()
    }
}

/// All of them at once; the answers come in their order.
async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T> + Send>) -> Vec<T>
where
    T: Send + Unpin,
{
    super::future::all(futures.map(StoreFuture::new)).await
}
