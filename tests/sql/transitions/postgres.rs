//! PostgreSQL, in each isolation level.

use crate::scenarios::{
    Area as _, import, lost_update, machine, prepare, promises, run, sqlx_area, stock,
};
use crate::scenarios::{OrderStatus, in_transaction};
use idempotent_sql::StateMachine;
use idempotent_sql::entity::EntityKey;
use idempotent_sql::transitions::TransitionOutcome::{Again, Applied};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::str::FromStr as _;
use std::time::Duration;
use support::database::Database;
use support::postgres::shared_postgres;

sqlx_area!(PostgresArea, Postgres);

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

async fn database(level: &str) -> (Database, PostgresArea) {
    let database = shared_postgres().database();
    let options = PgConnectOptions::from_str(&database.url())
        .unwrap()
        .options([("default_transaction_isolation", level)]);
    let pool = PgPoolOptions::new()
        .max_connections(24)
        .acquire_timeout(Duration::from_secs(60))
        .connect_with(options)
        .await
        .unwrap();
    let area = PostgresArea { pool, begin: "BEGIN" };
    prepare(&area).await;
    (database, area)
}

/// Runs a test, and closes its connections before the database is dropped: one with an open
/// transaction would keep it.
async fn kept(
    database: Database,
    area: PostgresArea,
    test: impl Future<Output = ()> + Send + 'static,
) {
    let kept = tokio::spawn(test).await;
    area.pool.close().await;
    drop(database);
    kept.unwrap();
}

macro_rules! promise {
    ($name:ident in every, $($promise:tt)+) => {
        promise!($name in LEVELS, $($promise)+);
    };
    ($name:ident in one, $($promise:tt)+) => {
        promise!($name in COMMITTED, $($promise)+);
    };
    ($name:ident in $levels:expr, $($promise:ident)::+ $(, $argument:expr)*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for level in $levels {
                let (database, area) = database(level).await;
                kept(database, area.clone(), $($promise)::+(area $(, $argument)*)).await;
            }
        }
    };
}

const COMMITTED: [&str; 1] = ["read committed"];

promises!("BYTEA");
promise!(enums_and_uuids in COMMITTED, enums_and_uuids_are_changed);
promise!(tokio_postgres_transactions in COMMITTED, transactions_of_tokio_postgres_apply);
promise!(concurrent_migrations in COMMITTED, migrations_at_the_same_moment_succeed);

/// One statement, which needs no transaction, on columns of the database's own types.
async fn enums_and_uuids_are_changed(area: PostgresArea) {
    const ORDERS: StateMachine<OrderStatus> = StateMachine::new("shop.orders", "id", "status");
    let mut connection = area.connection().await;
    for text in [
        "CREATE SCHEMA shop",
        "CREATE TYPE order_status AS ENUM ('pending', 'paid', 'shipped', 'cancelled')",
        "CREATE TABLE shop.orders (id uuid PRIMARY KEY, status order_status NOT NULL)",
        "INSERT INTO shop.orders VALUES ('0191e2c4-7f2e-7c4d-8d2c-5f1f0a3b6c7d', 'pending')",
    ] {
        run(&mut connection, text).await;
    }
    let id = "0191E2C4-7f2e-7c4d-8d2c-5f1f0a3b6c7d";
    let key = || EntityKey::uuid(id);
    let applied = |from, to| Applied { from, to };
    let (pay, undo) = (OrderStatus::pay(), OrderStatus::undo());
    let answer = ORDERS.apply(&mut connection, key(), pay, "a").await.unwrap();
    assert_eq!(answer, applied(OrderStatus::Pending, OrderStatus::Paid));
    let lower = EntityKey::uuid(id.to_lowercase());
    assert_eq!(ORDERS.apply(&mut connection, lower, pay, "a").await.unwrap(), Again);
    let answer = ORDERS.apply(&mut connection, key(), undo, "b").await.unwrap();
    assert_eq!(answer, applied(OrderStatus::Paid, OrderStatus::Pending));
    let answer = in_transaction!(area, |tx| {
        let locked = idempotent_sql::entity::lock(&mut tx, "shop.orders", "id", key()).await?;
        assert_eq!(locked, idempotent_sql::entity::Lock::Locked);
        ORDERS.apply(&mut tx, key(), pay, "c").await?
    });
    assert_eq!(answer, applied(OrderStatus::Pending, OrderStatus::Paid));
}

/// Transactions of tokio-postgres are connections too.
async fn transactions_of_tokio_postgres_apply(area: PostgresArea) {
    let options = area.pool.connect_options();
    let (host, port) = (options.get_host(), options.get_port());
    let database = options.get_database().unwrap();
    let url = format!("host={host} port={port} user=postgres dbname={database}");
    let (mut client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for expected in [Applied { from: OrderStatus::Pending, to: OrderStatus::Paid }, Again] {
        let mut tx = client.transaction().await.unwrap();
        let locked = idempotent_sql::entity::lock(&mut tx, "orders", "id", 1).await.unwrap();
        assert_eq!(locked, idempotent_sql::entity::Lock::Locked);
        let answer = crate::scenarios::ORDERS.apply(&mut tx, 1, OrderStatus::pay(), "a").await;
        assert_eq!(answer.unwrap(), expected);
        tx.commit().await.unwrap();
    }
}

/// Several processes that start at the same moment create the log once.
async fn migrations_at_the_same_moment_succeed(area: PostgresArea) {
    const OTHER: StateMachine<OrderStatus> =
        StateMachine::new("orders", "id", "status").log_table("another_log");
    // Those that create it meet in different catalogues, as it happens.
    for _ in 0..10 {
        crate::scenarios::together(16, |_| {
            let area = area.clone();
            async move { OTHER.migrate(&mut area.connection().await).await.unwrap() }
        })
        .await;
        run(&mut area.connection().await, "DROP TABLE another_log").await;
    }
}
