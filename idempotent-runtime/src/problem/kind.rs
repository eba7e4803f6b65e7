//! Types of problems, as constants.

use crate::error::ErrorKind;
use crate::observe::ending::Ending;

/// A kind of refusal, with the code and the status that clients go by.
///
/// An open set, as statuses and headers of HTTP are: the constants here are the refusals of
/// operations, one or more for each [`ErrorKind`]. Adapters add their own with
/// [`new`](Self::new); those of the HTTP layer are in `idempotent_http::problem`. Codes do not change
/// between releases, and constants can be matched on.
///
/// ```
/// use idempotent_runtime::observe::Ending;
/// use idempotent_runtime::problem::ProblemType;
///
/// const NO_QUEUE: ProblemType =
///     ProblemType::new("no-queue", 404, "there is no queue of this name", Ending::Invalid);
///
/// fn helps_to_retry(kind: ProblemType) -> bool {
///     match kind {
///         ProblemType::MISSING_KEY | NO_QUEUE => false,
///         other => other.is_transient(),
///     }
/// }
/// # assert!(helps_to_retry(ProblemType::IN_PROGRESS));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProblemType {
    code: &'static str,
    status: u16,
    title: &'static str,
    ending: Ending,
    is_transient: bool,
}

impl ProblemType {
    /// The route needs a key, and the request has none.
    pub const MISSING_KEY: Self =
        Self::new("missing-key", 400, "an idempotency key is required", Ending::Invalid);

    /// The key is empty, too long, malformed, or given twice.
    pub const INVALID_KEY: Self =
        Self::new("invalid-key", 400, "the idempotency key is not valid", Ending::Invalid);

    /// It was done before, and answers are not kept.
    pub const DUPLICATE: Self =
        Self::new("duplicate", 409, "this request was handled before", Ending::Rejected);

    /// Another request with this key is being handled.
    pub const IN_PROGRESS: Self =
        Self::new("in-progress", 409, "a request with this key is in progress", Ending::InProgress)
            .transient();

    /// The key was used with another payload.
    pub const PAYLOAD_MISMATCH: Self = Self::new(
        "payload-mismatch",
        422,
        "this key was used with another payload",
        Ending::Mismatch,
    );

    /// An earlier request with this key began, and its outcome is unknown.
    pub const OUTCOME_UNKNOWN: Self = Self::new(
        "outcome-unknown",
        409,
        "the outcome of an earlier request is unknown",
        Ending::Indeterminate,
    );

    /// Another attempt took over while this one ran.
    pub const SUPERSEDED: Self =
        Self::new("superseded", 409, "another request with this key took over", Ending::Superseded)
            .transient();

    /// It was done, and its answer is not known to be recorded.
    pub const NOT_RECORDED: Self = Self::new(
        "not-recorded",
        503,
        "handled, but the result is not recorded yet",
        // The value is dropped, the execution is not.
        Ending::Executed,
    )
    .transient();

    /// It was done before, and its answer was not retained.
    pub const RESULT_NOT_RETAINED: Self = Self::new(
        "result-not-retained",
        409,
        "handled before, but the result was not retained",
        Ending::Unreadable,
    );

    /// It failed before, for good, and its answer was not retained.
    pub const FAILED_BEFORE: Self = Self::new(
        "failed-before",
        409,
        "this request failed before and is not tried again",
        Ending::Rejected,
    );

    /// It was done before, and its answer cannot be read.
    pub const RESULT_UNREADABLE: Self = Self::new(
        "result-unreadable",
        500,
        "handled before, but the result cannot be read",
        Ending::Unreadable,
    );

    /// The store does not answer.
    pub const STORE_UNAVAILABLE: Self = Self::new(
        "store-unavailable",
        503,
        "requests cannot be protected at the moment",
        Ending::Refused,
    )
    .transient();

    /// The store has no room.
    pub const STORE_FULL: Self =
        Self::new("store-full", 503, "there is no room for another request", Ending::Refused)
            .transient();

    /// The store has too few replicas.
    pub const NOT_REPLICATED: Self = Self::new(
        "not-replicated",
        503,
        "requests cannot be replicated at the moment",
        Ending::Refused,
    )
    .transient();

    /// The process is shutting down.
    pub const SHUTTING_DOWN: Self =
        Self::new("shutting-down", 503, "this server is shutting down", Ending::Refused)
            .transient();

    /// The server is misconfigured.
    pub const MISCONFIGURED: Self =
        Self::new("misconfigured", 500, "the server is misconfigured", Ending::Invalid);

    /// The types of this crate: the refusals of operations.
    pub const ALL: &[Self] = &[
        Self::MISSING_KEY,
        Self::INVALID_KEY,
        Self::DUPLICATE,
        Self::IN_PROGRESS,
        Self::PAYLOAD_MISMATCH,
        Self::OUTCOME_UNKNOWN,
        Self::SUPERSEDED,
        Self::NOT_RECORDED,
        Self::RESULT_NOT_RETAINED,
        Self::FAILED_BEFORE,
        Self::RESULT_UNREADABLE,
        Self::STORE_UNAVAILABLE,
        Self::STORE_FULL,
        Self::NOT_REPLICATED,
        Self::SHUTTING_DOWN,
        Self::MISCONFIGURED,
    ];

    /// Declares a type of an adapter: a code in kebab case, a status of HTTP, a few words on what
    /// it means, and the outcome under which such calls are counted.
    pub const fn new(code: &'static str, status: u16, title: &'static str, ending: Ending) -> Self {
        Self { code, status, title, ending, is_transient: false }
    }

    /// Declares that the same request with the same key gets another answer later.
    #[must_use]
    pub const fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.status
    }

    /// A short stable name.
    pub const fn code(self) -> &'static str {
        self.code
    }

    /// The meaning, in a few words.
    pub const fn title(self) -> &'static str {
        self.title
    }

    /// The outcome under which a call that is refused so is counted.
    pub const fn ending(self) -> Ending {
        self.ending
    }

    /// `true` if the same request with the same key gets another answer later.
    pub const fn is_transient(self) -> bool {
        self.is_transient
    }
}

impl From<ErrorKind> for ProblemType {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::MissingKey => Self::MISSING_KEY,
            ErrorKind::InvalidKey => Self::INVALID_KEY,
            ErrorKind::Duplicate => Self::DUPLICATE,
            ErrorKind::InProgress => Self::IN_PROGRESS,
            ErrorKind::Mismatch => Self::PAYLOAD_MISMATCH,
            ErrorKind::Indeterminate => Self::OUTCOME_UNKNOWN,
            ErrorKind::Reentrant | ErrorKind::Misconfigured | ErrorKind::Unknown => {
                Self::MISCONFIGURED
            }
            ErrorKind::StoreUnavailable => Self::STORE_UNAVAILABLE,
            ErrorKind::StoreFull => Self::STORE_FULL,
            ErrorKind::NotReplicated => Self::NOT_REPLICATED,
            ErrorKind::ShuttingDown => Self::SHUTTING_DOWN,
            ErrorKind::Superseded => Self::SUPERSEDED,
            ErrorKind::Unrecorded => Self::NOT_RECORDED,
            ErrorKind::ResultUnavailable => Self::RESULT_NOT_RETAINED,
            ErrorKind::FailedBefore => Self::FAILED_BEFORE,
            ErrorKind::Undecodable => Self::RESULT_UNREADABLE,
        }
    }
}

impl From<ErrorKind> for Ending {
    fn from(kind: ErrorKind) -> Self {
        ProblemType::from(kind).ending()
    }
}
