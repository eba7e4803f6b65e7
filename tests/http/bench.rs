//! The two stores that every behaviour is tested on, and a ledger outside of them.

use idempotent_http::IdempotencyLayer;
use idempotent_runtime::key::Encoded;
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Record, RedisStore, Store};
use idempotent_runtime::testing::{FaultStore, Ledger, ManualClock};
use idempotent_runtime::{Config, Idempotency, Operation};
use redis::aio::MultiplexedConnection;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use support::redis::{RedisServer, age};

/// An instance, what its store can be made to do, and how often handlers ran.
pub(crate) struct Bench {
    pub(crate) idem: Idempotency,
    pub(crate) ledger: Ledger,
    pub(crate) place: Place,
    config: Config,
}

/// The store of the records.
pub(crate) enum Place {
    Memory { clock: ManualClock, store: Arc<MemoryStore> },
    Redis { server: Arc<RedisServer>, connection: MultiplexedConnection },
}

/// One bench on each store; without the tests on servers, on the memory store alone.
pub(crate) async fn both() -> Vec<Bench> {
    both_with(Config::new()).await
}

/// As [`both`], with a configuration.
pub(crate) async fn both_with(config: Config) -> Vec<Bench> {
    let mut benches = vec![Bench::memory(config.clone())];
    if cfg!(feature = "redis-server-tests") {
        benches.push(Bench::redis(shared_server(), config).await);
    }
    benches
}

/// One server for all tests that run at the same time; it ends with the last of them.
fn shared_server() -> Arc<RedisServer> {
    static SERVER: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
    let mut shared = SERVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(RedisServer::start());
        *shared = Arc::downgrade(&server);
        server
    })
}

impl Bench {
    pub(crate) fn memory(config: Config) -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::with(MemoryOptions::new().clock(clock.clock())));
        let shared: Arc<dyn Store> = Arc::clone(&store) as _;
        let idem = instance(&config, Some(&clock), shared);
        Self { idem, ledger: Ledger::new(), place: Place::Memory { clock, store }, config }
    }

    /// Records have a prefix of their own: other tests use the server as well.
    pub(crate) async fn redis(server: Arc<RedisServer>, config: Config) -> Self {
        let prefix = format!("test-{:016x}:", rand::random::<u64>());
        let config = config.with_key_prefix(prefix);
        let store = RedisStore::connect(&server.url()).await.unwrap();
        let connection = server.connection().await;
        let idem = instance(&config, None, Arc::new(store));
        Self { idem, ledger: Ledger::new(), place: Place::Redis { server, connection }, config }
    }

    /// Another process on the same records. Its store fails as it is told.
    pub(crate) async fn neighbour(&self) -> (Idempotency, FaultStore) {
        let (clock, store): (_, Arc<dyn Store>) = match &self.place {
            Place::Memory { clock, store } => (Some(clock), Arc::clone(store) as _),
            Place::Redis { server, .. } => {
                (None, Arc::new(RedisStore::connect(&server.url()).await.unwrap()))
            }
        };
        let store = FaultStore::around(store);
        (instance(&self.config, clock, Arc::new(store.clone())), store)
    }

    pub(crate) fn layer(&self) -> IdempotencyLayer {
        IdempotencyLayer::new(&self.idem, "shop")
    }

    /// Number of handler runs.
    pub(crate) fn runs(&self) -> usize {
        self.ledger.total()
    }

    /// Lets time pass for every record. What counts on the caller's clock moves on the memory store
    /// only; on Redis that is real time.
    pub(crate) async fn pass(&self, by: Duration) {
        match &self.place {
            Place::Memory { clock, .. } => clock.advance(by),
            Place::Redis { connection, .. } => {
                let mut connection = connection.clone();
                for name in self.names().await {
                    age(&mut connection, &name, by).await;
                }
            }
        }
    }

    /// Moves the clock of callers on the memory store. Those on Redis have real time.
    pub(crate) fn tick(&self, by: Duration) {
        if let Place::Memory { clock, .. } = &self.place {
            clock.advance(by);
        }
    }

    /// Number of records.
    pub(crate) async fn records(&self) -> usize {
        match &self.place {
            Place::Memory { store, .. } => store.usage().unwrap().entries as usize,
            Place::Redis { .. } => self.names().await.len(),
        }
    }

    /// The names of this bench's records in Redis.
    async fn names(&self) -> Vec<String> {
        let Place::Redis { connection, .. } = &self.place else { return Vec::new() };
        let pattern = format!("*{}*", self.config.key_prefix);
        let mut connection = connection.clone();
        redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await.unwrap()
    }

    /// The record of a key that was sent to a path.
    pub(crate) async fn record(&self, path: &str, key: &str) -> Option<Record> {
        self.operation(path, key).get().await.unwrap()
    }

    /// What the layer does under a key that is posted to a path.
    pub(crate) fn operation(&self, path: &str, key: &str) -> Operation<'_> {
        self.idem.operation("shop").encoded_key(Encoded::of(&("POST", path, key)))
    }
}

fn instance(config: &Config, clock: Option<&ManualClock>, store: Arc<dyn Store>) -> Idempotency {
    let builder = Idempotency::builder().shared_store(store).config(config.clone());
    let builder = match clock {
        Some(clock) => builder.clock(clock.clock()),
        None => builder,
    };
    builder.build().unwrap()
}
