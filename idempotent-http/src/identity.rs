//! The identity of a request: its key, its scope, and the operation that they name.

use crate::settings::{Presence, ScopeOf, Settings};
use http::Method;
use http::request::Parts;
use idempotent_runtime::problem::{Problem, ProblemType};
use idempotent_runtime::{Ambient, Mode, Operation, ambient};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What tells a request from others.
pub(crate) struct Known {
    pub(crate) key: Option<String>,
    pub(crate) scope: Option<String>,
}

/// The key of a request, and on whose behalf it is made. Nobody can use a key.
pub(crate) fn known(
    settings: &Settings,
    presence: Presence,
    parts: &Parts,
) -> Result<Known, Problem> {
    let key = settings.sources.key(parts)?;
    if key.is_none() && presence == Presence::Required {
        let detail = format!("send {} (it was not handled)", settings.sources);
        return Err(Problem::new(ProblemType::MissingKey, detail));
    }
    let scope = match &settings.scope {
        None => None,
        Some(scope_of) => {
            let scope = principal("scope", scope_of, parts)?;
            if key.is_some() && scope.is_none() {
                let detail = "nobody is known to make this request (it was not handled)";
                return Err(Problem::new(ProblemType::ScopeMissing, detail));
            }
            scope
        }
    };
    Ok(Known { key, scope })
}

/// On whose behalf a request is made, as the service's own hook says. If that panics nobody is known,
/// and nothing is handled.
pub(crate) fn principal(
    hook: &'static str,
    of: &ScopeOf,
    parts: &Parts,
) -> Result<Option<String>, Problem> {
    match catch_unwind(AssertUnwindSafe(|| of(parts))) {
        Ok(principal) => Ok(principal.filter(|principal| !principal.is_empty())),
        Err(_) => {
            tracing::error!(target: "idempotent", hook, "a hook panicked: the request is refused");
            Err(misconfigured())
        }
    }
}

pub(crate) fn misconfigured() -> Problem {
    let kind = ProblemType::Misconfigured;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
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

/// The parts of a request that name its record: those that agree in all of them are repeats of each
/// other.
///
/// Requests, operators and those who ask for the status of a key all find the record by this type.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) key: &'a str,
    pub(crate) scope: Option<&'a str>,
}

impl<'a> Identity<'a> {
    pub(crate) fn of(parts: &'a Parts, key: &'a str, scope: Option<&'a str>) -> Self {
        Self { method: &parts.method, path: path(parts), key, scope }
    }

    /// The operation on the record, as the layer is set up, whatever the payload.
    pub(crate) fn operation<'s>(&self, settings: &'s Settings) -> Operation<'s> {
        let mut operation = settings
            .instance
            .operation(settings.operation.clone())
            .key((self.method.as_str(), self.path, self.key))
            .mode(Mode::Strong)
            .wait(settings.wait)
            .expire(settings.retention);
        if let Some(scope) = self.scope {
            operation = operation.scope(scope);
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
}

/// What the instance is asked to run.
pub(crate) fn operation<'s>(
    settings: &'s Settings,
    parts: &Parts,
    body: &[u8],
    key: &str,
    scope: Option<&str>,
) -> Operation<'s> {
    let operation = Identity::of(parts, key, scope).operation(settings);
    match settings.payload.fingerprint(parts.uri.query(), body) {
        Some(fingerprint) => operation.fingerprint(fingerprint),
        None => operation,
    }
}

/// The path that the client sent.
pub(crate) fn path(parts: &Parts) -> &str {
    // A router that nests another one takes its prefix off before inner layers see the path.
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return original.path();
    }
    parts.uri.path()
}
