//! The identity of a request: its key, its scope, and the operation that they name.

use crate::body::{BoxError, Whole};
use crate::problem::{self, hook_panicked, misconfigured};
use crate::request_body::{RequestBody, read};
use crate::settings::{AfterFailure, Host, Presence, Settings};
use crate::unread::Unread;
use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::request::Parts;
use http_body::Body;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Mode, Operation};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A request with its key and scope.
pub(crate) struct Known<B> {
    pub(crate) key: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) body: Arrived<B>,
}

/// The body of a request, which was read if the key may be in it.
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

    /// Reads the whole body.
    pub(crate) async fn whole(self, limit: usize) -> Result<Whole, Unread> {
        match self {
            Self::Flowing(body) => read(body, limit).await,
            Self::Whole(body) => Ok(body),
        }
    }
}

/// Finds the key and the scope of a request. Refuses a key without a scope on a layer that has
/// scopes.
pub(crate) async fn known<B>(
    settings: &Settings,
    presence: Presence,
    parts: &Parts,
    body: B,
) -> Result<Known<B>, Problem>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = match settings.sources.reads_body() {
        false => Arrived::Flowing(body),
        // Boxed, so that this path does not enlarge the future of other requests.
        true => match Box::pin(read(body, settings.max_request_bytes)).await {
            Ok(body) => Arrived::Whole(body),
            Err(unread) => return Err(unread.problem("keyed requests")),
        },
    };
    let read: &[u8] = match &body {
        Arrived::Flowing(_) => b"",
        Arrived::Whole(body) => body.bytes(),
    };
    let key = match catch_unwind(AssertUnwindSafe(|| key(settings, presence, parts, read))) {
        Ok(Ok(key)) => key,
        Ok(Err(problem)) => return Err(problem),
        Err(_) => return Err(hook_panicked("key_from")),
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
        return Err(Problem::new(problem::SCOPE_MISSING, detail));
    }
    Ok(Known { key, scope, body })
}

fn key(
    settings: &Settings,
    presence: Presence,
    parts: &Parts,
    body: &[u8],
) -> Result<Option<String>, Problem> {
    let key = settings.sources.key(parts, body)?;
    // Without a place for keys, all requests would go unprotected.
    if (key.is_some() || settings.sources.is_empty()) && settings.check().is_err() {
        return Err(misconfigured());
    }
    match &key {
        None if presence == Presence::Required => {
            let detail = format!("send {} (it was not handled)", settings.sources);
            return Err(Problem::new(ProblemType::MISSING_KEY, detail));
        }
        None => {}
        Some(key) => {
            if let Some(validate) = &settings.validate_key {
                let validated = catch_unwind(AssertUnwindSafe(|| validate(key)))
                    .map_err(|_| hook_panicked("validate_key"))?;
                validated.map_err(|reason| crate::key::invalid(&reason))?;
            }
        }
    }
    Ok(key)
}

/// Returns `true` if a request carries one of the common credentials.
fn has_credentials(parts: &Parts) -> bool {
    parts.headers.contains_key(AUTHORIZATION) || parts.headers.contains_key(COOKIE)
}

/// Returns `true` if an outer layer has set an ambient scope.
fn is_scoped_outside() -> bool {
    ambient::current().is_some_and(|ambient| ambient.scope.is_some())
}

/// The ambient values for the handler: those of an outer layer, and those of this one.
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

/// The parts of a request that name its record. Requests that agree in all of them are repeats of
/// each other.
///
/// Requests, operators' tools and the status service all find the record by this type.
#[derive(Clone)]
pub(crate) struct Identity<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    /// Present if the host is part of the key.
    pub(crate) host: Option<Cow<'a, str>>,
    pub(crate) key: &'a str,
    pub(crate) scope: Option<&'a str>,
}

impl<'a> Identity<'a> {
    pub(crate) fn of(
        settings: &Settings,
        parts: &'a Parts,
        key: &'a str,
        scope: Option<&'a str>,
    ) -> Self {
        let host = match settings.host {
            Host::Ignored => None,
            Host::PartOfTheKey => Some(Cow::Owned(host(parts))),
        };
        Self { method: &parts.method, path: path(parts), host, key, scope }
    }

    /// The operation on the record with the layer's settings, not bound to a payload.
    pub(crate) fn operation<'s>(&self, settings: &'s Settings) -> Operation<'s> {
        let operation = settings.instance.operation(settings.operation.clone()).mode(Mode::Strong);
        let Self { method, path, host, key, scope } = self;
        let operation = match host {
            None => operation.key((method.as_str(), *path, *key)),
            Some(host) => operation.key((method.as_str(), &**host, *path, *key)),
        };
        match scope {
            Some(scope) => configured(settings, operation.scope(*scope)),
            None => configured(settings, operation),
        }
    }
}

/// The operation on the record of a request, bound to the request's payload.
pub(crate) fn operation<'s>(
    settings: &'s Settings,
    identity: &Identity<'_>,
    parts: &Parts,
    body: &[u8],
) -> Operation<'s> {
    let operation = identity.operation(settings);
    let query = settings.sources.query_without_key(parts);
    match settings.payload.fingerprint(parts, &query, body) {
        Some(fingerprint) => operation.fingerprint(fingerprint),
        None => operation,
    }
}

/// An operation with the layer's settings.
fn configured<'s>(settings: &'s Settings, operation: Operation<'s>) -> Operation<'s> {
    let is_bound = settings.after_failure == AfterFailure::SamePayload;
    let mut operation = operation.bind_payload_after_failure(is_bound);
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

/// The host of a request, and its port if it was named, in lower case.
///
/// HTTP/2 carries it in the URI and HTTP/1.1 in a header. Several `Host` lines are joined, so that
/// such a request never shares a key with a request that has one of them.
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
pub(crate) fn path(parts: &Parts) -> &str {
    // A router that nests another one strips the prefix before inner layers see the path.
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
