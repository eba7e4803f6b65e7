//! Emits events through `tracing`, and with the feature `metrics` metrics through the `metrics`
//! facade.

use super::Ending;
#[cfg(feature = "metrics")]
use super::names;
use crate::ambient::{self, Audience, CallReport};
use crate::error::Error;
use crate::key::RecordKey;
use crate::operation_name::OperationName;
use crate::store::{Maintenance, StoreError, Usage, Verb};
use std::fmt;

/// A key for logs: hashed, or in full with `log_keys`.
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

/// Guard that reports the end of a call, once, at the latest when it is dropped.
///
/// It is part of the future of every call: details of the end go where an adapter looks for them at once,
/// and are not kept here.
#[derive(Debug)]
pub(crate) struct CallEnd {
    operation: OperationName,
    ending: Option<Ending>,
    /// Looked up once, when the call begins: most calls are made without an adapter that looks.
    audience: Audience,
}

impl CallEnd {
    pub(crate) fn new(operation: OperationName) -> Self {
        Self { operation, ending: None, audience: ambient::call_begins() }
    }

    pub(crate) fn ends(&mut self, ending: Ending) {
        self.reports(CallReport::new(ending));
    }

    /// It ends with an error that is kept: its own, or that of an earlier call.
    pub(crate) fn ends_finally(&mut self, ending: Ending) {
        self.reports(CallReport { is_final: true, ..CallReport::new(ending) });
    }

    pub(crate) fn refused(&mut self, error: &Error) {
        self.reports(CallReport::refused(error));
    }

    /// The attempt that ran the body, and whether its answer is in the store, after the end of the call.
    pub(crate) fn of_attempt(&self, number: u32, is_unrecorded: bool) {
        if self.audience == Audience::Adapter {
            ambient::report_attempt(number, is_unrecorded);
        }
    }

    fn reports(&mut self, report: CallReport) {
        self.ending = Some(report.ending);
        ambient::report(report, self.audience);
    }
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        let ending = self.ending.unwrap_or_else(|| {
            if std::thread::panicking() { Ending::Panicked } else { Ending::Cancelled }
        });
        // Known before the body ran, which may have made calls of its own since; or not known yet.
        if self.ending.is_none() || ending == Ending::Unprotected {
            ambient::report(CallReport::new(ending), self.audience);
        }
        if self.audience == Audience::Adapter {
            ambient::call_ended();
        }
        ended(&self.operation, ending);
    }
}

/// Reports the end of a call.
pub(super) fn ended(name: &OperationName, ending: Ending) {
    let operation: &str = name;
    let outcome = ending.as_str();
    tracing::debug!(target: "idempotent", operation, outcome, "call ended");
    #[cfg(feature = "metrics")]
    metrics::counter!(
        names::CALLS,
        names::OPERATION => name.clone().into_label(),
        names::OUTCOME => outcome
    )
    .increment(1);
}

/// Counts an event that is not the end of a call.
pub(crate) fn rare(name: &'static str, operation: &OperationName) {
    #[cfg(feature = "metrics")]
    metrics::counter!(name, names::OPERATION => operation.clone().into_label()).increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = (name, operation);
}

/// Counts a lookup in the replay cache, with the value of the label `result`.
pub(crate) fn looked_up(operation: &OperationName, result: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!(
        names::REPLAY_CACHE_LOOKUPS,
        names::OPERATION => operation.clone().into_label(),
        names::RESULT => result
    )
    .increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = (operation, result);
}

/// Counts a verb that is given up before the store took it.
pub(crate) fn dropped(verb: Verb) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::DROPPED, names::VERB => verb.name()).increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = verb;
}

/// Counts an error of the store.
pub(crate) fn store_failed(verb: Verb, error: &StoreError) {
    #[cfg(feature = "metrics")]
    metrics::counter!(
        names::STORE_ERRORS,
        names::VERB => verb.name(),
        names::KIND => error.kind().name()
    )
    .increment(1);
    #[cfg(not(feature = "metrics"))]
    let _ = (verb, error);
}

