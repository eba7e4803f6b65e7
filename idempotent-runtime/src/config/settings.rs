//! The table of settings.
//!
//! An entry has everything that is needed to read a setting from code, files and the environment,
//! and to check, write and document it.

use super::bounds::{LONGEST, LONGEST_LEASE, SHORTEST_LEASE, TICK};
use super::draft::Draft;
use super::names::Setting;
use super::validate::{
    Checked, Refused, anything, at_least_one, at_least_the_lease, key_prefix, value_bytes, within,
};
use super::values::Value as _;
use super::{Abandon, ConfigError, Mode, OnStoreError, OnUnrecorded};
use serde::Serializer;
use serde::ser::SerializeStruct as _;
use std::time::Duration;

settings! {
    /// Settings of an instance, which apply where a function does not choose for itself.
    ///
    /// An argument of the attribute or of the operation overrides the configuration, and the
    /// configuration overrides the default.
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
    /// `Config` reads from any self-describing serde format. A missing name takes its default, and
    /// an unknown one is an error. A duration is an integer in seconds, or text with a unit:
    /// `"300ms"`, `"5s"`, `"5m"`, `"24h"`, `"7d"`.
    ///
    /// ```
    /// # use idempotent_runtime::{Config, Mode};
    /// let text = r#"{ "key-prefix": "shop:", "expire": "24h", "mode": "strong" }"#;
    /// let config: Config = serde_json::from_str(text)?;
    /// assert_eq!(config.mode, Mode::Strong);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// The names are those of the fields with hyphens. Some settings have a second name, so that
    /// configuration files of Java services can be kept. Giving both names of one setting is an
    /// error:
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
        /// Prefix of every key in the store, 1 to 255 bytes. Default: `idempotent:token:`.
        key_prefix: String = "idempotent:token:".to_owned() => {
            name: "key-prefix",
            set: with_key_prefix(impl Into<String>),
            check: key_prefix,
        }

        /// Retention of an answer, counted from completion. Default: `5m`.
        expire: Duration = Duration::from_secs(300) => {
            name: "expire",
            set: with_expire(Duration),
            check: within(TICK, LONGEST),
        }

        /// The answer to a duplicate. Default: `reject`.
        mode: Mode = Mode::Reject => {
            name: "mode",
            set: with_mode(Mode),
            check: anything,
        }

        /// Text for a rejected caller. Default: `this request has already been received`.
        message: String = "this request has already been received".to_owned() => {
            name: "message",
            set: with_message(impl Into<String>),
            check: anything,
        }

        /// Time that a duplicate waits for the answer in strong mode; zero for not at all.
        /// Default: `300ms`.
        wait: Duration = Duration::from_millis(300) => {
            name: "wait",
            set: with_wait(Duration),
            check: within(Duration::ZERO, LONGEST),
        }

        /// Time for which other callers stay away from a key that is not renewed, `10ms` to `1d`.
        /// Default: `30s`.
        lease: Duration = Duration::from_secs(30) => {
            name: "lease",
            set: with_lease(Duration),
            check: within(SHORTEST_LEASE, LONGEST_LEASE),
        }

        /// Time after which a lease is no longer renewed, so that a hung body cannot hold its key
        /// forever; at least `lease`. Default: `1h`.
        max_run: Duration = Duration::from_secs(60 * 60) => {
            name: "max-run",
            set: with_max_run(Duration),
            check: at_least_the_lease,
        }

        /// The first interval of the polling that backs up notifications. Default: `100ms`.
        retry_interval: Duration = Duration::from_millis(100) => {
            name: "retry-interval",
            set: with_retry_interval(Duration),
            check: within(TICK, LONGEST),
        }

        /// Treatment of a key whose attempt began and vanished. Default: `retry`.
        abandon: Abandon = Abandon::Retry => {
            name: "abandon",
            set: with_abandon(Abandon),
            check: anything,
        }

        /// Behaviour of a call when the store does not answer. Default: `refuse`.
        on_store_error: OnStoreError = OnStoreError::Refuse => {
            name: "on-store-error",
            set: with_on_store_error(OnStoreError),
            check: anything,
        }

        /// The answer to a caller whose value could not be recorded in time. Default: `value`.
        on_unrecorded: OnUnrecorded = OnUnrecorded::Value => {
            name: "on-unrecorded",
            set: with_on_unrecorded(OnUnrecorded),
            check: anything,
        }

        /// Time for which a key of unknown outcome stays blocked if it is not resolved.
        /// Default: `7d`.
        block_retention: Duration = Duration::from_secs(7 * 24 * 60 * 60) => {
            name: "block-retention",
            set: with_block_retention(Duration),
            check: within(TICK, LONGEST),
        }

        /// The largest encoded value that is kept; a larger one is recorded as succeeded without its
        /// value. Default: `1048576`.
        max_value_bytes: usize = 1024 * 1024 => {
            name: "max-value-bytes",
            set: with_max_value_bytes(usize),
            check: value_bytes,
        }

        /// Interval at which expired records are removed from the memory store. Default: `30s`.
        cleanup_interval: Duration = Duration::from_secs(30) => {
            name: "cleanup-interval",
            set: with_cleanup_interval(Duration),
            check: within(TICK, LONGEST),
        }

        /// The largest number of bodies that may run in this process at a time, or `None` for no bound.
        /// Default: `none`.
        ///
        /// A recorded answer is replayed regardless. A call inside a body shares the permit of that
        /// body, a batch has one body, and bodies without protection are not counted. A bound that
        /// is set while bodies run does not count those.
        max_concurrent: Option<usize> = None => {
            name: "max-concurrent",
            set: with_max_concurrent(impl Into<Option<usize>>),
            check: at_least_one,
        }

        /// Shows keys in full in logs, instead of hashed. Default: `false`.
        log_keys: bool = false => {
            name: "log-keys",
            set: with_log_keys(bool),
            check: anything,
        }
    }
    also_read: ["expire-time", "return-cached-result", "max-retry-count", "retry-interval-ms"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_files_are_those_of_the_fields() {
        for (field, name, _) in DOCUMENTED {
            assert_eq!(*name, field.replace('_', "-"));
        }
    }

    #[test]
    fn defaults_in_the_docs_are_those_in_the_code() {
        let defaults = serde_json::to_value(Config::default()).unwrap();
        for (field, name, docs) in DOCUMENTED {
            let default = match defaults.get(name) {
                None => "none".to_owned(),
                Some(serde_json::Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            assert!(docs.contains(&format!("Default: `{default}`")), "{field}: {default}");
        }
    }
}
