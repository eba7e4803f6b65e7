//! Reads the body of a response so that it can be stored, and gives up on bodies that are streams.
//!
//! A client gets nothing of a response while it is gathered. A body that announces its length is
//! waited for, since it ends. A body that does not may be a stream that goes on for hours. It is
//! streamed to the client as soon as it is larger than the limit, pauses for too long, or has not
//! ended some time after it first paused. A pause before the first piece counts, too: the head of
//! the response waits for it.
//!
//! None of this depends on the client. If the client has gone, a body that would be streamed is
//! dropped, and a body that ends in time is stored.

use crate::body::{ResponseBody, Whole};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::{Body, SizeHint};
use idempotent_runtime::Idempotency;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A response's body, as far as it was read.
pub(crate) enum Gathered<B> {
    Whole(Whole),
    /// A body that paused for too long: the pieces that were read, and the rest.
    Paused(ResponseBody<B>),
    /// A body that is larger than the limit: the pieces that were read, and the rest.
    TooLarge(ResponseBody<B>),
}

/// Bounds on the reading of a body.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// The largest body that is read whole.
    pub(crate) bytes: usize,
    /// The longest pause of a body whose length is not known.
    pub(crate) pause: Duration,
    /// The instance whose clock times the pauses.
    pub(crate) clock: &'a Idempotency,
}

/// Time limit after the first pause, in units of the longest pause, for a body of unknown length.
/// Without it, a stream of small pauses would be withheld until it is too large.
const PAUSES: u32 = 10;

/// The length of a body, as its response announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Within the limit.
    Fits,
    TooLarge,
    Unknown,
}

impl Length {
    /// The length that a body announces, or that its header does.
    pub(crate) fn announced(headers: &HeaderMap, hint: &SizeHint, limit: usize) -> Self {
        let limit = limit as u64;
        match hint.upper().or_else(|| content_length(headers)) {
            _ if hint.lower() > limit => Self::TooLarge,
            Some(length) if length <= limit => Self::Fits,
            // The header announces it; the body's own size hint is only an upper bound.
            Some(_) if hint.upper().is_none() => Self::TooLarge,
            _ => Self::Unknown,
        }
    }
}

/// The length that the head of a response announces.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a response's body within bounds.
pub(crate) async fn gather<B>(
    body: B,
    length: Length,
    bounds: Bounds<'_>,
) -> Result<Gathered<B>, B::Error>
where
    B: Body<Data = Bytes>,
{
    let mut body = Box::pin(body);
    let mut pauses = Pauses { length, bounds, this: None, all: None };
    // Most bodies come in one piece.
    let mut read = VecDeque::with_capacity(1);
    let mut bytes = 0;
    let mut trailers = None;
    loop {
        let next = poll_fn(|context| match body.as_mut().poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Next::Came(frame)),
            Poll::Pending => pauses.poll(context).map(|()| Next::TooLate),
        });
        let frame = match next.await {
            Next::Came(Some(frame)) => frame?,
            Next::Came(None) => break,
            Next::TooLate => return Ok(Gathered::Paused(ResponseBody::live(read, body))),
        };
        pauses.end();
        match frame.into_data() {
            Ok(data) => {
                // Empty pieces never reach the limit on bytes.
                if data.is_empty() {
                    continue;
                }
                bytes += data.len();
                read.push_back(data);
                if bytes > bounds.bytes {
                    return Ok(Gathered::TooLarge(ResponseBody::live(read, body)));
                }
            }
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                // Nothing follows trailers.
                break;
            }
        }
    }
    let data = match read.len() {
        1 => read.pop_front().unwrap_or_default(),
        _ => read.into_iter().fold(BytesMut::with_capacity(bytes), joined).freeze(),
    };
    Ok(Gathered::Whole(Whole::new(data, trailers)))
}

fn joined(mut all: BytesMut, part: Bytes) -> BytesMut {
    all.extend_from_slice(&part);
    all
}

/// The next event of a body.
enum Next<F> {
    Came(F),
    /// The body paused for too long.
    TooLate,
}

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The pauses of a body. Timers are set when it first pauses: most bodies never do.
struct Pauses<'a> {
    length: Length,
    bounds: Bounds<'a>,
    /// Timer of the current pause.
    this: Option<Timer>,
    /// Timer of all pauses, started by the first one.
    all: Option<Timer>,
}

impl Pauses<'_> {
    /// Becomes ready when the body has paused for too long.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Bounds { pause, clock, .. } = self.bounds;
        if self.length == Length::Fits {
            return Poll::Pending;
        }
        if pause.is_zero() {
            return Poll::Ready(());
        }
        let timer = |after| move || -> Timer { Box::pin(clock.sleep(after)) };
        let this = self.this.get_or_insert_with(timer(pause));
        let all = self.all.get_or_insert_with(timer(pause.saturating_mul(PAUSES)));
        match (this.as_mut().poll(context), all.as_mut().poll(context)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Ends the current pause.
    fn end(&mut self) {
        self.this = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(lower: u64, upper: Option<u64>) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(lower);
        if let Some(upper) = upper {
            hint.set_upper(upper);
        }
        hint
    }

    fn announced(header: Option<&'static str>, hint: SizeHint) -> Length {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(CONTENT_LENGTH, header.parse().unwrap());
        }
        Length::announced(&headers, &hint, 8)
    }

    #[test]
    fn a_length_is_known_from_the_body_or_from_its_header() {
        assert_eq!(announced(None, hint(8, Some(8))), Length::Fits);
        assert_eq!(announced(None, hint(0, Some(8))), Length::Fits);
        assert_eq!(announced(Some("8"), hint(0, None)), Length::Fits);
        assert_eq!(announced(None, hint(9, Some(9))), Length::TooLarge);
        assert_eq!(announced(None, hint(9, None)), Length::TooLarge);
        assert_eq!(announced(Some("9"), hint(0, None)), Length::TooLarge);
        assert_eq!(announced(None, hint(0, None)), Length::Unknown);
        assert_eq!(announced(Some("soon"), hint(0, None)), Length::Unknown);
        // It may be shorter than its upper bound.
        assert_eq!(announced(None, hint(0, Some(9))), Length::Unknown);
    }
}
