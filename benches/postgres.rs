//! Cost of the PostgreSQL store and of transactional calls, as a ratio to plain statements of the
//! same run.
//!
//! `cargo bench -p idempotent-sql-tests --bench postgres`. Needs PostgreSQL; the server is started by
//! the benchmark, and waits for the disk. Floor and call alternate in short rounds, so that both see
//! the same machine; a figure is the median over the rounds, with the lowest and the highest behind
//! it. A ratio is that of throughput: 1.00 is as fast as the floor.
//!
//! The floor of a first execution is an `INSERT` and a conditional `UPDATE`, once of the same row in a
//! table like that of the records, and once in a table with the five columns that there must be; that of
//! a replay is a `SELECT` by key; that of a transactional call is `BEGIN`, the `INSERT` of its body and `COMMIT`; that
//! of calls while a million records expire is the same calls while none does.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, Begun, IfGone, StoreExt as _, Updated};
use idempotent_runtime::store::{Claim, Store as _, Token, Value};
use idempotent_runtime::{Abandon, Error, Idempotency, Mode};
use idempotent_sql::{PostgresStore, TransactExt as _};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::postgres::{PostgresServer, installed};
use tokio_postgres::{Client, NoTls, Statement};

const ROUNDS: usize = 9;
const CALLS: u64 = 300;
const CALLERS: u64 = 64;
const CALLS_OF_MANY: u64 = 30;
/// Repeat calls of each key: one takes microseconds.
const REPLAYS: u64 = 10;
const CALLS_BESIDE_EXPIRY: u64 = 150;
const EXPIRED: i64 = 1_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
const BODY: &[u8] = br#"{"id":1,"item":"a lamp of 64 bytes","cents":1299,"currency":"EUR"}"#;

static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct Failed;

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        panic!("{error}")
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        panic!("{error}")
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        panic!("{error}")
    }
}

/// A connection with the statements of the floor.
struct Plain {
    client: Client,
    insert: Statement,
    update: Statement,
    select: Statement,
    insert_whole: Statement,
    update_whole: Statement,
}

impl Plain {
    async fn connect(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let insert = "INSERT INTO plain (key, token, state, expires_at) \
                      VALUES ($1, $2, 'processing', now() + interval '1 hour') \
                      ON CONFLICT DO NOTHING";
        let update = "UPDATE plain SET state = 'succeeded', response = $3 \
                      WHERE key = $1 AND token = $2 AND state = 'processing'";
        let select = "SELECT state, response FROM plain WHERE key = $1";
        let insert_whole = "INSERT INTO whole (key, operation, business_key, state, policy, attempt, \
                            fence, lease_ms, linger_ms, token, expires_at) VALUES ($1, \
                            'orders.create', $2, 'processing', 'retry', 1, 1, 3600000, 3600000, \
                            $3, now() + interval '2 hours') ON CONFLICT DO NOTHING";
        let update_whole = "UPDATE whole SET state = 'succeeded', response = $3, updated_at = now(), \
                            expires_at = now() + interval '1 hour' \
                            WHERE key = $1 AND token = $2 AND state = 'processing'";
        Self {
            insert_whole: client.prepare(insert_whole).await.unwrap(),
            update_whole: client.prepare(update_whole).await.unwrap(),
            insert: client.prepare(insert).await.unwrap(),
            update: client.prepare(update).await.unwrap(),
            select: client.prepare(select).await.unwrap(),
            client,
        }
    }

    async fn execute(&self, id: u64) {
        let (key, token) = (name(id), Token::random().to_bytes());
        let (key, token) = (key.as_bytes(), token.as_slice());
        assert_eq!(self.client.execute(&self.insert, &[&key, &token]).await.unwrap(), 1);
        assert_eq!(self.client.execute(&self.update, &[&key, &token, &BODY]).await.unwrap(), 1);
    }

    /// The same with all columns of a record.
    async fn execute_whole(&self, id: u64) {
        let (key, token, business_key) = (name(id), Token::random().to_bytes(), id.to_string());
        let (key, token) = (key.as_bytes(), token.as_slice());
        let Self { client, insert_whole, update_whole, .. } = self;
        let inserted = client.execute(insert_whole, &[&key, &business_key, &token]).await;
        assert_eq!(inserted.unwrap(), 1);
        let updated = client.execute(update_whole, &[&key, &token, &BODY]).await;
        assert_eq!(updated.unwrap(), 1);
    }

