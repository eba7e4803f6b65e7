//! Options of the store.

use super::hints::Hints;
use super::pool::{Limits, Pool, Settings, Tls};
use super::wakes::Wakes;
use super::{Inner, PostgresStore};
use crate::dialect::postgres::Statements;
use crate::table::Table;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// Options of a [`PostgresStore`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct PostgresBuilder {
    target: Target,
    table: String,
    settings: Settings,
    pooler: bool,
    expire_batch: u32,
    expire_rate: u32,
    #[cfg(feature = "postgres-tls")]
    root_certificate: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Target {
    Url(Url),
    Config(Box<Config>),
}

/// A URL, whose password `Debug` does not show.
#[derive(Clone)]
struct Url(String);

impl std::fmt::Debug for Url {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Url(..)")
    }
}

impl PostgresBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self::from_target(Target::Url(Url(url.to_owned())))
    }

    fn from_target(target: Target) -> Self {
        Self {
            target,
            table: "idempotent_records".to_owned(),
            settings: Settings {
                max_connections: 16,
                connect_timeout: Duration::from_secs(5),
                timeout: Duration::from_secs(2),
                lock_timeout: Duration::from_secs(1),
                application_name: "idempotent".to_owned(),
                limits: Limits::Statements,
            },
            pooler: false,
            expire_batch: 1_000,
            expire_rate: 10_000,
            #[cfg(feature = "postgres-tls")]
            root_certificate: None,
        }
    }

    /// Sets the table, with its schema if that is not in the search path; `idempotent_records` by
    /// default.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Sets the most connections of each runtime that uses the store; 16 by default. Further
    /// statements wait for one of them.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.max_connections = connections.max(1);
        self
    }

    /// Sets the time after which a connection that does not come about fails; 5 seconds by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets the time after which a statement that is not answered fails; 2 seconds by default.
    ///
    /// The server stops a statement after the same time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets the time for which a statement waits for a row that another transaction has locked; a
    /// second by default. It then counts as contended.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lock_timeout = timeout;
        self
    }

    /// Sets the name under which the connections appear in `pg_stat_activity`; `idempotent` by
    /// default.
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.settings.application_name = name.into();
        self
    }

    /// Says that a pooler stands before the server which hands out a connection per transaction, so
    /// that statements are not named and waiters poll. The store also notices that by itself.
    pub fn pooler(mut self, pooler: bool) -> Self {
        self.pooler = pooler;
        self
    }

    /// Sets how many expired records are removed in one statement; 1,000 by default.
    pub fn expire_batch(mut self, records: u32) -> Self {
        self.expire_batch = records.max(1);
        self
    }

    /// Sets how many expired records a process removes a second, at most; 10,000 by default, and no
    /// limit with 0.
    pub fn expire_rate(mut self, records: u32) -> Self {
        self.expire_rate = records;
        self
    }

    /// Trusts this certificate authority, in PEM, rather than those of the system, and encrypts the
    /// connections.
    #[cfg(feature = "postgres-tls")]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Encryption, if the URL requires it or an authority is given. `prefer`, which is what a URL
    /// says that does not mention it, would not check who is at the other end.
    #[cfg(feature = "postgres-tls")]
    fn tls(&self, config: &mut Config) -> Result<Tls, StoreError> {
        if self.root_certificate.is_some() {
            config.ssl_mode(SslMode::Require);
        }
        match config.get_ssl_mode() {
            SslMode::Require => {
                Ok(Tls::On(super::tls::connector(self.root_certificate.as_deref())?))
            }
            _ => Ok(Tls::Off),
        }
    }

    #[cfg(not(feature = "postgres-tls"))]
    fn tls(&self, config: &mut Config) -> Result<Tls, StoreError> {
        match config.get_ssl_mode() {
            SslMode::Require => {
                let text = "the URL requires TLS\nhelp: enable the feature `postgres-tls`";
                Err(StoreError::new(StoreErrorKind::Misconfigured, text))
            }
            _ => Ok(Tls::Off),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// An option or the URL is invalid, or the server cannot be reached, refuses the user or the
    /// database, or is too old.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let table = Table::new(&self.table)?;
        let mut config = match &self.target {
            Target::Config(config) => (**config).clone(),
            Target::Url(Url(url)) => url.parse::<Config>().map_err(|error| {
                // The text of the error does not repeat the URL, and with it the password.
                let text = format!(
                    "the URL of PostgreSQL is invalid: {error}\nhelp: \
                     postgres://user:password@host:5432/database"
                );
                StoreError::new(StoreErrorKind::Misconfigured, text)
            })?,
        };
        let tls = self.tls(&mut config)?;
        let pool = |limits| {
            let settings = Settings { limits, ..self.settings.clone() };
            Pool::new(config.clone(), tls.clone(), settings, table.quoted.clone())
        };
        let store = PostgresStore(Arc::new(Inner {
            statements: Statements::new(&table.quoted),
            pool: pool(Limits::Statements),
            transactions: pool(Limits::None),
            pooled: AtomicBool::new(self.pooler),
            wakes: Wakes::new(&table.quoted),
            hints: Hints::new(),
            table,
            expire_batch: self.expire_batch.into(),
            expire_rate: self.expire_rate,
            usage: Mutex::new(None),
            server_version: AtomicU64::new(0),
        }));
        store.meet().await
    }
}

impl From<Config> for PostgresBuilder {
    /// A store that connects as this configuration says.
    fn from(config: Config) -> Self {
        Self::from_target(Target::Config(Box::new(config)))
    }
}

#[cfg(feature = "sqlx-postgres")]
impl From<&sqlx::PgPool> for PostgresBuilder {
    /// A store that connects as this pool does.
    fn from(pool: &sqlx::PgPool) -> Self {
        use sqlx::ConnectOptions as _;
        use sqlx::postgres::PgSslMode;

        let options = pool.connect_options();
        // Both crates write and read the parts of a URL alike. Parameters are not the same.
        let mut url = options.to_url_lossy();
        let ssl_mode = match options.get_ssl_mode() {
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => "require",
            _ => "prefer",
        };
        url.set_query(Some(&format!("sslmode={ssl_mode}")));
        if let Some(socket) = options.get_socket() {
            url.query_pairs_mut().append_pair("host", &socket.display().to_string());
        }
        Self::new(url.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_not_shown() {
        let builder = PostgresStore::builder("postgres://app:s3cret@localhost/shop");
        assert!(!format!("{builder:?}").contains("s3cret"));
    }
}
