//! Bodies: read up to a limit, handed on whole or live.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Whatever a body fails with.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a request's body could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge,
    Incomplete,
}

/// Reads a request's body whole. What announces more than `limit` is not read at all.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut body = std::pin::pin!(body);
    // Most bodies come in one piece, which is not copied.
    let (mut first, mut read) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Unread::Incomplete)?;
        if let Ok(data) = frame.into_data() {
            if data.len() > limit - first.len().max(read.len()) {
                return Err(Unread::TooLarge);
            }
            if first.is_empty() {
                first = data;
                continue;
            }
            if read.is_empty() {
                read.extend_from_slice(&first);
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(if read.is_empty() { first } else { read.freeze() })
}

/// A response's body, as far as it was read.
pub(crate) enum Gathered<B> {
    /// All of it, and its trailers.
    Whole(Bytes, Option<HeaderMap>),
    /// More than is kept: what was read, and the rest.
    Live(ResponseBody<B>),
}

/// Reads a response's body up to `limit`.
pub(crate) async fn gather<B>(body: B, limit: usize) -> Result<Gathered<B>, B::Error>
where
    B: Body<Data = Bytes>,
{
    let mut body = Box::pin(body);
    // Most bodies come in one piece.
    let mut frames = VecDeque::with_capacity(1);
    let mut length = 0;
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => {
                length += data.len();
                frames.push_back(data);
                if length > limit {
                    return Ok(Gathered::Live(ResponseBody(Kind::Live {
                        read: frames,
                        rest: body,
                    })));
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    let whole = match frames.len() {
        1 => frames.pop_front().unwrap_or_default(),
        _ => frames.into_iter().fold(BytesMut::with_capacity(length), joined).freeze(),
    };
    Ok(Gathered::Whole(whole, trailers))
}

fn joined(mut all: BytesMut, part: Bytes) -> BytesMut {
    all.extend_from_slice(&part);
    all
}

/// The body of a response that went through the layer.
pub struct ResponseBody<B>(Kind<B>);

enum Kind<B> {
    /// As the inner service made it.
    Passed(Pin<Box<B>>),
    /// Read before.
    Whole { data: Option<Bytes>, trailers: Option<HeaderMap> },
    /// Read in part, and flowing.
    Live { read: VecDeque<Bytes>, rest: Pin<Box<B>> },
}

impl<B> ResponseBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self(Kind::Passed(Box::pin(body)))
    }

    pub(crate) fn of(data: Bytes) -> Self {
        Self::whole(data, None)
    }

    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(Kind::Whole { data: (!data.is_empty()).then_some(data), trailers })
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Whole { data, trailers } => Poll::Ready(
                data.take()
                    .map(Frame::data)
                    .or_else(|| trailers.take().map(Frame::trailers))
                    .map(Ok),
            ),
            Kind::Live { read, rest } => match read.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => poll(rest, context),
            },
            Kind::Passed(body) => poll(body, context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole { data, trailers } => data.is_none() && trailers.is_none(),
            Kind::Live { read, rest } => read.is_empty() && rest.is_end_stream(),
            Kind::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole { data, trailers } => {
                let length = data.as_ref().map_or(0, |data| data.len() as u64);
                let mut hint = SizeHint::with_exact(length);
                if trailers.is_some() {
                    // HTTP/1.1 has trailers only where the length is not announced.
                    hint = SizeHint::new();
                    hint.set_lower(length);
                }
                hint
            }
            Kind::Live { read, rest } => {
                let read: u64 = read.iter().map(|data| data.len() as u64).sum();
                let mut hint = SizeHint::new();
                hint.set_lower(rest.size_hint().lower() + read);
                if let Some(upper) = rest.size_hint().upper() {
                    hint.set_upper(upper + read);
                }
                hint
            }
            Kind::Passed(body) => body.size_hint(),
        }
    }
}

fn poll<B>(
    body: &mut Pin<Box<B>>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    body.as_mut().poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
}

impl<B> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Kind::Passed(_) => "ResponseBody::Passed",
            Kind::Whole { .. } => "ResponseBody::Whole",
            Kind::Live { .. } => "ResponseBody::Live",
        })
    }
}
