//! A relay in a process of its own. The tests start it, and kill it at any time.

#[path = "../receiver.rs"]
#[allow(dead_code)]
mod receiver;

use idempotent_sql::TransactionPool;
use idempotent_sql::outbox::{Outbox, Relay, RelayHandle};
use receiver::{SocketPublisher, WorkerDatabase, WorkerOrders};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use std::time::Duration;
use support::worker::end_with_whoever_started_this;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    end_with_whoever_started_this();
    let orders: WorkerOrders = serde_json::from_str(&orders).expect("the orders are JSON");
    let _relay = match &orders.database {
        WorkerDatabase::Postgres(url) => {
            relay(PgPoolOptions::new().max_connections(5).connect(url).await.unwrap(), &orders)
        }
        WorkerDatabase::MariaDb(url) => {
            relay(MySqlPoolOptions::new().max_connections(5).connect(url).await.unwrap(), &orders)
        }
        WorkerDatabase::Sqlite(path) => {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .synchronous(SqliteSynchronous::Off)
                .busy_timeout(Duration::from_secs(30));
            let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options);
            relay(pool.await.unwrap(), &orders)
        }
    };
    std::future::pending().await
}

fn relay(pool: impl TransactionPool, orders: &WorkerOrders) -> RelayHandle {
    Relay::new(Outbox::new("idempotent_outbox"), pool, SocketPublisher(orders.receiver))
        .lease(Duration::from_millis(orders.lease))
        .publish_timeout(Duration::from_millis(orders.lease / 3))
        .backoff(Duration::from_millis(10), Duration::from_millis(100))
        .poll(Duration::from_millis(20))
        .max_attempts(1_000)
        .start()
}
