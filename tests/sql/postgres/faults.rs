//! Messages that are lost, unanswered or cut off, for the verbs of a call; and servers that go away.

use super::site::{LEASE, PATIENT, Process, Site, TIMEOUT, record_key};
use crate::faults::faults_of_messages;
use idempotent_runtime::{Config, Idempotency, Mode};
use idempotent_sql::PostgresStore;
use std::sync::Mutex;
use std::time::Duration;
use support::postgres::PostgresServer;
use support::until_async;
use tokio::task::spawn_blocking;

fn is_begin(text: &str) -> bool {
    text.contains("INSERT INTO")
}

/// Also of a failure, which frees the key.
fn is_completion(text: &str) -> bool {
    text.contains("UPDATE") && text.contains("response = ") && !is_begin(text)
}

fn is_renewal(text: &str) -> bool {
    text.contains("greatest(record")
}

fn is_look(text: &str) -> bool {
    text.starts_with("SELECT state")
}

faults_of_messages!();

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_look_the_next_one_is_answered() {
    for_each_fault(|_site, process, fault, key| async move {
        process.run(&key).await.unwrap();
        until(|| process.idem.in_flight() == 0).await;
        let record = record_key(&key);
        process.store.load(&record).await.unwrap();
        process.proxy.strike(is_look, fault);
        let error = process.store.load(&record).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{key}: {error}");
        assert!(process.store.load(&record).await.unwrap().is_some(), "{key}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_ended_while_idle_cost_no_call() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    for end_by_server in [false, true] {
        // Several idle connections.
        let mut looks = JoinSet::new();
        for key in 0..8 {
            let (store, key) = (process.store.clone(), record_key(&key.to_string()));
            looks.spawn(async move { store.load(&key).await.unwrap() });
        }
        looks.join_all().await;
        if end_by_server {
            assert!(site.terminate("application_name = 'idempotent'").await > 0);
        } else {
            process.proxy.cut();
        }
        let key = format!("{end_by_server}");
        assert_eq!(process.run(&key).await.unwrap(), 1);
        site.until_state(&key, "succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_at_work_is_unanswered() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    site.until_state("k", "succeeded").await;
    // A statement that is under way: it waits for a row.
    site.direct.batch_execute("BEGIN; SELECT * FROM idempotent_records FOR UPDATE").await.unwrap();
    process.proxy.take_messages();
    let store = process.store.clone();
    let forget = tokio::spawn(async move { store.forget(&record_key("k"), true).await });
    let mut ended = 0;
    while ended == 0 {
        ended = site.terminate("wait_event_type = 'Lock'").await;
    }
    let error = forget.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.may_have_taken_effect(), "{error}");
    site.direct.batch_execute("COMMIT").await.unwrap();
    assert_eq!(process.run("k").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_holds_up_no_call_after_it() {
    let site = Site::start().await;
    let process =
        site.process_as(|it| it.timeout(PATIENT).lock_timeout(Duration::from_secs(5))).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    site.until_state("k", "succeeded").await;
    site.direct.batch_execute("BEGIN; SELECT * FROM idempotent_records FOR UPDATE").await.unwrap();
    process.proxy.take_messages();
    let store = process.store.clone();
    let forget = tokio::spawn(async move { store.forget(&record_key("k"), true).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND wait_event_type = 'Lock'";
    until_async(|| async { site.number(waits).await == 1 }).await;
    forget.abort();
    assert!(forget.await.unwrap_err().is_cancelled());
    // Its statement still waits. Others have connections of their own.
    let others = async {
        for round in 0..5 {
            assert_eq!(process.run(&round.to_string()).await.unwrap(), 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(3), others).await.expect("held up by a statement");
    let connections = process.proxy.connections();
    site.direct.batch_execute("COMMIT").await.unwrap();
    site.until_state("k", "").await;
    for round in 10..30 {
        assert_eq!(process.run(&round.to_string()).await.unwrap(), 1);
    }
    assert!(process.proxy.connections() <= connections + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_session_times_out_and_the_next_call_has_another() {
    let server = PostgresServer::start();
    let url = server.url("postgres");
    let store = PostgresStore::builder(&url).timeout(TIMEOUT).connect().await.unwrap();
    store.migrate().await.unwrap();
    let look = "SELECT pid::bigint FROM pg_stat_activity WHERE application_name = 'idempotent'";
    let direct = super::subject::connect(&url).await;
    let backend: i64 = direct.query_one(look, &[]).await.unwrap().get(0);
    let (key, request) = (record_key("k"), asking());
    let paused = server.pause_backend(u32::try_from(backend).unwrap());
    let error = store.begin(&key, &request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.may_have_taken_effect(), "{error}");
    until_async(|| async { store.load(&key).await.is_ok() }).await;
    assert_eq!(store.begin(&key, &request).await.unwrap(), Begun::Fresh(request.first_attempt()));
    // The session that goes on finds the record of its own attempt, and grants nothing anew.
    drop(paused);
    until_async(|| async { direct.query(look, &[]).await.unwrap().len() == 1 }).await;
    let other = store.begin(&key, &asking()).await.unwrap();
    assert!(matches!(other, Begun::InFlight { .. }), "{other:?}");
    let attempt = store.load(&key).await.unwrap().unwrap().head.attempt;
    assert_eq!(attempt, request.first_attempt());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_has_lost_nothing_that_it_acknowledged() {
    let server = Arc::new(Mutex::new(PostgresServer::start()));
    let url = server.lock().unwrap().create_database();
    let store = PostgresStore::builder(&url).timeout(TIMEOUT).connect().await.unwrap();
    store.migrate().await.unwrap();
    let config = Config::new().with_mode(Mode::Strong).with_wait(LEASE).with_lease(LEASE);
    let idem = Idempotency::builder().store(store.clone()).config(config).build().unwrap();
    let instance = idem.clone();
    let call = move |key: usize, value: usize| {
        let idem = instance.clone();
        async move {
            idem.operation("test.op")
                .key(key.to_string())
                .run(async { Ok::<_, idempotent_runtime::Error>(value) })
                .await
        }
    };
    // Callers go on while it is killed: those that got an answer get it again.
    let mut callers = JoinSet::new();
    for lane in 0..4 {
        let call = call.clone();
        callers.spawn(async move {
            let mut answered = Vec::new();
            for key in (lane..).step_by(4) {
                match call(key, key).await {
                    Ok(_) => answered.push(key),
                    Err(_) => return answered,
                }
            }
            answered
        });
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let kills = Arc::clone(&server);
    spawn_blocking(move || kills.lock().unwrap().kill()).await.unwrap();
    let answered: Vec<usize> = callers.join_all().await.into_iter().flatten().collect();
    assert!(answered.len() > 20, "{} answers", answered.len());
    let health = store.health().await.unwrap_err();
    assert_eq!(health.kind(), StoreErrorKind::Unavailable, "{health}");
    let restarts = Arc::clone(&server);
    spawn_blocking(move || restarts.lock().unwrap().restart()).await.unwrap();
    until_async(|| async { store.health().await.is_ok() }).await;
    // Answers that the engine has not yet recorded arrive now.
    until(|| idem.in_flight() == 0).await;
    for key in answered {
        assert_eq!(call(key, usize::MAX).await.unwrap(), key);
    }
    assert!(!store.is_pooled(), "an outage was taken for a pooler");
}
