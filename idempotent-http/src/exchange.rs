//! A whole response: as its first caller gets it, and as it is stored and replayed.

use crate::body::{ResponseBody, Whole};
use crate::grpc;
use crate::header::{IDEMPOTENT_REPLAYED, IDEMPOTENT_STORED};
use crate::headers::{self, Grpc};
use crate::keeping::take_off;
use crate::stored;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};

/// A response that can be recorded.
#[derive(Debug)]
pub(crate) enum Exchange<B> {
    /// A response that was read whole and is stored.
    Whole { response: Response<Bytes>, trailers: Option<HeaderMap> },
    /// A response that is streamed. Only its status is stored.
    Live(Response<ResponseBody<B>>),
    /// The stored status of a response that was streamed.
    Flowed(StatusCode),
}

/// A stored response, as repeats get it.
pub(crate) enum Replay<B> {
    Response(Response<ResponseBody<B>>),
    /// Only the status was kept.
    NotRetained(StatusCode),
}

impl<B> Exchange<B> {
    /// The response for the caller whose request was handled.
    pub(crate) fn into_first(self) -> Response<ResponseBody<B>> {
        let mut response = match self {
            Self::Whole { response, trailers } => whole(response, trailers),
            Self::Live(response) => not_stored(response),
            // Only read from a store, which has nothing but the status.
            Self::Flowed(status) => {
                let mut response = Response::new(ResponseBody::default());
                *response.status_mut() = status;
                not_stored(response)
            }
        };
        take_off(&mut response);
        response
    }

    /// Turns the response into one that is not stored.
    pub(crate) fn into_live(self) -> Self {
        match self {
            Self::Whole { response, trailers } => Self::Live(whole(response, trailers)),
            other => other,
        }
    }

    /// Returns `true` if the encoded response, including its codec tag, fits into `most` bytes.
    pub(crate) fn fits(&self, most: usize) -> bool {
        match self {
            Self::Whole { response, trailers } => {
                stored::fits(response, trailers.as_ref(), most.saturating_sub(1))
            }
            Self::Live(_) | Self::Flowed(_) => false,
        }
    }

    /// Returns `true` if the request has succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        match self {
            Self::Whole { response, trailers } => has_succeeded(response, trailers.as_ref()),
            Self::Live(response) => has_succeeded(response, None),
            Self::Flowed(status) => is_success(*status),
        }
    }

    pub(crate) fn into_replay(self) -> Replay<B> {
        if let Self::Flowed(status) = self {
            return Replay::NotRetained(status);
        }
        let mut response = self.into_first();
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        Replay::Response(response)
    }
}

/// Returns `true` for a response to a request that has succeeded, with a redirection perhaps.
pub(crate) fn has_succeeded<B>(response: &Response<B>, trailers: Option<&HeaderMap>) -> bool {
    let headers = response.headers();
    let outcome = match headers::grpc(headers) {
        Some(Grpc::Native) => trailers.or(Some(headers)).and_then(grpc::outcome),
        Some(Grpc::Web) => grpc::outcome(headers),
        None => None,
    };
    is_success(response.status()) && outcome.is_none_or(is_success)
}

fn is_success(status: StatusCode) -> bool {
    !status.is_client_error() && !status.is_server_error()
}

fn whole<B>(response: Response<Bytes>, trailers: Option<HeaderMap>) -> Response<ResponseBody<B>> {
    response.map(|body| ResponseBody::whole(Whole::new(body, trailers)))
}

/// Marks a response that a repeat of the request may not get.
pub(crate) fn not_stored<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(IDEMPOTENT_STORED, HeaderValue::from_static("false"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, kind: &'static str, head: Option<&str>, trailer: Option<&str>) -> bool {
        let mut response = Response::builder().status(status).header("content-type", kind);
        if let Some(code) = head {
            response = response.header("grpc-status", code);
        }
        let trailers = trailer.map(|code| {
            HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.parse().unwrap())])
        });
        has_succeeded(&response.body(()).unwrap(), trailers.as_ref())
    }

    #[test]
    fn a_request_succeeds_by_its_status_and_a_call_by_its_code() {
        for (status, succeeds) in
            [(200, true), (204, true), (303, true), (404, false), (500, false)]
        {
            assert_eq!(outcome(status, "text/plain", Some("3"), None), succeeds, "{status}");
        }
        let call = |head, trailer| outcome(200, "application/grpc", head, trailer);
        assert!(call(None, Some("0")) && call(Some("0"), None));
        assert!(!call(None, Some("3")) && !call(Some("3"), None));
        assert!(outcome(200, "application/grpc-web", None, None));
        assert!(!outcome(200, "application/grpc-web", Some("3"), None));
        assert!(!outcome(503, "application/grpc", Some("0"), None));
    }
}
