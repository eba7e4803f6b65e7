//! Clients: one that follows the rules of HTTP, and one that writes raw bytes.

use crate::server::Server;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::RequestBuilder;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const KEY: &str = "idempotency-key";

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// A post with a key, not yet sent.
    pub(crate) fn keyed(&self, path: &str, key: &str) -> RequestBuilder {
        self.request(Method::POST, path).header(KEY, key)
    }

    /// Posts an empty body with a key.
    pub(crate) async fn post(&self, path: &str, key: &str) -> Reply {
        send(self.keyed(path, key)).await
    }

    /// Posts a body with a key.
    pub(crate) async fn post_body(&self, path: &str, key: &str, body: &'static str) -> Reply {
        send(self.keyed(path, key).body(body)).await
    }

    /// A connection on which anything can be written.
    pub(crate) async fn connect(&self) -> Raw {
        Raw(TcpStream::connect(self.address).await.unwrap())
    }

    /// Writes a request and reads until the server closes the connection.
    pub(crate) async fn write(&self, request: &[u8]) -> Reply {
        let mut raw = self.connect().await;
        raw.write(request).await;
        raw.reply().await
    }
}

pub(crate) async fn send(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Reply { status, headers, body: response.bytes().await.unwrap() }
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The first answer: what the handler said, and nothing else.
    #[track_caller]
    pub(crate) fn is_first(&self, status: u16, text: &str) {
        assert_eq!((self.status.as_u16(), self.text()), (status, text), "{self:?}");
        assert_eq!(self.header("idempotent-replayed"), None);
        assert_eq!(self.header("idempotent-stored"), None);
        assert_eq!(self.header("idempotency-problem"), None);
    }

    /// As [`is_first`](Self::is_first), of a response that a repeat may not get.
    #[track_caller]
    pub(crate) fn is_not_stored(&self, status: u16, text: &str) {
        assert_eq!((self.status.as_u16(), self.text()), (status, text), "{self:?}");
        assert_eq!(self.header("idempotent-replayed"), None);
        assert_eq!(self.header("idempotent-stored"), Some("false"));
        assert_eq!(self.header("idempotency-problem"), None);
    }

    #[track_caller]
    pub(crate) fn is_replay_of(&self, first: &Reply) {
        assert!(self.is_replay(), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
        assert!(!first.is_replay(), "{first:?}");
    }

    /// An answer of the layer's own, with everything that such an answer must have.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        self.is_problem_under("urn:idempotent:problem:", status, code);
    }

    /// It is a problem whose type is named under this base.
    #[track_caller]
    pub(crate) fn is_problem_under(&self, base: &str, status: u16, code: &str) {
        assert_eq!(self.header("idempotency-problem"), Some(code), "{self:?}");
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert_eq!(self.header("idempotent-replayed"), None);
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        let member = |name: &str| problem[name].as_str().unwrap_or_default();
        assert_eq!(member("type"), format!("{base}{code}"));
        assert_eq!(problem["status"], status);
        assert_eq!(member("code"), code);
        assert!(!member("title").is_empty() && !member("detail").is_empty(), "{problem}");
    }

    /// When to come back, in seconds.
    #[track_caller]
    pub(crate) fn retry_after(&self) -> u64 {
        self.header("retry-after").expect("it has a Retry-After").parse().unwrap()
    }
}

/// A connection on which anything can be written.
pub(crate) struct Raw(TcpStream);

impl Raw {
    /// Sends no more, and still reads.
    pub(crate) async fn end(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Reads until the server closes the connection.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = self.0.read_to_end(&mut read);
        timeout(Duration::from_secs(60), reading).await.expect("the answer ends").unwrap();
        read
    }

    /// Reads an answer whose body ends with the connection.
    pub(crate) async fn reply(&mut self) -> Reply {
        parse(&self.read_to_end().await)
    }
}

fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer");
    let mut lines = std::str::from_utf8(&bytes[..end]).unwrap().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    Reply { status, headers, body: Bytes::copy_from_slice(&bytes[end + 4..]) }
}
