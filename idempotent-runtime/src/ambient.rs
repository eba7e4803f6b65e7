//! The token and scope that an adapter (HTTP, queue) puts in place for the functions it calls.
//!
//! A function without a `key` argument takes its key from here. Calling one operation twice under
//! one ambient token is, by definition, a duplicate.

use crate::key::{Encoded, KeyPart};
use std::fmt;
use std::future::Future;

tokio::task_local! {
    static AMBIENT: Ambient;
}

/// What an adapter knows about the request that is being handled.
///
/// `Debug` shows whether there is a token and a scope, and not which.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ambient {
    /// The caller's idempotency token.
    pub token: Option<String>,
    /// Tenant or principal, encoded. A function's own scope is added to it.
    pub scope: Option<Encoded>,
}

impl Ambient {
    /// Neither token nor scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// With this tenant or principal.
    #[must_use]
    pub fn scope(mut self, scope: impl KeyPart) -> Self {
        self.scope = Some(Encoded::of(&scope));
        self
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ambient")
            .field("token", &self.token.as_ref().map(|_| format_args!("..")))
            .field("scope", &self.scope.as_ref().map(|_| format_args!("..")))
            .finish()
    }
}

/// Runs `future` with `ambient` in place. An outer one is hidden, not added to.
///
/// ```
/// use idempotent_runtime::ambient::{self, Ambient};
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(mode = "strong")]
/// async fn greet(name: String) -> Result<String, Error> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let request = Ambient::new().token("7f3a").scope("tenant-1");
/// let greeting = ambient::scope(request, greet("Ada".into())).await?;
/// assert_eq!(greeting, "hello Ada");
/// # Ok(()) }
/// ```
pub fn scope<F: Future>(ambient: Ambient, future: F) -> impl Future<Output = F::Output> {
    // Not an async function: that would hold the future twice.
    AMBIENT.scope(ambient, future)
}

/// Calls `read` with `ambient` in place, as [`scope`] does for a future.
pub fn sync_scope<R>(ambient: Ambient, read: impl FnOnce() -> R) -> R {
    AMBIENT.sync_scope(ambient, read)
}

/// What is in place in this task, to be carried into another one with [`scope`].
pub fn current() -> Option<Ambient> {
    AMBIENT.try_with(Ambient::clone).ok()
}

/// Calls `read` with what is in place, without copying it.
pub(crate) fn with<R>(read: impl Fn(Option<&Ambient>) -> R) -> R {
    AMBIENT.try_with(|ambient| read(Some(ambient))).unwrap_or_else(|_| read(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_place_is_not_shown() {
        let ambient = Ambient::new().token("7f3a").scope("tenant-1");
        assert_eq!(format!("{ambient:?}"), "Ambient { token: Some(..), scope: Some(..) }");
        assert_eq!(format!("{:?}", Ambient::new()), "Ambient { token: None, scope: None }");
    }
}
