//! A database, and processes that reach it through a proxy each.

use super::subject::connect;
use crate::proxy::{Protocol, Proxy};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Config, Error, Idempotency, Mode, Operation};
use idempotent_sql::MySqlStore;
use sqlx::MySqlConnection;
use std::sync::LazyLock;
use std::time::Duration;
use support::database::Database;
use support::mariadb::shared_mariadb;
use support::until_async;

/// Long enough not to run out while a test does something else.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The time after which a process gives up on an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Site {
    pub(crate) database: Database,
    pub(crate) runs: Ledger,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let database = shared_mariadb().database();
        let store = MySqlStore::connect(&database.url()).await.unwrap();
        store.migrate().await.unwrap();
        Self { database, runs: Ledger::default() }
    }

    /// A process that gives up on the server soon.
    pub(crate) async fn process(&self) -> Process {
        self.process_with(TIMEOUT).await
    }

    pub(crate) async fn process_with(&self, timeout: Duration) -> Process {
        let proxy = Proxy::start(shared_mariadb().address(), Protocol::MySql).await;
        let url = self.database.url_through(proxy.port);
        // On a busy machine the first answer may take longer than later ones are waited for.
        let store = loop {
            if let Ok(store) = MySqlStore::builder(&url).timeout(timeout).connect().await {
                break store;
            }
        };
        let config = Config::new().with_mode(Mode::Strong).with_wait(LEASE).with_lease(LEASE);
        let idem = Idempotency::builder().store(store.clone()).config(config).build().unwrap();
        proxy.take_messages();
        Process { idem, store, proxy, runs: self.runs.clone() }
    }

    /// A connection of the test's own, past all proxies.
    pub(crate) async fn direct(&self) -> MySqlConnection {
        connect(&self.database.url()).await
    }

    /// The state of a record as the table has it; empty if there is none.
    pub(crate) async fn state(&self, key: &str) -> String {
        let text = "SELECT state FROM idempotent_records WHERE `key` = ?";
        let key = record_key(key);
        let query = sqlx::query_scalar::<_, String>(text).bind(key.as_str().as_bytes());
        query.fetch_optional(&mut self.direct().await).await.unwrap().unwrap_or_default()
    }

    pub(crate) async fn until_state(&self, key: &str, state: &str) {
        until_async(|| async { self.state(key).await == state }).await;
    }
}

/// One process: an instance on connections of its own.
pub(crate) struct Process {
    pub(crate) idem: Idempotency,
    pub(crate) store: MySqlStore,
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

const OPERATION: &str = "test.op";
