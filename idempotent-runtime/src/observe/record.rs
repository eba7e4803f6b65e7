//! Sends what happens to `tracing`, and with the feature `metrics` to the `metrics` facade.

use super::Ending;
#[cfg(feature = "metrics")]
use super::names;
use crate::key::RecordKey;
use crate::store::{Maintenance, Usage};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A key as logs show it.
pub(crate) struct LoggedKey<'a> {
    pub(crate) key: &'a RecordKey,
    pub(crate) in_full: bool,
}

impl fmt::Display for LoggedKey<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_full {
            formatter.write_str(self.key.as_str())
        } else {
            write!(formatter, "#{}", self.key.hashed())
        }
    }
}

/// Reports how a call ended, once, when it is dropped at the latest.
#[derive(Debug)]
pub(crate) struct CallEnd {
    operation: Cow<'static, str>,
    ending: Option<Ending>,
}

impl CallEnd {
    pub(crate) fn new(operation: Cow<'static, str>) -> Self {
        Self { operation, ending: None }
    }

    pub(crate) fn ends(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        let ending = self.ending.unwrap_or_else(|| {
            if std::thread::panicking() { Ending::Panicked } else { Ending::Cancelled }
        });
        let operation: &str = &self.operation;
        let outcome = ending.as_str();
        tracing::debug!(target: "idempotent", operation, outcome, "call ended");
        #[cfg(feature = "metrics")]
        metrics::counter!(
            names::CALLS,
            names::OPERATION => self.operation.clone(),
            names::OUTCOME => outcome
        )
        .increment(1);
    }
}

/// Counts an event that is not the end of a call.
pub(crate) fn rare(name: &'static str, operation: &Cow<'static, str>) {
    #[cfg(feature = "metrics")]
    metrics::counter!(name, names::OPERATION => operation.clone()).increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = (name, operation);
}

pub(crate) fn wait_time(operation: &Cow<'static, str>, waited: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!(names::WAIT_SECONDS, names::OPERATION => operation.clone()).record(waited);
    #[cfg(not(feature = "metrics"))]
    let _ = (operation, waited);
}

/// Measures a verb of the store, until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreTimer {
    #[cfg(feature = "metrics")]
    verb: &'static str,
    #[cfg(feature = "metrics")]
    started: std::time::Instant,
}

impl StoreTimer {
    pub(crate) fn start(verb: &'static str) -> Self {
        let _ = verb;
        Self {
            #[cfg(feature = "metrics")]
            verb,
            #[cfg(feature = "metrics")]
            started: std::time::Instant::now(),
        }
    }
}

impl Drop for StoreTimer {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        metrics::histogram!(names::STORE_SECONDS, names::VERB => self.verb)
            .record(self.started.elapsed());
    }
}

/// Measures a body, until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyTimer {
    #[cfg(feature = "metrics")]
    operation: Cow<'static, str>,
    #[cfg(feature = "metrics")]
    started: std::time::Instant,
}

impl BodyTimer {
    pub(crate) fn start(operation: &Cow<'static, str>) -> Self {
        let _ = operation;
        Self {
            #[cfg(feature = "metrics")]
            operation: operation.clone(),
            #[cfg(feature = "metrics")]
            started: std::time::Instant::now(),
        }
    }
}

impl Drop for BodyTimer {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        metrics::histogram!(names::BODY_SECONDS, names::OPERATION => self.operation.clone())
            .record(self.started.elapsed());
    }
}

pub(crate) fn in_flight(attempts: usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::IN_FLIGHT).set(attempts as f64);
    #[cfg(not(feature = "metrics"))]
    let _ = attempts;
}

/// What the background cleaning did, and what the store holds after it.
pub(crate) fn maintained(done: Maintenance, usage: Option<Usage>) {
    if done.expired > 0 {
        tracing::debug!(target: "idempotent", expired = done.expired, "expired records removed");
    }
    #[cfg(feature = "metrics")]
    {
        metrics::counter!(names::EXPIRED).increment(done.expired);
        if let Some(usage) = usage {
            metrics::gauge!(names::STORE_ENTRIES).set(usage.entries as f64);
            metrics::gauge!(names::STORE_BYTES).set(usage.bytes as f64);
        }
    }
    #[cfg(not(feature = "metrics"))]
    let _ = usage;
}
