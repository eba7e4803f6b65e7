//! The error of a refused call, and its consequences for the caller.

use crate::causes::unsaid;
use crate::operation_name::OperationName;
use crate::store::{StoreError, StoreErrorKind};
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// The error of a call that was refused. Opaque: match on its [`kind`](Error::kind).
///
/// The text says what was refused, whether the body ran and whether a retry makes sense. It shows
/// keys hashed, and never shows values. If an error of the store or of a codec is the cause, the
/// text includes it, and [`source`](StdError::source) starts at the first cause that the text
/// leaves out. [`store_error`](Error::store_error) returns the store's error itself.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    operation: OperationName,
    key: Option<String>,
    /// The text for the rejected caller; empty for the description of the kind.
    message: String,
    retry_after: Option<Duration>,
    body: BodyRun,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The part that the body had in a call that was refused.
///
/// ```
/// use idempotent_runtime::{BodyRun, Error};
///
/// fn log(error: &Error) {
///     match error.body() {
///         BodyRun::DidNotRun => println!("nothing happened: {error}"),
///         BodyRun::Ran => println!("it happened, and its answer is lost: {error}"),
///         BodyRun::Unknown => println!("a repeat call returns the outcome: {error}"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyRun {
    /// The body did not run, and it will not run for this call.
    DidNotRun,
    /// The body ran, or started to run.
    Ran,
    /// The body may have run, or may still run: an effect inside Redis whose answer was lost. A
    /// call with the same key is safe, and returns the outcome.
    Unknown,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no key: no ambient token, or an optional field that is `None`.
    MissingKey,
    /// The key is empty or too long.
    InvalidKey,
    /// The operation is already done (reject mode), or the window is taken (window mode).
    Duplicate,
    /// Another call with this key is running, and this one does not wait, or has waited long
    /// enough.
    InProgress,
    /// The key was used before with another payload.
    Mismatch,
    /// An earlier attempt began and its outcome is unknown.
    Indeterminate,
    /// The call chain in this task already holds this key, or a lock that the call needs.
    Reentrant,
    /// The store did not answer.
    StoreUnavailable,
    /// The store, or this process, has no room for another attempt.
    StoreFull,
    /// The store has fewer replicas than required.
    NotReplicated,
    /// The instance is shutting down.
    ShuttingDown,
    /// Another attempt took over, or an operator freed the key. The value was dropped.
    Superseded,
    /// The body returned a value, which the store has not acknowledged, and `on_unrecorded` is
    /// `error`. The value was dropped; it may still be recorded.
    Unrecorded,
    /// The operation succeeded before, but its value was not kept.
    ResultUnavailable,
    /// The operation failed before for good: its error was not kept, or its body has started as often
    /// as it may.
    FailedBefore,
    /// The stored value does not fit the type, the codec or the format version.
    Undecodable,
    /// The instance or the function is misconfigured.
    Misconfigured,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::MissingKey,
        Self::InvalidKey,
        Self::Duplicate,
        Self::InProgress,
        Self::Mismatch,
        Self::Indeterminate,
        Self::Reentrant,
        Self::StoreUnavailable,
        Self::StoreFull,
        Self::NotReplicated,
        Self::ShuttingDown,
        Self::Superseded,
        Self::Unrecorded,
        Self::ResultUnavailable,
        Self::FailedBefore,
        Self::Undecodable,
        Self::Misconfigured,
    ];

    /// A short description of this kind.
    pub fn description(self) -> &'static str {
        match self {
            Self::MissingKey => "no idempotency key",
            Self::InvalidKey => "invalid idempotency key",
            Self::Duplicate => "duplicate",
            Self::InProgress => "in progress",
            Self::Mismatch => "the key was used with another payload",
            Self::Indeterminate => "the outcome of an earlier attempt is unknown",
            Self::Reentrant => "this call chain already holds the key",
            Self::StoreUnavailable => "the store is unavailable",
            Self::StoreFull => "the store is full",
            Self::NotReplicated => "too few replicas",
            Self::ShuttingDown => "shutting down",
            Self::Superseded => "superseded by another attempt or by an operator",
            Self::Unrecorded => "done, but the result is not recorded",
            Self::ResultUnavailable => "done before, but the result was not kept",
            Self::FailedBefore => "failed before, for good",
            Self::Undecodable => "the stored result cannot be read",
            Self::Misconfigured => "set up wrongly",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &OperationName) -> Self {
        Self(Box::new(Inner {
            kind,
            operation: operation.clone(),
            key: None,
            message: String::new(),
            retry_after: None,
            body: match kind {
                ErrorKind::Superseded => BodyRun::Ran,
                _ => BodyRun::DidNotRun,
            },
            source: None,
        }))
    }

    pub(crate) fn from_store(error: StoreError, operation: &OperationName) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable => ErrorKind::StoreUnavailable,
            StoreErrorKind::Full => ErrorKind::StoreFull,
            StoreErrorKind::Contended => ErrorKind::InProgress,
            StoreErrorKind::NotReplicated => ErrorKind::NotReplicated,
            StoreErrorKind::Undecodable => ErrorKind::Undecodable,
            StoreErrorKind::Misconfigured => ErrorKind::Misconfigured,
        };
        Self::new(kind, operation).with_message(error.to_string()).with_source(error)
    }

    pub(crate) fn with_key(mut self, key: String) -> Self {
        self.0.key = Some(key);
        self
    }

    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.0.retry_after = Some(retry_after);
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn after_the_body_ran(mut self) -> Self {
        self.0.body = BodyRun::Ran;
        self
    }

    /// Marks the error of a call that sent something which may have run the body, or may still do
    /// so.
    #[cfg(feature = "redis")]
    pub(crate) fn with_body_unknown(mut self) -> Self {
        if self.0.body == BodyRun::DidNotRun {
            self.0.body = BodyRun::Unknown;
        }
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text for the rejected caller: the function's `message` for duplicates and calls in
    /// progress, otherwise a short description of what is wrong.
    pub fn message(&self) -> &str {
        if self.0.message.is_empty() { self.0.kind.description() } else { &self.0.message }
    }

    /// The operation that was refused.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The time after which a retry makes sense, if it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// `true` if a retry with the same key can end differently.
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::InProgress
            | ErrorKind::StoreUnavailable
            | ErrorKind::StoreFull
            | ErrorKind::NotReplicated
            | ErrorKind::ShuttingDown
            | ErrorKind::Superseded
            | ErrorKind::Unrecorded => true,
            ErrorKind::Duplicate => self.0.retry_after.is_some(),
            _ => false,
        }
    }

    /// The error of the store, if it is the cause.
    ///
    /// ```
    /// use idempotent_runtime::Error;
    ///
    /// /// `true` if the write that failed may be in the store, or may still arrive there.
    /// fn may_have_been_written(error: &Error) -> bool {
    ///     error.store_error().is_some_and(|error| error.may_have_taken_effect())
    /// }
    /// # let _ = may_have_been_written;
    /// ```
    pub fn store_error(&self) -> Option<&StoreError> {
        self.0.source.as_deref().and_then(|source| source.downcast_ref())
    }

    /// Returns whether the body ran for this call, as far as that is known.
    pub fn body(&self) -> BodyRun {
        self.0.body
    }

    /// `true` if the body is known to have run for this call. `false` includes calls of which that
    /// is unknown; [`body`](Error::body) tells them apart.
    pub fn body_ran(&self) -> bool {
        self.0.body == BodyRun::Ran
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, operation, key, message, retry_after, body, .. } = &*self.0;
        write!(formatter, "{operation}")?;
        if let Some(key) = key {
            write!(formatter, " [{key}]")?;
        }
        write!(formatter, ": {}", kind.description())?;
        let (what, help) = match message.split_once("\nhelp: ") {
            Some((what, help)) => (what, Some(help)),
            None => (&**message, None),
        };
        if !what.is_empty() {
            write!(formatter, ": {what}")?;
        }
        let ran = match body {
            BodyRun::DidNotRun => "the body did not run",
            BodyRun::Ran => "the body ran",
            BodyRun::Unknown => "it is unknown whether the body ran",
        };
        write!(formatter, " ({ran}")?;
        match retry_after {
            Some(after) => write!(formatter, "; retry after {} ms)", after.as_millis().max(1)),
            None if self.is_retryable() => write!(formatter, "; may be retried)"),
            None => write!(formatter, "; a retry with this key does not help)"),
        }?;
        match help {
            Some(help) => write!(formatter, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("key", &self.0.key)
            .field("message", &self.message())
            .field("retry_after", &self.0.retry_after)
            .field("body", &self.0.body)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        unsaid(&self.0.message, self.0.source.as_deref().map(|source| source as _))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_whether_and_when() {
        let error = Error::new(ErrorKind::InProgress, &"orders.create".into())
            .with_key("#0123".to_owned())
            .with_message("please wait")
            .with_retry_after(Duration::from_millis(1500));
        assert_eq!(
            error.to_string(),
            "orders.create [#0123]: in progress: please wait \
             (the body did not run; retry after 1500 ms)"
        );
    }

    #[test]
    fn all_kinds_are_listed_in_their_order() {
        for (number, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number, "{kind:?}");
        }
        assert_eq!(ErrorKind::Misconfigured as usize + 1, ErrorKind::ALL.len());
    }

    #[test]
    fn superseded_is_the_kind_whose_body_ran() {
        let error = Error::new(ErrorKind::Superseded, &"o".into());
        assert_eq!((error.body(), error.body_ran()), (BodyRun::Ran, true));
        assert!(error.to_string().contains("the body ran"));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn an_unknown_run_is_said_to_be_unknown() {
        let error = || Error::new(ErrorKind::StoreUnavailable, &"o".into()).with_message("lost");
        let unknown = error().with_body_unknown();
        assert_eq!((unknown.body(), unknown.body_ran()), (BodyRun::Unknown, false));
        assert_eq!(
            unknown.to_string(),
            "o: the store is unavailable: lost (it is unknown whether the body ran; may be retried)"
        );
        assert_eq!(error().after_the_body_ran().with_body_unknown().body(), BodyRun::Ran);
    }

    #[test]
    fn a_remedy_comes_last() {
        let error = Error::new(ErrorKind::Misconfigured, &"o".into());
        assert_eq!(
            error.with_message("no such user\nhelp: ACL SETUSER").to_string(),
            "o: set up wrongly: no such user \
             (the body did not run; a retry with this key does not help)\nhelp: ACL SETUSER"
        );
    }

    /// An error and its causes in a row, as reports print them.
    fn chain(error: &dyn StdError) -> String {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }

    fn refused() -> std::io::Error {
        std::io::Error::other("connection refused")
    }

    #[test]
    fn a_store_s_text_is_in_the_chain_once() {
        let lost = StoreError::new(StoreErrorKind::Unavailable, "10.0.0.7 does not answer");
        let error = Error::from_store(lost.with_source(refused()), &"o".into());
        assert_eq!(
            chain(&error),
            "o: the store is unavailable: 10.0.0.7 does not answer \
             (the body did not run; may be retried): connection refused"
        );
        assert_eq!(error.store_error().unwrap().kind(), StoreErrorKind::Unavailable);
    }

    #[test]
    fn a_cause_that_a_store_quotes_is_in_the_chain_once() {
        let lost = || {
            StoreError::new(StoreErrorKind::Unavailable, format!("redis: {}", refused()))
                .with_source(refused())
        };
        assert_eq!(chain(&lost()), "redis: connection refused");
        assert_eq!(
            chain(&Error::from_store(lost(), &"o".into())),
            "o: the store is unavailable: redis: connection refused \
             (the body did not run; may be retried)"
        );
    }

    #[test]
    fn a_cause_that_the_text_leaves_out_is_in_the_chain() {
        let raced = StoreError::new(StoreErrorKind::Contended, "lost a race");
        let error = Error::new(ErrorKind::InProgress, &"o".into())
            .with_message("please wait")
            .with_source(raced);
        assert_eq!(
            chain(&error),
            "o: in progress: please wait (the body did not run; may be retried): lost a race"
        );
    }

    #[test]
    fn a_taken_window_can_be_retried_later_and_a_success_cannot() {
        let duplicate = || Error::new(ErrorKind::Duplicate, &"o".into());
        assert!(!duplicate().is_retryable());
        assert!(duplicate().with_retry_after(Duration::from_secs(1)).is_retryable());
    }
}
