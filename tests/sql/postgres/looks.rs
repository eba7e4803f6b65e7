//! Looks that share a connection hold up neither writers nor each other.

use super::site::{PATIENT, Process, Site, TIMEOUT, record_key};
use crate::proxy::Fault;
use idempotent_runtime::store::{Store as _, StoreError, StoreErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use support::{until, until_async};
use tokio::task::JoinSet;

fn is_look(text: &str) -> bool {
    text.starts_with("SELECT state")
}

/// Callers that look all the time.
struct Crowd {
    tasks: JoinSet<Result<(), StoreError>>,
    answers: Arc<Vec<AtomicUsize>>,
    is_over: Arc<AtomicBool>,
}

impl Crowd {
    fn start(process: &Process, callers: usize) -> Self {
        let answers: Vec<_> = (0..callers).map(|_| AtomicUsize::new(0)).collect();
        let (answers, is_over) = (Arc::new(answers), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let (store, key) = (process.store.clone(), record_key("k"));
            let (answers, is_over) = (Arc::clone(&answers), Arc::clone(&is_over));
            tasks.spawn(async move {
                while !is_over.load(Relaxed) {
                    store.load(&key).await?;
                    answers[caller].fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        Self { tasks, answers, is_over }
    }

    /// Waits until everybody has been answered so often, or somebody has been refused.
    async fn until_all_have(&self, answers: usize) {
        let is_served = || self.answers.iter().all(|it| it.load(Relaxed) >= answers);
        until(|| is_served() || self.tasks.len() < self.answers.len()).await;
    }

    async fn end(mut self) -> Result<(), StoreError> {
        self.is_over.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap()?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_looks_leaves_a_connection_to_writers() {
    let site = Site::start().await;
    let process = site.process_as(|builder| builder.timeout(PATIENT).max_connections(1)).await;
    process.run("k").await.unwrap();
    let crowd = Crowd::start(&process, 6);
    for round in 1..=3 {
        crowd.until_all_have(round * 20).await;
        assert_eq!(process.run(&format!("new {round}")).await.unwrap(), 1);
    }
    crowd.end().await.unwrap();
    assert_eq!(process.proxy.open(), 1);
}

/// More looks than are sent behind each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_look_of_a_crowd_gets_its_turn() {
    let site = Site::start().await;
    let process = site.process_as(|builder| builder.timeout(PATIENT).max_connections(1)).await;
    let crowd = Crowd::start(&process, 20);
    crowd.until_all_have(50).await;
    crowd.end().await.unwrap();
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
