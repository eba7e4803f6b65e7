//! gRPC: maps the outcome of a call to an HTTP status, and refusals to outcomes of a call.
//!
//! A gRPC response has the HTTP status 200, whatever the outcome of the call. The gRPC status is in
//! the head of a response without a body, and in the trailers of every other. It is mapped to an
//! HTTP status, which decides whether the response is stored, so that the settings of a layer apply
//! to gRPC, too.

use crate::problem;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use idempotent_runtime::problem::ProblemType;
use std::fmt::Write as _;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The outcome in a head or in trailers, if it is there.
pub(crate) fn outcome(fields: &HeaderMap) -> Option<StatusCode> {
    let code = fields.get(STATUS)?.to_str().ok().and_then(|code| code.parse().ok());
    Some(code.map_or(StatusCode::INTERNAL_SERVER_ERROR, status))
}

/// The usual HTTP status of a code, except for `CANCELLED` and `ABORTED`: they ask for another try,
/// and their usual statuses, 499 and 409, do not.
fn status(code: u8) -> StatusCode {
    match code {
        0 => StatusCode::OK,
        1 => StatusCode::REQUEST_TIMEOUT,
        3 | 9 | 11 => StatusCode::BAD_REQUEST,
        4 => StatusCode::GATEWAY_TIMEOUT,
        5 => StatusCode::NOT_FOUND,
        6 => StatusCode::CONFLICT,
        7 => StatusCode::FORBIDDEN,
        8 => StatusCode::TOO_MANY_REQUESTS,
        10 | 14 => StatusCode::SERVICE_UNAVAILABLE,
        12 => StatusCode::NOT_IMPLEMENTED,
        16 => StatusCode::UNAUTHORIZED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A refusal as a gRPC response.
pub(crate) fn refusal(kind: ProblemType, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, code(kind).into());
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(message)) {
        headers.insert(MESSAGE, message);
    }
    response
}

/// The code of a refusal. Those that pass are `ABORTED` or `UNAVAILABLE`, which clients retry.
fn code(kind: ProblemType) -> u16 {
    match (kind, kind.status()) {
        (ProblemType::DUPLICATE | ProblemType::RESULT_NOT_RETAINED, _) => 6,
        (problem::FORM_TOKEN_USED, _) => 6,
        (ProblemType::OUTCOME_UNKNOWN | ProblemType::FAILED_BEFORE, _) | (_, 422) => 9,
        (problem::BODY_INCOMPLETE, _) | (_, 409) => 10,
        (_, 400 | 413) => 3,
        (_, 403) => 7,
        (_, 404) => 5,
        (_, 429) => 8,
        (_, 503) => 14,
        _ => 13,
    }
}

/// Percent-encodes a `grpc-message`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::is_deterministic;

    fn outcome_of(code: &'static str) -> Option<StatusCode> {
        let mut fields = HeaderMap::new();
        fields.insert(STATUS, code.parse().unwrap());
        outcome(&fields)
    }

    #[test]
    fn outcomes_that_a_repeat_would_get_are_told_from_those_that_pass() {
        let kept = ["0", "3", "5", "6", "9", "11"];
        let freed =
            ["1", "2", "4", "7", "8", "10", "12", "13", "14", "15", "16", "17", "300", "", "ok"];
        for code in kept {
            assert!(is_deterministic(outcome_of(code).unwrap()), "{code}");
        }
        for code in freed {
            assert!(!is_deterministic(outcome_of(code).unwrap()), "{code}");
        }
        assert_eq!(outcome(&HeaderMap::new()), None);
    }

    #[test]
    fn a_refusal_passes_for_grpc_if_it_passes_for_http() {
        for kind in problem::all() {
            let response = refusal(kind, "x");
            // `RESOURCE_EXHAUSTED`, `ABORTED` and `UNAVAILABLE`. `INTERNAL` is final to most clients,
            // whatever it stands for.
            let status = response.headers()[STATUS].to_str().unwrap();
            let passes = ["8", "10", "14"].contains(&status);
            assert!(status == "13" || passes == kind.is_transient(), "{}", kind.code());
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("a b%~ü\n"), "a b%25~%C3%BC%0A");
    }
}
