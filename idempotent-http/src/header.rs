//! Names of the headers that requests and responses carry.
//!
//! A browser lets a script of another origin send and read only the headers that the service names in
//! its answers to cross-origin requests. Such a script needs these:
//!
//! ```
//! use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
//! use http::{HeaderMap, HeaderValue};
//! use idempotent_http::header;
//!
//! # fn main() -> Result<(), http::header::InvalidHeaderValue> {
//! let read = [
//!     header::IDEMPOTENCY_PROBLEM,
//!     header::IDEMPOTENT_REPLAYED,
//!     header::IDEMPOTENT_STORED,
//!     header::IDEMPOTENT_STATUS,
//!     RETRY_AFTER,
//! ];
//! let read: Vec<_> = read.iter().map(|name| name.as_str()).collect();
//! let mut headers = HeaderMap::new();
//! headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, header::IDEMPOTENCY_KEY.into());
//! headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_str(&read.join(", "))?);
//! # Ok(()) }
//! ```

use http::HeaderName;
use idempotent_runtime::problem::CODE_HEADER;

/// Carries the key of a request: the first of the headers that a layer looks for by default.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks a replay: `true`. Other responses do not have the header.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Marks a response that was not stored and cannot be replayed: `false`. Responses that were stored
/// or that freed their key do not have the header.
pub const IDEMPOTENT_STORED: HeaderName = HeaderName::from_static("idempotent-stored");

/// Carries the status of a stored response in the answer of a
/// [`StatusService`](crate::StatusService), which has a status of its own.
pub const IDEMPOTENT_STATUS: HeaderName = HeaderName::from_static("idempotent-status");

/// Carries the [code](idempotent_runtime::problem::ProblemType::code) of a refusal by the layer.
pub const IDEMPOTENCY_PROBLEM: HeaderName = HeaderName::from_static(CODE_HEADER);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_frozen() {
        for (name, expected) in [
            (IDEMPOTENCY_KEY, "idempotency-key"),
            (IDEMPOTENT_REPLAYED, "idempotent-replayed"),
            (IDEMPOTENT_STORED, "idempotent-stored"),
            (IDEMPOTENT_STATUS, "idempotent-status"),
            (IDEMPOTENCY_PROBLEM, "idempotency-problem"),
        ] {
            assert_eq!(name, expected);
        }
    }
}
