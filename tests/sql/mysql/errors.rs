//! Mistakes in setting up a store, and the errors that name them.

use super::records::{LEASE, put};
use crate::proxy::{Protocol, Proxy};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Store as _, StoreError, StoreErrorKind, WhenFull};
use idempotent_sql::MySqlStore;
use std::time::Duration;
use support::database::Database;
use support::mariadb::shared_mariadb;
use support::redis::free_port;

/// Creates a user of one database, and returns the URL of the database as that user.
fn user(database: &Database, grants: &str) -> String {
    let name = format!("u{:08x}", rand::random::<u32>());
    let statements = format!("CREATE USER {name}@'%' IDENTIFIED BY 'pw'");
    database.execute(&statements);
    if !grants.is_empty() {
        database.execute(&format!("GRANT {grants} ON {}.* TO {name}@'%'", database.name()));
    }
    database.url().replace("root@", &format!("{name}:pw@"))
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
    MySqlStore::connect(url).await.unwrap_err()
}

#[tokio::test]
async fn a_wrong_url_is_told() {
    misconfigured(&refused("localhost:3306").await, &["does not begin with mysql://"]);
    misconfigured(&refused("postgres://app:s3cret@h/d").await, &["does not begin with"]);
    misconfigured(&refused("mysql://app:s3cret@h:port/d").await, &["port"]);
    misconfigured(&refused("mysql://app:s3cret@localhost").await, &["names no database"]);
    let builder = MySqlStore::builder("mysql://localhost/d").table("Robert'); --");
    misconfigured(&builder.connect().await.unwrap_err(), &["cannot be the name of the table"]);
}

/// Servers that say so of themselves: none as old is at hand.
#[tokio::test]
async fn a_server_that_is_too_old_is_told() {
    let database = shared_mariadb().database();
    for version in ["10.5.29-MariaDB", "5.7.44"] {
        let proxy = Proxy::start(shared_mariadb().address(), Protocol::MySql).await;
        let url = database.url_through(proxy.port);
        MySqlStore::connect(&url).await.unwrap();
        let part = "VERSION(), CAST(@@max_allowed_packet AS SIGNED)";
        proxy.replace(part, &format!("'{version}', 16777216"));
        misconfigured(&refused(&url).await, &[version, "MariaDB 10.6 or later, or MySQL 8.0"]);
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_or_refuses_the_user_is_told() {
    let nobody = format!("mysql://app:s3cret@127.0.0.1:{}/d", free_port());
    says(&refused(&nobody).await, StoreErrorKind::Unavailable, &["MySQL: "]);
    let database = shared_mariadb().database();
    let app = user(&database, "SELECT, INSERT, UPDATE, DELETE");
    misconfigured(&refused(&app.replace(":pw@", ":s3cret@")).await, &["1045", "password"]);
    let elsewhere = database.url().replace(database.name(), "nowhere");
    misconfigured(&refused(&elsewhere).await, &["1049", "nowhere", "create it"]);
    let stranger = user(&database, "");
    misconfigured(&refused(&stranger).await, &["1044", "GRANT"]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_on() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mysql://app@127.0.0.1:{}/d", silent.local_addr().unwrap().port());
    let builder = MySqlStore::builder(&url).connect_timeout(Duration::from_millis(100));
    let error = builder.connect().await.unwrap_err();
    says(&error, StoreErrorKind::Unavailable, &["no answer in time"]);
}

#[tokio::test]
async fn a_missing_table_is_told_with_what_to_run() {
    let database = shared_mariadb().database();
    let app = user(&database, "SELECT, INSERT, UPDATE, DELETE");
    let store = MySqlStore::connect(&app).await.unwrap();
    assert!(store.server_version().contains("MariaDB"));
    for error in [store.health().await.unwrap_err(), write(&store).await.unwrap_err()] {
        misconfigured(&error, &["`idempotent_records` does not exist", "migrate()", "schema()"]);
    }
    // Its user may not make it. What it prints can be run by another.
    misconfigured(&store.migrate().await.unwrap_err(), &["1142", "GRANT"]);
    for statement in store.schema() {
        database.execute(&statement);
        database.execute(&statement);
    }
    store.health().await.unwrap();
    write(&store).await.unwrap();
    let owner = MySqlStore::connect(&database.url()).await.unwrap();
    tokio::try_join!(owner.migrate(), owner.migrate(), owner.migrate()).unwrap();
}

async fn write(store: &MySqlStore) -> Result<(), StoreError> {
    let put = put(vec![1], LEASE, WhenFull::Refuse);
    store.swap(&RecordKey::from("k"), put).await.map(drop)
}

#[tokio::test]
async fn a_user_that_may_only_read_is_told_what_to_grant() {
    let database = shared_mariadb().database();
    let owner = MySqlStore::connect(&database.url()).await.unwrap();
    owner.migrate().await.unwrap();
    let store = MySqlStore::connect(&user(&database, "SELECT")).await.unwrap();
    store.health().await.unwrap();
    misconfigured(&write(&store).await.unwrap_err(), &["1142", "GRANT SELECT, INSERT"]);
}

#[tokio::test]
async fn a_table_that_would_not_keep_records_is_refused() {
    let database = shared_mariadb().database();
    let store = MySqlStore::connect(&database.url()).await.unwrap();
    let made = store.schema().concat();
    let wrong = [
        (made.replace("InnoDB", "MyISAM"), "engine myisam", "ENGINE = InnoDB"),
        (made.replace("VARBINARY(700)", "VARCHAR(700)"), "type varchar", "VARBINARY(700)"),
    ];
    for (statement, what, help) in wrong {
        assert_ne!(statement, made);
        database.execute(&statement);
        misconfigured(&refused(&database.url()).await, &[what, help]);
        misconfigured(&store.migrate().await.unwrap_err(), &[what, help]);
        database.execute("DROP TABLE idempotent_records");
    }
    database.execute("CREATE TABLE idempotent_records (`key` VARBINARY(700) PRIMARY KEY)");
    let store = MySqlStore::connect(&database.url()).await.unwrap();
    misconfigured(&store.health().await.unwrap_err(), &["not one of this version", "schema()"]);
}

#[tokio::test]
async fn a_table_may_be_in_another_database() {
    let database = shared_mariadb().database();
    let url = shared_mariadb().url("mysql");
    let table = format!("{}.records_of_ours", database.name());
    let store = MySqlStore::builder(&url).table(table).connect().await.unwrap();
    store.migrate().await.unwrap();
    write(&store).await.unwrap();
    assert_eq!(database.execute("SELECT COUNT(*) FROM records_of_ours"), "1");
    store.maintain().await;
    assert!(store.usage().unwrap().bytes > 0);
}
