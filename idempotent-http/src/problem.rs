//! Problems as responses.

use crate::body::ResponseBody;
use crate::header::IDEMPOTENCY_PROBLEM;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use idempotent_runtime::problem::{MEDIA_TYPE, Problem, ProblemType};
use std::time::Duration;

pub(crate) fn respond<B>(problem: &Problem) -> Response<ResponseBody<B>> {
    let body = ResponseBody::whole(Bytes::from(problem.to_json()), None);
    let mut response = Response::new(body);
    let status = StatusCode::from_u16(problem.kind().status());
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(IDEMPOTENCY_PROBLEM, HeaderValue::from_static(problem.kind().code()));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// What a client gets if a handler or a resolver panicked, or if a response broke off.
pub(crate) fn internal_error<B>() -> Response<ResponseBody<B>> {
    let mut response = Response::new(ResponseBody::whole(Bytes::new(), None));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// The refusal of a request when as many handlers as may go on without their clients.
pub(crate) fn overloaded() -> Problem {
    let detail = "too many handlers go on whose clients have gone (it was not handled)";
    Problem::new(ProblemType::Overloaded, detail).retry_after(Duration::from_secs(1))
}
