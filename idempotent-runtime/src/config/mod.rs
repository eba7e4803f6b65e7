//! How an instance behaves unless a function says otherwise.
//!
//! A configuration comes from code, from a file through serde, or from the environment; all three
//! are checked by the same rules.

mod choices;
mod defaults;
mod draft;
pub(crate) mod duration;
mod env;
mod error;
mod file;
mod names;
pub mod retention;
mod validate;

use std::time::Duration;

use self::names::Spelling;

pub(crate) use self::defaults::{LONGEST, RETRY_AFTER};

/// How long a lease may be.
pub(crate) const LEASES: std::ops::RangeInclusive<Duration> =
    defaults::SHORTEST_LEASE..=defaults::LONGEST_LEASE;
pub use self::{
    choices::{Abandon, Mode, OnStoreError, OnUnrecorded},
    error::ConfigError,
};

/// How an instance behaves unless a function says otherwise.
///
/// An argument of the attribute or of the operation beats the configuration, and the configuration
/// beats the default.
///
/// ```
/// use std::time::Duration;
/// use idempotent_runtime::{Config, Mode};
///
/// let config = Config::new().with_mode(Mode::Strong).with_expire(Duration::from_secs(600));
/// assert!(config.validate().is_ok());
/// ```
///
/// # Files
/// `Config` reads from any self-describing serde format. A missing name takes its default, and an
/// unknown one is an error. Integers are seconds; text carries its unit: `"300ms"`, `"5s"`, `"5m"`,
/// `"24h"`, `"7d"`.
///
/// ```
/// # use idempotent_runtime::{Config, Mode};
/// let text = r#"{ "key-prefix": "shop:", "expire": "24h", "mode": "strong" }"#;
/// let config: Config = serde_json::from_str(text)?;
/// assert_eq!(config.mode, Mode::Strong);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// The names are those of the fields with hyphens. Beside them stand the names of the Java system,
/// so that its files can be kept; giving both names of one thing is an error:
///
/// | name | same as |
/// | --- | --- |
/// | `expire-time` | `expire`, in seconds |
/// | `return-cached-result` | `mode`: true is `strong`, false is `reject` |
/// | `max-retry-count`, `retry-interval-ms` | multiplied, `wait`; the interval is also `retry-interval`; one alone takes the other's default, 3 or 100 |
///
/// # Environment
/// [`Config::from_env`] reads the same names as `IDEMPOTENT_EXPIRE`, `IDEMPOTENT_MAX_RUN` and so
/// on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// What every key in the store starts with, 1 to 255 bytes. Default: `idempotent:token:`.
    pub key_prefix: String,
    /// How long an answer is kept, counted from completion. Default: `5m`.
    pub expire: Duration,
    /// What a duplicate gets. Default: `reject`.
    pub mode: Mode,
    /// What a rejected caller reads. Default: `this request has already been received`.
    pub message: String,
    /// How long a duplicate waits for the answer in strong mode, zero for not at all.
    /// Default: `300ms`.
    pub wait: Duration,
    /// How long others stay away from a key without a sign of life from its attempt, `10ms` to
    /// `1d`. Default: `30s`.
    pub lease: Duration,
    /// How long a lease is renewed, so that a hung body cannot hold its key for ever; at least
    /// `lease`. Default: `1h`.
    pub max_run: Duration,
    /// The first interval of the polling that backs up notifications. Default: `100ms`.
    pub retry_interval: Duration,
    /// What becomes of a key whose attempt began and vanished. Default: `retry`.
    pub abandon: Abandon,
    /// What a call does when the store gives no answer. Default: `refuse`.
    pub on_store_error: OnStoreError,
    /// The answer to a caller whose value could not be recorded in time. Default: `value`.
    pub on_unrecorded: OnUnrecorded,
    /// How long a key of unknown outcome stays closed if nobody resolves it. Default: `7d`.
    pub block_retention: Duration,
    /// The largest encoded value that is kept; a larger one is recorded as succeeded without its
    /// value. Default: `1048576`.
    pub max_value_bytes: usize,
    /// How often expired records are removed from the memory store. Default: `30s`.
    pub cleanup_interval: Duration,
    /// The most bodies that may run in this process at a time. Default: `none`, no bound.
    ///
    /// A call with a recorded answer gets it all the same. A call inside a body shares the permit
    /// of that body, a batch has one body, and bodies without protection are not counted. A bound
    /// that is set while bodies run does not count those.
    pub max_concurrent: Option<usize>,
    /// Whether keys appear in full in logs, instead of hashed. Default: `false`.
    pub log_keys: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            key_prefix: defaults::KEY_PREFIX.to_owned(),
            expire: defaults::EXPIRE,
            mode: defaults::MODE,
            message: defaults::MESSAGE.to_owned(),
            wait: defaults::WAIT,
            lease: defaults::LEASE,
            max_run: defaults::MAX_RUN,
            retry_interval: defaults::RETRY_INTERVAL,
            abandon: defaults::ABANDON,
            on_store_error: defaults::ON_STORE_ERROR,
            on_unrecorded: defaults::ON_UNRECORDED,
            block_retention: defaults::BLOCK_RETENTION,
            max_value_bytes: defaults::MAX_VALUE_BYTES,
            cleanup_interval: defaults::CLEANUP_INTERVAL,
            max_concurrent: defaults::MAX_CONCURRENT,
            log_keys: defaults::LOG_KEYS,
        }
    }
}

