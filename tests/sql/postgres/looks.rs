//! Looks that share a connection do not share its faults.

use super::site::{Site, TIMEOUT, record_key};
use crate::proxy::Fault;
use idempotent_runtime::store::{Store as _, StoreErrorKind};
use support::{until, until_async};
use tokio::task::JoinSet;

fn is_look(text: &str) -> bool {
    text.starts_with("SELECT state")
}

/// Its connection may be the only one that is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_behind_one_that_is_not_answered_is_sent_again() {
    let site = Site::start().await;
    for fault in Fault::ALL {
        let process = site.process_with(TIMEOUT).await;
        process.run("k").await.unwrap();
        until(|| process.idem.in_flight() == 0).await;
        until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
        // Nothing is answered until the fault has happened.
        let lock = "BEGIN; LOCK TABLE idempotent_records IN ACCESS EXCLUSIVE MODE";
        site.direct.batch_execute(lock).await.unwrap();
        process.proxy.take_messages();
        process.proxy.strike(is_look, fault);
        let mut looks = JoinSet::new();
        for _ in 0..4 {
            let store = process.store.clone();
            looks.spawn(async move { store.load(&record_key("k")).await });
        }
        until(|| process.proxy.has_struck()).await;
        site.direct.batch_execute("ROLLBACK").await.unwrap();
        let answers = looks.join_all().await;
        let failed: Vec<_> = answers.iter().filter_map(|it| it.as_ref().err()).collect();
        assert!(failed.len() <= 1, "{fault:?}: {answers:#?}");
        assert!(failed.iter().all(|error| error.kind() == StoreErrorKind::Unavailable));
    }
}
