//! Names of all metrics and labels.

/// Counter: calls, by [`OPERATION`] and [`OUTCOME`].
pub const CALLS: &str = "idempotent_calls_total";
/// Histogram, seconds: how long a duplicate waited for an answer, by [`OPERATION`].
pub const WAIT_SECONDS: &str = "idempotent_wait_seconds";
/// Counter: calls in strong mode that got no answer within their `wait`, by [`OPERATION`].
pub const WAIT_TIMEOUTS: &str = "idempotent_wait_timeouts_total";
/// Histogram, seconds: how long the body ran, by [`OPERATION`].
pub const BODY_SECONDS: &str = "idempotent_body_seconds";
/// Histogram, seconds: how long the store took, by [`VERB`].
pub const STORE_SECONDS: &str = "idempotent_store_seconds";
/// Counter: errors of the store, by [`VERB`] and [`KIND`].
pub const STORE_ERRORS: &str = "idempotent_store_errors_total";
/// Gauge: attempts in flight in this process.
pub const IN_FLIGHT: &str = "idempotent_attempts_in_flight";
/// Counter: leases that were renewed, by [`OPERATION`].
pub const RENEWALS: &str = "idempotent_lease_renewals_total";
/// Counter: leases that ended before their attempt did, by [`OPERATION`].
pub const LEASES_LOST: &str = "idempotent_leases_lost_total";
/// Gauge: records in the memory store.
pub const STORE_ENTRIES: &str = "idempotent_store_entries";
/// Gauge: bytes in the memory store.
pub const STORE_BYTES: &str = "idempotent_store_bytes";
/// Gauge: records that the memory store holds at most.
pub const STORE_MAX_ENTRIES: &str = "idempotent_store_max_entries";
/// Gauge: bytes that the memory store holds at most.
pub const STORE_MAX_BYTES: &str = "idempotent_store_max_bytes";
/// Histogram, seconds: how long the store took to remove expired records, once per cleanup.
pub const CLEANUP_SECONDS: &str = "idempotent_cleanup_seconds";
/// Gauge: 1 if the last cleanup left expired records behind, otherwise 0.
pub const CLEANUP_BEHIND: &str = "idempotent_cleanup_behind";
/// Counter: expired records that were removed in the background.
pub const EXPIRED: &str = "idempotent_expired_total";
/// Counter: answers whose record had vanished and was written again, by [`OPERATION`].
pub const VANISHED: &str = "idempotent_vanished_total";
/// Counter: answers that could not be stored when their caller got them, by [`OPERATION`].
pub const UNRECORDED: &str = "idempotent_unrecorded_total";
/// Counter: ends of attempts and releases that were given up before the store took them, by
/// [`VERB`].
pub const DROPPED: &str = "idempotent_dropped_total";
/// Counter: answers, values and final errors, that were recorded without their bytes (too large, not
/// encodable, no room), by [`OPERATION`].
pub const NOT_KEPT: &str = "idempotent_value_not_kept_total";
/// Counter: errors returned by attempts that had been superseded, by [`OPERATION`].
pub const FAILED_LATE: &str = "idempotent_failed_late_total";
/// Counter: requests that an adapter answered with a problem, by [`OPERATION`] and [`PROBLEM`].
pub const REFUSALS: &str = "idempotent_refusals_total";
/// Counter: lookups in the replay cache, by [`OPERATION`] and [`RESULT`].
pub const REPLAY_CACHE_LOOKUPS: &str = "idempotent_replay_cache_lookups_total";
/// Label: the [name](crate::store::StoreErrorKind::name) of the kind of a store's error.
pub const KIND: &str = "kind";
/// Label: the operation's name.
pub const OPERATION: &str = "operation";
/// Label: how the call ended; one of [`Ending`](super::Ending).
pub const OUTCOME: &str = "outcome";
/// Label: the [code](crate::problem::ProblemType::code) of a problem.
pub const PROBLEM: &str = "problem";
/// Label: the result of a lookup in the replay cache: `hit`; `miss`; or `off`, while the store does not
/// tell of freed records.
pub const RESULT: &str = "result";
/// Label: the store's verb.
pub const VERB: &str = "verb";
