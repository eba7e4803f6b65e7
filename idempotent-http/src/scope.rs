//! The scope of a request: the user or tenant on whose behalf it is made.

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

/// A lookup in progress.
pub(crate) type Resolving = Pin<Box<dyn Future<Output = Resolved> + Send>>;

/// The scope; `None` if it is nobody's request.
pub(crate) type Resolved = Result<Option<String>, BoxError>;

/// The resolver of scopes, as the user gave it.
#[derive(Clone)]
pub(crate) enum Scope {
    AtOnce(ScopeOf),
    Later(Arc<dyn Fn(&Parts) -> Resolving + Send + Sync>),
}

impl Scope {
    /// The scope of a request. An empty one is nobody's. If it cannot be found, nothing is handled.
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

/// The principal of a request, as the service's own hook says; `None` if it is nobody's.
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