#[cfg(feature = "metrics")]
fn verb(verb: &Verb) -> &'static str {
    verb.name()
}

#[cfg(feature = "metrics")]
fn name(operation: &OperationName) -> std::borrow::Cow<'static, str> {
    operation.clone().into_label()
}

macro_rules! timer {
    ($(#[$doc:meta])* $name:ident($label:ty) => $metric:ident, $label_name:ident, $read:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            #[cfg(feature = "metrics")]
            label: $label,
            #[cfg(feature = "metrics")]
            started: std::time::Instant,
        }

        impl $name {
            #[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
            pub(crate) fn start(label: &$label) -> Self {
                Self {
                    #[cfg(feature = "metrics")]
                    label: label.clone(),
                    #[cfg(feature = "metrics")]
                    started: std::time::Instant::now(),
                }
            }

            /// Ends the measurement.
            #[allow(dead_code)]
            pub(crate) fn stop(self) {}
        }

        #[cfg(feature = "metrics")]
        impl Drop for $name {
            fn drop(&mut self) {
                metrics::histogram!(names::$metric, names::$label_name => $read(&self.label))
                    .record(self.started.elapsed());
            }
        }
    };
}

timer! {
    /// Measures a verb of the store, until it is dropped.
    StoreTimer(Verb) => STORE_SECONDS, VERB, verb
}

impl StoreTimer {
    /// Ends the measurement with the store's answer, and counts an error.
    pub(crate) fn answered<T>(self, answer: &Result<T, StoreError>) {
        if let Err(error) = answer {
            self.failed(error);
        }
    }

    /// Ends the measurement of a verb that failed, and counts the error.
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
    pub(crate) fn failed(self, error: &StoreError) {
        #[cfg(feature = "metrics")]
        store_failed(self.label, error);
    }
}

timer! {
    /// Measures a body, until it is dropped.
    BodyTimer(OperationName) => BODY_SECONDS, OPERATION, name
}

timer! {
    /// Measures the waiting time of a duplicate, until it is dropped.
    WaitTimer(OperationName) => WAIT_SECONDS, OPERATION, name
}

pub(crate) fn in_flight(attempts: impl FnOnce() -> usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::IN_FLIGHT).set(attempts() as f64);
    #[cfg(not(feature = "metrics"))]
    let _ = attempts;
}

/// Measures a cleanup of the store. One that is dropped before its end is not reported.
#[derive(Debug)]
pub(crate) struct Cleanup {
    #[cfg(feature = "metrics")]
    started: std::time::Instant,
}

impl Cleanup {
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            started: std::time::Instant::now(),
        }
    }

    /// Reports the work that was done and the contents of the store after it.
    pub(crate) fn done(&self, done: Maintenance, usage: Option<Usage>) {
        if done.expired > 0 {
            tracing::debug!(target: "idempotent", expired = done.expired, "expired records removed");
        }
        #[cfg(feature = "metrics")]
        {
            metrics::histogram!(names::CLEANUP_SECONDS).record(self.started.elapsed());
            metrics::counter!(names::EXPIRED).increment(done.expired);
            metrics::gauge!(names::CLEANUP_BEHIND).set(f64::from(done.more));
            if let Some(usage) = usage {
                contents(usage);
            }
        }
        #[cfg(not(feature = "metrics"))]
        let _ = usage;
    }
}

#[cfg(feature = "metrics")]
fn contents(usage: Usage) {
    metrics::gauge!(names::STORE_ENTRIES).set(usage.entries as f64);
    metrics::gauge!(names::STORE_BYTES).set(usage.bytes as f64);
    if let Some(max_entries) = usage.max_entries {
        metrics::gauge!(names::STORE_MAX_ENTRIES).set(max_entries as f64);
    }
    if let Some(max_bytes) = usage.max_bytes {
        metrics::gauge!(names::STORE_MAX_BYTES).set(max_bytes as f64);
    }
}
