//! Problems as responses.

use crate::body::{ResponseBody, Whole};
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

    pub(crate) fn respond<B>(self, problem: &Problem) -> Response<ResponseBody<B>> {
        let mut response = match self {
            Self::Http => respond(problem),
            Self::Grpc => grpc::refusal(problem.kind(), &problem.to_string()),
        };
        mark(&mut response, problem);
        response
    }
}

/// Problem details as a response.
fn respond<B>(problem: &Problem) -> Response<ResponseBody<B>> {
    let body = ResponseBody::whole(Whole::new(Bytes::from(problem.to_json()), None));
    let mut response = Response::new(body);
    let status = StatusCode::from_u16(problem.kind().status());
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// Puts what every refusal says into its head.
fn mark<B>(response: &mut Response<B>, problem: &Problem) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(IDEMPOTENCY_PROBLEM, HeaderValue::from_static(problem.kind().code()));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
}

/// The problem of a handler that panicked, or whose response broke off.
pub(crate) fn handler_failed() -> Problem {
    let detail = "it panicked, or its response broke off (it was handled, at least in part)";
    Problem::new(ProblemType::HandlerFailed, detail)
}

/// The problem of a hook that panicked before the handler was reached.
pub(crate) fn hook_panicked(hook: &'static str) -> Problem {
    tracing::error!(target: "idempotent", hook, "a hook panicked, and a request was refused");
    let kind = ProblemType::Misconfigured;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
}

/// The refusal of a request when as many handlers as may go on without their clients.
pub(crate) fn overloaded() -> Problem {
    let detail = "too many handlers go on whose clients have gone (it was not handled)";
    Problem::new(ProblemType::Overloaded, detail).retry_after(Duration::from_secs(1))
}
