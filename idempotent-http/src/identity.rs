//! The identity of a request: its key, its scope, and the operation that they name.

use crate::settings::{AfterFailure, Presence, Settings};
use http::request::Parts;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Ambient, Mode, Operation, ambient};

/// What tells a request from others.
pub(crate) struct Known {
    pub(crate) key: Option<String>,
    pub(crate) scope: Option<String>,
}

/// The key of a request, and on whose behalf it is made. Nobody can use a key.
pub(crate) fn known(settings: &Settings, parts: &Parts) -> Result<Known, Problem> {
    let key = settings.sources.key(parts)?;
    if key.is_none() && settings.presence == Presence::Required {
        let detail = format!("send {} (it was not handled)", settings.sources);
        return Err(Problem::new(ProblemType::MissingKey, detail));
    }
    let scope = match &settings.scope {
        None => None,
        Some(scope_of) => {
            let scope = scope_of(parts).filter(|scope| !scope.is_empty());
            if key.is_some() && scope.is_none() {
                let detail = "nobody is known to make this request (it was not handled)";
                return Err(Problem::new(ProblemType::ScopeMissing, detail));
            }
            scope
        }
    };
    Ok(Known { key, scope })
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
    let mut operation = settings
        .instance
        .operation(settings.operation.clone())
        .key((parts.method.as_str(), path(parts), key))
        .mode(Mode::Strong)
        .wait(settings.wait)
        .expire(settings.retention)
        .bind_payload_after_failure(settings.after_failure == AfterFailure::SamePayload);
    if let Some(scope) = scope {
        operation = operation.scope(scope);
    }
    if let Some(fingerprint) = settings.payload.fingerprint(parts.uri.query(), body) {
        operation = operation.fingerprint(fingerprint);
    }
    if let Some(retry_after) = settings.retry_after {
        operation = operation.retry_after(retry_after);
    }
    if let Some(lease) = settings.lease {
        operation = operation.lease(lease);
    }
    if let Some(abandon) = settings.abandon {
        operation = operation.abandon(abandon);
    }
    operation
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
