//! Messages that are lost, unanswered or cut off, for the verbs of a call; and servers that go away.

use super::site::{LEASE, Process, Site, TIMEOUT, record_key};
use crate::faults::faults_of_messages;
use idempotent_runtime::{Config, Idempotency, Mode};
use idempotent_sql::MySqlStore;
use std::time::Duration;
use support::mariadb::MariaDbServer;
use support::until_async;

fn is_begin(text: &str) -> bool {
    text.contains("INSERT INTO")
}

/// Also of a failure, which frees the key.
fn is_completion(text: &str) -> bool {
    text.contains("UPDATE") && text.contains("response = ")
}

fn is_renewal(text: &str) -> bool {
    text.contains("GREATEST")
}

faults_of_messages!();

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_cut_while_idle_cost_one_message() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(5)).await;
    // Several idle connections.
    let calls: Vec<String> = (0..8).map(|call| call.to_string()).collect();
    let mut looks = JoinSet::new();
    for key in &calls {
        let (store, key) = (process.store.clone(), record_key(key));
        looks.spawn(async move { store.load(&key).await.unwrap() });
    }
    looks.join_all().await;
    process.proxy.cut();
    let key = record_key("k");
    let mut lost = 0;
    while let Err(error) = process.store.load(&key).await {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        lost += 1;
    }
    assert!(lost <= 1, "{lost} connections were tried");
    assert_eq!(process.run("k").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_a_connection_that_works() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(5)).await;
    let mut other = site.direct().await;
    process.run("k").await.unwrap();
    // A statement that is under way: it waits for a row.
    sqlx::raw_sql("START TRANSACTION; SELECT * FROM idempotent_records FOR UPDATE")
        .execute(&mut other)
        .await
        .unwrap();
    let (store, key) = (process.store.clone(), record_key("k"));
    let connections = process.proxy.connections();
    let forget = tokio::spawn(async move { store.forget(&key, true).await });
    until(|| process.proxy.take_messages().iter().any(|it| it.contains("DELETE"))).await;
    forget.abort();
    assert!(forget.await.unwrap_err().is_cancelled());
    // It has its connection to itself until it has ended, and then gives it back.
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    site.until_state("k", "").await;
    for round in 2..20 {
        assert_eq!(process.run("k").await.unwrap(), 2, "{round}");
        assert_eq!(process.run(&round.to_string()).await.unwrap(), 1);
    }
    assert!(process.proxy.connections() <= connections + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_has_lost_nothing_that_it_acknowledged() {
    let server = Arc::new(std::sync::Mutex::new(MariaDbServer::start()));
    let url = server.lock().unwrap().create_database();
    let store = MySqlStore::builder(&url).timeout(TIMEOUT).connect().await.unwrap();
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
    tokio::task::spawn_blocking({
        let server = Arc::clone(&server);
        move || {
            let mut server = server.lock().unwrap();
            server.kill();
            std::thread::sleep(TIMEOUT);
        }
    })
    .await
    .unwrap();
    let answered: Vec<usize> = callers.join_all().await.into_iter().flatten().collect();
    assert!(answered.len() > 20, "{} answers", answered.len());
    let health = store.health().await.unwrap_err();
    assert_eq!(health.kind(), StoreErrorKind::Unavailable, "{health}");
    tokio::task::spawn_blocking({
        let server = Arc::clone(&server);
        move || server.lock().unwrap().restart()
    })
    .await
    .unwrap();
    until_async(|| async { store.health().await.is_ok() }).await;
    // Answers that the engine has not yet recorded arrive now.
    until(|| idem.in_flight() == 0).await;
    for key in answered {
        assert_eq!(call(key, usize::MAX).await.unwrap(), key);
    }
}
