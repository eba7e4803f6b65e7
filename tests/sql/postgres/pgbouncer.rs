//! Records and transactions behind a pooler that hands out a connection per transaction.

use super::shop::{Charged, Tx};
use super::subject::{PostgresSubject, all};
use super::tokio_transact::Failed;
use crate::exactly_once::unique;
use idempotent_runtime::testing::{Subject as _, contract, differential};
use idempotent_runtime::{Begin, Config, Idempotency, Mode};
use idempotent_sql::{Isolation, Lent, PostgresStore, TransactExt as _};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::time::Duration;
use support::database::Database;
use support::pgbouncer::{PgBouncer, PoolMode};
use support::postgres::shared_postgres;

/// Settings that are ignored instead of refused, as many installations have it.
const LENIENT: &[&str] = &["ignore_startup_parameters = options,extra_float_digits"];

fn pooler(settings: &[&str]) -> (Database, PgBouncer, String) {
    let database = shared_postgres().database();
    let address = shared_postgres().address();
    let pooler = PgBouncer::start_with(address, PoolMode::Transaction, settings);
    let url = database.url_through(pooler.port);
    (database, pooler, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_notices_the_pooler_and_keeps_the_contract() {
    for settings in [&[][..], LENIENT] {
        let (database, _pooler, url) = pooler(settings);
        let builder = PostgresStore::builder(&url);
        let subject = PostgresSubject::with(&database.url(), builder).await;
        // By the end of this it has noticed.
        differential::check(&subject, 0..20).await;
        let listens = idempotent_runtime::key::RecordKey::from("k");
        drop(subject.store().watch(&listens).await);
        assert!(subject.is_pooled(), "{settings:?}");
        contract::all(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_poll() {
    for settings in [&[][..], LENIENT] {
        let (_database, _pooler, url) = pooler(settings);
        let instance = async || {
            let store = PostgresStore::connect(&url).await.unwrap();
            store.migrate().await.unwrap();
            let config = Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(20));
            let idem = Idempotency::builder().store(store.clone()).config(config).build().unwrap();
            (idem, store)
        };
        let ((one, _), (other, store)) = (instance().await, instance().await);
        let operation = one.operation("test.op").key("k");
        let Begin::Fresh(attempt) = operation.begin().await.unwrap() else { panic!("free") };
        let waiter = tokio::spawn(async move {
            let body = async { Ok::<_, idempotent_runtime::Error>(-1) };
            other.operation("test.op").key("k").run(body).await
        });
        support::until(|| store.is_pooled()).await;
        attempt.complete(&7).await.unwrap();
        assert_eq!(waiter.await.unwrap().unwrap(), 7);
    }
}

/// Many keys, many callers, a third of the bodies fail after their insert; the pooler has fewer
/// connections than there are callers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_with_failing_bodies_have_one_row_each() {
    for isolation in [Isolation::Default, Isolation::Serializable] {
        let (database, _pooler, url) = pooler(&[LENIENT[0], "default_pool_size = 6"]);
        let ledger = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text, id bigint)";
        database.execute(ledger);
        let store = PostgresStore::connect(&url).await.unwrap();
        store.migrate().await.unwrap();
        let config = Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(30));
        let idem = Idempotency::builder().store(store).config(config).build().unwrap();
        // As sqlx asks of those who use such a pooler.
        let options: PgConnectOptions = url.parse().unwrap();
        let pool = PgPoolOptions::new().max_connections(10);
        let pool = pool.connect_with(options.statement_cache_capacity(0)).await.unwrap();
        let charge = async |key: &str, fails: bool| {
            let body = async |mut tx: Tx| {
                let insert = "INSERT INTO ledger (entry) VALUES ($1)";
                sqlx::query(insert).persistent(false).bind(key).execute(&mut *tx).await?;
                if fails { Err(Charged::Sql(sqlx::Error::WorkerCrashed)) } else { Ok(1) }
            };
            let call = idem.operation("charge").key(key).transact(&pool, body);
            call.isolation(isolation).repeat_if(Charged::is_lost_race).await
        };
        let keys: Vec<_> = (0..support::size(20, 60)).map(|_| unique("many")).collect();
        let callers = keys.iter().flat_map(|key| (0..16).map(move |it| (key, it % 3 == 0)));
        let answers = all(callers.map(|(key, fails)| charge(key, fails))).await;
        for answer in &answers {
            match answer {
                Ok(_) | Err(Charged::Sql(sqlx::Error::WorkerCrashed)) => {}
                // Two attempts that it waited for failed.
                Err(Charged::Refused(error)) if error.is_retryable() => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(answers.iter().any(Result::is_ok) && answers.iter().any(Result::is_err));
        for key in &keys {
            charge(key, false).await.unwrap();
        }
        let twice = "SELECT count(*) FROM (SELECT entry FROM ledger GROUP BY entry \
                     HAVING count(*) > 1) AS twice";
        assert_eq!(database.execute(twice), "0", "{isolation:?}");
        let once = "SELECT count(DISTINCT entry) FROM ledger";
        assert_eq!(database.execute(once), keys.len().to_string(), "{isolation:?}");
    }
}

/// Transactions on connections of the store, which has not met the pooler before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_the_store_work_behind_a_pooler_that_it_has_not_noticed() {
    for settings in [&[][..], LENIENT] {
        let (database, _pooler, url) = pooler(&[settings, &["default_pool_size = 6"]].concat());
        database.execute("CREATE TABLE ledger (entry text)");
        PostgresStore::connect(&database.url()).await.unwrap().migrate().await.unwrap();
        let store = PostgresStore::connect(&url).await.unwrap();
        let idem = Idempotency::builder().store(store.clone()).build().unwrap();
        let charge = async |key: String| {
            let body = async |tx: Lent<PostgresStore>| {
                tx.execute("INSERT INTO ledger (entry) VALUES ($1)", &[&key]).await?;
                Ok::<_, Failed>(1)
            };
            idem.operation("charge").key(&*key).transact(&store, body).await
        };
        for _ in 0..20 {
            for charged in all((0..5).map(|_| charge(unique("pooled")))).await {
                assert_eq!(charged.unwrap(), 1, "{settings:?}");
            }
        }
        assert_eq!(database.execute("SELECT count(*) FROM ledger"), "100");
    }
}
