//! The attempt of the running body.

use super::state::AttemptState;
use crate::derived_key;
use crate::key::RecordKey;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Inside;
}

/// The innermost body that a task runs.
#[derive(Clone)]
pub(crate) enum Inside {
    /// The body of this attempt.
    Attempt(Current),
    /// A body without an attempt of its own, inside the body of this attempt. It does not see that
    /// attempt, but calls in it may not use its key, and share its permit.
    Within(Current),
}

impl Inside {
    fn innermost(&self) -> &Current {
        let (Self::Attempt(current) | Self::Within(current)) = self;
        current
    }
}

/// The current attempt, inside the body of an idempotent function.
///
/// It does not cross `tokio::spawn` by itself: clone it and [`enter`](Current::enter) it there.
///
/// ```
/// use idempotent_runtime::{Error, current, idempotent};
///
/// #[idempotent(key = "account", mode = "strong")]
/// async fn debit(account: u64) -> Result<u64, Error> {
///     // Hand the fence to whatever must refuse a writer that was paused too long.
///     Ok(current().map_or(0, |attempt| attempt.fence()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// assert!(debit(7).await? > 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Current(Arc<AttemptState>);

/// Returns the attempt that this task runs for, if any.
///
/// ```
/// use idempotent_runtime::{Error, current, idempotent};
///
/// #[idempotent(key = "order_id", mode = "strong")]
/// async fn charge(order_id: u64) -> Result<String, Error> {
///     // The same text on every attempt, so that the payment service charges once.
///     let key = current().map(|attempt| attempt.derived_key("stripe.charge"));
///     Ok(key.unwrap_or_default())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// assert_eq!(charge(42).await?.len(), 32);
/// assert!(current().is_none(), "outside of a body there is no attempt");
/// # Ok(()) }
/// ```
///
/// The body of a batch and a body that runs without protection have none, even inside the body of
/// another function.
pub fn current() -> Option<Current> {
    let of_body = |inside: &Inside| match inside {
        Inside::Attempt(current) => Some(current.clone()),
        Inside::Within(_) => None,
    };
    CURRENT.try_with(of_body).ok().flatten()
}

/// The innermost attempt around this task, even if the running body is not its own.
pub(crate) fn enclosing() -> Option<Current> {
    CURRENT.try_with(|inside| inside.innermost().clone()).ok()
}

/// Runs a body that has no attempt of its own.
pub(crate) async fn without_attempt<F: Future>(body: F) -> F::Output {
    match enclosing() {
        Some(around) => around.conceal(body).await,
        None => body.await,
    }
}

/// Returns `true` if an attempt of this task, or one around it, holds `key` of `instance`.
pub(crate) fn holds(instance: usize, key: &RecordKey) -> bool {
    CURRENT.try_with(|inside| inside.innermost().holds(instance, key)).unwrap_or(false)
}

/// Returns `true` if a transaction of this task, or one around it, keeps every other attempt of
/// `instance` waiting.
pub(crate) fn is_locked_out(instance: usize) -> bool {
    CURRENT.try_with(|inside| inside.innermost().locks_out(instance)).unwrap_or(false)
}

impl Current {
    pub(crate) fn new(state: Arc<AttemptState>) -> Self {
        Self(state)
    }

    /// The record's key, as the store holds it.
    pub fn key(&self) -> &str {
        self.0.key.as_str()
    }

    /// Derives a key for a request to another service, such as the `Idempotency-Key` of a payment
    /// provider: 32 hexadecimal digits.
    ///
    /// It is the same on every attempt of one key, in every process with the same `key_prefix`. So
    /// a body that is run again, because its first attempt failed or its process died, sends the
    /// same request with the same key, and the other service does not act twice. It differs for
    /// every name, key, scope and operation. Give each request of a body a name of its own: two
    /// requests with the same name have the same key, and the second is taken for a repeat of the
    /// first.
    ///
    /// ```
    /// use idempotent_runtime::{Error, current, idempotent};
    ///
    /// # async fn post(_url: &str, _headers: [(&str, String); 1]) -> Result<String, Error> { Ok("ch_1".into()) }
    /// #[idempotent(key = "order_id", mode = "strong")]
    /// async fn pay(order_id: u64) -> Result<String, Error> {
    ///     let key = current().expect("a body runs for an attempt").derived_key("stripe.charge");
    ///     post("https://api.stripe.com/v1/charges", [("Idempotency-Key", key)]).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// assert_eq!(pay(7).await?, "ch_1");
    /// # Ok(()) }
    /// ```
    ///
    /// # Limits
    /// - The request must be the same on every attempt: services refuse a key that comes with another
    ///   payload. Generated values, such as an id or a time, belong in the arguments of the function.
    /// - A service that remembers failures too, as Stripe does, answers the next attempt with the
    ///   failure of the first.
    /// - It is one-way and does not show the key. It is not a secret either: anyone who guesses the
    ///   record's key can check the guess.
    /// - A body that runs without protection belongs to no attempt, and a batch to many:
    ///   [`current`] is `None`.
    pub fn derived_key(&self, name: &str) -> String {
        derived_key::derive(&self.0.key, name)
    }

    /// The number of the attempt: 1 for the first, 2 for the next.
    pub fn attempt(&self) -> u32 {
        self.0.id().number
    }

    /// The fence, which is greater than that of every earlier attempt while the record is kept.
    pub fn fence(&self) -> u64 {
        self.0.id().fence
    }

    /// Frees the key for any payload if this attempt ends without an answer, although the operation
    /// [binds its payload](crate::Operation::bind_payload_after_failure): for a body that fails and knows
    /// that nothing came of it.
    pub fn unbind_payload(&self) {
        self.0.unbind();
    }

    /// Returns `true` if the lease is lost, so that another attempt may be running.
    pub fn is_lost(&self) -> bool {
        self.0.is_over()
    }

    /// Resolves when the lease is lost. A body should stop then, if it can.
    pub async fn lost(&self) {
        self.0.lost().await;
    }

    /// Runs `future` with this attempt as the current one, in another task of the same body.
    pub async fn enter<F: Future>(self, future: F) -> F::Output {
        self.scope(future).await
    }

    pub(crate) fn scope<F: Future>(self, future: F) -> TaskLocalFuture<Inside, F> {
        CURRENT.scope(Inside::Attempt(self), future)
    }

    /// Like [`scope`](Self::scope), for an inner body without an attempt of its own.
    pub(crate) fn conceal<F: Future>(self, future: F) -> TaskLocalFuture<Inside, F> {
        CURRENT.scope(Inside::Within(self), future)
    }

    fn holds(&self, instance: usize, key: &RecordKey) -> bool {
        let mut chain = self.0.chain();
        chain.any(|state| state.instance == instance && state.key == *key && !state.has_ended())
    }

    fn locks_out(&self, instance: usize) -> bool {
        let mut chain = self.0.chain();
        chain.any(|state| state.locks_store && state.instance == instance && !state.has_ended())
    }

    /// The state of the attempt.
    pub(crate) fn state(&self) -> &Arc<AttemptState> {
        &self.0
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Current")
            .field("key", &self.0.key)
            .field("attempt", &self.attempt())
            .field("fence", &self.fence())
            .field("lost", &self.is_lost())
            .finish()
    }
}
