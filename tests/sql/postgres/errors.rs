//! Mistakes in setting up a store, and the errors that name them; and settings of servers and
//! roles that change nothing.

use super::records::{LEASE, put};
use super::subject::{PostgresSubject, all, connect};
use crate::proxy::{Protocol, Proxy};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Store as _, StoreError, StoreErrorKind};
use idempotent_runtime::testing::differential;
use idempotent_sql::PostgresStore;
use std::time::Duration;
use support::database::Database;
use support::postgres::{PostgresServer, psql, shared_postgres};
use support::redis::free_port;

/// Creates a role, and returns the URL of the database as that role.
fn role(database: &Database, grants: &str) -> String {
    let name = format!("role_{:08x}", rand::random::<u32>());
    database.execute(&format!("CREATE ROLE {name} LOGIN"));
    if !grants.is_empty() {
        database.execute(&format!("GRANT {grants} TO {name}"));
    }
    database.url().replace("postgres@", &format!("{name}@"))
}

/// The error is of this kind, had no effect, and says all of this.
fn says(error: &StoreError, kind: StoreErrorKind, texts: &[&str]) {
    let text = error.to_string();
    assert_eq!((error.kind(), error.may_have_taken_effect()), (kind, false), "{text}");
    assert!(texts.iter().all(|it| text.contains(it)), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

fn misconfigured(error: &StoreError, texts: &[&str]) {
    says(error, StoreErrorKind::Misconfigured, texts);
    assert!(error.to_string().contains("\nhelp: "), "{error}");
}

async fn refused(url: &str) -> StoreError {
    PostgresStore::connect(url).await.unwrap_err()
}

async fn write(store: &PostgresStore) -> Result<(), StoreError> {
    store.swap(&RecordKey::from("k"), put(vec![1], LEASE)).await.map(drop)
}

#[tokio::test]
async fn a_wrong_url_is_told() {
    misconfigured(&refused("localhost:5432").await, &["URL", "postgres://user:password@"]);
    misconfigured(&refused("postgres://app:s3cret@h:port/d").await, &["URL"]);
    let builder = PostgresStore::builder("postgres://localhost/d").table("Robert'); --");
    misconfigured(&builder.connect().await.unwrap_err(), &["cannot be the name of the table"]);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told() {
    let nobody = format!("postgres://app:s3cret@127.0.0.1:{}/d", free_port());
    says(&refused(&nobody).await, StoreErrorKind::Unavailable, &["PostgreSQL: "]);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://app@127.0.0.1:{}/d", silent.local_addr().unwrap().port());
    let builder = PostgresStore::builder(&url).connect_timeout(Duration::from_millis(100));
    says(&builder.connect().await.unwrap_err(), StoreErrorKind::Unavailable, &["PostgreSQL: "]);
}

/// A server that says so of itself: none as old is at hand.
#[tokio::test]
async fn a_server_that_is_too_old_is_told() {
    let database = shared_postgres().database();
    let proxy = Proxy::start(shared_postgres().address(), Protocol::Postgres).await;
    let url = database.url_through(proxy.port);
    PostgresStore::connect(&url).await.unwrap();
    proxy.replace("current_setting('server_version_num')", "140011");
    misconfigured(&refused(&url).await, &["PostgreSQL 14", "PostgreSQL 15 or later"]);
}

#[tokio::test]
async fn a_server_that_refuses_the_user_or_has_no_room_is_told() {
    let few = ["max_connections = 8", "superuser_reserved_connections = 3"];
    let server = PostgresServer::start_with(&support::postgres::installed(), &few);
    let url = server.url("postgres");
    misconfigured(&refused(&server.url("nowhere")).await, &["nowhere", "create it"]);
    psql(&url, "SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD 's3cret-old'");
    psql(&url, "CREATE ROLE clerk LOGIN PASSWORD 's3cret-new'");
    psql(&url, "CREATE ROLE shut LOGIN; CREATE ROLE guest LOGIN");
    server.set_access(
        "host all clerk 127.0.0.1/32 scram-sha-256\nhost all old 127.0.0.1/32 md5\n\
         host all shut 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust\n",
    );
    let with = |user: &str| url.replace("postgres@", &format!("{user}@"));
    for user in ["clerk:s3cret-new", "old:s3cret-old"] {
        PostgresStore::connect(&with(user)).await.unwrap();
    }
    for user in ["clerk:s3cret", "old:s3cret", "clerk", "shut", "unknown"] {
        misconfigured(&refused(&with(user)).await, &["check the user and the password"]);
    }
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(connect(&with("guest")).await);
    }
    says(&refused(&with("guest")).await, StoreErrorKind::Unavailable, &["connection"]);
}

#[tokio::test]
async fn a_missing_table_is_told_with_what_to_run() {
    let database = shared_postgres().database();
    let url = role(&database, "pg_monitor");
    let store = PostgresStore::connect(&url).await.unwrap();
    for error in [store.health().await.unwrap_err(), write(&store).await.unwrap_err()] {
        misconfigured(&error, &["idempotent_records", "does not exist", "migrate()", "schema()"]);
    }
    // Its role may not make it. What it prints can be run by another.
    misconfigured(&store.migrate().await.unwrap_err(), &["permission denied"]);
    for statement in store.schema() {
        database.execute(&statement);
        database.execute(&statement);
    }
    misconfigured(&write(&store).await.unwrap_err(), &["GRANT SELECT, INSERT, UPDATE, DELETE"]);
    let name = url.split(['/', '@']).nth(2).unwrap();
    database.execute(&format!("GRANT SELECT ON idempotent_records TO {name}"));
    store.health().await.unwrap();
    misconfigured(&write(&store).await.unwrap_err(), &["GRANT SELECT, INSERT, UPDATE, DELETE"]);
    database.execute("CREATE TABLE odd (key bytea PRIMARY KEY)");
    let odd = PostgresStore::builder(&database.url()).table("odd").connect().await.unwrap();
    misconfigured(&odd.health().await.unwrap_err(), &["not one of this version", "schema()"]);
}

/// The role may read and write rows, and nothing else; the table is in a schema of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_only_read_and_write_rows_is_enough() {
    let database = shared_postgres().database();
    database.execute("CREATE SCHEMA shop");
    let owner = PostgresStore::builder(&database.url()).table("shop.records");
    let owner = owner.connect().await.unwrap();
    let migrations = (0..4).map(|_| owner.migrate());
    for migrated in all(migrations).await {
        migrated.unwrap();
    }
    let url = role(&database, "pg_monitor");
    let name = url.split(['/', '@']).nth(2).unwrap();
    let grants = format!(
        "GRANT USAGE ON SCHEMA shop TO {name}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON shop.records TO {name}"
    );
    database.execute(&grants);
    let store = PostgresStore::builder(&url).table("shop.records").connect().await.unwrap();
    write(&store).await.unwrap();
    store.health().await.unwrap();
    let key = RecordKey::from("k");
    assert!(store.load(&key).await.unwrap().is_some());
    drop(store.watch(&key).await.unwrap());
    store.maintain().await;
    assert!(store.usage().unwrap().bytes > 0);
    assert_eq!(database.execute("SELECT count(*) FROM shop.records"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_another_one() {
    let database = shared_postgres().database();
    let other = connect(&database.url()).await;
    // Longer than a statement waits for a lock otherwise.
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(x'6964656d706f7465'::bigint)";
    other.batch_execute(lock).await.unwrap();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let ends = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (migrated, ()) = tokio::join!(store.migrate(), ends);
    migrated.unwrap();
    store.health().await.unwrap();
}

#[tokio::test]
async fn a_read_only_server_answers_and_takes_no_writes() {
    let database = shared_postgres().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    write(&store).await.unwrap();
    let set = "ALTER DATABASE {} SET default_transaction_read_only = on";
    database.execute(&set.replace("{}", database.name()));
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    assert!(store.load(&RecordKey::from("k")).await.unwrap().is_some());
    let error = store.swap(&RecordKey::from("new"), put(vec![1], LEASE)).await.unwrap_err();
    let texts = ["read-only", "help: connect to the primary"];
    says(&error, StoreErrorKind::Unavailable, &texts);
}

/// Defaults that would change what statements mean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_database_and_role_change_nothing() {
    let database = shared_postgres().database();
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "TimeZone = 'Asia/Kathmandu'",
        "DateStyle = 'German'",
        "IntervalStyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "standard_conforming_strings = off",
        "extra_float_digits = -15",
        "search_path = 'public', 'pg_catalog'",
        "lock_timeout = '1ms'",
        "plan_cache_mode = 'force_generic_plan'",
        "enable_indexscan = off",
    ] {
        database.execute(&format!("ALTER DATABASE {} SET {setting}", database.name()));
    }
    let subject = PostgresSubject::new(&database.url()).await;
    differential::check(&subject, 0..8).await;
}
