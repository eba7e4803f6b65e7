//! The reply to one attempt, read up to a limit.

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Request, ResponseBuilderExt as _};

/// The reply to one attempt.
#[derive(Debug)]
pub(super) enum Reply {
    /// Read to its end.
    Whole(http::Response<Bytes>),
    /// Larger than the limit. Its body is empty: the rest was not read.
    TooLarge(http::Response<Bytes>),
}

impl Reply {
    /// The status and headers, which are known in both cases.
    pub(super) fn head(&self) -> &http::Response<Bytes> {
        match self {
            Self::Whole(response) | Self::TooLarge(response) => response,
        }
    }
}

/// Sends a request once. A reply of which a part is missing is an error.
pub(super) async fn exchange(
    client: &Client,
    request: Request,
    limit: usize,
) -> Result<Reply, reqwest::Error> {
    let mut response = client.execute(request).await?;
    let url = response.url().clone();
    let whole = http::Response::builder().url(url).body(Bytes::new());
    let mut whole = whole.unwrap_or_default();
    *whole.status_mut() = response.status();
    *whole.version_mut() = response.version();
    *whole.headers_mut() = std::mem::take(response.headers_mut());
    whole.extensions_mut().extend(std::mem::take(response.extensions_mut()));
    // A body that announces more than the limit is not read at all.
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Ok(Reply::TooLarge(whole));
    }
    let Some(mut body) = response.chunk().await? else { return Ok(Reply::Whole(whole)) };
    let mut joined = BytesMut::new();
    loop {
        if body.len() > limit - joined.len() {
            return Ok(Reply::TooLarge(whole));
        }
        let Some(next) = response.chunk().await? else { break };
        joined.extend_from_slice(&body);
        body = next;
    }
    // Most bodies come in one piece, which is not copied.
    *whole.body_mut() = match joined.is_empty() {
        true => body,
        false => {
            joined.extend_from_slice(&body);
            joined.freeze()
        }
    };
    Ok(Reply::Whole(whole))
}
