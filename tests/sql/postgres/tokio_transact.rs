//! Transactions of tokio-postgres: on connections of the store, and of the caller's.

use super::site::{PATIENT, Site};
use super::subject::connect;
use crate::exactly_once::unique;
use crate::proxy::{Fault, Protocol, Proxy};
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{AnswerPolicy, Begin, Config, Error, Idempotency, Mode, idempotent};
use idempotent_sql::{
    CommitExt as _, Isolation, Lent, PostgresStore, TransactExt as _, TransactionPool as _,
    Transactions,
};
use std::sync::Arc;
use std::time::Duration;
use support::database::Database;
use support::postgres::shared_postgres;
use support::until_async;
use tokio_postgres::Transaction;

#[derive(Debug)]
pub(crate) enum Failed {
    Refused(String),
    Busy,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

const INSERT: &str = "INSERT INTO ledger (entry) VALUES ($1)";

struct Bench {
    idem: Idempotency,
    store: PostgresStore,
    database: Database,
}

async fn bench() -> Bench {
    let database = shared_postgres().database();
    database.execute("CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text)");
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    Bench { idem, store, database }
}

impl Bench {
    async fn charge(&self, key: &str, fails: bool) -> Result<u64, Failed> {
        self.idem
            .operation("charge")
            .key(key)
            .mode(Mode::Strong)
            .transact(&self.store, async |tx| {
                tx.execute(INSERT, &[&key]).await?;
                if fails { Err(Failed::Busy) } else { Ok(7) }
            })
            .isolation(Isolation::RepeatableRead)
            .await
    }

