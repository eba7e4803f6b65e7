//! A process that charges keys in transactions until each has an answer. The tests in
//! `tests/sql/processes.rs` start it, and kill it at any time.
#![allow(clippy::print_stdout)]

use idempotent_runtime::{Config, Error, Idempotency, Mode};
use idempotent_sql::{Lent, MySqlStore, PostgresStore, TransactExt as _};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgPool, PgPoolOptions};
use std::future::Future;
use std::time::Duration;
use support::worker::end_with_whoever_started_this;

const CALLERS: usize = 4;

#[derive(Debug)]
enum Charged {
    Sql,
    Refused,
}

impl From<Error> for Charged {
    fn from(_: Error) -> Self {
        Self::Refused
    }
}

impl From<sqlx::Error> for Charged {
    fn from(_: sqlx::Error) -> Self {
        Self::Sql
    }
}

/// A pool whose transactions charge.
trait Charges: Clone + Send + Sync + 'static {
    /// Connects. `None` while the server is being restarted.
    fn connect(url: &str) -> impl Future<Output = Option<(Idempotency, Self)>> + Send;

    fn charge(
        &self,
        idem: &Idempotency,
        key: &str,
    ) -> impl Future<Output = Result<i64, Charged>> + Send;
}

macro_rules! charges {
    ($pool:ty, $options:ty, $store:ty, $insert:literal, $update:literal) => {
        impl Charges for $pool {
            async fn connect(url: &str) -> Option<(Idempotency, Self)> {
                let store = <$store>::connect(url).await.ok()?;
                let pool = <$options>::new().max_connections(CALLERS as u32).connect(url).await;
                let config =
                    Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(5));
                let idem = Idempotency::builder().store(store).config(config).build();
                Some((idem.expect("the settings are valid"), pool.ok()?))
            }

            async fn charge(&self, idem: &Idempotency, key: &str) -> Result<i64, Charged> {
                let body = async |mut tx: Lent<$pool>| {
                    let (id,): (i64,) =
                        sqlx::query_as($insert).bind(key).fetch_one(&mut *tx).await?;
                    tokio::time::sleep(Duration::from_millis(rand::random_range(0..6))).await;
                    sqlx::query($update).bind(id).execute(&mut *tx).await?;
                    // Some fail after they have written.
                    if rand::random_range(0..4) == 0 { Err(Charged::Sql) } else { Ok(id) }
                };
                idem.operation("charge").key(key).transact(self, body).await
            }
        }
    };
}

charges!(
    PgPool,
    PgPoolOptions,
    PostgresStore,
    "INSERT INTO ledger (entry) VALUES ($1) RETURNING number",
    "UPDATE account SET amount = amount + 1 WHERE id = $1 % 8"
);
charges!(
    MySqlPool,
    MySqlPoolOptions,
    MySqlStore,
    "INSERT INTO ledger (entry) VALUES (?) RETURNING number",
    "UPDATE account SET amount = amount + 1 WHERE id = ? % 8"
);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let orders = std::env::args().nth(1).expect("a URL and keys are the only argument");
    end_with_whoever_started_this();
    let (url, keys): (String, Vec<String>) = serde_json::from_str(&orders).expect("JSON");
    match url.starts_with("mysql:") {
        true => charge_all::<MySqlPool>(&url, &keys).await,
        false => charge_all::<PgPool>(&url, &keys).await,
    }
}

async fn charge_all<P: Charges>(url: &str, keys: &[String]) {
    let (idem, pool) = loop {
        match P::connect(url).await {
            Some(connected) => break connected,
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    println!("up");
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (idem, pool, mut keys) = (idem.clone(), pool.clone(), keys.to_vec());
        let by = caller * keys.len() / CALLERS;
        keys.rotate_left(by);
        callers.spawn(async move {
            for key in keys {
                while pool.charge(&idem, &key).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    callers.join_all().await;
}
