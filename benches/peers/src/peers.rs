//! Other crates, each called as its documentation shows, on the connection that it makes itself.

use crate::servers::Server;
use crate::subject::Subject;
use crate::workload::{Body, EXPIRE, Order, check, from_json, json};
use cached::{AsyncRedisCache, ConcurrentCachedAsync as _, SerializeCachedAsync as _};
use idempotency_kit::{IdempotencyExecutor, IdempotencyKey, RedisStore};
use idempotent::valkey::ValkeyStore;
use idempotent::{ExecutionOutcome, IdempotencyStore as _};
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

/// A lease as long as the product's default.
const LEASE: Duration = Duration::from_secs(30);

/// `cached`: looks up, runs the body, stores. The steps are those of an expansion of `#[concurrent_cached]`, whose cache
/// is a `static` and could not move to the next server.
#[derive(Clone)]
pub struct Cached {
    cache: AsyncRedisCache<u64, Order>,
    body: Body,
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").finish_non_exhaustive()
    }
}

impl Cached {
    /// A cache on a server.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn connect(server: &Server, body: &Body) -> Self {
        let builder = AsyncRedisCache::builder("orders.create");
        let builder = builder.ttl(EXPIRE).connection_string(&server.url());
        let cache = builder.build().await.expect("the server is up");
        Self { cache, body: body.clone() }
    }
}

impl Subject for Cached {
    async fn first(&self, id: u64) {
        if let Some(order) = self.cache.async_cache_get(&id).await.expect("a lookup") {
            return check(&order, id);
        }
        let order = self.body.run(id);
        self.cache.async_cache_set_ref(&id, &order).await.expect("an insert");
        check(&order, id);
    }
}

/// `idempotency-kit`: claims, runs the body, stores what it returned.
#[derive(Clone)]
pub struct Kit {
    store: RedisStore,
    body: Body,
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").finish_non_exhaustive()
    }
}

impl Kit {
    /// A store on a server.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn connect(server: &Server, body: &Body) -> Self {
        let client = redis_0_27::Client::open(server.url()).expect("a URL of our own");
        let manager = client.get_connection_manager().await.expect("the server is up");
        Self { store: RedisStore::new(manager), body: body.clone() }
    }
}

impl Subject for Kit {
    async fn first(&self, id: u64) {
        let key = IdempotencyKey::derive("orders.create", id.to_string().as_bytes());
        let body = || async { Ok::<_, Infallible>(json(&self.body.run(id))) };
        let key = key.expect("a valid scope");
        let answer = IdempotencyExecutor::execute(&self.store, &key, EXPIRE, body).await;
        check(&from_json(&answer.expect("the call is answered")), id);
    }
}

/// `idempotent`: claims with a fencing token, runs the body, stores what it returned if the claim is still held.
#[derive(Clone, Debug)]
pub struct Fenced {
    store: ValkeyStore,
    body: Body,
}

impl Fenced {
    /// A store on a server.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn connect(server: &Server, body: &Body) -> Self {
        let store = ValkeyStore::with_url(server.url()).prefix("orders").try_build().await;
        Self { store: store.expect("the server is up"), body: body.clone() }
    }
}

impl Subject for Fenced {
    async fn first(&self, id: u64) {
        let key = idempotent::IdempotencyKey::new(id.to_string()).expect("a valid key");
        let claim = self.store.claim(&key, LEASE).fingerprint("orders.create", b"").json();
        let outcome = claim.execute_or_replay(EXPIRE, |_| async { Ok(self.body.run(id)) }).await;
        match outcome.expect("the call is answered") {
            ExecutionOutcome::Executed(order) | ExecutionOutcome::Replayed(order) => {
                check(&order, id)
            }
            outcome => panic!("a call alone is answered with {outcome:?}"),
        }
    }
}
