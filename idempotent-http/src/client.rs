//! HTTP client that sends a request until it is answered, each time with the same key.
//!
//! ```no_run
//! use idempotent_http::client::Retry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let http = reqwest::Client::new();
//! let order = http.post("http://localhost:3000/orders").body(r#"{"item":"lamp"}"#);
//! let response = Retry::new().send(order).await?;
//! println!("{}", response.status());
//! # Ok(()) }
//! ```

mod derived;
mod error;
mod pauses;
mod reply;
mod verdict;

pub use derived::RequestBuilderExt;
pub use error::{SendError, SendErrorKind};

use crate::header::IDEMPOTENCY_KEY;
use crate::key::checked;
use http::header::{HeaderName, HeaderValue};
use idempotent_runtime::ids;
use pauses::Pauses;
use reply::{Reply, exchange};
use reqwest::{Client, Request, RequestBuilder, Response};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use verdict::Verdict;

/// Sends a request until it is answered, each time with the same key.
///
/// A request that got no answer, or only a part of one, may have been handled or not. A server that
/// honours keys handles it once, even if it is sent again. **Do not use this against a server that
/// ignores keys.**
///
/// # Retries
/// A request is sent again
///
/// - if it got no answer: the connection could not be made, broke, or was silent for too long;
/// - after 408, 425, 429, 500, 502, 503 and 504, and after 409 with a `Retry-After`.
///
/// The pause between two attempts doubles from attempt to attempt and varies at random. It is longer if
/// `Retry-After` asks for more, and never shorter because it asks for less. If the requested pause
/// does not fit into the [patience](Self::patience) that is left, the answer is returned at once.
///
/// All other answers are returned, above all 422, which says that the key was used for another
/// request. If the server names an [idempotency problem](idempotent_runtime::problem), that decides
/// instead of the status.
///
/// # The key
/// A random one, made for each [`send`](Self::send) of a request that is not safe; the response's
/// extension [`Sent`] and the error have it. It is lost when the future is dropped or the process
/// ends. If a request must be handled once even if its client crashes, make the key first, persist
/// it beside the work, and use [`send_with_key`](Self::send_with_key).
///
/// ```no_run
/// use idempotent_http::client::Retry;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = Retry::new().max_attempts(5).patience(Duration::from_secs(60));
/// let http = reqwest::Client::new();
/// let response = retry.send(http.post("http://localhost:3000/orders").body("lamp")).await?;
/// println!("{}", response.status());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Retry {
    header: HeaderName,
    max_attempts: u32,
    patience: Duration,
    attempt_timeout: Duration,
    first_pause: Duration,
    longest_pause: Duration,
    max_response_bytes: usize,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            header: IDEMPOTENCY_KEY,
            max_attempts: 100,
            // Outlasts the lease of a server that died while it handled the request.
            patience: Duration::from_secs(120),
            attempt_timeout: Duration::from_secs(30),
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(10),
            max_response_bytes: 16 << 20,
        }
    }
}

impl Retry {
    /// Creates a client that makes as many attempts as fit into two minutes, up to a hundred.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the header that carries the key; `Idempotency-Key` by default.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = name;
        self
    }

    /// Sets the largest number of attempts; at least one, whatever is set here.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Sets the time for all attempts together, pauses included.
    ///
    /// A server that dies while it handles a request leaves its key taken until its lease ends, 30
    /// seconds by default: less patience than that gives up on it.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the time limit of one attempt, including the time to read the whole answer. A time-out of the request's
    /// own goes before; one of its client's does not count.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the first pause between two attempts and the longest one. Pauses double, and vary by up
    /// to a half so that clients do not come back together. A server that asks for a longer pause
    /// gets it.
    #[must_use]
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = first;
        self.longest_pause = longest.max(first);
        self
    }

    /// Sets the largest answer that is read, after decompression; 16 MiB by default. A larger one
    /// is an [error](SendErrorKind::ResponseTooLarge), which has the key.
    #[must_use]
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sends a request and reads the whole answer.
    ///
    /// If the request has the key's header, that is its key. If not, and it is not a safe one, it
    /// gets a new key. The answer may be one that was to be sent again, if there was no time or
    /// attempt left; its extension [`Sent`] has the key.
    ///
    /// # Errors
    /// There was no answer, or one that is too large; or the request could not be sent.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let (client, request) = built(request)?;
        let needs_key =
            !request.method().is_safe() && !request.headers().contains_key(&self.header);
        let key = match needs_key {
            true => Some(quoted(&ids::uuid_v7())?),
            false => None,
        };
        self.deliver(&client, request, key).await
    }

    /// Like [`send`](Self::send), with a key of the caller's own: 1 to 255 characters of printable
    /// ASCII. It replaces a key that the request has.
    ///
    /// # Errors
    /// There was no answer, or one that is too large; or the request could not be sent.
    pub async fn send_with_key(
        &self,
        request: RequestBuilder,
        key: &str,
    ) -> Result<Response, SendError> {
        let key = quoted(key)?;
        let (client, request) = built(request)?;
        self.deliver(&client, request, Some(key)).await
    }

    async fn deliver(
        &self,
        client: &Client,
        mut request: Request,
        key: Option<HeaderValue>,
    ) -> Result<Response, SendError> {
        if let Some(key) = key {
            request.headers_mut().insert(self.header.clone(), key);
        }
        let timeout = request.timeout().copied().unwrap_or(self.attempt_timeout);
        let started = Instant::now();
        let time_left = || self.patience.saturating_sub(started.elapsed());
        let mut pauses = Pauses::new(self.first_pause, self.longest_pause);
        let mut attempts = 0;
        let mut may_have_run = false;
        loop {
            let Some(mut attempt) = request.try_clone() else {
                return Err(SendError::not_sent(SendErrorKind::NotRepeatable));
            };
            *attempt.timeout_mut() = Some(timeout.min(time_left()));
            attempts += 1;
            let answer = match exchange(client, attempt, self.max_response_bytes).await {
                Err(error) if is_never_sent(&error, &request) => {
                    return Err(
                        SendError::not_sent(SendErrorKind::InvalidRequest).with_source(error)
                    );
                }
                answer => answer,
            };
            let verdict = match &answer {
                Ok(answer) => Verdict::of(answer.head()),
                Err(error) => Verdict::of_error(error),
            };
            may_have_run |= answer.as_ref().map_or_else(|error| !error.is_connect(), |_| true);
            let pause = match verdict {
                Verdict::Again { after } => Some(pauses.next(after)),
                Verdict::Final => None,
            };
            let pause = pause.filter(|pause| *pause < time_left() && attempts < self.max_attempts);
            let Some(pause) = pause else {
                let mut key = request.headers().get(&self.header).cloned();
                if let Some(key) = &mut key {
                    // Hidden in `Debug`, because responses and errors end up in logs.
                    key.set_sensitive(true);
                }
                return match answer {
                    Ok(Reply::Whole(mut answer)) => {
                        answer.extensions_mut().insert(Sent { key, attempts });
                        Ok(answer.into())
                    }
                    Ok(Reply::TooLarge(answer)) => {
                        let limit = self.max_response_bytes;
                        Err(SendError::too_large(answer.status(), limit, key, attempts))
                    }
                    Err(error) => Err(SendError::no_answer(error, key, attempts, may_have_run)),
                };
            };
            tracing::debug!(target: "idempotent", attempts, ?pause, "the request is sent again");
            sleep(pause).await;
        }
    }
}

