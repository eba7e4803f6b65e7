//! Listing, expiry, sizes and health.

use crate::subject::{SqliteSubject, TempFile};
use crate::verbs::{LEASE, LINGER, RETENTION, answered, granted, key};
use idempotent_runtime::store::{Filter, Store as _};
use idempotent_sql::SqliteStore;
use std::time::Duration;

#[tokio::test]
async fn expired_records_are_removed_in_batches() {
    let SqliteSubject { store, clocks, file } =
        SqliteSubject::with(|builder| builder.expire_batch(10).expire_rate(0));
    for name in 0..25 {
        answered(&store, &key(name)).await;
    }
    granted(&store, &key("held")).await;
    assert_eq!(store.maintain().await.expired, 0);
    clocks.advance(RETENTION);
    let mut removed = Vec::new();
    loop {
        let done = store.maintain().await;
        removed.push(done.expired);
        if !done.more {
            break;
        }
    }
    assert_eq!(removed, [10, 10, 5]);
    let left: u32 = file
        .connection()
        .query_row("SELECT count(*) FROM idempotent_records", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1, "that of the lease");
    clocks.advance(LEASE + LINGER);
    assert_eq!(store.maintain().await.expired, 1);
}

#[tokio::test(start_paused = true)]
async fn expiry_is_paced() {
    let SqliteSubject { store, clocks, file: _file } =
        SqliteSubject::with(|builder| builder.expire_batch(10).expire_rate(100));
    for name in 0..30 {
        answered(&store, &key(name)).await;
    }
    clocks.advance(RETENTION);
    let begun = tokio::time::Instant::now();
    while store.maintain().await.more {}
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_scan_looks_at_as_many_records_as_it_is_told() {
    let SqliteSubject { store, clocks, file: _file } = SqliteSubject::new();
    for name in 0..20 {
        answered(&store, &key(format!("{name:02}"))).await;
    }
    clocks.advance(RETENTION);
    answered(&store, &key("99")).await;
    // Records that have expired and are still there are looked at, and not shown.
    let (mut pages, mut found, mut after) = (0, Vec::new(), None);
    loop {
        let page = store.scan(&Filter::new(), after.as_ref(), 5).await.unwrap();
        pages += 1;
        found.extend(page.records.into_iter().map(|it| it.key));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!((pages, found), (5, vec![key("99")]));
}

#[tokio::test]
async fn usage_is_known_after_maintenance() {
    let SqliteSubject { store, file: _file, .. } = SqliteSubject::new();
    for name in 0..10 {
        answered(&store, &key(name)).await;
    }
    assert_eq!(store.usage(), None);
    store.maintain().await;
    let usage = store.usage().unwrap();
    assert_eq!(usage.entries, 10);
    assert!((4_096..1_000_000).contains(&usage.bytes), "{usage:?}");
    store.health().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_does_not_grow_without_bound() {
    let SqliteSubject { store, file, .. } = SqliteSubject::new();
    let log = file.folder().join("records.db-wal");
    // Somebody reads all the time, as repeat calls do.
    let reading = {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                store.load(&key(1)).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    };
    let (mut longest, mut written) = (0, 0_u64);
    let value = vec![7; 100_000];
    for name in 0..600 {
        let attempt = granted(&store, &key(name)).await;
        crate::verbs::completed(&store, &key(name), &attempt, &value).await.unwrap();
        written += value.len() as u64;
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    reading.abort();
    assert!(written >= 60_000_000 && longest < 24_000_000, "{longest} of {written} bytes");
}

#[tokio::test]
async fn a_file_with_other_data_keeps_what_is_its_own() {
    let file = TempFile::new();
    let owner = file.connection();
    owner
        .execute_batch(
            "PRAGMA user_version = 41; PRAGMA application_id = 7; CREATE TABLE orders (id)",
        )
        .unwrap();
    let store = SqliteStore::open(file.path()).unwrap();
    answered(&store, &key(1)).await;
    let number = |pragma: &str| {
        owner.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((number("user_version"), number("application_id")), (41, 7));
    // The table can be made by the user's own migrations too.
    let other = TempFile::new();
    for statement in store.schema() {
        other.connection().execute_batch(&statement).unwrap();
        other.connection().execute_batch(&statement).unwrap();
    }
    answered(&SqliteStore::open(other.path()).unwrap(), &key(1)).await;
}
