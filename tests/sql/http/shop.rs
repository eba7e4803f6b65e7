//! A shop whose handlers write into PostgreSQL, on a real socket.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use idempotent_http::{IdempotencyLayer, LostRace, NoStore, Streaming};
use idempotent_runtime::Idempotency;
use idempotent_sql::{Isolation, Lent, PostgresStore, Transactions};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use support::database::Database;
use support::http::{Connection, Reply};
use support::postgres::{psql, shared_postgres};
use tokio::sync::{Barrier, Notify};
use tower_layer::{Stack, layer_fn};
use tower_service::Service;

/// `commits` waits at its COMMIT for a lock, so that tests choose when it ends.
const TABLES: &str = "
    CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL);
    CREATE TABLE unique_orders (item text PRIMARY KEY);
    CREATE TABLE lines (order_id bigint REFERENCES orders DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE slow_orders (item text);
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON slow_orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION wait();
";

pub(crate) type Tx = Lent<PgPool>;

pub(crate) struct Shop {
    pub(crate) layer: IdempotencyLayer,
    pub(crate) idem: Idempotency,
    pub(crate) pool: PgPool,
    pub(crate) handlers: Arc<Handlers>,
    address: SocketAddr,
    // Dropped last: the others are connected to it.
    database: Option<Database>,
}

/// The state of the handlers.
pub(crate) struct Handlers {
    /// Calls of any handler.
    pub(crate) calls: AtomicU32,
    /// Lets go of what handlers have kept.
    pub(crate) end: Notify,
    pub(crate) both: Barrier,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(|layer| layer, Isolation::Default).await
    }

    pub(crate) async fn with(
        settings: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer,
        isolation: Isolation,
    ) -> Self {
        let database = shared_postgres().database();
        let url = database.url();
        Self::on(&url, Some(database), settings, isolation).await
    }

    /// On a database of a server of the test's own, or on one that lives as long as the shop.
    pub(crate) async fn on(
        url: &str,
        database: Option<Database>,
        settings: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer,
        isolation: Isolation,
    ) -> Self {
        psql(url, TABLES);
        let store = PostgresStore::connect(url).await.unwrap();
        store.migrate().await.unwrap();
        let idem = Idempotency::builder().store(store).build().unwrap();
        let pool = PgPoolOptions::new().max_connections(5).connect(url).await.unwrap();
        let layer = settings(IdempotencyLayer::new(&idem, "shop"));
        let handlers = Arc::new(Handlers {
            calls: AtomicU32::new(0),
            end: Notify::new(),
            both: Barrier::new(2),
        });
        let transactions = Transactions::of(&pool).isolation(isolation);
        let transactional = layer.clone().transactional(transactions);
        // Side by side: a router between them would wait until its services are ready.
        let layers = Stack::new(layer_fn(NeedsReady::new), transactional);
        let app = routes(layer.clone()).layer(layers);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.with_state(Arc::clone(&handlers));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { layer, idem, pool, handlers, address, database }
    }

    /// The database, which is on the shared server.
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().expect("the shop is not on a server of its own")
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        self.connect().await.exchange(&request(path, Some(key), body)).await.unwrap()
    }

    pub(crate) async fn post_without_key(&self, path: &str, body: &str) -> Reply {
        self.connect().await.exchange(&request(path, None, body)).await.unwrap()
    }

    pub(crate) async fn rows(&self, table: &str) -> i64 {
        sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) fn calls(&self) -> u32 {
        self.handlers.calls.load(SeqCst)
    }
}

