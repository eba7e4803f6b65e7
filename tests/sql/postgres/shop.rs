//! A ledger beside the records, written by operations in transactions; pool and store reach the
//! server through a proxy each.

use super::site::Site;
use crate::proxy::{Protocol, Proxy};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, ErrorKind, Idempotency, Mode, Operation, Outcome};
use idempotent_sql::{Lent, PostgresStore, TransactExt as _};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::time::Duration;
use support::postgres::shared_postgres;

/// The error of a body.
#[derive(Debug)]
pub(crate) enum Charged {
    Sql(sqlx::Error),
    Refused(Error),
}

impl Charged {
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Refused(error) => Some(error.kind()),
            Self::Sql(_) => None,
        }
    }

    pub(crate) fn refusal(self) -> Error {
        match self {
            Self::Refused(error) => error,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    /// `true` if a statement of the body lost a race.
    pub(crate) fn is_lost_race(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40001" | "40P01"))
    }
}

impl From<Error> for Charged {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for Charged {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

pub(crate) type Tx = Lent<PgPool>;

pub(crate) struct Shop {
    pub(crate) idem: Idempotency,
    /// Before the store.
    pub(crate) records: Proxy,
    pub(crate) pool: PgPool,
    /// Before the pool.
    pub(crate) data: Proxy,
    pub(crate) bodies: Ledger,
    pub(crate) site: Site,
}

const LEDGER: &str = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text, id bigint); \
                      CREATE TABLE account (id int PRIMARY KEY, amount bigint); \
                      INSERT INTO account VALUES (1, 0), (2, 0)";

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(5, Config::new()).await
    }

    pub(crate) async fn with(connections: u32, config: Config) -> Self {
        let site = Site::start().await;
        site.direct.batch_execute(LEDGER).await.unwrap();
        let address = shared_postgres().address();
        let records = Proxy::start(address, Protocol::Postgres).await;
        let data = Proxy::start(address, Protocol::Postgres).await;
        let url = site.database.url_through(records.port);
        let store = PostgresStore::connect(&url).await.unwrap();
        let config = config.with_mode(Mode::Strong).with_wait(Duration::from_secs(20));
        let idem = Idempotency::builder().store(store).config(config).build().unwrap();
        let pool = PgPoolOptions::new().max_connections(connections);
        let pool = pool.connect(&site.database.url_through(data.port)).await.unwrap();
        Self { idem, records, pool, data, bodies: Ledger::new(), site }
    }

    pub(crate) fn op(&self, key: &str) -> Operation<'_> {
        self.idem.operation("charge").key(key)
    }

    /// Writes a row of the ledger, as a body does.
    pub(crate) async fn write(&self, tx: &mut Tx, key: &str) -> Result<i64, Charged> {
        let id = i64::try_from(self.bodies.record(key)).unwrap();
        let insert = "INSERT INTO ledger (entry, id) VALUES ($1, $2)";
        sqlx::query(insert).bind(key).bind(id).execute(&mut **tx).await?;
        Ok(id)
    }

    pub(crate) async fn charge(&self, key: &str) -> Result<Outcome<i64>, Charged> {
        self.charge_as(self.op(key), key).await
    }

    pub(crate) async fn charge_as(
        &self,
        operation: Operation<'_>,
        key: &str,
    ) -> Result<Outcome<i64>, Charged> {
        let body = async |mut tx: Tx| self.write(&mut tx, key).await;
        operation.transact(&self.pool, body).detailed().await
    }

    pub(crate) async fn rows(&self, key: &str) -> i64 {
        let text = "SELECT count(*) FROM ledger WHERE entry = $1";
        self.site.direct.query_one(text, &[&key]).await.unwrap().get(0)
    }

    /// The key ends: a further call has the answer, and there is one row.
    pub(crate) async fn ends(&self, key: &str) {
        let mut again = self.charge(key).await;
        // A pool finds out about connections that were lost when it uses them.
        for _ in 0..10 {
            match &again {
                Err(error) if error.kind() == Some(ErrorKind::StoreUnavailable) => {
                    again = self.charge(key).await;
                }
                _ => break,
            }
        }
        again.unwrap();
        assert_eq!(self.rows(key).await, 1, "{key}");
        assert!(self.charge(key).await.unwrap().replayed, "{key}");
    }
}
