//! Retention presets for `expire`.
//!
//! Retention is the time within which a repeat call still gets the first answer. A later one runs
//! the body again. Choose it from the longest delay after which a client, a broker or a person may
//! still repeat the call, and add a margin. Its cost is the space that the answers take in the
//! store.
//!
//! | preset | length | covers |
//! | --- | --- | --- |
//! | [`PAYMENTS`] | `24h` | clients and gateways that retry for hours, and reconciliation at the end of the day |
//! | [`ORDERS`] | `10m` | double clicks, reloads of a form, retries by a mobile client |
//! | [`MESSAGES`] | `7d` | redelivery by a broker, as long as the broker keeps a message |
//! | [`JOBS`] | `24h` | a scheduler or an operator that starts a job of the day again |
//! | [`REQUESTS`] | `10m` | retries of an HTTP client, a proxy or a gateway |
//!
//! ```
//! use idempotent_runtime::{Config, retention};
//!
//! let config = Config::new().with_expire(retention::PAYMENTS);
//! # assert!(config.validate().is_ok());
//! ```
//!
//! In the attribute, a preset is a constant like any other:
//!
//! ```
//! use idempotent_runtime::{Error, idempotent, retention};
//!
//! #[idempotent(key = "id", expire = retention::PAYMENTS, mode = "strong")]
//! async fn pay(id: u64) -> Result<u64, Error> { Ok(id) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! # assert_eq!(pay(1).await?, 1);
//! # Ok(()) }
//! ```

use std::time::Duration;

/// Retention for payments and anything else that moves money: 24 hours.
///
/// Back it with a unique constraint in the database: retention ends, a unique constraint does not.
pub const PAYMENTS: Duration = Duration::from_secs(24 * 60 * 60);

/// Retention for orders and other forms that a person submits: 10 minutes.
///
/// A person who submits the same form an hour later most likely means it.
pub const ORDERS: Duration = Duration::from_secs(10 * 60);

/// Retention for messages from a queue: 7 days.
///
/// Keep answers at least as long as the broker keeps messages, dead-letter queues included.
pub const MESSAGES: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Retention for jobs that run once a day: 24 hours.
///
/// The key is the job and its day, so that the next day's run is another call.
pub const JOBS: Duration = Duration::from_secs(24 * 60 * 60);

/// Retention for requests between programs: 10 minutes.
///
/// A client that repeats a request for longer than this does so on purpose; if it does not, as with
/// payments, choose longer.
pub const REQUESTS: Duration = Duration::from_secs(10 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::duration;

    #[test]
    fn lengths_in_the_docs_are_those_in_the_code() {
        let source = include_str!("retention.rs");
        let presets = [
            ("PAYMENTS", PAYMENTS),
            ("ORDERS", ORDERS),
            ("MESSAGES", MESSAGES),
            ("JOBS", JOBS),
            ("REQUESTS", REQUESTS),
        ];
        let rows = source.lines().filter(|line| line.starts_with("//! | [`")).count();
        assert_eq!(rows, presets.len());
        for (name, length) in presets {
            let row = source
                .lines()
                .find(|line| line.starts_with(&format!("//! | [`{name}`] |")))
                .unwrap();
            let documented = row.split('|').nth(2).unwrap().trim().trim_matches('`');
            assert_eq!(duration::parse(documented), Ok(length), "{name}");
        }
    }
}
