//! The scope of a request: its user or tenant.

use crate::body::BoxError;
use crate::panics::{Panicked, catch_panic};
use crate::problem::{self, hook_panicked};
use crate::settings::{ScopeOf, Settings};
use http::request::Parts;
use idempotent_runtime::problem::Problem;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

/// Future of a scope lookup.
pub(crate) type Resolving = Pin<Box<dyn Future<Output = Resolved> + Send>>;

/// Result of a scope lookup; `None` if the request has no scope.
pub(crate) type Resolved = Result<Option<String>, BoxError>;

/// The hook that finds scopes.
#[derive(Clone)]
pub(crate) enum Scope {
    AtOnce(ScopeOf),
    Later(Arc<dyn Fn(&Parts) -> Resolving + Send + Sync>),
}

impl Scope {
    /// Finds the scope of a request. An empty scope counts as none. An error refuses the request.
    pub(crate) async fn of(
        &self,
        settings: &Settings,
        parts: &Parts,
    ) -> Result<Option<String>, Problem> {
        let resolved = match self {
            Self::AtOnce(scope_of) => return principal("scope", scope_of, parts),
            Self::Later(resolve) => match catch_unwind(AssertUnwindSafe(|| resolve(parts))) {
                Ok(resolving) => catch_panic(pin!(resolving)).await,
                Err(_) => Err(Panicked),
            },
        };
        match resolved {
            Ok(Ok(scope)) => Ok(scope.filter(|scope| !scope.is_empty())),
            Ok(Err(error)) => Err(unavailable(settings, &error)),
            Err(Panicked) => Err(hook_panicked("scope")),
        }
    }
}

/// Calls a hook of the service for the principal of a request; `None` if there is none.
pub(crate) fn principal(
    hook: &'static str,
    of: &ScopeOf,
    parts: &Parts,
) -> Result<Option<String>, Problem> {
    let principal =
        catch_unwind(AssertUnwindSafe(|| of(parts))).map_err(|_| hook_panicked(hook))?;
    Ok(principal.filter(|principal| !principal.is_empty()))
}

fn unavailable(settings: &Settings, error: &BoxError) -> Problem {
    let layer: &str = &settings.operation;
    tracing::error!(target: "idempotent", layer, %error, "the scope of a request cannot be found");
    let kind = problem::SCOPE_UNAVAILABLE;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
        .retry_after(Duration::from_secs(1))
}
