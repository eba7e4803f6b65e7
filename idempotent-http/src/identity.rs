//! The identity of a request: its key, its scope, and the operation that they name.

use crate::body::{BoxError, Whole};
use crate::request_body::{RequestBody, read};
use crate::scope::NoScope;
use crate::settings::{Host, Presence, Settings};
use crate::unread::Unread;
use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::request::Parts;
use http_body::Body;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Ambient, Mode, Operation, ambient};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What tells a request from others.
pub(crate) struct Known<B> {
    pub(crate) key: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) body: Arrived<B>,
}

/// The body of a request, as far as it was needed to know whose it is.
pub(crate) enum Arrived<B> {
    Flowing(B),
    Whole(Whole),
}

impl<B> Arrived<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    pub(crate) fn into_body(self) -> RequestBody<B> {
        match self {
            Self::Flowing(body) => RequestBody::passed(body),
            Self::Whole(body) => RequestBody::read(body),
        }
    }

    /// All of it.
    pub(crate) async fn whole(self, limit: usize) -> Result<Whole, Unread> {
        match self {
            Self::Flowing(body) => read(body, limit).await,
            Self::Whole(body) => Ok(body),
        }
    }
}

/// The reason for which a request is not handled.
pub(crate) enum NotKnown {
    /// This hook of the user's panicked.
    Panicked(&'static str),
    Refused(Problem),
    Unread(Unread),
}

impl From<NoScope> for NotKnown {
    fn from(no_scope: NoScope) -> Self {
        match no_scope {
            NoScope::Panicked => Self::Panicked("scope"),
            NoScope::Refused(problem) => Self::Refused(problem),
        }
    }
}

/// The key of a request, and on whose behalf it is made. Nobody can use a key.
pub(crate) async fn known<B>(
    settings: &Settings,
    parts: &Parts,
    body: B,
) -> Result<Known<B>, NotKnown>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = match settings.sources.reads_body() {
        false => Arrived::Flowing(body),
        // Boxed: this path must not make the future of other requests larger.
        true => match Box::pin(read(body, settings.max_request_bytes)).await {
            Ok(body) => Arrived::Whole(body),
            Err(unread) => return Err(NotKnown::Unread(unread)),
        },
    };
    let read: &[u8] = match &body {
        Arrived::Flowing(_) => b"",
        Arrived::Whole(body) => body.bytes(),
    };
    let key = match catch_unwind(AssertUnwindSafe(|| key(settings, parts, read))) {
        Ok(Ok(key)) => key,
        Ok(Err(problem)) => return Err(NotKnown::Refused(problem)),
        Err(_) => return Err(NotKnown::Panicked("key_from")),
    };
    let Some(scope) = &settings.scope else {
        if key.is_some() && has_credentials(parts) && !is_scoped_outside() {
            settings.warn_of_shared_keys();
        }
        return Ok(Known { key, scope: None, body });
    };
    let scope = scope.of(settings, parts).await?;
    if key.is_some() && scope.is_none() {
        let detail = "nobody is known to make this request (it was not handled)";
        return Err(NotKnown::Refused(Problem::new(ProblemType::ScopeMissing, detail)));
    }
    Ok(Known { key, scope, body })
}

fn key(settings: &Settings, parts: &Parts, body: &[u8]) -> Result<Option<String>, Problem> {
    let key = settings.sources.key(parts, body)?;
    // Without a place for keys no request has one, and all of them would go unprotected.
    if (key.is_some() || settings.sources.is_empty()) && settings.check().is_err() {
        let kind = ProblemType::Misconfigured;
        return Err(Problem::new(kind, format!("{} (it was not handled)", kind.title())));
    }
    match &key {
        None if settings.presence == Presence::Required => {
            let detail = format!("send {} (it was not handled)", settings.sources);
            return Err(Problem::new(ProblemType::MissingKey, detail));
        }
        None => {}
        Some(key) => {
            if let Some(validate) = &settings.validate_key {
                validate(key).map_err(|reason| crate::key::invalid(&reason))?;
            }
        }
    }
    Ok(key)
}

