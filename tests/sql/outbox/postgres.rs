//! The outbox in PostgreSQL.

use super::receiver::WorkerDatabase;
use super::{killed, scenarios};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Idempotency, Mode, idempotent};
use idempotent_sql::outbox::{Message, OutboxError};
use idempotent_sql::{PostgresStore, TransactExt as _};
use scenarios::OUTBOX;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::time::Duration;
use support::database::Database;
use support::postgres::shared_postgres;

async fn database() -> (Database, PgPool) {
    let database = shared_postgres().database();
    let pool = PgPoolOptions::new()
        .max_connections(16)
        .acquire_timeout(Duration::from_secs(60))
        .connect(&database.url())
        .await
        .unwrap();
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
    (database, pool)
}

scenarios::promises!(database, other_keys_are_sent_to_meanwhile);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_lose_nothing_and_keep_the_order() {
    let (database, pool) = database().await;
    let reach = WorkerDatabase::Postgres(database.url());
    killed::killed_relays_lose_nothing_and_keep_the_order(pool, reach).await;
}

/// Processes that start at the same moment create the tables once, and can do so again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_can_be_repeated_and_run_together() {
    let (_database, pool) = database().await;
    let other = idempotent_sql::outbox::Outbox::new("public.another");
    let migrations: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { other.migrate(&mut pool.acquire().await.unwrap()).await })
        })
        .collect();
    for migration in migrations {
        migration.await.unwrap().unwrap();
    }
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
}

#[derive(Debug)]
#[expect(dead_code, reason = "a failed test shows the errors")]
enum OrderError {
    Refused(idempotent_runtime::Error),
    Outbox(OutboxError),
    Declined,
}

impl From<idempotent_runtime::Error> for OrderError {
    fn from(error: idempotent_runtime::Error) -> Self {
        Self::Refused(error)
    }
}

impl From<OutboxError> for OrderError {
    fn from(error: OutboxError) -> Self {
        Self::Outbox(error)
    }
}

async fn instance(database: &Database) -> Idempotency {
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    Idempotency::builder().store(store).build().unwrap()
}

/// The body of `transact`: a repeat call sends nothing, and neither does a call that fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_sends_once_with_its_record() {
    let (database, pool) = database().await;
    let idem = instance(&database).await;
    let order = |key: &'static str, declined: bool| {
        idem.operation("orders.create").key(key).mode(Mode::Strong).transact(
            &pool,
            move |mut tx| async move {
                let message = Message::new("orders", key, "created");
                let id = OUTBOX.send(&mut *tx, message).await?;
                if declined { Err(OrderError::Declined) } else { Ok(id) }
            },
        )
    };
    let first = order("17", false).await.unwrap();
    assert_eq!(order("17", false).await.unwrap(), first, "a repeat call has the id of the first");
    assert!(matches!(order("18", true).await, Err(OrderError::Declined)));
    assert_eq!(scenarios::waiting(&pool).await, 1);
}

#[idempotent(key = "key", mode = "strong", transaction = "tx")]
async fn create_order(
    tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    key: &str,
) -> Result<String, OrderError> {
    Ok(OUTBOX.send(tx, Message::new("orders", key, "created")).await?)
}

/// A function with `transaction = "tx"`, in a task of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_sends_in_the_transaction_of_its_caller() {
    let (database, pool) = database().await;
    let idem = instance(&database).await;
    let call = |commits: bool| {
        let (idem, pool) = (idem.clone(), pool.clone());
        tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            let id = scoped(idem, create_order(&mut tx, "17")).await.unwrap();
            if commits {
                tx.commit().await.unwrap()
            } else {
                tx.rollback().await.unwrap()
            }
            id
        })
    };
    let rolled_back = call(false).await.unwrap();
    assert_eq!(scenarios::waiting(&pool).await, 0);
    let first = call(true).await.unwrap();
    assert_ne!(first, rolled_back);
    assert_eq!(call(true).await.unwrap(), first);
    assert_eq!(scenarios::waiting(&pool).await, 1);
}

/// Transactions of tokio-postgres send too.
#[tokio::test]
async fn transactions_of_tokio_postgres_send() {
    let (database, pool) = database().await;
    let connected = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await;
    let (mut client, connection) = connected.unwrap();
    tokio::spawn(connection);
    let mut tx = client.transaction().await.unwrap();
    OUTBOX.send(&mut tx, Message::new("orders", "17", "").header("a", "b")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(scenarios::waiting(&pool).await, 1);
}
