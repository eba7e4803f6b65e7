//! Options of the store.

use super::pool::{Pool, Settings};
use super::{Inner, MySqlStore};
use crate::dialect::mysql::{Statements, Table};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use sqlx::mysql::MySqlConnectOptions;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Options of a [`MySqlStore`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct MySqlBuilder {
    target: Target,
    table: String,
    settings: Settings,
    expire_batch: u32,
    expire_rate: u32,
}

#[derive(Clone)]
enum Target {
    Url(String),
    Options(Box<MySqlConnectOptions>),
}

impl std::fmt::Debug for Target {
    /// Without the URL, which holds a password.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Url(_) => "Url(..)",
            Self::Options(_) => "Options(..)",
        })
    }
}

impl MySqlBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self::from_target(Target::Url(url.to_owned()))
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
            },
            expire_batch: 1_000,
            expire_rate: 10_000,
        }
    }

    /// Sets the table, with its database if that is not the one of the URL; `idempotent_records` by
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
    /// MariaDB stops a statement after the same time, MySQL one that reads.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets the time for which a statement waits for a row that another transaction has locked; a
    /// second by default. It then counts as contended. The servers count in whole seconds: it is
    /// rounded up.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lock_timeout = timeout;
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

    /// Connects.
    ///
    /// # Errors
    /// An option or the URL is invalid, or the server cannot be reached, refuses the user or the
    /// database, or is too old; or the table is there and is not one that records can be kept in.
    pub async fn connect(self) -> Result<MySqlStore, StoreError> {
        let table = Table::new(&self.table)?;
        let options = match self.target {
            Target::Options(options) => *options,
            Target::Url(url) => options_of(&url)?,
        };
        if options.get_database().is_none() && !table.has_database() {
            let text = "the URL of MySQL names no database\nhelp: \
                        mysql://user:password@host:3306/database";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        }
        let statements = Statements::new(&table);
        let pool = Pool::new(options, self.settings, table.quoted.clone());
        let server = super::server::meet(&pool, &statements, &table).await?;
        Ok(MySqlStore(Arc::new(Inner {
            statements,
            pool,
            table,
            server,
            wakes: super::Wakes::default(),
            expire_batch: self.expire_batch.into(),
            expire_rate: self.expire_rate,
            usage: Mutex::new(None),
        })))
    }
}

impl From<MySqlConnectOptions> for MySqlBuilder {
    /// A store that connects as these options say.
    fn from(options: MySqlConnectOptions) -> Self {
        Self::from_target(Target::Options(Box::new(options)))
    }
}

fn options_of(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    // Neither text repeats the URL, and with it the password.
    let invalid = |reason: &dyn std::fmt::Display| {
        let text = format!(
            "the URL of MySQL is invalid: {reason}\nhelp: mysql://user:password@host:3306/database"
        );
        StoreError::new(StoreErrorKind::Misconfigured, text)
    };
    if !["mysql://", "mariadb://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(invalid(&"it does not begin with mysql:// or mariadb://"));
    }
    url.parse().map_err(|error: sqlx::Error| invalid(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_not_shown() {
        let url = "mysql://app:s3cret@localhost/shop";
        assert!(!format!("{:?}", MySqlStore::builder(url)).contains("s3cret"));
        let options = options_of(url).unwrap();
        assert!(!format!("{:?}", MySqlBuilder::from(options)).contains("s3cret"));
        for url in
            ["app:s3cret@localhost", "mysql://app:s3cret@local host/", "mysql://a:s3cret@h:x"]
        {
            assert!(!options_of(url).unwrap_err().to_string().contains("s3cret"), "{url}");
        }
    }
}
