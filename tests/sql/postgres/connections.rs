//! Connections that are given up are closed, looks share them, and the one that listens is made again.

use super::site::{PATIENT, Process, Site, TIMEOUT, record_key};
use crate::proxy::Fault;
use idempotent_runtime::store::{
    Filter, FreedEvent, FreedListener, Record, Store as _, StoreError, StoreErrorKind,
};
use idempotent_sql::{Lent, PostgresBuilder, PostgresStore, TransactExt as _};
use std::sync::{Arc, Mutex};
use support::{until, until_async};
use tokio::task::JoinHandle;

fn is_look(text: &str) -> bool {
    text.starts_with("SELECT state")
}

/// Until TCP gives up as well, hours may pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_statement_is_given_up_is_closed_at_once() {
    let site = Site::start().await;
    let process = site.process().await;
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
        let open = process.proxy.open();
        process.proxy.strike(is_look, fault);
        process.store.load(&record_key("k")).await.unwrap_err();
        until(|| process.proxy.open() < open).await;
    }
}

/// Its open transaction is rolled back first, if the server answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_caller_has_gone_is_closed_if_the_server_is_silent() {
    let site = Site::start().await;
    let process = site.process().await;
    until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
    let open = process.proxy.open();
    process.proxy.strike(is_look, Fault::LoseReply);
    let store = process.store.clone();
    let call = tokio::spawn(async move { store.load(&record_key("k")).await });
    until(|| process.proxy.has_struck()).await;
    call.abort();
    until(|| process.proxy.open() < open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_transaction_was_dropped_is_closed_if_the_server_is_silent() {
    let site = Site::start().await;
    let process = site.process().await;
    until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
    let open = process.proxy.open();
    process.proxy.strike(|text| text == "SELECT 'the body'", Fault::LoseReply);
    let operation = process.op("k");
    let call = operation.transact(&process.store, async |tx: Lent<PostgresStore>| {
        tx.batch_execute("SELECT 'the body'").await.unwrap();
        Ok::<_, idempotent_runtime::Error>(1)
    });
    let mut call = call.into_future();
    tokio::select! {
        answer = &mut call => panic!("it is answered: {answer:?}"),
        () = until(|| process.proxy.has_struck()) => {}
    }
    assert_eq!(process.proxy.open(), open + 1);
    drop(call);
    until(|| process.proxy.open() == open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_cannot_listen_is_closed() {
    let site = Site::start().await;
    let process = site.process().await;
    until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
    let open = process.proxy.open();
    process.proxy.strike(|text| text.starts_with("LISTEN"), Fault::LoseReply);
    let _watch = process.store.watch(&record_key("k")).await;
    assert!(process.proxy.has_struck());
    until(|| process.proxy.open() == open).await;
}

/// Its statements may wait for a lock for long.
fn one_connection(builder: PostgresBuilder) -> PostgresBuilder {
    builder.timeout(PATIENT * 4).lock_timeout(PATIENT * 4).max_connections(1)
}

/// Looks that wait for a lock on the whole table, on one connection.
struct Waiting {
    site: Site,
    process: Process,
    looks: Vec<JoinHandle<Result<Option<Record>, StoreError>>>,
}

impl Waiting {
    /// Returns when all of them have been sent, and none can be answered.
    async fn start() -> Self {
        let site = Site::start().await;
        let process = site.process_as(one_connection).await;
        process.run("k").await.unwrap();
        until(|| process.idem.in_flight() == 0).await;
        process.store.load(&record_key("k")).await.unwrap();
        process.proxy.take_messages();
        let lock = "BEGIN; LOCK TABLE idempotent_records IN ACCESS EXCLUSIVE MODE";
        site.direct.batch_execute(lock).await.unwrap();
        let look = || {
            let store = process.store.clone();
            tokio::spawn(async move { store.load(&record_key("k")).await })
        };
        let mut looks = Vec::new();
        let mut sent = 0;
        // The first opens the connection to the others. Two that come at once would both ask for one, and there is one.
        for count in [1, 5] {
            looks.resize_with(count, look);
            until(|| {
                sent += process.proxy.take_messages().iter().filter(|text| is_look(text)).count();
                sent == count
            })
            .await;
        }
        Self { site, process, looks }
    }

    async fn go_on(&self) {
        self.site.direct.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_are_sent_behind_each_other() {
    let mut waiting = Waiting::start().await;
    assert_eq!(waiting.process.proxy.open(), 1);
    waiting.go_on().await;
    for look in waiting.looks.drain(..) {
        assert!(look.await.unwrap().unwrap().is_some());
    }
    // The connection is free for statements that have it to themselves.
    assert_eq!(waiting.process.run("another").await.unwrap(), 1);
    assert_eq!(waiting.process.proxy.open(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_whose_caller_goes_away_harms_no_other() {
    for gone in [0, 2, 4] {
        let mut waiting = Waiting::start().await;
        let look = waiting.looks.remove(gone);
        look.abort();
        assert!(look.await.unwrap_err().is_cancelled());
        waiting.go_on().await;
        for look in waiting.looks.drain(..) {
            assert!(look.await.unwrap().unwrap().is_some());
        }
        assert_eq!(waiting.process.run("another").await.unwrap(), 1);
        assert_eq!(waiting.process.proxy.open(), 1);
    }
}

/// The one that was sent first fails, as it would alone; the others are sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_look_of_a_lost_connection_fails_and_the_others_have_another() {
    for end_by_server in [false, true] {
        let mut waiting = Waiting::start().await;
        let connections = waiting.process.proxy.connections();
        if end_by_server {
            // The first of them waits for the lock.
            let looks = "application_name = 'idempotent' AND wait_event_type = 'Lock'";
            until_async(|| async { waiting.site.terminate(looks).await == 1 }).await;
        } else {
            waiting.process.proxy.cut();
        }
        // Nothing is answered before the connection is gone.
        until(|| waiting.process.proxy.connections() > connections).await;
        waiting.go_on().await;
        let mut failed = 0;
        for look in waiting.looks.drain(..) {
            match look.await.unwrap() {
                Ok(found) => assert!(found.is_some()),
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
                    failed += 1;
                }
            }
        }
        assert_eq!(failed, 1);
        assert!(waiting.process.store.load(&record_key("k")).await.unwrap().is_some());
    }
}

/// Looks that keep joining would keep the connection for ever.
#[tokio::test]
async fn no_look_goes_before_a_statement_that_waits_for_a_connection() {
    let site = Site::start().await;
    let process = site.process_as(one_connection).await;
    process.run("k").await.unwrap();
    until(|| process.idem.in_flight() == 0).await;
    // The statements are prepared.
    process.store.load(&record_key("k")).await.unwrap();
    process.store.scan(&Filter::new(), None, 1).await.unwrap();
    process.proxy.take_messages();
    let lock = "BEGIN; LOCK TABLE idempotent_records IN ACCESS EXCLUSIVE MODE";
    site.direct.batch_execute(lock).await.unwrap();
    let look = || {
        let store = process.store.clone();
        tokio::spawn(async move { store.load(&record_key("k")).await })
    };
    let mut messages = Vec::new();
    let first = look();
    until(|| {
        messages.extend(process.proxy.take_messages());
        messages.iter().any(|text| is_look(text))
    })
    .await;
    let listing = tokio::spawn({
        let store = process.store.clone();
        async move { store.scan(&Filter::new(), None, 1).await }
    });
    // The only thread gets to what waits by yielding.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let second = look();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    site.direct.batch_execute("ROLLBACK").await.unwrap();
    first.await.unwrap().unwrap();
    listing.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    messages.extend(process.proxy.take_messages());
    let order: Vec<bool> = messages
        .iter()
        .filter(|text| text.starts_with("SELECT"))
        .map(|text| is_look(text))
        .collect();
    assert_eq!(order, [true, false, true], "{messages:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_without_an_answer_end_in_time_and_later_ones_have_another_connection() {
    let site = Site::start().await;
    let process = site.process_as(|builder| builder.timeout(TIMEOUT).max_connections(2)).await;
    until_async(|| async { process.store.load(&record_key("k")).await.is_ok() }).await;
    process.proxy.strike(is_look, Fault::LoseReply);
    let look = || {
        let store = process.store.clone();
        tokio::spawn(async move { store.load(&record_key("k")).await })
    };
    let first = look();
    until(|| process.proxy.has_struck()).await;
    let second = look();
    assert_eq!(first.await.unwrap().unwrap_err().kind(), StoreErrorKind::Unavailable);
    // It has been sent again, on the other connection.
    second.await.unwrap().unwrap();
}

const LISTENS: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' \
                       AND datname = current_database() AND state = 'idle'";

/// Nobody watches a record, so that nothing else makes it listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_tells_of_freed_keys_listens_again_by_itself() {
    let site = Site::start().await;
    let (process, operator) = (site.process_with(PATIENT).await, site.process_with(PATIENT).await);
    let told = Arc::new(Mutex::new(Vec::new()));
    process.store.on_freed(FreedListener::new(&told, |told: &Mutex<Vec<String>>, event| {
        if let FreedEvent::Freed(key) = event {
            told.lock().unwrap().push(key.to_owned());
        }
    }));
    for round in 1..=3 {
        until_async(|| async { site.number(LISTENS).await == 1 }).await;
        operator.store.announce_freed(&record_key("k")).await;
        until(|| told.lock().unwrap().len() == round).await;
        if round == 2 {
            // It cannot connect for a while.
            process.proxy.go_down();
            until_async(|| async { site.number(LISTENS).await == 0 }).await;
            tokio::time::sleep(TIMEOUT).await;
            process.proxy.come_up();
        } else {
            assert_eq!(site.terminate("query LIKE 'LISTEN%'").await, 1);
        }
    }
    // It ends with the store.
    until_async(|| async { site.number(LISTENS).await == 1 }).await;
    drop(process);
    until_async(|| async { site.number(LISTENS).await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_listens_again_if_the_runtime_of_the_listener_has_ended() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    let store = process.store.clone();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _watch = runtime.block_on(store.watch(&record_key("k"))).unwrap();
    });
    tokio::task::spawn_blocking(|| elsewhere.join().unwrap()).await.unwrap();
    until_async(|| async { site.number(LISTENS).await == 0 }).await;
    let _watch = process.store.watch(&record_key("k")).await.unwrap();
    assert_eq!(site.number(LISTENS).await, 1);
}
