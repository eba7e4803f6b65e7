//! Messages of a call, counted by a proxy; and what they cost the server.

use super::site::{PATIENT, Site, record_key};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{Config, Error, Mode};
use idempotent_sql::PostgresStore;
use std::time::{Duration, Instant};
use support::postgres::PostgresServer;
use support::{until, until_async};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_execution_takes_two_messages_and_a_replay_one() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    // Statements are prepared once on each connection.
    for warm in 0..10 {
        for _ in 0..2 {
            process.run(&format!("warm {warm}")).await.unwrap();
            until(|| process.idem.in_flight() == 0).await;
        }
    }
    process.proxy.take_messages();

    assert_eq!(process.run("k").await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    let messages = process.proxy.take_messages();
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert!(messages[0].contains("INSERT INTO") && messages[1].contains("UPDATE"));

    // A process that has seen the answer looks, and another one asks for the key.
    let other = site.process_with(PATIENT).await;
    for _ in 0..2 {
        other.run("warm 0").await.unwrap();
    }
    for (process, may_write) in [(&process, false), (&other, true), (&other, false)] {
        process.proxy.take_messages();
        assert_eq!(process.run("k").await.unwrap(), 1);
        let messages = process.proxy.take_messages();
        assert_eq!(messages.len(), 1, "{messages:#?}");
        assert_eq!(messages[0].contains("INSERT INTO"), may_write, "{messages:#?}");
    }
}

/// While all keys are new, records are not asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_process_takes_one_message_more_after_many_new_ones() {
    let site = Site::start().await;
    let (process, other) = (site.process_with(PATIENT).await, site.process_with(PATIENT).await);
    for key in ["a", "b", "c"] {
        assert_eq!(other.run(key).await.unwrap(), 1);
    }
    until(|| other.idem.in_flight() == 0).await;
    // Statements are prepared on the connections that are used.
    for key in ["a", "a"] {
        process.run(key).await.unwrap();
    }
    for number in 0..40 {
        assert_eq!(process.run(&format!("new {number}")).await.unwrap(), 1);
        until(|| process.idem.in_flight() == 0).await;
    }
    let statements = async |key: &str| {
        process.proxy.take_messages();
        assert_eq!(process.run(key).await.unwrap(), 1);
        until(|| process.idem.in_flight() == 0).await;
        let is_statement = |text: &String| text.contains("INSERT INTO") || text.contains("UPDATE");
        process.proxy.take_messages().into_iter().filter(is_statement).collect::<Vec<_>>()
    };
    let first = statements("one more").await;
    assert_eq!(first.len(), 2, "{first:#?}");
    assert!(!first[0].contains("SELECT state"), "{first:#?}");
    let known = statements("b").await;
    assert!(known.len() >= 2, "{known:#?}");
    assert!(known.last().unwrap().contains("SELECT state"), "{known:#?}");
    // It has learned from that.
    let known = statements("c").await;
    assert!(known[0].contains("SELECT state"), "{known:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_has_expired_costs_no_message_more() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    let short = Duration::from_millis(50);
    let run = async |key: &str| {
        let body = async { Ok::<_, Error>(process.runs.record(key)) };
        process.op(key).expire(short).run(body).await.unwrap()
    };
    // Both statements are prepared on the connections that are used.
    for key in ["warm", "warm", "k"] {
        run(key).await;
        until(|| process.idem.in_flight() == 0).await;
    }
    until_async(|| async { process.store.load(&record_key("k")).await.unwrap().is_none() }).await;
    process.proxy.take_messages();
    assert_eq!(run("k").await, 2);
    until(|| process.idem.in_flight() == 0).await;
    let messages = process.proxy.take_messages();
    assert_eq!(messages.len(), 2, "{messages:#?}");
}

/// The process has seen the answer, and looks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_another_process_has_removed_is_looked_for_once() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    site.direct.batch_execute("DELETE FROM idempotent_records").await.unwrap();
    process.proxy.take_messages();
    assert_eq!(process.run("k").await.unwrap(), 2);
    until(|| process.idem.in_flight() == 0).await;
    let messages = process.proxy.take_messages();
    let looks = messages.iter().filter(|it| it.contains("SELECT state")).count();
    assert!(messages.iter().any(|it| it.contains("INSERT INTO")), "{messages:#?}");
    assert!(looks > 0, "{messages:#?}");
    assert_eq!(process.run("k").await.unwrap(), 2);
}

/// On a server of its own, so that nobody else writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_writes_nothing_and_waits_for_no_lock() {
    let quiet = ["autovacuum = off", "checkpoint_timeout = 1h", "bgwriter_lru_maxpages = 0"];
    let server = PostgresServer::start_with(&support::postgres::installed(), &quiet);
    let url = server.url("postgres");
    let store = PostgresStore::builder(&url).timeout(PATIENT).connect().await.unwrap();
    store.migrate().await.unwrap();
    let idem = idempotent_runtime::Idempotency::builder().store(store);
    let idem = idem.config(Config::new().with_mode(Mode::Strong)).build().unwrap();
    let run = || async {
        let body = async { Ok::<_, idempotent_runtime::Error>(1) };
        idem.operation("test.op").key("k").run(body).await.unwrap()
    };
    run().await;
    until(|| idem.in_flight() == 0).await;
    let direct = super::subject::connect(&url).await;
    // The first look at a page may tidy it up.
    run().await;
    direct.batch_execute("CHECKPOINT").await.unwrap();
    let lock = "BEGIN; SELECT * FROM idempotent_records FOR UPDATE";
    direct.batch_execute(lock).await.unwrap();
    let position = || async {
        let text = "SELECT pg_current_wal_insert_lsn()::text";
        direct.query_one(text, &[]).await.unwrap().get::<_, String>(0)
    };
    let written = async || {
        let before = position().await;
        let started = Instant::now();
        for _ in 0..10 {
            run().await;
        }
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
        position().await != before
    };
    // The server itself notes its running transactions now and then.
    let mut quiet = false;
    for _ in 0..5 {
        quiet |= !written().await;
    }
    assert!(quiet, "replays write");
}
