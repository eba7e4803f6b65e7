//! The error of a refused call, and its consequences for the caller.

mod body_run;
mod chain;
mod disposition;
mod kind;
mod wire;

pub use body_run::BodyRun;
pub use disposition::Disposition;
pub use kind::ErrorKind;
pub(crate) use wire::watch;

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
///
/// # In an error of your own
///
/// A function's error type needs `From<Error>`, so that a call can be refused. It keeps the whole
/// refusal, which has kind, text and [`retry_after`](Error::retry_after), or the parts that its
/// callers look at. Both are `Serialize` and `Deserialize`, as
/// [`final_errors`](macro@crate::idempotent#final_errors) requires:
///
/// ```
/// use idempotent_runtime::{Error, ErrorKind, idempotent};
/// use serde::{Deserialize, Serialize};
/// # struct CreateOrder { order_id: String, item: String }
///
/// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
/// enum OrderError {
///     #[error("{0} is sold out")]
///     SoldOut(String),
///     #[error(transparent)]
///     Refused(#[from] Error), // with kind(), retry_after() and disposition()
/// }
///
/// impl OrderError {
///     /// `SoldOut` is an answer. A refusal is not, whatever this returns for it.
///     fn is_final(&self) -> bool { matches!(self, Self::SoldOut(_)) }
/// }
///
/// #[idempotent(key = "req.order_id", mode = "strong", final_errors = OrderError::is_final)]
/// async fn create_order(req: CreateOrder) -> Result<(), OrderError> {
///     if req.item == "unicorn" { Err(OrderError::SoldOut(req.item)) } else { Ok(()) }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let order = |id: &str, item: &str| CreateOrder { order_id: id.into(), item: item.into() };
/// assert!(matches!(create_order(order("7", "unicorn")).await, Err(OrderError::SoldOut(_))));
/// assert!(matches!(create_order(order("7", "lamp")).await, Err(OrderError::SoldOut(_)))); // replayed
/// match create_order(order("", "lamp")).await {
///     Err(OrderError::Refused(refusal)) => {
///         assert_eq!(refusal.kind(), ErrorKind::InvalidKey);
///         assert_eq!(refusal.retry_after(), None);
///     }
///     other => panic!("{other:?}"),
/// }
/// # }
/// ```
///
/// `anyhow::Error`, `eyre::Report`, `Box<dyn std::error::Error + Send + Sync>`,
/// [`std::io::Error`] and `String` have `From<Error>` already. [`find_in`](Error::find_in) looks for
/// the refusal in the first four.
///
/// # Serialized
///
/// A struct of the fields `kind` ([`ErrorKind::as_str`]), `operation`, `message`,
/// `retry_after_ms` (a number or null) and `body` (`did_not_run`, `ran` or `unknown`). The key and
/// the causes are left out. A kind of a newer version is read as [`ErrorKind::Unknown`], whose
/// disposition is to ask an operator, or to retry if it names a time.
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

    /// The next step of the caller: nothing, a retry, to give up, or to ask an operator.
    pub fn disposition(&self) -> Disposition {
        Disposition::of(self.0.kind, self.0.retry_after)
    }

    /// `true` if a retry with the same key can end differently by itself: its
    /// [disposition](Self::disposition) is [`Retry`](Disposition::Retry).
    pub fn is_retryable(&self) -> bool {
        self.disposition().is_retry()
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
mod tests;