/// The key and the number of attempts of a request: an extension of its response.
///
/// If the request is to be sent again later, it needs this key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// The value of the key's header. `None` if the request had none.
    pub key: Option<HeaderValue>,
    /// The number of attempts.
    pub attempts: u32,
}

fn built(request: RequestBuilder) -> Result<(Client, Request), SendError> {
    let (client, request) = request.build_split();
    match request {
        Ok(request) => Ok((client, request)),
        Err(error) => Err(SendError::not_sent(SendErrorKind::InvalidRequest).with_source(error)),
    }
}

/// Returns `true` if the client refused the request before sending it. A redirect to an address
/// that it refuses is different: the request was sent.
fn is_never_sent(error: &reqwest::Error, request: &Request) -> bool {
    error.is_builder() && error.url() == Some(request.url())
}

/// The key as the draft standard writes it: a quoted string.
fn quoted(key: &str) -> Result<HeaderValue, SendError> {
    let invalid = || SendError::not_sent(SendErrorKind::InvalidKey);
    let key = checked(key.to_owned()).map_err(|_| invalid())?;
    let escaped = key.replace('\\', r"\\").replace('"', r#"\""#);
    HeaderValue::from_str(&format!("\"{escaped}\"")).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Syntax, parse};
    use idempotent_runtime::Idempotency;

    #[test]
    fn the_defaults_outlast_the_lease_of_a_server_that_died() {
        let lease = Idempotency::in_memory().unwrap().config().lease;
        let retry = Retry::new();
        assert!(retry.patience > lease);
        let mut pauses = Pauses::new(retry.first_pause, retry.longest_pause);
        let pauses: Duration = (1..retry.max_attempts).map(|_| pauses.next(None)).sum();
        assert!(pauses > lease);
    }

    #[test]
    fn the_documented_defaults_are_those_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
        let page = std::fs::read_to_string(path).unwrap();
        let Retry {
            header: _,
            max_attempts,
            patience,
            attempt_timeout,
            first_pause,
            longest_pause,
            max_response_bytes,
        } = Retry::new();
        let pauses = format!("{} ms", first_pause.as_millis());
        let longest = longest_pause.as_secs();
        for row in [
            format!("| attempts | {max_attempts} at most |"),
            format!(
                "| all of them together, pauses included | {} minutes",
                patience.as_secs() / 60
            ),
            format!("| one attempt | {} seconds |", attempt_timeout.as_secs()),
            format!("| the pause between two | {pauses}, doubled each time up to {longest} s,"),
            format!("| the answer | read up to {} MiB;", max_response_bytes >> 20),
        ] {
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn keys_are_written_so_that_the_layer_reads_them() {
        for key in ["k", "a b", r#"a"b\c"#, &"x".repeat(255)] {
            let value = quoted(key).unwrap();
            assert_eq!(parse(value.as_bytes(), Syntax::Strict).unwrap(), key);
        }
        for key in ["", "schl\u{fc}ssel", "a\nb", &"x".repeat(256)] {
            assert_eq!(quoted(key).unwrap_err().kind(), SendErrorKind::InvalidKey);
        }
    }
}