    async fn replay(&self, id: u64) {
        let key = name(id);
        let row = self.client.query_one(&self.select, &[&key.as_bytes()]).await.unwrap();
        assert_eq!(row.get::<_, &[u8]>(1), BODY);
    }
}

fn name(id: u64) -> String {
    format!("idempotent:|orders.create|{id}")
}

async fn begin(store: &PostgresStore, id: u64) -> Begun {
    let claim = Claim::Lease { lease: HOUR, linger: HOUR, abandon: Abandon::Retry };
    let request = BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim };
    store.begin(&RecordKey::from(&*name(id)), &request).await.unwrap()
}

async fn execute(store: &PostgresStore, id: u64) {
    let Begun::Fresh(attempt) = begin(store, id).await else { panic!("{id} is new") };
    let value = Some(Value::from(BODY));
    let key = RecordKey::from(&*name(id));
    let ended = store.complete(&key, &attempt, value, HOUR, IfGone::Rewrite).await;
    assert_eq!(ended.unwrap(), Updated::Done);
}

async fn replay(store: &PostgresStore, id: u64) {
    assert!(matches!(begin(store, id).await, Begun::Succeeded { .. }));
}

async fn business(pool: &PgPool, id: u64) {
    let mut tx = pool.begin().await.unwrap();
    let insert = "INSERT INTO orders (id, item) VALUES ($1, 'lamp')";
    sqlx::query(insert).bind(id.cast_signed()).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
}

async fn transacted(idem: &Idempotency, pool: &PgPool, id: u64) {
    let order = idem.operation("orders.create").key(id).mode(Mode::Strong).expire(HOUR);
    let created: Result<u64, Failed> = order
        .transact(pool, async |mut tx| {
            let insert = "INSERT INTO orders (id, item) VALUES ($1, 'lamp')";
            sqlx::query(insert).bind(id.cast_signed()).execute(&mut *tx).await?;
            Ok(id)
        })
        .await;
    created.unwrap();
}

async fn beside(idem: &Idempotency, pool: &PgPool, id: u64) {
    let order = idem.operation("orders.beside").key(id).mode(Mode::Strong).expire(HOUR);
    let created: Result<u64, Error> = order
        .run(async {
            business(pool, id).await;
            Ok(id)
        })
        .await;
    created.unwrap();
}

