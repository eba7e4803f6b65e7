//! Problems as responses.

use crate::body::ResponseBody;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use idempotent_runtime::problem::{CODE_HEADER, MEDIA_TYPE, Problem};

/// Says which problem a response is about.
pub(crate) const CODE: HeaderName = HeaderName::from_static(CODE_HEADER);

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
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CODE, HeaderValue::from_static(problem.kind().code()));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// What a client gets if a handler panicked, or if a response broke off.
pub(crate) fn internal_error<B>() -> Response<ResponseBody<B>> {
    let mut response = Response::new(ResponseBody::of(Bytes::new()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}
