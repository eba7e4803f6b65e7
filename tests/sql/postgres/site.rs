//! A database, and processes that reach it through a proxy each.

use super::subject::connect;
use crate::proxy::{Protocol, Proxy};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, Idempotency, Mode, Operation};
use idempotent_sql::{PostgresBuilder, PostgresStore};
use std::sync::LazyLock;
use std::time::Duration;
use support::database::Database;
use support::postgres::shared_postgres;
use support::until_async;
use tokio_postgres::Client;

/// Long enough not to run out while a test does something else.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The time after which a process gives up on an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// Long enough for every answer of a server that is there.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

pub(crate) struct Site {
    pub(crate) database: Database,
    pub(crate) runs: Ledger,
    /// A connection of the test's own, past all proxies.
    pub(crate) direct: Client,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let database = shared_postgres().database();
        let store = PostgresStore::connect(&database.url()).await.unwrap();
        store.migrate().await.unwrap();
        let direct = connect(&database.url()).await;
        Self { database, runs: Ledger::default(), direct }
    }

    /// A process that gives up on the server soon.
    pub(crate) async fn process(&self) -> Process {
        self.process_with(TIMEOUT).await
    }

    pub(crate) async fn process_with(&self, timeout: Duration) -> Process {
        self.process_as(|builder| builder.timeout(timeout)).await
    }

    pub(crate) async fn process_as(
        &self,
        options: impl Fn(PostgresBuilder) -> PostgresBuilder,
    ) -> Process {
        let proxy = Proxy::start(shared_postgres().address(), Protocol::Postgres).await;
        let url = self.database.url_through(proxy.port);
        // On a busy machine the first answer may take longer than later ones are waited for.
        let store = loop {
            if let Ok(store) = options(PostgresStore::builder(&url)).connect().await {
                break store;
            }
        };
        let config = Config::new().with_mode(Mode::Strong).with_wait(LEASE).with_lease(LEASE);
        let idem = Idempotency::builder().store(store.clone()).config(config).build().unwrap();
        proxy.take_messages();
        Process { idem, store, proxy, runs: self.runs.clone() }
    }

    /// The state of a record as the table has it; empty if there is none.
    pub(crate) async fn state(&self, key: &str) -> String {
        let text = "SELECT state FROM idempotent_records WHERE key = $1";
        let key = record_key(key);
        let row = self.direct.query_opt(text, &[&key.as_str().as_bytes()]).await.unwrap();
        row.map_or_else(String::new, |row| row.get(0))
    }

    pub(crate) async fn until_state(&self, key: &str, state: &str) {
        until_async(|| async { self.state(key).await == state }).await;
    }

    /// The first column of the only row, a number.
    pub(crate) async fn number(&self, text: &str) -> i64 {
        self.direct.query_one(text, &[]).await.unwrap().get(0)
    }

    /// Ends the sessions of this database that this is true of, beside the test's own.
    pub(crate) async fn terminate(&self, which: &str) -> i64 {
        let text = format!(
            "SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND {which}) AS ended"
        );
        self.number(&text).await
    }
}

/// One process: an instance on connections of its own.
pub(crate) struct Process {
    pub(crate) idem: Idempotency,
    pub(crate) store: PostgresStore,
    pub(crate) proxy: Proxy,
    pub(crate) runs: Ledger,
}

impl Process {
    pub(crate) fn op(&self, key: &str) -> Operation<'_> {
        self.idem.operation(OPERATION).key(key)
    }

    /// Runs a body that notes its execution and returns its number.
    pub(crate) async fn run(&self, key: &str) -> Result<usize, Error> {
        self.op(key).run(async { Ok(self.runs.record(key)) }).await
    }
}

/// The key of a record.
pub(crate) fn record_key(key: &str) -> RecordKey {
    static NAMES: LazyLock<Idempotency> = LazyLock::new(|| Idempotency::in_memory().unwrap());
    NAMES.operation(OPERATION).key(key).record_key().unwrap()
}

pub(crate) const OPERATION: &str = "test.op";
