//! Extractor for the key of a request.

use http::Extensions;
use std::fmt;
use std::sync::Arc;

/// The key of a request, as the layer around its handler has read it.
///
/// The layer puts it into the request's extensions, with and without
/// [`ambient_only`](crate::IdempotencyLayer::ambient_only). With the feature `axum` it is an
/// extractor:
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use idempotent_http::IdempotencyKey;
///
/// async fn pay(key: IdempotencyKey) -> String {
///     // For requests to other services, `current().derived_key(..)` makes a key of its own.
///     format!("paid with {} letters of key", key.as_str().len())
/// }
///
/// async fn order(key: Option<IdempotencyKey>) -> &'static str {
///     if key.is_some() { "will be done once" } else { "will be done each time" }
/// }
/// # let app: axum::Router = axum::Router::new()
/// #     .route("/pay", axum::routing::post(pay))
/// #     .route("/order", axum::routing::post(order));
/// # }
/// ```
///
/// The first handler refuses a request without a key (400 `missing-key`). A handler without a layer
/// around it refuses all requests (500 `misconfigured`), even if the key is optional.
///
/// `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// The key, without quotes and parameters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IdempotencyKey(..)")
    }
}

/// Marks a request that went through a layer and has no key.
#[derive(Clone, Copy)]
struct NoKey;

/// Adds the key to a request's extensions. A key from another layer is kept.
pub(crate) fn put(extensions: &mut Extensions, key: Option<&str>) {
    match key {
        Some(key) => drop(extensions.insert(IdempotencyKey(key.into()))),
        None => drop(extensions.insert(NoKey)),
    }
}

#[cfg(feature = "axum")]
mod axum {
    use super::{IdempotencyKey, NoKey};
    use crate::problem::responses::problem_response;
    use ::axum::body::Body;
    use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
    use ::axum::response::{IntoResponse, Response};
    use http::request::Parts;
    use idempotent_runtime::problem::{Problem, ProblemType};
    use std::error::Error;
    use std::fmt;

    /// Rejection of the [`IdempotencyKey`] extractor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum IdempotencyKeyRejection {
        /// There is no layer around the handler.
        MissingLayer,
        /// The request has no key.
        MissingKey,
    }

    impl fmt::Display for IdempotencyKeyRejection {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(match self {
                Self::MissingLayer => "no IdempotencyLayer is around the handler",
                Self::MissingKey => "the request has no idempotency key",
            })
        }
    }

    impl Error for IdempotencyKeyRejection {}

    impl IntoResponse for IdempotencyKeyRejection {
        fn into_response(self) -> Response {
            let kind = match self {
                Self::MissingLayer => {
                    // The response does not name the reason, so that operators find it only here.
                    tracing::error!(
                        target: "idempotent",
                        "a handler asks for the key of a request, and no layer is around it"
                    );
                    ProblemType::MISCONFIGURED
                }
                Self::MissingKey => ProblemType::MISSING_KEY,
            };
            let problem = Problem::new(kind, format!("{} (it was not handled)", kind.title()));
            problem_response(&problem).map(Body::from)
        }
    }

    impl<S: Send + Sync> OptionalFromRequestParts<S> for IdempotencyKey {
        type Rejection = IdempotencyKeyRejection;

        async fn from_request_parts(
            parts: &mut Parts,
            _: &S,
        ) -> Result<Option<Self>, Self::Rejection> {
            match (parts.extensions.get::<Self>(), parts.extensions.get::<NoKey>()) {
                (Some(key), _) => Ok(Some(key.clone())),
                (None, Some(NoKey)) => Ok(None),
                (None, None) => Err(IdempotencyKeyRejection::MissingLayer),
            }
        }
    }

    impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
        type Rejection = IdempotencyKeyRejection;

        async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
            let key =
                <Self as OptionalFromRequestParts<S>>::from_request_parts(parts, state).await?;
            key.ok_or(IdempotencyKeyRejection::MissingKey)
        }
    }
}

#[cfg(feature = "axum")]
pub use self::axum::IdempotencyKeyRejection;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_layer_stays_and_is_not_shown() {
        let mut extensions = Extensions::new();
        put(&mut extensions, Some("secret"));
        put(&mut extensions, None);
        let key = extensions.get::<IdempotencyKey>().unwrap();
        assert_eq!(key.as_str(), "secret");
        assert!(!format!("{key:?}").contains("secret"));
    }
}
