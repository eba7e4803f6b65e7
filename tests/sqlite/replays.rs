//! A repeat call writes nothing, and does not wait for whoever writes.

use crate::subject::{SqliteSubject, TempFile};
use crate::verbs::{answered, asking, granted, key};
use idempotent_runtime::protocol::{Begun, StoreExt as _};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{Error, Idempotency, Mode};
use idempotent_sql::SqliteStore;
use rusqlite::Connection;

fn data_version(connection: &Connection) -> i64 {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_replay_writes_nothing() {
    let file = TempFile::new();
    let store = SqliteStore::open(file.path()).unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let call = |answer: u32| {
        let order = idem.operation("orders.create").key(7).mode(Mode::Strong);
        async move { order.run(async { Ok::<_, Error>(answer) }).await.unwrap() }
    };
    assert_eq!(call(1).await, 1);
    let watcher = file.connection();
    let log = || std::fs::read(file.folder().join("records.db-wal")).unwrap();
    let (version, before) = (data_version(&watcher), log());
    for _ in 0..100 {
        assert_eq!(call(2).await, 1);
    }
    assert_eq!(data_version(&watcher), version, "something was committed");
    assert!(log() == before, "something was written");
    // The measure is one: a first execution is seen by it.
    let other = idem.operation("orders.create").key(8).mode(Mode::Strong);
    let ran: Result<u32, Error> = other.run(async { Ok(3) }).await;
    assert_eq!(ran.unwrap(), 3);
    assert_ne!(data_version(&watcher), version);
}

#[tokio::test]
async fn a_replay_does_not_wait_for_the_write_lock() {
    let SqliteSubject { store, file, .. } = SqliteSubject::new();
    answered(&store, &key("answered")).await;
    granted(&store, &key("held")).await;
    let other = file.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Nothing of this could be answered by the writer before the lock is given back.
    for _ in 0..50 {
        let told = store.begin(&key("answered"), &asking()).await.unwrap();
        assert!(matches!(told, Begun::Succeeded { number: 1, .. }), "{told:?}");
        let told = store.begin(&key("held"), &asking()).await.unwrap();
        assert!(matches!(told, Begun::InFlight { number: 1, .. }), "{told:?}");
        assert!(store.load(&key("answered")).await.unwrap().is_some());
    }
    other.execute_batch("ROLLBACK").unwrap();
    granted(&store, &key("new")).await;
}
