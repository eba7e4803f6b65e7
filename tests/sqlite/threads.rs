//! The threads are the store's own: any runtime will do, and they end with the store.

use crate::subject::TempFile;
use crate::verbs::{answered, asking, granted, key};
use idempotent_runtime::protocol::{Begun, StoreExt as _};
use idempotent_sql::SqliteStore;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::thread::Thread;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Polls a future on this thread.
fn without_a_runtime(future: impl Future<Output = ()>) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

/// The files that this process has open at this path.
fn open_files(file: &TempFile) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let path = file.path();
    files.flatten().filter(|it| std::fs::read_link(it.path()).is_ok_and(|it| it == path)).count()
}

#[test]
fn a_store_outlives_the_runtime_that_first_used_it() {
    let file = TempFile::new();
    let store = SqliteStore::open(file.path()).unwrap();
    runtime().block_on(answered(&store, &key(1)));
    runtime().block_on(async {
        let told = store.begin(&key(1), &asking()).await.unwrap();
        assert!(matches!(told, Begun::Succeeded { .. }));
        granted(&store, &key(2)).await;
    });
    // Without a runtime.
    let store = &store;
    without_a_runtime(async {
        granted(store, &key(3)).await;
    });
}

#[test]
fn several_runtimes_use_a_store_at_once() {
    let file = TempFile::new();
    let store = SqliteStore::open(file.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                runtime().block_on(async {
                    for name in 0..50 {
                        answered(store, &key(format!("{thread} {name}"))).await;
                    }
                });
            });
        }
    });
}

#[tokio::test]
async fn threads_and_connections_end_with_the_last_clone() {
    let file = TempFile::new();
    let store = SqliteStore::open(file.path()).unwrap();
    let clone = store.clone();
    answered(&store, &key(1)).await;
    drop(store);
    granted(&clone, &key(2)).await;
    assert!(open_files(&file) >= 3);
    drop(clone);
    support::until(|| open_files(&file) == 0).await;
    // Connections that close at the same moment leave SQLite's log to the next one, which reads it.
    let again = SqliteStore::open(file.path()).unwrap();
    let told = again.begin(&key(1), &asking()).await.unwrap();
    assert!(matches!(told, Begun::Succeeded { .. }));
}
