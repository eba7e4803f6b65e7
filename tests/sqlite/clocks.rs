//! Leases count on the boot clock, retention on the wall clock.

use crate::subject::SqliteSubject;
use crate::verbs::{LEASE, LINGER, RETENTION, answered, asking, asking_to, granted, key};
use idempotent_runtime::Abandon;
use idempotent_runtime::protocol::{Begun, StoreExt as _, Updated};
use idempotent_runtime::store::Store as _;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: i64 = 86_400;

#[tokio::test]
async fn wall_clock_that_is_set_back_does_not_lengthen_a_lease() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    granted(&store, &key(1)).await;
    clocks.set_wall(-DAY);
    let told = store.begin(&key(1), &asking()).await.unwrap();
    assert_eq!(told, Begun::InFlight { number: 1, retry_after: LEASE });
    clocks.advance(LEASE - SECOND);
    let told = store.begin(&key(1), &asking()).await.unwrap();
    assert_eq!(told, Begun::InFlight { number: 1, retry_after: SECOND });
    clocks.advance(SECOND);
    let record = store.load(&key(1)).await.unwrap().unwrap();
    assert_eq!(record.ttl, LINGER, "the lease is over, however far its record's end is");
    assert_eq!(granted(&store, &key(1)).await.number, 2);
}

#[tokio::test]
async fn wall_clock_that_is_set_forward_does_not_end_a_lease() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    let attempt = granted(&store, &key(1)).await;
    clocks.set_wall(DAY);
    // It is neither taken over nor swept.
    assert_eq!(store.maintain().await.expired, 0);
    let told = store.begin(&key(1), &asking()).await.unwrap();
    assert_eq!(told, Begun::InFlight { number: 1, retry_after: LEASE });
    assert_eq!(store.renew(&key(1), &attempt, LEASE).await.unwrap(), Updated::Done);
    clocks.advance(LEASE - SECOND);
    assert!(store.load(&key(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn wall_clock_that_is_set_back_lengthens_retention() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    answered(&store, &key(1)).await;
    clocks.set_wall(-DAY);
    clocks.advance(RETENTION);
    let record = store.load(&key(1)).await.unwrap().unwrap();
    assert_eq!(record.ttl, Duration::from_secs(DAY as u64));
    assert_eq!(store.maintain().await.expired, 0);
    clocks.advance(Duration::from_secs(DAY as u64));
    assert_eq!(store.load(&key(1)).await.unwrap(), None);
    assert_eq!(store.maintain().await.expired, 1);
}

#[tokio::test]
async fn no_lease_survives_a_restart_of_the_machine() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    granted(&store, &key("retry")).await;
    store.begin(&key("block"), &asking_to(Abandon::Block)).await.unwrap();
    answered(&store, &key("answered")).await;
    clocks.reboot(SECOND);
    assert_eq!(granted(&store, &key("retry")).await.number, 2);
    let told = store.begin(&key("block"), &asking()).await.unwrap();
    assert_eq!(told, Begun::Indeterminate { number: 1 });
    let answer = store.load(&key("answered")).await.unwrap().unwrap();
    assert_eq!(answer.ttl, RETENTION - SECOND, "retention goes on while the machine is off");
}

#[tokio::test]
async fn a_renewal_after_a_restart_counts_on_the_new_boot() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    // Of a process that was moved with its memory, which its machine did not survive.
    let attempt = granted(&store, &key(1)).await;
    clocks.reboot(SECOND);
    assert_eq!(store.renew(&key(1), &attempt, LEASE).await.unwrap(), Updated::Done);
    let record = store.load(&key(1)).await.unwrap().unwrap();
    assert_eq!(record.ttl, LEASE + LINGER);
    clocks.advance(LEASE);
    assert_eq!(granted(&store, &key(1)).await.number, 2);
}
