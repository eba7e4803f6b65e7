//! The scope of a request: the user or tenant on whose behalf it is made.

use crate::body::BoxError;
use crate::panics::{Panicked, catch_panic};
use crate::settings::{ScopeOf, Settings};
use http::request::Parts;
use idempotent_runtime::problem::{Problem, ProblemType};
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

/// The reason for which there is no scope. In no case is the request handled.
pub(crate) enum NoScope {
    Panicked,
    Refused(Problem),
}

impl Scope {
    /// The scope of a request. An empty one is nobody's.
    pub(crate) async fn of(
        &self,
        settings: &Settings,
        parts: &Parts,
    ) -> Result<Option<String>, NoScope> {
        let resolved = match self {
            Self::AtOnce(scope_of) => {
                catch_unwind(AssertUnwindSafe(|| Ok(scope_of(parts)))).map_err(|_| Panicked)
            }
            Self::Later(resolve) => match catch_unwind(AssertUnwindSafe(|| resolve(parts))) {
                Ok(resolving) => catch_panic(pin!(resolving)).await,
                Err(_) => Err(Panicked),
            },
        };
        match resolved {
            Ok(Ok(scope)) => Ok(scope.filter(|scope| !scope.is_empty())),
            Ok(Err(error)) => Err(NoScope::Refused(unavailable(settings, &error))),
            Err(Panicked) => Err(NoScope::Panicked),
        }
    }
}

fn unavailable(settings: &Settings, error: &BoxError) -> Problem {
    let layer: &str = &settings.operation;
    tracing::error!(target: "idempotent", layer, %error, "the scope of a request cannot be found");
    let kind = ProblemType::ScopeUnavailable;
    Problem::new(kind, format!("{} (it was not handled)", kind.title()))
        .retry_after(Duration::from_secs(1))
}
