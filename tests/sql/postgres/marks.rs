//! Calls that are found again in the log of the server, and keys that are settled from it.

use super::shop::{Charged, Shop, Tx};
use crate::exactly_once::unique;
use idempotent_runtime::{Abandon, Config, Error, ErrorKind, Idempotency, Mode, Resolution};
use idempotent_sql::{PostgresStore, TransactExt as _, marked};
use sqlx::{AssertSqlSafe, PgPool};
use support::postgres::{PostgresServer, installed};
use support::until;
use tokio::sync::oneshot;

/// The setting that a transactional call makes, as its body sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_knows_its_key() {
    let (shop, key) = (Shop::open().await, unique("marked"));
    let shown: Result<String, Charged> = shop
        .op(&key)
        .transact(&shop.pool, async |mut tx: Tx| {
            let shown = "SELECT current_setting('idempotent.key')";
            Ok(sqlx::query_scalar(shown).fetch_one(&mut *tx).await?)
        })
        .await;
    let hash = shop.op(&key).record_key().unwrap().hashed();
    assert_eq!(shown.unwrap(), format!("charge #{hash}"));
    // It ends with the transaction.
    for _ in 0..5 {
        let after = "SELECT coalesce(current_setting('idempotent.key', true), '')";
        let after: String = sqlx::query_scalar(after).fetch_one(&shop.pool).await.unwrap();
        assert_eq!(after, "");
    }
}

/// The settings of the recipe.
const LOGGED: [&str; 2] = ["log_min_duration_statement = 0", "log_line_prefix = '%m [%p] %x '"];

/// Two processes that died in their bodies: one after its commit, one before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_unknown_outcome_is_settled_from_the_log() {
    let server = PostgresServer::start_with(&installed(), &LOGGED);
    let pool = PgPool::connect(&server.url("postgres")).await.unwrap();
    sqlx::raw_sql("CREATE TABLE charges (payment text)").execute(&pool).await.unwrap();
    let idem = instance(&server).await;

    for (payment, commits) in [("paid", true), ("lost", false)] {
        die_while_charging(&idem, &pool, payment, commits).await;
        let refused = charge(&idem, &pool, payment).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Indeterminate, "{refused}");

        // Everything from here on needs nothing but the text of that error.
        let hash = hash_in(&refused.to_string());
        until(|| line_with(&server, &hash).is_some()).await;
        let status = status_of(&pool, &line_with(&server, &hash).unwrap()).await;
        assert_eq!(status, if commits { "committed" } else { "aborted" });
        let answer = payment.to_owned();
        let resolution = match &*status {
            "committed" => Resolution::Succeeded(Some(&answer)),
            _ => Resolution::Retry,
        };
        idem.operation("payments.charge").key(payment).resolve(resolution).await.unwrap();

        assert_eq!(charge(&idem, &pool, payment).await.unwrap(), payment);
        let rows = "SELECT count(*) FROM charges WHERE payment = $1";
        let rows: i64 = sqlx::query_scalar(rows).bind(payment).fetch_one(&pool).await.unwrap();
        assert_eq!(rows, 1, "{payment}");
    }
}

async fn instance(server: &PostgresServer) -> Idempotency {
    let store = PostgresStore::connect(&server.url("postgres")).await.unwrap();
    store.migrate().await.unwrap();
    let config = Config::new().with_mode(Mode::Strong).with_abandon(Abandon::Block);
    Idempotency::builder().store(store).config(config).build().unwrap()
}

async fn write(pool: &PgPool, payment: &str) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let mut tx = pool.begin().await.unwrap();
    let insert = AssertSqlSafe(marked("INSERT INTO charges (payment) VALUES ($1)"));
    sqlx::query(insert).persistent(false).bind(payment).execute(&mut *tx).await.unwrap();
    tx
}

async fn charge(idem: &Idempotency, pool: &PgPool, payment: &str) -> Result<String, Error> {
    let charges = async {
        write(pool, payment).await.commit().await.unwrap();
        Ok(payment.to_owned())
    };
    idem.operation("payments.charge").key(payment).run(charges).await
}

/// A call whose caller goes away while its body runs.
async fn die_while_charging(idem: &Idempotency, pool: &PgPool, payment: &str, commits: bool) {
    let (says, wrote) = oneshot::channel();
    let (idem, pool, payment) = (idem.clone(), pool.clone(), payment.to_owned());
    let call = tokio::spawn(async move {
        let body = async {
            let tx = write(&pool, &payment).await;
            match commits {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
            let _ = says.send(());
            std::future::pending::<Result<String, Error>>().await
        };
        idem.operation("payments.charge").key(&*payment).run(body).await
    });
    wrote.await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
}

/// The hash of the key that an error names.
fn hash_in(error: &str) -> String {
    let (_, rest) = error.split_once('#').expect("an error names its key");
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

/// The line of the log that says that a marked statement was executed.
fn line_with(server: &PostgresServer, hash: &str) -> Option<String> {
    let mark = format!("#{hash} */");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("execute") && line.contains(&mark));
    line.map(str::to_owned)
}

/// The state of the transaction that a line of the log belongs to, by the statement of the recipe.
async fn status_of(pool: &PgPool, line: &str) -> String {
    let (_, rest) = line.split_once("] ").unwrap();
    let transaction: i64 = rest.split(' ').next().unwrap().parse().unwrap();
    let status = "SELECT pg_xact_status(((pg_snapshot_xmax(pg_current_snapshot())::text::bigint \
                  >> 32 << 32) + $1)::text::xid8)";
    sqlx::query_scalar(status).bind(transaction).fetch_one(pool).await.unwrap()
}
