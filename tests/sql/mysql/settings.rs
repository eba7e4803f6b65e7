//! Servers with defaults of their own: what a store does depends on none of them.

use super::records::{LEASE, put};
use super::subject::MySqlSubject;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{Begun, Binding, IfGone, StoreExt as _};
use idempotent_runtime::store::{State, Store as _, StoreErrorKind, Swapped, WhenFull};
use idempotent_runtime::testing::differential;
use idempotent_sql::MySqlStore;
use std::time::Duration;
use support::mariadb::{MariaDbServer, mariadb};
use tokio::task::JoinSet;

/// Defaults that would change what statements mean, on a server with small messages.
const ODD: &[&str] = &[
    "default-time-zone = +10:00",
    "sql-mode = ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE",
    "completion-type = 1",
    "autocommit = 0",
    "transaction-isolation = SERIALIZABLE",
    "character-set-server = latin1",
    "collation-server = latin1_swedish_ci",
    "default-storage-engine = MyISAM",
    "max-allowed-packet = 1M",
    "innodb-rollback-on-timeout = 1",
    "innodb-flush-log-at-trx-commit = 0",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_the_server_change_nothing() {
    let server = MariaDbServer::start_with(ODD);
    let url = server.create_database();
    mariadb(&url, "SET GLOBAL sql_select_limit = 1, sql_safe_updates = 1");
    let subject = MySqlSubject::on(&url, |builder| builder).await;
    differential::check(&subject, 0..8).await;

    // Sessions of another time zone see the same times.
    let east = &*subject.store;
    mariadb(&url, "TRUNCATE TABLE idempotent_records");
    mariadb(&url, "SET GLOBAL time_zone = '-08:00'");
    let west = MySqlStore::connect(&url).await.unwrap();
    for (here, there, key) in [(east, &west, "east"), (&west, east, "west")] {
        let (key, request) = (RecordKey::from(key), super::records::asking());
        here.begin(&key, &request).await.unwrap();
        let found = there.load(&key).await.unwrap().unwrap();
        assert!(found.ttl <= LEASE * 2 && found.ttl > LEASE, "{:?}", found.ttl);
        let begun = there.begin(&key, &super::records::asking()).await.unwrap();
        assert!(matches!(begun, Begun::InFlight { .. }), "{begun:?}");
        let attempt = request.first_attempt();
        there.complete(&key, &attempt, None, LEASE, IfGone::Rewrite).await.unwrap();
        assert_eq!(here.load(&key).await.unwrap().unwrap().head.state, State::Succeeded);
        assert_eq!(here.maintain().await.expired, 0);
        assert_eq!(there.maintain().await.expired, 0);
    }

    // A value that does not fit into a message is left out, or refused if nobody relies on it.
    let large = |when_full| put(vec![7; 600_000], LEASE, when_full);
    let key = RecordKey::from("large");
    let error = east.swap(&key, large(WhenFull::Refuse)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    let taken = east.swap(&key, large(WhenFull::Take)).await.unwrap();
    assert_eq!(taken, Swapped::DoneWithoutValue);
    assert_eq!(east.load(&key).await.unwrap().unwrap().value, None);

    // A replica takes no writes, and says so; records can still be read.
    let database = url.rsplit('/').next().unwrap();
    let grant = format!(
        "CREATE USER app@'%' IDENTIFIED BY 'pw'; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO app@'%'; SET GLOBAL read_only = 1"
    );
    mariadb(&url, &grant);
    let app = MySqlStore::connect(&url.replace("root@", "app:pw@")).await.unwrap();
    assert!(app.load(&key).await.unwrap().is_some());
    let write = put(vec![1], LEASE, WhenFull::Refuse);
    let error = app.swap(&RecordKey::from("new"), write).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_taken_effect()), (StoreErrorKind::Unavailable, false));
    assert!(error.to_string().contains("read-only"), "{error}");
    assert!(error.to_string().contains("help: connect to the primary"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_different_keys_do_not_deadlock() {
    let server = MariaDbServer::start();
    let url = server.create_database();
    let store = MySqlStore::builder(&url).timeout(Duration::from_secs(10)).connect().await.unwrap();
    store.migrate().await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let store = store.clone();
        tasks.spawn(async move {
            for round in 0..8 {
                // Neighbours in the index, some of which are removed again.
                let key = RecordKey::from(&*format!("{round}-{task}"));
                let request = super::records::asking();
                let begun = store.begin(&key, &request).await.unwrap();
                assert!(matches!(begun, Begun::Fresh(_)), "{begun:?}");
                let attempt = request.first_attempt();
                if task % 2 == 0 {
                    store.complete(&key, &attempt, None, LEASE, IfGone::Rewrite).await.unwrap();
                } else {
                    store.release(&key, &attempt, LEASE, Binding::Lifted).await.unwrap();
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(mariadb(&url, "SELECT COUNT(*) FROM idempotent_records"), "256");
    let deadlocks = mariadb(&url, "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
    assert_eq!(deadlocks, "Innodb_deadlocks\t0");
}
