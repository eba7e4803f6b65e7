//! MariaDB, in each isolation level.

use crate::scenarios::{
    Area as _, import, lost_update, machine, prepare, promises, run, sqlx_area, stock,
};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use std::str::FromStr as _;
use std::time::Duration;
use support::database::Database;
use support::mariadb::shared_mariadb;

sqlx_area!(MariaDbArea, MySql);

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

async fn database(level: &'static str) -> (Database, MariaDbArea) {
    let database = shared_mariadb().database();
    let options = MySqlConnectOptions::from_str(&database.url()).unwrap();
    let pool = MySqlPoolOptions::new()
        .max_connections(24)
        .acquire_timeout(Duration::from_secs(60))
        .after_connect(move |connection, _| {
            Box::pin(async move {
                let text = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
                sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(connection).await.map(drop)
            })
        })
        .connect_with(options)
        .await
        .unwrap();
    let area = MariaDbArea { pool, begin: "BEGIN" };
    prepare(&area).await;
    (database, area)
}

/// Runs a test, and closes its connections before the database is dropped: one with an open
/// transaction would keep it.
async fn kept(
    database: Database,
    area: MariaDbArea,
    test: impl Future<Output = ()> + Send + 'static,
) {
    let kept = tokio::spawn(test).await;
    area.pool.close().await;
    drop(database);
    kept.unwrap();
}

macro_rules! promise {
    // The levels differ more than they do in other databases.
    ($name:ident in every, $($promise:tt)+) => {
        promise!($name in LEVELS, $($promise)+);
    };
    ($name:ident in one, $($promise:tt)+) => {
        promise!($name in LEVELS, $($promise)+);
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

promises!("VARBINARY(64)");
promise!(statements_need_a_transaction in LEVELS, machine::several_statements_need_a_transaction);
promise!(snapshots in ["REPEATABLE READ"], old_snapshots_do_not_hide_a_transition);
promise!(character_sets in LEVELS, other_character_sets_are_compared);

/// A transaction that began to read before another one committed has an old snapshot, and still
/// learns the truth about its own transition.
async fn old_snapshots_do_not_hide_a_transition(area: MariaDbArea) {
    use crate::scenarios::{ORDERS, OrderStatus, in_transaction};
    use idempotent_sql::transitions::TransitionOutcome::{Again, Conflict};
    for (id, expected) in [("a", Again), ("b", Conflict { by: "a".to_owned() })] {
        run(&mut area.connection().await, "UPDATE orders SET status = 'pending'").await;
        run(&mut area.connection().await, "DELETE FROM idempotent_transitions").await;
        let mut old = area.begin().await.unwrap();
        run(&mut old, "SELECT * FROM orders").await;
        let first = in_transaction!(area, |tx| {
            ORDERS.apply(&mut tx, 1, OrderStatus::pay(), "a").await?
        });
        assert!(first.has_happened());
        assert_eq!(ORDERS.apply(&mut old, 1, OrderStatus::pay(), id).await.unwrap(), expected);
    }
}

/// Tables with columns of another character set are compared as they are.
async fn other_character_sets_are_compared(area: MariaDbArea) {
    use crate::scenarios::{OrderStatus, in_transaction};
    use idempotent_sql::StateMachine;
    use idempotent_sql::entity::{Lock, lock};
    const PARCELS: StateMachine<OrderStatus> = StateMachine::new("parcels", "id", "status");
    let mut connection = area.connection().await;
    run(
        &mut connection,
        "CREATE TABLE parcels (id VARCHAR(32) CHARACTER SET latin1 COLLATE latin1_german2_ci \
         PRIMARY KEY, status ENUM('pending', 'paid') CHARACTER SET latin1 NOT NULL)",
    )
    .await;
    run(&mut connection, "INSERT INTO parcels VALUES ('größe', 'pending')").await;
    let answer = in_transaction!(area, |tx| {
        assert_eq!(lock(&mut tx, "parcels", "id", "größe").await?, Lock::Locked);
        PARCELS.apply(&mut tx, "größe", OrderStatus::pay(), "a").await?
    });
    assert!(answer.has_happened());
}