pub(crate) fn request(path: &str, key: Option<&str>, body: &str) -> Vec<u8> {
    let key = key.map(|key| format!("Idempotency-Key: \"{key}\"\r\n")).unwrap_or_default();
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: x\r\n{key}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub(crate) trait Expect {
    fn problem(&self) -> Option<&str>;
    fn is_replay(&self) -> bool;
    fn text(&self) -> &str;
}

impl Expect for Reply {
    fn problem(&self) -> Option<&str> {
        self.header("idempotency-problem")
    }

    fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn routes(layer: IdempotencyLayer) -> Router<Arc<Handlers>> {
    Router::new()
        .route("/orders", post(order).get(get))
        .route("/refused", post(refused))
        .route("/taken", post(taken))
        .route("/redirected", post(redirected))
        .route("/first-fails", post(first_fails))
        .route("/not-stored", post(not_stored))
        .route("/untouched", post(untouched))
        .route("/copied", post(untouched).layer(from_fn(copies)))
        .route("/large", post(large))
        .route("/streamed", post(streamed))
        .route("/streams-from-it", post(streams_from_it))
        .route("/kept", post(kept))
        .route("/panics", post(panics))
        .route("/broken", post(broken))
        .route("/swallowed", post(swallowed))
        .route("/first-hangs", post(first_hangs))
        .route("/commits-slowly", post(commits_slowly))
        .route("/first-loses", post(first_loses))
        .route("/skewed", post(skewed))
        .route("/twice", post(twice))
        .route("/guarded-twice", post(order).layer(layer))
}

/// A service that is called only when it is ready, as those with limits must be.
#[derive(Debug)]
struct NeedsReady<S> {
    inner: S,
    is_ready: bool,
}

impl<S> NeedsReady<S> {
    fn new(inner: S) -> Self {
        Self { inner, is_ready: false }
    }
}

impl<S: Clone> Clone for NeedsReady<S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S: Service<R>, R> Service<R> for NeedsReady<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.is_ready = true;
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        assert!(std::mem::take(&mut self.is_ready), "called before it was ready");
        self.inner.call(request)
    }
}

/// A middleware that keeps what a request carried for as long as its response.
async fn copies(request: Request, next: Next) -> Response {
    let copied = request.extensions().clone();
    let mut response = next.run(request).await;
    response.extensions_mut().insert(Arc::new(copied));
    response
}

type Calls = State<Arc<Handlers>>;

fn called(State(handlers): &Calls) -> u32 {
    handlers.calls.fetch_add(1, SeqCst)
}

async fn insert(tx: &mut Tx, item: &str) -> i64 {
    sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id")
        .bind(item)
        .fetch_one(&mut **tx)
        .await
        .unwrap()
}

async fn order(calls: Calls, mut tx: Tx, item: String) -> (StatusCode, String) {
    called(&calls);
    (StatusCode::CREATED, insert(&mut tx, &item).await.to_string())
}

async fn get(_: Tx) {}

async fn refused(calls: Calls, mut tx: Tx, item: String) -> (StatusCode, String) {
    called(&calls);
    let id = insert(&mut tx, &item).await;
    (StatusCode::UNPROCESSABLE_ENTITY, format!("not {id}"))
}

/// The second statement fails, and with it the transaction: 409, as the handler answers.
async fn taken(calls: Calls, mut tx: Tx, item: String) -> StatusCode {
    called(&calls);
    insert(&mut tx, &item).await;
    let add = sqlx::query("INSERT INTO unique_orders VALUES ($1)").bind(item);
    match add.execute(&mut *tx).await {
        Ok(_) => StatusCode::CREATED,
        Err(_) => StatusCode::CONFLICT,
    }
}

async fn redirected(calls: Calls, mut tx: Tx, item: String) -> Response {
    called(&calls);
    let id = insert(&mut tx, &item).await;
    axum::response::Redirect::to(&format!("/orders/{id}")).into_response()
}

async fn first_fails(calls: Calls, mut tx: Tx, item: String) -> (StatusCode, String) {
    let is_first = called(&calls) == 0;
    let id = insert(&mut tx, &item).await.to_string();
    (if is_first { StatusCode::BAD_GATEWAY } else { StatusCode::CREATED }, id)
}

async fn not_stored(calls: Calls, mut tx: Tx, item: String) -> Response {
    called(&calls);
    insert(&mut tx, &item).await;
    (axum::Extension(NoStore), "not stored").into_response()
}

async fn untouched(calls: Calls) -> &'static str {
    called(&calls);
    "untouched"
}

