//! Problems as responses.

use crate::grpc;
use crate::header::IDEMPOTENCY_PROBLEM;
use crate::headers::{self, Grpc};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use idempotent_runtime::problem::{MEDIA_TYPE, Problem, ProblemType};
use std::time::Duration;

/// The form in which a client understands a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Problem details.
    Http,
    /// A response without a body, whose head has the status of the call.
    Grpc,
}

impl Dialect {
    /// The dialect of the client that sent these headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match headers::grpc(headers) {
            Some(Grpc::Native) => Self::Grpc,
            Some(Grpc::Web) | None => Self::Http,
        }
    }

    /// The response that tells a client of this dialect about a problem.
    pub(crate) fn response(self, problem: &Problem) -> Response<Bytes> {
        match self {
            Self::Http => problem_response(problem),
            Self::Grpc => grpc::refusal(problem.kind(), &problem.to_string()),
        }
    }
}

/// A problem as the layers answer with it: problem details, their code in a header, and
/// `Cache-Control: no-store`.
///
/// For hooks that change a part of it, such as
/// [`on_refusal`](crate::IdempotencyLayer::on_refusal).
pub fn problem_response(problem: &Problem) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(problem.to_json()));
    let status = StatusCode::from_u16(problem.kind().status());
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    mark(headers, problem);
    response
}

/// Adds what clients, caches and other layers go by, whatever the response looks like.
pub(crate) fn mark(headers: &mut HeaderMap, problem: &Problem) {
    headers.insert(IDEMPOTENCY_PROBLEM, HeaderValue::from_static(problem.kind().code()));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.entry(RETRY_AFTER).or_insert(seconds.into());
    }
}

/// The problem of a handler that panicked, or whose response broke off.
pub(crate) fn handler_failed() -> Problem {
    let detail = "it panicked, or its response broke off (it was handled, at least in part)";
    Problem::new(super::HANDLER_FAILED, detail)
}

/// The problem of a handler whose transaction could not be committed.
pub(crate) fn not_committed() -> Problem {
    let detail = "its transaction failed (it was handled, and nothing of it is left)";
    Problem::new(super::NOT_COMMITTED, detail)
}

/// The problem of a handler that kept its transaction. The log says so.
pub(crate) fn kept_transaction() -> Problem {
    let kind = ProblemType::MISCONFIGURED;
    Problem::new(kind, format!("{} (it was handled, and nothing of it is left)", kind.title()))
}

/// The problem of a hook that panicked before the handler was reached.
pub(crate) fn hook_panicked(hook: &'static str) -> Problem {
    tracing::error!(target: "idempotent", hook, "a hook panicked, and a request was refused");
    misconfigured()
}

/// The problem of a service that is misconfigured. Its log says how.
pub(crate) fn misconfigured() -> Problem {
    let kind = ProblemType::MISCONFIGURED;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
}

/// The refusal of a request when as many handlers as may go on without their clients.
pub(crate) fn overloaded() -> Problem {
    let detail = "too many handlers go on whose clients have gone (it was not handled)";
    Problem::new(super::OVERLOADED, detail).retry_after(Duration::from_secs(1))
}
