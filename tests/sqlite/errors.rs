//! The errors say what is wrong, whether there was an effect, and what to do.

use crate::orders::SqliteOrders;
use crate::subject::{SqliteSubject, TempFile};
use crate::verbs::{LEASE, asking, completed, granted, key};
use idempotent_runtime::protocol::{Begun, StoreExt as _, Updated};
use idempotent_runtime::store::{Store as _, StoreError, StoreErrorKind};
use idempotent_sql::SqliteStore;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

fn refused(opened: Result<SqliteStore, StoreError>) -> (StoreErrorKind, String) {
    let error = opened.expect_err("it is refused");
    assert!(!error.may_have_taken_effect(), "{error}");
    (error.kind(), error.to_string())
}

fn misconfigured(opened: Result<SqliteStore, StoreError>) -> String {
    let (kind, text) = refused(opened);
    assert_eq!(kind, StoreErrorKind::Misconfigured, "{text}");
    text
}

#[test]
fn a_missing_folder_is_named() {
    let file = TempFile::new();
    let folder = file.folder().join("missing");
    let path = folder.join("records.db");
    assert_eq!(
        misconfigured(SqliteStore::open(&path)),
        format!(
            "the folder of `{}` does not exist\nhelp: mkdir -p {}",
            path.display(),
            folder.display()
        )
    );
    let folder = file.folder();
    assert_eq!(
        misconfigured(SqliteStore::open(&folder)),
        format!(
            "`{0}` is a folder\nhelp: name a file in it, such as `{0}/records.db`",
            folder.display()
        )
    );
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let file = TempFile::new();
    let text = "some notes, longer than the head of a database: ".repeat(20);
    std::fs::write(file.path(), &text).unwrap();
    assert_eq!(
        misconfigured(SqliteStore::open(file.path())),
        format!(
            "`{}` is not a database of SQLite\nhelp: choose a path where there is no file yet, or a \
             database",
            file.path().display()
        )
    );
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
}

#[test]
fn a_store_without_a_file_is_refused() {
    for path in ["", ":memory:"] {
        assert_eq!(
            misconfigured(SqliteStore::open(path)),
            "a store in SQLite needs a file\nhelp: name a path, or use `MemoryStore`"
        );
    }
}

#[test]
fn a_table_of_another_version_is_refused() {
    let file = TempFile::new();
    let refusal = |found: &str| {
        format!(
            "the table \"idempotent_records\" in `{}` is not one of this version: {found}\nhelp: \
             choose another one with `table`, or compare it with the statements that `schema()` \
             returns",
            file.path().display()
        )
    };
    file.connection().execute_batch("CREATE TABLE idempotent_records (key)").unwrap();
    assert_eq!(misconfigured(SqliteStore::open(file.path())), refusal("something else made it"));
    let later = "DROP TABLE idempotent_records; \
                 CREATE TABLE idempotent_records ( -- idempotency records, version 2\n key)";
    file.connection().execute_batch(later).unwrap();
    assert_eq!(misconfigured(SqliteStore::open(file.path())), refusal("it has version 2"));
    file.builder().table("other_records").open().unwrap();
    for name in ["main.records", "Records", "records; DROP TABLE orders"] {
        let text = misconfigured(file.builder().table(name).open());
        assert!(text.starts_with(&format!("`{name}` cannot be the name of the table")), "{text}");
    }
}

#[tokio::test]
async fn a_table_that_is_gone_or_changed_is_named() {
    let SqliteSubject { store, file, .. } = SqliteSubject::new();
    let attempt = granted(&store, &key(1)).await;
    file.connection().execute_batch("DROP TABLE idempotent_records").unwrap();
    for error in [
        store.load(&key(1)).await.unwrap_err(),
        store.begin(&key(1), &asking()).await.unwrap_err(),
        store.renew(&key(1), &attempt, LEASE).await.unwrap_err(),
        store.health().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert_eq!(
            error.to_string(),
            format!(
                "the table \"idempotent_records\" is not in `{}` any more\nhelp: open the store \
                 again, which makes it, or run the statements that `schema()` returns",
                file.path().display()
            )
        );
    }
}

