//! Connections that are given up are closed, and the one that listens is made again.

use super::site::{PATIENT, Site, TIMEOUT, record_key};
use crate::proxy::Fault;
use idempotent_runtime::store::Store as _;
use idempotent_sql::{Lent, PostgresStore, TransactExt as _};
use std::sync::{Arc, Mutex};
use support::{until, until_async};

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

const LISTENS: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' \
                       AND datname = current_database() AND state = 'idle'";

/// Nobody watches a record, so that nothing else makes it listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_tells_of_freed_keys_listens_again_by_itself() {
    let site = Site::start().await;
    let (process, operator) = (site.process_with(PATIENT).await, site.process_with(PATIENT).await);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    process.store.on_freed(Arc::new(move |key| tells.lock().unwrap().push(key.to_owned())));
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
