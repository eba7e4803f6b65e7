//! How are a response and the rows behind it committed together?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example axum_sql -- --port 3000
//! ```
//!
//! The layer begins a transaction for each request and claims the key in it. The handler takes the
//! transaction and writes its rows. The rows and the response are then committed together, before the
//! response is sent: no crash leaves an order without its answer, or an answer without its order. The
//! service prints lines to try. Its database is a file, which is removed when it ends. With
//! `PostgresStore` and a `PgPool` the rest is the same.
#![allow(clippy::print_stdout)]

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::Idempotency;
use idempotent_sql::{Lent, SqliteStore, Transactions};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use std::path::Path;
use tokio::net::TcpListener;

const TABLES: &str = "
    CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER NOT NULL CHECK (count >= 0));
    CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, count INTEGER NOT NULL);
    INSERT INTO stock VALUES ('lamp', 10);
";

#[derive(Deserialize)]
struct NewOrder {
    item: String,
    count: i64,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    left: i64,
}

/// An answer that is not an order. A 409 is stored and replayed, without the rows that were written
/// before; a 500 rolls back and frees the key.
enum Failed {
    SoldOut,
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl axum::response::IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        match self {
            Self::SoldOut => (StatusCode::CONFLICT, "sold out\n").into_response(),
            Self::Database(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
            }
        }
    }
}

/// Writes two rows in the transaction of its request.
async fn create_order(
    mut tx: Lent<SqlitePool>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    let order = sqlx::query_scalar("INSERT INTO orders (item, count) VALUES (?, ?) RETURNING id");
    let id = order.bind(&new.item).bind(new.count).fetch_one(&mut *tx).await?;
    let take = "UPDATE stock SET count = count - ? WHERE item = ? AND count >= ? RETURNING count";
    let take = sqlx::query_scalar(take).bind(new.count).bind(&new.item).bind(new.count);
    let left = take.fetch_optional(&mut *tx).await?.ok_or(Failed::SoldOut)?;
    Ok((StatusCode::CREATED, Json(Order { id, left })))
}

fn service(idem: &Idempotency, pool: &SqlitePool) -> Router {
    let layer = IdempotencyLayer::new(idem, "shop").require_key();
    let layer = layer.transactional(Transactions::of(pool));
    Router::new().route("/orders", post(create_order)).layer(layer)
}

fn print_lines_to_try(address: &str) {
    let order = format!("curl -i http://{address}/orders -H 'content-type: application/json'");
    let lamps = |key, count| {
        println!(
            r#"  {order} -H 'Idempotency-Key: "{key}"' -d '{{"item":"lamp","count":{count}}}'"#
        );
    };
    println!("the second answer is a replay, and takes no more lamps:");
    lamps("order-1", 4);
    lamps("order-1", 4);
    println!("too many lamps: the order is undone, its answer is replayed:");
    lamps("order-2", 7);
    lamps("order-2", 7);
    println!("Ctrl-C ends it");
}

/// The number behind `--port`; 3000 without one.
fn port() -> Result<u16, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => Ok(3000),
        [flag, port] if flag == "--port" => {
            port.parse().map_err(|_| format!("`{port}` is not a port"))
        }
        _ => Err("help: axum_sql --port 3000".to_owned()),
    }
}

async fn serve(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // Orders and records are in one file.
    let idem = Idempotency::builder().store(SqliteStore::open(file)?).build()?;
    let options = SqliteConnectOptions::new().filename(file).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    let listener = TcpListener::bind(("127.0.0.1", port()?)).await?;
    print_lines_to_try(&listener.local_addr()?.to_string());
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, service(&idem, &pool)).with_graceful_shutdown(interrupted).await?;

    let (orders, lamps): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM orders), count FROM stock")
            .fetch_one(&pool)
            .await?;
    println!("orders: {orders}, lamps left: {lamps}");
    pool.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("axum_sql-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let served = serve(&folder.join("shop.db")).await;
    std::fs::remove_dir_all(&folder)?;
    served
}
