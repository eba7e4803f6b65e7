//! Writes are committed in groups, and fail one by one.

use crate::subject::SqliteSubject;
use crate::verbs::{answered, asking, completed, granted, key};
use idempotent_runtime::protocol::{Begun, StoreExt as _, Updated};
use idempotent_runtime::store::{Store as _, StoreErrorKind};
use idempotent_sql::SqliteStore;
use rusqlite::Connection;
use support::poll_at_most;
use tokio::task::JoinSet;

/// Sends so many begins to a writer that waits, then lets it go on. Returns the answers in order.
async fn begin_together(
    store: &SqliteStore,
    lock: &Connection,
    names: impl IntoIterator<Item = String>,
) -> Vec<(String, Result<Begun, idempotent_runtime::store::StoreError>)> {
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut tasks = JoinSet::new();
    for name in names {
        let store = store.clone();
        tasks.spawn(async move {
            let told = store.begin(&key(&name), &asking()).await;
            (name, told)
        });
    }
    // They get as far as the queue; the first of them waits for the lock there.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    lock.execute_batch("ROLLBACK").unwrap();
    let mut told = tasks.join_all().await;
    told.sort_by(|a, b| a.0.cmp(&b.0));
    told
}

/// The log grows by one commit frame with each commit: its header has the size of the database.
fn commits(subject: &SqliteSubject) -> usize {
    let log = std::fs::read(subject.file.folder().join("records.db-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let (page, salts) = (word(8) as usize, (word(16), word(20)));
    let frames = (32..log.len()).step_by(24 + page).filter(|at| at + 24 <= log.len());
    frames.filter(|at| (word(at + 8), word(at + 12)) == salts && word(at + 4) != 0).count()
}

#[tokio::test]
async fn begins_that_come_together_share_a_commit() {
    let subject = SqliteSubject::new();
    granted(&subject.store, &key("first")).await;
    let before = commits(&subject);
    granted(&subject.store, &key("second")).await;
    assert_eq!(commits(&subject) - before, 1, "a commit alone");
    let before = commits(&subject);
    let lock = subject.file.connection();
    let told = begin_together(&subject.store, &lock, (0..64).map(|it| format!("{it}"))).await;
    assert!(told.iter().all(|(_, told)| matches!(told, Ok(Begun::Fresh(_)))), "{told:?}");
    // One for all that had come in when the lock was free; more only if a task was late.
    let shared = commits(&subject) - before;
    assert!((1..=4).contains(&shared), "{shared} commits for 64 begins");
}

#[tokio::test]
async fn a_damaged_record_fails_alone() {
    let subject = SqliteSubject::new();
    for name in ["a", "b", "c"] {
        granted(&subject.store, &key(name)).await;
    }
    let lock = subject.file.connection();
    let damage = "UPDATE idempotent_records SET state = 'who knows', \
                  expires_at = expires_at + 1000000000 WHERE business_key = 'b'";
    assert_eq!(lock.execute(damage, []).unwrap(), 1);
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let names = ["a", "b", "c", "d"];
    // By the writer, all of them in one group.
    let answers = names.map(|name| {
        let store = subject.store.clone();
        tokio::spawn(async move {
            let attempt = asking().first_attempt();
            completed(&store, &key(name), &attempt, b"late").await
        })
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    lock.execute_batch("ROLLBACK").unwrap();
    for (name, answer) in names.into_iter().zip(answers) {
        match (name, answer.await.unwrap()) {
            ("a" | "c", Ok(Updated::Superseded)) | ("d", Ok(Updated::Vanished)) => {}
            ("b", Err(error)) => {
                assert_eq!(error.kind(), StoreErrorKind::Undecodable);
                assert_eq!(error.to_string(), "the record is damaged: its state is unknown");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_refused_fails_those_that_it_is_about() {
    let subject = SqliteSubject::new();
    let lock = subject.file.connection();
    // A rule of the user's own, which SQLite checks when the transaction is committed.
    lock.execute_batch(
        "CREATE TABLE parents (id INTEGER PRIMARY KEY); \
         CREATE TABLE children (parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED); \
         CREATE TRIGGER orphans AFTER INSERT ON idempotent_records \
         WHEN new.business_key LIKE 'bad%' BEGIN INSERT INTO children VALUES (7); END",
    )
    .unwrap();
    let names = (0..8).map(|it| if it == 3 { "bad".to_owned() } else { format!("good {it}") });
    let told = begin_together(&subject.store, &lock, names).await;
    for (name, told) in told {
        match told {
            Ok(Begun::Fresh(_)) if name != "bad" => {}
            Err(error) if name == "bad" => {
                assert!(!error.may_have_taken_effect(), "{error}");
                assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
                assert_eq!(subject.store.load(&key("bad")).await.unwrap(), None);
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_that_are_dropped_do_no_harm() {
    let subject = SqliteSubject::new();
    for polls in 0..4 {
        for name in 0..50 {
            let key = key(format!("{polls} {name}"));
            let _ = poll_at_most(polls, subject.store.begin(&key, &asking())).await;
        }
    }
    answered(&subject.store, &key("after")).await;
    for polls in 0..4 {
        for name in 0..50 {
            let key = key(format!("{polls} {name}"));
            let told = subject.store.begin(&key, &asking()).await.unwrap();
            assert!(matches!(told, Begun::Fresh(_) | Begun::InFlight { .. }), "{told:?}");
        }
    }
}