impl Config {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks that the values make sense. Reading from a file or the environment does it too.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        validate::check(self, &|setting| Spelling::Code.name(setting))
    }

    /// Sets [`key_prefix`](Self::key_prefix).
    #[must_use]
    pub fn with_key_prefix(mut self, key_prefix: impl Into<String>) -> Self {
        self.key_prefix = key_prefix.into();
        self
    }

    /// Sets [`expire`](Self::expire).
    #[must_use]
    pub fn with_expire(mut self, expire: Duration) -> Self {
        self.expire = expire;
        self
    }

    /// Sets [`mode`](Self::mode).
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`message`](Self::message).
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets [`wait`](Self::wait).
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets [`lease`](Self::lease).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets [`max_run`](Self::max_run).
    #[must_use]
    pub fn with_max_run(mut self, max_run: Duration) -> Self {
        self.max_run = max_run;
        self
    }

    /// Sets [`retry_interval`](Self::retry_interval).
    #[must_use]
    pub fn with_retry_interval(mut self, retry_interval: Duration) -> Self {
        self.retry_interval = retry_interval;
        self
    }

    /// Sets [`abandon`](Self::abandon).
    #[must_use]
    pub fn with_abandon(mut self, abandon: Abandon) -> Self {
        self.abandon = abandon;
        self
    }

    /// Sets [`on_store_error`](Self::on_store_error).
    #[must_use]
    pub fn with_on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// Sets [`on_unrecorded`](Self::on_unrecorded).
    #[must_use]
    pub fn with_on_unrecorded(mut self, on_unrecorded: OnUnrecorded) -> Self {
        self.on_unrecorded = on_unrecorded;
        self
    }

    /// Sets [`block_retention`](Self::block_retention).
    #[must_use]
    pub fn with_block_retention(mut self, block_retention: Duration) -> Self {
        self.block_retention = block_retention;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub fn with_max_value_bytes(mut self, max_value_bytes: usize) -> Self {
        self.max_value_bytes = max_value_bytes;
        self
    }

    /// Sets [`cleanup_interval`](Self::cleanup_interval).
    #[must_use]
    pub fn with_cleanup_interval(mut self, cleanup_interval: Duration) -> Self {
        self.cleanup_interval = cleanup_interval;
        self
    }

    /// Sets [`max_concurrent`](Self::max_concurrent): a number, or `None` for no bound.
    #[must_use]
    pub fn with_max_concurrent(mut self, max_concurrent: impl Into<Option<usize>>) -> Self {
        self.max_concurrent = max_concurrent.into();
        self
    }

    /// Sets [`log_keys`](Self::log_keys).
    #[must_use]
    pub fn with_log_keys(mut self, log_keys: bool) -> Self {
        self.log_keys = log_keys;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field and default, from the docs of the struct.
    fn documented() -> Vec<(String, String)> {
        let source = include_str!("mod.rs");
        let start = source.find("pub struct Config {").unwrap();
        let body = &source[start..start + source[start..].find("\n}").unwrap()];
        let mut default = String::new();
        let mut found = Vec::new();
        for line in body.lines().map(str::trim) {
            if let Some((_, rest)) = line.split_once("Default: `") {
                default = rest.split('`').next().unwrap().to_owned();
            } else if let Some(field) =
                line.strip_prefix("pub ").and_then(|rest| rest.split_once(':'))
            {
                found.push((field.0.to_owned(), std::mem::take(&mut default)));
            }
        }
        found.retain(|(field, _)| field != "struct Config {");
        found
    }

    #[test]
    fn defaults_in_the_docs_are_those_in_the_code() {
        let Config {
            key_prefix,
            expire,
            mode,
            message,
            wait,
            lease,
            max_run,
            retry_interval,
            abandon,
            on_store_error,
            on_unrecorded,
            block_retention,
            max_value_bytes,
            cleanup_interval,
            max_concurrent,
            log_keys,
        } = Config::default();
        let actual = [
            ("key_prefix", key_prefix),
            ("expire", duration::display(expire)),
            ("mode", mode.to_string()),
            ("message", message),
            ("wait", duration::display(wait)),
            ("lease", duration::display(lease)),
            ("max_run", duration::display(max_run)),
            ("retry_interval", duration::display(retry_interval)),
            ("abandon", abandon.to_string()),
            ("on_store_error", on_store_error.to_string()),
            ("on_unrecorded", on_unrecorded.to_string()),
            ("block_retention", duration::display(block_retention)),
            ("max_value_bytes", max_value_bytes.to_string()),
            ("cleanup_interval", duration::display(cleanup_interval)),
            ("max_concurrent", max_concurrent.map_or("none".into(), |n| n.to_string())),
            ("log_keys", log_keys.to_string()),
        ];
        let actual = actual.map(|(field, default)| (field.to_owned(), default));
        assert_eq!(documented(), actual);
    }
}