async fn business_on_client(client: &mut Client, insert: &Statement, id: u64) {
    let tx = client.transaction().await.unwrap();
    tx.execute(insert, &[&id.cast_signed()]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn transacted_on_store(idem: &Idempotency, store: &PostgresStore, id: u64) {
    let order = idem.operation("orders.create").key(id).mode(Mode::Strong).expire(HOUR);
    let created: Result<u64, Failed> = order
        .transact(store, async |tx| {
            let insert = "INSERT INTO orders (id, item) VALUES ($1, 'lamp')";
            tx.execute(insert, &[&id.cast_signed()]).await?;
            Ok(id)
        })
        .await;
    created.unwrap();
}

/// Runs `call` for so many ids from `first` on, in so many tasks, and says how long it took.
async fn crowd<F>(callers: u64, calls: u64, first: u64, call: impl Fn(u64, u64) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let ids = first + caller * calls..first + (caller + 1) * calls;
            let calls: Vec<F> = ids.map(|id| call(caller, id)).collect();
            tokio::spawn(async move {
                for call in calls {
                    call.await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    started.elapsed()
}

fn ids(callers: u64, calls: u64) -> u64 {
    NEXT.fetch_add(callers * calls, Relaxed)
}

struct Figures {
    name: &'static str,
    calls: u64,
    pairs: Vec<(Duration, Duration)>,
}

impl Figures {
    fn new(name: &'static str, calls: u64) -> Self {
        Self { name, calls, pairs: Vec::new() }
    }

    fn report(mut self) {
        let ratio = |(floor, call): &(Duration, Duration)| floor.as_secs_f64() / call.as_secs_f64();
        self.pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let (floor, call) = self.pairs[self.pairs.len() / 2];
        let rate = |time: Duration| self.calls as f64 / time.as_secs_f64();
        println!(
            "  {:<44} floor {:>7.0}/s   call {:>7.0}/s   ratio {:.2} ({:.2} to {:.2})",
            self.name,
            rate(floor),
            rate(call),
            ratio(&(floor, call)),
            ratio(&self.pairs[0]),
            ratio(&self.pairs[self.pairs.len() - 1]),
        );
    }
}

async fn measure() {
    let server = PostgresServer::start_with(&installed(), &["max_connections=500"]);
    let url = server.url("postgres");
    let builder = || PostgresStore::builder(&url).max_connections(CALLERS as usize);
    let store = builder().connect().await.unwrap();
    store.migrate().await.unwrap();
    // As another process has it.
    let other = builder().connect().await.unwrap();
    println!("PostgreSQL {}", store.server_version());
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    let pool = PgPoolOptions::new().max_connections(CALLERS as u32).min_connections(CALLERS as u32);
    let pool = pool.connect(&url).await.unwrap();
    let tables = "CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL);
                  CREATE TABLE plain (key bytea PRIMARY KEY, token bytea NOT NULL,
                  state text NOT NULL, response bytea, expires_at timestamptz NOT NULL);
                  CREATE INDEX ON plain (expires_at);
                  CREATE TABLE whole (LIKE idempotent_records INCLUDING ALL)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    let mut plain = Vec::new();
    for _ in 0..CALLERS {
        plain.push(Arc::new(Plain::connect(&url).await));
    }

    for (callers, calls) in [(1, CALLS), (CALLERS, CALLS_OF_MANY)] {
        let of = |one, many| if callers == 1 { one } else { many };
        let n = callers * calls;
        let mut first = Figures::new(of("begin and complete, 1", "begin and complete, 64"), n);
        let mut small =
            Figures::new(of("begin and complete, floor: five columns, 1", "the same, 64"), n);
        let mut again = Figures::new(of("replay, 1", "replay, 64"), REPLAYS * n);
        let mut elsewhere = Figures::new(
            of("replay of another process's key, 1", "replay of another process's key, 64"),
            n,
        );
        let mut own_better =
            Figures::new(of("on tokio-postgres, floor: the store beside it, 1", "the same, 64"), n);
        let mut inside = Figures::new(of("transact on sqlx, 1", "transact on sqlx, 64"), n);
        let mut better = Figures::new(
            of(
                "transact, floor: the store beside it, 1",
                "transact, floor: the store beside it, 64",
            ),
            n,
        );
        let mut own =
            Figures::new(of("transact on tokio-postgres, 1", "transact on tokio-postgres, 64"), n);
        for round in 0..=ROUNDS {
            let range = ids(callers, calls);
            let floor_of = |caller: u64, id: u64| {
                let plain = Arc::clone(&plain[caller as usize]);
                async move { plain.execute(id).await }
            };
            let whole_of = |caller: u64, id: u64| {
                let plain = Arc::clone(&plain[caller as usize]);
                async move { plain.execute_whole(id).await }
            };
            let select_of = |caller: u64, id: u64| {
                let plain = Arc::clone(&plain[caller as usize]);
                async move { plain.replay(id).await }
            };
            let store_of = |_: u64, id: u64| {
                let store = store.clone();
                async move { execute(&store, id).await }
            };
            let replay_on = |store: &PostgresStore| {
                let store = store.clone();
                move |_: u64, id: u64| {
                    let store = store.clone();
                    async move { replay(&store, id).await }
                }
            };
            let five_columns = crowd(callers, calls, range, floor_of).await;
            let whole = crowd(callers, calls, range, whole_of).await;
            let executed = crowd(callers, calls, range, store_of).await;
            // Each key of the range again and again.
            let again_of = |call: u64| range + call % n;
            let select_again = |caller, call| select_of(caller, again_of(call));
            let replay_again = |caller, call| replay_on(&store)(caller, again_of(call));
            let repeats = (
                crowd(callers, REPLAYS * calls, 0, select_again).await,
                crowd(callers, REPLAYS * calls, 0, replay_again).await,
            );
            let of_others = (
                crowd(callers, calls, range, select_of).await,
                crowd(callers, calls, range, replay_on(&other)).await,
            );
            let business_of = |_: u64, id: u64| {
                let pool = pool.clone();
                async move { business(&pool, id).await }
            };
            let transact_of = |_: u64, id: u64| {
                let (idem, pool) = (idem.clone(), pool.clone());
                async move { transacted(&idem, &pool, id).await }
            };
            let beside_of = |_: u64, id: u64| {
                let (idem, pool) = (idem.clone(), pool.clone());
                async move { beside(&idem, &pool, id).await }
            };
            let bare = crowd(callers, calls, ids(callers, calls), business_of).await;
            let call = crowd(callers, calls, ids(callers, calls), transact_of).await;
            let separate = crowd(callers, calls, ids(callers, calls), beside_of).await;
            let on_client = on_clients(&url, callers, calls).await;
            let on_store = |_: u64, id: u64| {
                let (idem, store) = (idem.clone(), store.clone());
                async move { transacted_on_store(&idem, &store, id).await }
            };
            let on_store = crowd(callers, calls, ids(callers, calls), on_store).await;
            // The first round opens connections and prepares statements.
            if round > 0 {
                first.pairs.push((whole, executed));
                small.pairs.push((five_columns, executed));
                again.pairs.push(repeats);
                elsewhere.pairs.push(of_others);
                inside.pairs.push((bare, call));
                better.pairs.push((separate, call));
                own.pairs.push((on_client, on_store));
                own_better.pairs.push((separate, on_store));
            }
        }
        for figures in [first, small, again, elsewhere, inside, better, own, own_better] {
            figures.report();
        }
    }
    expiry(&store, &pool).await;
}

/// Calls beside the removal of a million records that have expired. Their floor is the same calls
/// while nothing is removed.
async fn expiry(store: &PostgresStore, pool: &PgPool) {
    let fill = format!(
        "INSERT INTO idempotent_records SELECT ('expired ' || n)::bytea, NULL, 'orders.create', \
         n::text, 'succeeded', 'retry', 1, 1, 60000, 60000, decode('{}', 'hex'), NULL, \
         decode('{}', 'hex'), false, now(), now(), now() - interval '1 second' \
         FROM generate_series(1, {EXPIRED}) AS n; ANALYZE idempotent_records; CHECKPOINT",
        "00".repeat(16),
        "7b".repeat(64),
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(pool).await.unwrap();
    let left = "SELECT count(*) FROM idempotent_records WHERE expires_at < now()";
    let n = CALLERS * CALLS_BESIDE_EXPIRY;
    let mut figures = Figures::new("beside expiry, floor: without, 64", n);
    let mut removing = Duration::ZERO;
    for _ in 0..ROUNDS {
        let call_of = |_: u64, id: u64| {
            let store = store.clone();
            async move { execute(&store, id).await }
        };
        let calls = async || {
            let first = ids(CALLERS, CALLS_BESIDE_EXPIRY);
            crowd(CALLERS, CALLS_BESIDE_EXPIRY, first, call_of).await
        };
        let without = calls().await;
        let removes = tokio::spawn({
            let store = store.clone();
            async move {
                loop {
                    store.maintain().await;
                }
            }
        });
        let beside = calls().await;
        removes.abort();
        let _ = removes.await;
        removing += beside;
        figures.pairs.push((without, beside));
    }
    figures.report();
    let left: i64 = sqlx::query_scalar(left).fetch_one(pool).await.unwrap();
    let removed = EXPIRED - left;
    let rate = removed as f64 / removing.as_secs_f64();
    println!("  removed {removed} of {EXPIRED} meanwhile, {rate:.0} a second");
}

/// The business transaction on clients of tokio-postgres, which are connected before it counts.
async fn on_clients(url: &str, callers: u64, calls: u64) -> Duration {
    let mut clients = Vec::new();
    for _ in 0..callers {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let insert = "INSERT INTO orders (id, item) VALUES ($1, 'lamp')";
        let insert = client.prepare(insert).await.unwrap();
        clients.push((client, insert));
    }
    let started = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|(mut client, insert)| {
            let first = ids(1, calls);
            tokio::spawn(async move {
                for id in first..first + calls {
                    business_on_client(&mut client, &insert, id).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    started.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}