    fn rows(&self, key: &str) -> String {
        self.database.execute(&format!("SELECT count(*) FROM ledger WHERE entry = '{key}'"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_the_store_commit_record_and_rows() {
    let (bench, key) = (Arc::new(bench().await), unique("own"));
    assert!(matches!(bench.charge(&key, true).await, Err(Failed::Busy)));
    assert_eq!(bench.rows(&key), "0");
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (bench, key) = (Arc::clone(&bench), key.clone());
            tokio::spawn(async move { bench.charge(&key, false).await.unwrap() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 7);
    }
    assert_eq!(bench.rows(&key), "1");
}

/// A body may take longer than a statement of the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_a_body_have_none_of_the_limits_of_the_store() {
    let database = shared_postgres().database();
    let store = PostgresStore::builder(&database.url());
    let store = store.timeout(std::time::Duration::from_millis(100)).connect().await.unwrap();
    store.migrate().await.unwrap();
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    let slow = idem.operation("slow").key(1).transact(&store, async |tx| {
        tx.batch_execute("SELECT pg_sleep(0.3)").await?;
        Ok::<u8, Failed>(1)
    });
    assert_eq!(slow.await.unwrap(), 1);
}

/// The claim does not wait for the answer to `BEGIN`. If that never comes, the body does not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begin_and_claim_are_one_round_trip() {
    let bench = bench().await;
    let proxy = Proxy::start(shared_postgres().address(), Protocol::Postgres).await;
    let url = bench.database.url_through(proxy.port);
    let store = loop {
        // On a busy machine the first answer may take longer than later ones are waited for.
        let builder = PostgresStore::builder(&url).timeout(Duration::from_millis(400));
        if let Ok(store) = builder.connect().await {
            break store;
        }
    };
    let bench = Bench { idem: bench.idem, store, database: bench.database };
    // Statements are prepared once on a connection.
    for warm in 0..3 {
        bench.charge(&unique(&format!("warm {warm}")), false).await.unwrap();
    }
    let key = unique("one round trip");
    proxy.take_messages();
    proxy.strike(|message| message.starts_with("BEGIN"), Fault::LoseReply);
    let answer = bench.charge(&key, false).await;
    assert!(proxy.has_struck());
    let messages = proxy.take_messages();
    assert!(messages.iter().any(|it| it.contains("pg_try_advisory_xact_lock")), "{messages:#?}");
    // The server holds the key until it has noticed that the connection is gone.
    if answer.is_err() {
        until_async(|| async { bench.charge(&key, false).await.is_ok() }).await;
    }
    assert_eq!(bench.rows(&key), "1");
}

/// A pooler that has no connection left refuses `BEGIN`, and may have one for the statement behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_a_body_runs_without_its_transaction() {
    let site = Site::start().await;
    site.direct.batch_execute("CREATE TABLE ledger (entry text)").await.unwrap();
    let process = site.process_with(PATIENT).await;
    let is_begin = |text: &str| text.starts_with("BEGIN");

    process.proxy.strike(is_begin, Fault::Refuse);
    let source = Transactions::of(&process.store);
    let body = async |tx: Lent<PostgresStore>| {
        tx.execute(INSERT, &[&"without a key"]).await?;
        Ok::<_, Failed>(7)
    };
    let charge = process.op("unused");
    let charged = charge.run_in_transaction_without_key(AnswerPolicy::kept(), source, body).await;
    charged.unwrap_err();
    assert!(process.proxy.has_struck());
    let rows = "SELECT count(*) FROM ledger";
    assert_eq!(site.number(rows).await, 0, "a statement was committed by itself");

    process.proxy.strike(is_begin, Fault::Refuse);
    process.store.begin(Isolation::Default).await.unwrap_err();
    assert!(process.proxy.has_struck());

    process.proxy.strike(is_begin, Fault::Refuse);
    let charge = process.op("key").transact(&process.store, async |tx| {
        tx.execute(INSERT, &[&"with a key"]).await?;
        Ok::<u8, Failed>(7)
    });
    let _ = charge.await;
    assert!(process.proxy.has_struck());
    let records = "SELECT count(*) FROM idempotent_records WHERE state = 'succeeded'";
    assert_eq!(site.number(rows).await, site.number(records).await);
}

#[idempotent(key = "key", mode = "strong", transaction = "tx")]
pub(crate) async fn pay(tx: &mut Transaction<'_>, key: &str, fails: bool) -> Result<u64, Failed> {
    tx.execute(INSERT, &[&key]).await?;
    if fails { Err(Failed::Busy) } else { Ok(7) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_of_the_caller_commits_record_and_rows() {
    let (bench, key) = (bench().await, unique("callers"));
    let mut client = connect(&bench.database.url()).await;
    for fails in [true, false, false] {
        let mut tx = client.transaction().await.unwrap();
        let paid = scoped(bench.idem.clone(), pay(&mut tx, &key, fails)).await;
        tx.commit().await.unwrap();
        assert_eq!(paid.is_err(), fails);
    }
    assert_eq!(bench.rows(&key), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_of_the_caller_ends_a_key_whose_body_has_started_as_often_as_it_may() {
    let (bench, key) = (bench().await, unique("exhausted"));
    let mut client = connect(&bench.database.url()).await;
    for is_final in [false, true, true] {
        let mut tx = client.transaction().await.unwrap();
        let paid = scoped(bench.idem.clone(), pay(&mut tx, &key, true));
        let (paid, report) = ambient::reported(Ambient::new().max_attempts(1), paid).await;
        tx.commit().await.unwrap();
        assert!(paid.is_err() && report.unwrap().is_final == is_final, "{paid:?}");
    }
    let state = "SELECT state FROM idempotent_records";
    assert_eq!(bench.database.execute(state), "failed");
    assert_eq!(bench.rows(&key), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_ends_with_a_transaction() {
    let (bench, key) = (bench().await, unique("fenced"));
    let operation = bench.idem.operation("report").key(&*key).mode(Mode::Strong);
    let Begin::Fresh(attempt) = operation.begin().await.unwrap() else { panic!("it is free") };
    let mut client = connect(&bench.database.url()).await;
    let tx = client.transaction().await.unwrap();
    tx.execute(INSERT, &[&key]).await.unwrap();
    attempt.commit(tx, &7_u64).await.unwrap();
    assert_eq!(bench.rows(&key), "1");
    let Begin::Replay(stored) = operation.begin().await.unwrap() else { panic!("it is done") };
    assert_eq!(stored.decode::<u64>().unwrap(), 7);
}

/// The key is free, and its record is of an attempt that failed: a plain attempt would take it over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_attempt_does_not_take_over_a_key_that_a_transaction_holds() {
    let (bench, key) = (bench().await, unique("taken over"));
    assert!(matches!(bench.charge(&key, true).await, Err(Failed::Busy)));
    let elsewhere = Idempotency::builder().store(bench.store.clone()).build().unwrap();
    let charge = bench.idem.operation("charge").key(&*key).mode(Mode::Strong);
    let charged: Result<u64, Failed> = charge
        .transact(&bench.store, async |tx| {
            let (elsewhere, name) = (elsewhere.clone(), key.clone());
            let plain = tokio::spawn(async move {
                let plain = elsewhere.operation("charge").key(&*name);
                matches!(plain.begin().await, Ok(Begin::Fresh(_)))
            });
            assert!(!plain.await.unwrap(), "two bodies would run at once");
            tx.execute(INSERT, &[&key]).await?;
            Ok(7)
        })
        .await;
    assert_eq!(charged.unwrap(), 7);
    assert_eq!(bench.rows(&key), "1");
}

/// A caller that waits for another body has no permit: the limit is that of bodies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_that_waits_for_a_transaction_leaves_its_permit_to_others() {
    let (bench, key) = (bench().await, unique("limited"));
    let config = Config::new().with_max_concurrent(Some(1)).with_mode(Mode::Strong);
    let limited = Idempotency::builder().store(bench.store.clone()).config(config).build().unwrap();
    let limited = Arc::new(limited);
    let mut client = connect(&bench.database.url()).await;
    let mut tx = client.transaction().await.unwrap();
    scoped(bench.idem.clone(), pay(&mut tx, &key, false)).await.unwrap();
    let waits = {
        let (limited, store, key) = (Arc::clone(&limited), bench.store.clone(), key.clone());
        tokio::spawn(async move {
            let name = "sql::postgres::tokio_transact::pay";
            let wait = std::time::Duration::from_secs(30);
            let operation = limited.operation(name).key(&*key).wait(wait);
            operation.transact(&store, async |_tx| Ok::<u64, Failed>(1)).await
        })
    };
    let asks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    support::until(|| bench.database.execute(asks) == "1").await;
    let other = limited.operation("other").key(1);
    let other = other.transact(&bench.store, async |_tx| Ok::<u64, Failed>(2)).await;
    assert_eq!(other.unwrap(), 2);
    tx.commit().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), 7);
}
