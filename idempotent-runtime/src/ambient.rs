//! Ambient token and scope, which an adapter (HTTP, queue) sets for the functions that it calls.
//!
//! A function without a `key` argument takes its key from here. Calling one operation twice under
//! one ambient token is, by definition, a duplicate.

use crate::key::{Encoded, KeyPart};
use std::fmt;
use std::future::Future;

tokio::task_local! {
    static AMBIENT: Ambient;
}

/// Token and scope of the request that is being handled.
///
/// `Debug` shows only whether a token and a scope are set.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ambient {
    /// The caller's idempotency token.
    pub token: Option<String>,
    /// Tenant or principal, encoded. A function's own scope is added to it.
    pub scope: Option<Encoded>,
}

impl Ambient {
    /// Creates a value without token and scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the tenant or principal.
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

/// Runs `future` with `ambient` as the ambient token and scope. It replaces an outer one and does
/// not inherit from it.
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
    // Not an async function, which would hold the future twice.
    AMBIENT.scope(ambient, future)
}

/// Calls `read` with `ambient` as the ambient token and scope, as [`scope`] does for a future.
pub fn sync_scope<R>(ambient: Ambient, read: impl FnOnce() -> R) -> R {
    AMBIENT.sync_scope(ambient, read)
}

/// Returns the ambient token and scope of this task, which [`scope`] can carry into another task.
pub fn current() -> Option<Ambient> {
    AMBIENT.try_with(Ambient::clone).ok()
}

/// Calls `read` with the ambient values, without cloning them.
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
