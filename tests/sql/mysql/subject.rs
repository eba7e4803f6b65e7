//! A MySQL store under test. Time passes for it when its records expire earlier.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Store, StoreFuture};
use idempotent_runtime::testing::Subject;
use idempotent_sql::{MySqlBuilder, MySqlStore};
use sqlx::{Connection as _, MySqlConnection};
use std::sync::Arc;
use std::time::Duration;
use support::database::Database;
use support::mariadb::shared_mariadb;
use tokio::sync::Mutex;

/// The time for which a store waits for the server: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct MySqlSubject {
    pub(crate) store: Arc<MySqlStore>,
    connection: Mutex<MySqlConnection>,
    database: Option<Database>,
}

impl MySqlSubject {
    /// A store in a database of its own on the shared server.
    pub(crate) async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    /// The same, for calls that wait for each other: the machine may be busy.
    pub(crate) async fn patient() -> Self {
        Self::with(|builder| builder.lock_timeout(PATIENCE / 2)).await
    }

    async fn with(choose: impl FnOnce(MySqlBuilder) -> MySqlBuilder) -> Self {
        let database = shared_mariadb().database();
        let subject = Self::on(&database.url(), choose).await;
        Self { database: Some(database), ..subject }
    }

    /// A store in a database that is there.
    pub(crate) async fn on(url: &str, choose: impl FnOnce(MySqlBuilder) -> MySqlBuilder) -> Self {
        let builder = MySqlStore::builder(url).timeout(PATIENCE).connect_timeout(PATIENCE);
        let store = choose(builder).connect().await.unwrap();
        store.migrate().await.unwrap();
        let connection = Mutex::new(connect(url).await);
        Self { store: Arc::new(store), connection, database: None }
    }

    /// The database on the shared server.
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    pub(crate) async fn age(&self, key: &RecordKey, by: Duration) {
        let text = "UPDATE idempotent_records SET expires_at = expires_at - INTERVAL ? MICROSECOND \
                    WHERE COALESCE(long_key, `key`) = ?";
        let query = sqlx::query(text).bind(by.as_micros() as i64).bind(key.as_str().as_bytes());
        query.execute(&mut *self.connection.lock().await).await.unwrap();
    }
}

/// A connection of the test's own.
pub(crate) async fn connect(url: &str) -> MySqlConnection {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    let usual = "SET SESSION autocommit = 1, completion_type = 0, sql_safe_updates = 0";
    sqlx::raw_sql(usual).execute(&mut connection).await.unwrap();
    connection
}

impl Subject for MySqlSubject {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn step<'a>(&'a self, keys: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        StoreFuture::new(async move {
            for key in keys {
                self.age(key, by).await;
            }
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }
}
