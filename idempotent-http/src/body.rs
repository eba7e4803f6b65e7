//! Bodies that were read, and the body of a response: read whole, read in part and streamed, or
//! passed through.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Any error of a body.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// A body that was read to its end, with its trailers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    data: Option<Bytes>,
    /// Boxed, because few bodies have trailers and every request's future holds this.
    trailers: Option<Box<HeaderMap>>,
}

impl Whole {
    pub(crate) fn new(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data: (!data.is_empty()).then_some(data), trailers: trailers.map(Box::new) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    pub(crate) fn into_parts(self) -> (Bytes, Option<HeaderMap>) {
        (self.data.unwrap_or_default(), self.trailers.map(|trailers| *trailers))
    }

    /// Returns the data first, then the trailers.
    pub(crate) fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        match self.data.take() {
            Some(data) => Some(Frame::data(data)),
            None => self.trailers.take().map(|trailers| Frame::trailers(*trailers)),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let length = self.bytes().len() as u64;
        match self.trailers {
            None => SizeHint::with_exact(length),
            // HTTP/1.1 has trailers only where the length is not announced.
            Some(_) => {
                let mut hint = SizeHint::new();
                hint.set_lower(length);
                hint
            }
        }
    }
}

/// The body of a response that went through the layer.
///
/// The default is an empty body, for layers that answer in place of a service.
pub struct ResponseBody<B>(Kind<B>);

enum Kind<B> {
    /// The inner service's body, not read.
    Passed(Pin<Box<B>>),
    /// A body that was read to its end.
    Whole(Whole),
    /// A body that was read in part; the rest is streamed.
    Live { read: VecDeque<Bytes>, rest: Pin<Box<B>> },
}

impl<B> ResponseBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self(Kind::Passed(Box::pin(body)))
    }

    pub(crate) fn of(data: Bytes) -> Self {
        Self::whole(Whole::new(data, None))
    }

    pub(crate) fn whole(whole: Whole) -> Self {
        Self(Kind::Whole(whole))
    }

    /// Creates a body from the pieces that were read and the rest.
    pub(crate) fn live(read: VecDeque<Bytes>, rest: Pin<Box<B>>) -> Self {
        Self(Kind::Live { read, rest })
    }
}

impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::whole(Whole::default())
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
            Kind::Whole(whole) => Poll::Ready(whole.next_frame().map(Ok)),
            Kind::Live { read, rest } => match read.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => poll(rest, context),
            },
            Kind::Passed(body) => poll(body, context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(whole) => whole.is_end_stream(),
            Kind::Live { read, rest } => read.is_empty() && rest.is_end_stream(),
            Kind::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => whole.size_hint(),
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
            Kind::Whole(_) => "ResponseBody::Whole",
            Kind::Live { .. } => "ResponseBody::Live",
        })
    }
}
