//! The transaction of a request, as an extractor of axum.

use super::{Lent, TransactionPool};
use axum_core::extract::FromRequestParts;
use http::request::Parts;
use idempotent_http::{TransactionRejection, TransactionSlot};

/// Takes the transaction that the layer has begun for the request. A handler that nothing gave a
/// transaction to refuses all requests (500 `misconfigured`).
impl<P: TransactionPool, S: Sync> FromRequestParts<S> for Lent<P> {
    type Rejection = TransactionRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, TransactionRejection> {
        TransactionSlot::take_from(&parts.extensions)
    }
}