#[tokio::test]
async fn a_file_that_is_locked_for_too_long_is_contended() {
    let patience = Duration::from_millis(50);
    let SqliteSubject { store, file, .. } = SqliteSubject::with(|it| it.patience(patience));
    let other = file.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.begin(&key(1), &asking()).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_taken_effect()), (StoreErrorKind::Contended, false));
    assert_eq!(
        error.to_string(),
        format!(
            "another connection has locked `{}` for longer than 50ms\nhelp: keep transactions on \
             this file short, or raise `patience`",
            file.path().display()
        )
    );
    other.execute_batch("ROLLBACK").unwrap();
    // It had no effect, also later.
    assert_eq!(granted(&store, &key(1)).await.number, 1);
}

#[tokio::test]
async fn a_full_disk_refuses_new_keys_and_takes_the_end_of_attempts() {
    let SqliteSubject { store, file, .. } = SqliteSubject::with(|builder| builder.max_pages(16));
    let mut running = Vec::new();
    let error = loop {
        let key = key(format!("{:-<200}", running.len()));
        match store.begin(&key, &asking()).await {
            Ok(Begun::Fresh(attempt)) => running.push((key, attempt)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(store.load(&key).await.unwrap(), None);
                break error;
            }
        }
    };
    assert_eq!((error.kind(), error.may_have_taken_effect()), (StoreErrorKind::Full, false));
    assert_eq!(
        error.to_string(),
        format!(
            "SQLite: no room to write to `{}`\nhelp: free some space on its disk, or let records \
             expire earlier",
            file.path().display()
        )
    );
    assert!(running.len() > 10);
    for (key, attempt) in &running {
        assert_eq!(store.renew(key, attempt, LEASE * 2).await.unwrap(), Updated::Done);
        let done = completed(&store, key, attempt, &[7; 5_000]).await.unwrap();
        assert!(matches!(done, Updated::Done | Updated::DoneWithoutValue), "{done:?}");
    }
}

#[tokio::test]
async fn expired_records_make_room_on_a_full_disk() {
    let SqliteSubject { store, clocks, file: _file } =
        SqliteSubject::with(|builder| builder.max_pages(16));
    let name = |number| key(format!("{number:-<200}"));
    let mut number = 0;
    while store.begin(&name(number), &asking()).await.is_ok() {
        number += 1;
    }
    clocks.advance(Duration::from_secs(3_600));
    for later in 0..number / 2 {
        granted(&store, &name(1_000 + later)).await;
    }
}

/// Opens the file as a user that may not write to it, in another process: root may do anything.
#[test]
fn a_read_only_file_is_refused() {
    let file = TempFile::new();
    drop(SqliteStore::open(file.path()).unwrap());
    let worker = env!("CARGO_BIN_EXE_sqlite-worker");
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o444)).unwrap();
    std::fs::set_permissions(file.folder(), PermissionsExt::from_mode(0o755)).unwrap();
    let orders = serde_json::to_string(&SqliteOrders::Open { path: file.path() }).unwrap();
    // A copy in a place that everybody can reach.
    let copy = file.folder().join("worker");
    std::fs::copy(worker, &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(copy);
    command.arg(orders);
    if is_root {
        command.uid(65_534).gid(65_534);
    }
    let printed = printed_by(command);
    let text = format!(
        "`{}` is read-only\\nhelp: let the user of this process write to the file and to its folder, \
         where SQLite keeps two more files beside it",
        file.path().display()
    );
    assert!(printed.starts_with("Misconfigured") && printed.contains(&text), "{printed}");
}

/// Runs a worker to its end.
fn printed_by(mut command: Command) -> String {
    // Its standard input stays open until it has ended.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input);
    String::from_utf8(output.stdout).unwrap()
}

/// The disk fails in a commit: a limit on the size of files, in another process.
#[tokio::test]
async fn a_commit_that_the_disk_fails_is_unknown_and_loses_nothing() {
    let file = TempFile::new();
    let orders = serde_json::to_string(&SqliteOrders::Fill { path: file.path() }).unwrap();
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_sqlite-worker"), &orders]);
    let printed = printed_by(command);
    let (number, error) = printed.split_once(' ').expect("it failed");
    let number: u32 = number.parse().unwrap();
    assert!(number > 10, "{printed}");
    assert!(error.starts_with("Unavailable true "), "{printed}");
    let text = "the disk may or may not have written the last transaction to";
    assert!(error.contains("disk I/O error") && error.contains(text), "{printed}");
    let store = SqliteStore::open(file.path()).unwrap();
    for acknowledged in 0..number {
        let record = store.load(&key(acknowledged)).await.unwrap();
        assert!(record.is_some(), "{acknowledged} of {number} is lost");
    }
}
