//! The body of a request: read up to a limit, and passed to the inner service unchanged.

use crate::body::{BoxError, Whole};
use crate::unread::Unread;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The body of a request that went through a layer of this crate, as the inner service gets it.
    ///
    /// It is the client's own body where the layer left that alone, and what was read of it, trailers
    /// included, where the request has a key. Services that take any body, such as axum's routers,
    /// tonic's routes and the layers of tower-http, take this one. For a service that takes one type
    /// of body only, put `tower_http::map_request_body::MapRequestBodyLayer` in between.
    pub struct RequestBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        /// The client's body, not read.
        Passed { #[pin] body: B },
        /// A body that was read to its end.
        Read { whole: Whole },
    }
}

impl<B> RequestBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self { kind: Kind::Passed { body } }
    }

    pub(crate) fn read(whole: Whole) -> Self {
        Self { kind: Kind::Read { whole } }
    }
}

/// An empty body.
impl<B> Default for RequestBody<B> {
    fn default() -> Self {
        Self::read(Whole::default())
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Passed { body } => body.poll_frame(context),
            KindProjection::Read { whole } => Poll::Ready(whole.next_frame().map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body } => body.is_end_stream(),
            Kind::Read { whole } => whole.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body } => body.size_hint(),
            Kind::Read { whole } => whole.size_hint(),
        }
    }
}

impl<B> fmt::Debug for RequestBody<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            Kind::Passed { .. } => "RequestBody::Passed",
            Kind::Read { .. } => "RequestBody::Read",
        })
    }
}

/// Reads a request's body whole. A body that announces more than `limit` is not read at all.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Whole, Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut body = std::pin::pin!(body);
    // Most bodies come in one piece, which is not copied.
    let (mut first, mut read, mut trailers) = (Bytes::new(), BytesMut::new(), None);
    while let Some(frame) = body.frame().await {
        let data = match frame.map_err(|error| Unread::from_error(error.into()))?.into_data() {
            Ok(data) => data,
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                continue;
            }
        };
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
    Ok(Whole::new(if read.is_empty() { first } else { read.freeze() }, trailers))
}