async fn large(calls: Calls, mut tx: Tx, item: String) -> String {
    called(&calls);
    insert(&mut tx, &item).await;
    "x".repeat(2_000)
}

async fn streamed(calls: Calls, mut tx: Tx, item: String) -> Response {
    called(&calls);
    insert(&mut tx, &item).await;
    (axum::Extension(Streaming), "streamed").into_response()
}

/// A body that keeps the transaction for as long as it flows.
struct FromTransaction(Tx);

impl http_body::Body for FromTransaction {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let _ = &self.0;
        Poll::Pending
    }
}

async fn streams_from_it(calls: Calls, mut tx: Tx, item: String) -> Response {
    called(&calls);
    insert(&mut tx, &item).await;
    Response::new(Body::new(FromTransaction(tx)))
}

async fn kept(calls: Calls, mut tx: Tx, item: String) -> &'static str {
    called(&calls);
    insert(&mut tx, &item).await;
    tokio::spawn(async move {
        calls.end.notified().await;
        drop(tx);
    });
    "kept"
}

async fn panics(calls: Calls, mut tx: Tx, item: String) -> String {
    let is_first = called(&calls) == 0;
    let id = insert(&mut tx, &item).await.to_string();
    assert!(!is_first, "the first one panics");
    id
}

/// A row that the database refuses when it is committed.
async fn broken(calls: Calls, mut tx: Tx, item: String) -> StatusCode {
    called(&calls);
    insert(&mut tx, &item).await;
    let row = sqlx::query("INSERT INTO lines VALUES (1000000)");
    row.execute(&mut *tx).await.unwrap();
    StatusCode::CREATED
}

/// A statement fails, and the handler takes no notice.
async fn swallowed(calls: Calls, mut tx: Tx, item: String) -> StatusCode {
    called(&calls);
    insert(&mut tx, &item).await;
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    StatusCode::CREATED
}

async fn first_hangs(calls: Calls, mut tx: Tx, item: String) -> String {
    let is_first = called(&calls) == 0;
    let id = insert(&mut tx, &item).await.to_string();
    if is_first {
        std::future::pending::<()>().await;
    }
    id
}

async fn commits_slowly(calls: Calls, mut tx: Tx, item: String) -> String {
    called(&calls);
    let row = sqlx::query("INSERT INTO slow_orders VALUES ($1)").bind(&item);
    row.execute(&mut *tx).await.unwrap();
    item
}

async fn first_loses(calls: Calls, mut tx: Tx, item: String) -> Response {
    let is_first = called(&calls) == 0;
    insert(&mut tx, &item).await;
    match is_first {
        true => (StatusCode::SERVICE_UNAVAILABLE, axum::Extension(LostRace)).into_response(),
        false => item.into_response(),
    }
}

/// Reads what others write, and writes what others read. The first two do so at the same time.
async fn skewed(calls: Calls, mut tx: Tx, item: String) -> Result<String, Response> {
    let call = called(&calls);
    let before = read_and_write(&mut tx, &item).await.map_err(|error| {
        let code = error.as_database_error().and_then(|error| error.code()).map(String::from);
        assert_eq!(code.as_deref(), Some("40001"), "{error}");
        (StatusCode::SERVICE_UNAVAILABLE, axum::Extension(LostRace)).into_response()
    })?;
    if call < 2 {
        let both = tokio::time::timeout(Duration::from_secs(30), calls.both.wait());
        both.await.expect("both write before one commits");
    }
    Ok(format!("{item} after {before}"))
}

/// Returns the number of orders, and adds one.
async fn read_and_write(tx: &mut Tx, item: &str) -> Result<i64, sqlx::Error> {
    let read = sqlx::query_scalar("SELECT count(*) FROM orders");
    let before = read.fetch_one(&mut **tx).await?;
    let write = sqlx::query("INSERT INTO orders (item) VALUES ($1)").bind(item);
    write.execute(&mut **tx).await?;
    Ok(before)
}

async fn twice(_: Tx, _: Tx) {}
