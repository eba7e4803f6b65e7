//! A whole response: as its first caller gets it, and as it is stored and replayed.

use crate::body::{ResponseBody, Whole};
use crate::header::{IDEMPOTENT_REPLAYED, IDEMPOTENT_STORED};
use crate::keeping::take_off;
use crate::stored;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Response, StatusCode};

/// A response that is done.
#[derive(Debug)]
pub(crate) enum Exchange<B> {
    /// Read whole; it is stored.
    Whole { response: Response<Bytes>, trailers: Option<HeaderMap> },
    /// It flows. Its status is stored.
    Live(Response<ResponseBody<B>>),
    /// It flowed when the request was handled; this is what was stored of it.
    Flowed(StatusCode),
}

/// A stored response, as everybody but the first caller gets it.
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
            // Only read from a store. What is left of such a response is its status.
            Self::Flowed(status) => {
                let mut response = Response::new(ResponseBody::default());
                *response.status_mut() = status;
                not_stored(response)
            }
        };
        take_off(&mut response);
        response
    }

    /// The same response, not to be stored.
    pub(crate) fn into_live(self) -> Self {
        match self {
            Self::Whole { response, trailers } => Self::Live(whole(response, trailers)),
            other => other,
        }
    }

    /// `true` if it fits into `most` bytes in the store, the mark of their format included.
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

/// Tells the client that a repeat of its request may not get this response.
pub(crate) fn not_stored<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(IDEMPOTENT_STORED, HeaderValue::from_static("false"));
    response
}
