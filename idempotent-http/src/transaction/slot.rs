//! The transaction of a request, on its way from the layer to the handler.

use http::Extensions;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The transaction of a request, as an extension of it.
///
/// A handler takes it out, and gives it back by dropping it. Handlers of axum have an extractor for
/// it, `Lent` of `idempotent-sql`; this is for extractors, and for other services.
///
/// ```
/// use http::Request;
/// use idempotent_http::TransactionSlot;
///
/// fn transaction<L: Send + 'static>(request: &Request<String>) -> Option<L> {
///     TransactionSlot::take_from(request.extensions()).ok()
/// }
/// ```
pub struct TransactionSlot<L>(Arc<Mutex<Option<L>>>);

impl<L: Send + 'static> TransactionSlot<L> {
    pub(super) fn new(lent: L) -> Self {
        Self(Arc::new(Mutex::new(Some(lent))))
    }

    /// Takes the transaction, if that has not happened yet.
    pub fn take(&self) -> Option<L> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the transaction of a request.
    ///
    /// # Errors
    /// There is none, or it is taken.
    pub fn take_from(extensions: &Extensions) -> Result<L, TransactionRejection> {
        let slot = extensions.get::<Self>().ok_or(TransactionRejection::MissingLayer)?;
        slot.take().ok_or(TransactionRejection::Taken)
    }
}

impl<L> Clone for TransactionSlot<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L> fmt::Debug for TransactionSlot<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TransactionSlot").finish_non_exhaustive()
    }
}

/// Rejection of an extractor for the transaction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionRejection {
    /// No [`TransactionalLayer`](crate::TransactionalLayer) with transactions of this type guards
    /// the request.
    MissingLayer,
    /// The transaction was taken before, by a middleware or by another extractor.
    Taken,
}

impl fmt::Display for TransactionRejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::MissingLayer => {
                "no layer with transactions of this type guards the request\n\
                 help: IdempotencyLayer::new(..).transactional(..), and its method in `methods`"
            }
            Self::Taken => "the transaction of the request is taken",
        })
    }
}

impl Error for TransactionRejection {}

#[cfg(feature = "axum")]
mod axum {
    use super::TransactionRejection;
    use crate::problem::misconfigured;
    use crate::problem::responses::problem_response;
    use ::axum::body::Body;
    use ::axum::response::{IntoResponse, Response};

    /// 500 `misconfigured`. The response does not name the reason, an error event does.
    impl IntoResponse for TransactionRejection {
        fn into_response(self) -> Response {
            tracing::error!(target: "idempotent", error = %self, "a handler has no transaction");
            problem_response(&misconfigured()).map(Body::from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_taken_once_and_by_its_type() {
        let mut extensions = Extensions::new();
        let taken = |extensions: &Extensions| TransactionSlot::<u8>::take_from(extensions);
        assert_eq!(taken(&extensions), Err(TransactionRejection::MissingLayer));
        extensions.insert(TransactionSlot::new(7_u16));
        assert_eq!(taken(&extensions), Err(TransactionRejection::MissingLayer));
        extensions.insert(TransactionSlot::new(7_u8));
        assert_eq!(taken(&extensions.clone()), Ok(7));
        assert_eq!(taken(&extensions), Err(TransactionRejection::Taken));
    }
}
