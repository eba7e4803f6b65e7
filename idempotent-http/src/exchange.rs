//! A whole response: as its first caller gets it, and as it is stored and replayed.

use crate::body::{ResponseBody, Whole};
use crate::header::{IDEMPOTENT_REPLAYED, IDEMPOTENT_STORED};
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

    pub(crate) fn into_replay(self) -> Replay<B> {
        if let Self::Flowed(status) = self {
            return Replay::NotRetained(status);
        }
        let mut response = self.into_first();
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        Replay::Response(response)
    }
}

fn whole<B>(response: Response<Bytes>, trailers: Option<HeaderMap>) -> Response<ResponseBody<B>> {
    response.map(|body| ResponseBody::whole(Whole::new(body, trailers)))
}

/// Marks a response that a repeat of the request may not get.
pub(crate) fn not_stored<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(IDEMPOTENT_STORED, HeaderValue::from_static("false"));
    response
}
