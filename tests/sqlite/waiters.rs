//! Callers that wait are woken when the attempt ends, in this process or in another one.

use crate::subject::{SqliteSubject, TempFile};
use crate::verbs::{completed, granted, key};
use idempotent_runtime::store::Store as _;
use idempotent_sql::SqliteStore;
use std::time::Duration;

#[tokio::test]
async fn waiters_of_the_same_store_are_woken_by_the_writer() {
    let SqliteSubject { store, file: _file, .. } = SqliteSubject::new();
    let attempt = granted(&store, &key(1)).await;
    let watches = [store.watch(&key(1)).await.unwrap(), store.watch(&key(1)).await.unwrap()];
    completed(&store, &key(1), &attempt, b"answer").await.unwrap();
    for watch in watches {
        tokio::time::timeout(Duration::from_secs(60), watch).await.expect("it wakes");
    }
}

#[tokio::test]
async fn waiters_of_another_store_on_the_file_are_woken() {
    let file = TempFile::new();
    let (one, other) =
        (SqliteStore::open(file.path()).unwrap(), SqliteStore::open(file.path()).unwrap());
    let (ends, goes_on) = (granted(&one, &key("ends")).await, granted(&one, &key("stays")).await);
    let woken = other.watch(&key("ends")).await.unwrap();
    let mut asleep = other.watch(&key("stays")).await.unwrap();
    // The attempt that is waited for has been seen, and others write.
    tokio::time::sleep(Duration::from_millis(20)).await;
    granted(&one, &key("another")).await;
    completed(&one, &key("ends"), &ends, b"answer").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), woken).await.expect("it wakes");
    let still = tokio::time::timeout(Duration::from_millis(50), &mut asleep).await;
    assert!(still.is_err(), "woken although its attempt goes on");
    completed(&one, &key("stays"), &goes_on, b"answer").await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), asleep).await.expect("it wakes");
}