/// `true` if a request says who sends it, in one of the ways that all services know.
fn has_credentials(parts: &Parts) -> bool {
    parts.headers.contains_key(AUTHORIZATION) || parts.headers.contains_key(COOKIE)
}

/// `true` if something around the layer has put a scope in place.
fn is_scoped_outside() -> bool {
    ambient::current().is_some_and(|ambient| ambient.scope.is_some())
}

/// What is in place for the handler: what another layer put there, and what is known here.
pub(crate) fn place(key: Option<String>, scope: Option<&str>) -> Ambient {
    let mut place = ambient::current().unwrap_or_default();
    if let Some(key) = key {
        place = place.token(key);
    }
    if let Some(scope) = scope {
        place = place.scope(scope);
    }
    place
}

/// What the instance is asked to run.
pub(crate) fn operation<'a>(
    settings: &'a Settings,
    parts: &Parts,
    body: &[u8],
    key: &str,
    scope: Option<&str>,
) -> Operation<'a> {
    let operation = settings.instance.operation(settings.operation.clone()).mode(Mode::Strong);
    let method = parts.method.as_str();
    let mut operation = match settings.host {
        Host::Ignored => operation.key((method, path(parts), key)),
        Host::PartOfTheKey => operation.key((method, host(parts), path(parts), key)),
    };
    if let Some(scope) = scope {
        operation = operation.scope(scope);
    }
    let query = settings.sources.query_without_key(parts);
    if let Some(fingerprint) = settings.payload.fingerprint(parts, &query, body) {
        operation = operation.fingerprint(fingerprint);
    }
    if let Some(wait) = settings.wait {
        operation = operation.wait(wait);
    }
    if let Some(retention) = settings.retention {
        operation = operation.expire(retention);
    }
    if let Some(retry_after) = settings.retry_after {
        operation = operation.retry_after(retry_after);
    }
    if let Some(lease) = settings.lease {
        operation = operation.lease(lease);
    }
    if let Some(max_run) = settings.max_run {
        operation = operation.max_run(max_run);
    }
    if let Some(message) = &settings.message {
        operation = operation.message(message.clone());
    }
    if let Some(abandon) = settings.abandon {
        operation = operation.abandon(abandon);
    }
    if let Some(on_store_error) = settings.on_store_error {
        operation = operation.on_store_error(on_store_error);
    }
    if let Some(on_unrecorded) = settings.on_unrecorded {
        operation = operation.on_unrecorded(on_unrecorded);
    }
    operation
}

/// The host that the client asked, and its port if it named one, in small letters.
///
/// HTTP/2 names it in the address and HTTP/1.1 in a header. Several lines of that header are one host
/// of their own: whichever of them the service goes by, it is not the host of a request with one line.
fn host(parts: &Parts) -> String {
    let host = match parts.uri.authority() {
        Some(authority) => {
            let text = authority.as_str();
            text.rsplit_once('@').map_or(text, |(_, host)| host).to_owned()
        }
        None => {
            let lines = parts.headers.get_all(HOST).iter();
            let lines: Vec<_> =
                lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
            lines.join(",")
        }
    };
    host.to_ascii_lowercase()
}

/// The path that the client sent.
fn path(parts: &Parts) -> &str {
    // A router that nests another one takes its prefix off before inner layers see the path.
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return original.path();
    }
    parts.uri.path()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(uri: &str, lines: &[&str]) -> String {
        let request =
            lines.iter().fold(Request::builder().uri(uri), |it, line| it.header(HOST, *line));
        host(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_host_is_the_same_by_address_and_by_header() {
        assert_eq!(of("/orders", &["Shop.Example:8080"]), "shop.example:8080");
        assert_eq!(of("http://shop.example:8080/orders", &[]), "shop.example:8080");
        assert_eq!(of("http://ada@shop.example/orders", &["other.example"]), "shop.example");
        assert_eq!(of("/orders", &[]), "");
    }

    #[test]
    fn two_hosts_are_none_of_both() {
        let both = of("/orders", &["a.example", "b.example"]);
        assert!(both != "a.example" && both != "b.example");
    }
}
