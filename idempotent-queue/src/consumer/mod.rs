//! Consumers: a loop that takes deliveries, calls a handler and settles.

mod handle;
mod run;

use crate::settlement::Pauses;
use crate::{ConsumerError, Deliveries, Message};
use idempotent_runtime::Idempotency;
use idempotent_runtime::ambient::Ambient;
use serde::de::DeserializeOwned;
use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Headers that a key is looked for in, in this order.
const KEY_HEADERS: [&str; 2] = ["idempotency-key", "idempotent-token"];

/// The longest pause, and time between signals: a day.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// A consumer of messages.
///
/// ```
/// use idempotent_queue::Consumer;
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_runtime::{Error, Idempotency, idempotent};
/// use std::time::Duration;
///
/// #[idempotent(key = "order", mode = "strong", expire = "7d")]
/// async fn on_order(order: u64) -> Result<u64, Error> {
///     Ok(order)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (idem, queue) = (Idempotency::in_memory()?, MemoryQueue::new());
/// # queue.close();
/// Consumer::new(&idem, "orders")
///     .concurrency(16)
///     .max_attempts(5)
///     .backoff(Duration::from_secs(1), Duration::from_secs(60))
///     .run(queue.deliveries(), on_order)
///     .await?;
/// # Ok(()) }
/// ```
///
/// # Keys
/// The key is the function's own `key`. A function without one gets the header `idempotency-key`, or
/// `idempotent-token`. The name of the consumer is part of the scope, so two consumers of one message
/// have a record each.
///
/// # Handlers
/// The handler is the idempotent function itself, or returns what that returned. An error of one that has
/// called several functions is not final, since it may be that of any of them. One that swallows the
/// refusal of a function and then fails for another reason would be settled by that refusal: do not.
///
/// # Attempts
/// Attempts are counted by the record, when a body starts: brokers count deliveries, forget, and count
/// those that found another consumer at work. After [`max_attempts`](Self::max_attempts) the body does
/// not start again, and the message becomes a dead letter.
///
/// # Retention
/// A message may be delivered again for as long as the broker keeps it. `expire` of the function must be
/// longer than that, or a late delivery runs the body again.
pub struct Consumer {
    settings: Settings,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The settings of a consumer, which its tasks share.
struct Settings {
    idem: Idempotency,
    name: String,
    concurrency: usize,
    max_attempts: Option<u32>,
    pauses: Pauses,
    heartbeat: Duration,
    drain: Duration,
    key_headers: Vec<String>,
    scope_header: Option<String>,
    key_from_id: bool,
    /// The handler is known not to be idempotent.
    is_unprotected: AtomicBool,
}

impl Consumer {
    /// A consumer of this name, whose handler uses this instance.
    pub fn new(idem: &Idempotency, name: impl Into<String>) -> Self {
        let settings = Settings {
            idem: idem.clone(),
            name: name.into(),
            concurrency: 16,
            max_attempts: None,
            pauses: Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
            heartbeat: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            key_headers: KEY_HEADERS.map(str::to_owned).to_vec(),
            scope_header: None,
            key_from_id: false,
            is_unprotected: AtomicBool::new(false),
        };
        Self { settings, shutdown: Box::pin(pending()) }
    }

    /// Sets the number of messages that are handled at the same time, at least one. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = messages.max(1);
        self
    }

    /// Limits the number of times that the body starts for one key, at least one. Default: no limit.
    #[must_use]
    pub fn max_attempts(mut self, starts: u32) -> Self {
        self.settings.max_attempts = Some(starts.max(1));
        self
    }

    /// Sets the pause after the first failure, which doubles with each, and the longest. Default: a
    /// second, and a minute.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST);
        self.settings.pauses = Pauses { first, longest: longest.clamp(first, LONGEST) };
        self
    }

    /// Sets the time between two signals to the broker that a message is still being handled, at least
    /// a millisecond. Default: 10 seconds.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = every.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// Sets the headers in which a key is looked for, in this order.
    #[must_use]
    pub fn key_headers<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.settings.key_headers = names.into_iter().map(Into::into).collect();
        self
    }

    /// Takes the broker's own id of a message that has no key. Only for producers that never send a
    /// message twice: another copy has another id.
    #[must_use]
    pub fn key_from_message_id(mut self) -> Self {
        self.settings.key_from_id = true;
        self
    }

    /// Adds a header, such as that of the tenant, to the scope of keys. A message without it becomes a
    /// dead letter.
    #[must_use]
    pub fn scope_header(mut self, name: impl Into<String>) -> Self {
        self.settings.scope_header = Some(name.into());
        self
    }

    /// Ends the consumer when `signal` resolves: nothing more is fetched, messages in hand are finished
    /// and settled within [`drain`](Self::drain), and the rest goes back to the broker.
    #[must_use]
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Sets the time for which messages in hand are waited for at the end. Default: 30 seconds.
    #[must_use]
    pub fn drain(mut self, within: Duration) -> Self {
        self.settings.drain = within;
        self
    }

    /// Handles messages whose payload is JSON, until the source ends or the consumer is told to.
    ///
    /// # Errors
    /// The function is set up so that no message can be settled.
    pub async fn run<S, M, H, F, T, E>(self, deliveries: S, handler: H) -> Result<(), ConsumerError>
    where
        S: Deliveries,
        M: DeserializeOwned + Send + 'static,
        H: Fn(M) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        self.run_decoded(deliveries, |message| serde_json::from_slice(message.payload()), handler)
            .await
    }

    /// The same for payloads of any kind.
    ///
    /// # Errors
    /// The function is set up so that no message can be settled.
    pub async fn run_decoded<S, D, M, X, H, F, T, E>(
        self,
        deliveries: S,
        decode: D,
        handler: H,
    ) -> Result<(), ConsumerError>
    where
        S: Deliveries,
        D: Fn(&Message) -> Result<M, X> + Send + Sync + 'static,
        M: Send + 'static,
        X: StdError + Send + 'static,
        H: Fn(M) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let Self { settings, shutdown } = self;
        if settings.name.is_empty() {
            let error = "its name is empty, which is part of the scope of keys".to_owned();
            return Err(ConsumerError::Misconfigured { consumer: settings.name, error });
        }
        run::run(settings, shutdown, deliveries, decode, handler).await
    }
}

impl Settings {
    /// Token, scope and limit of a call, from the headers of its message. `None` if the scope is missing.
    fn ambient(&self, message: &Message) -> Option<Ambient> {
        let named = self.key_headers.iter().find_map(|name| message.header(name));
        let token = named.or_else(|| message.id().filter(|_| self.key_from_id));
        let mut ambient = match &self.scope_header {
            None => Ambient::new().scope(&*self.name),
            Some(header) => {
                let value = message.header(header).filter(|value| !value.is_empty())?;
                Ambient::new().scope((&*self.name, value))
            }
        };
        if let Some(token) = token {
            ambient = ambient.token(token);
        }
        ambient.max_attempts = self.max_attempts;
        Some(ambient)
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Consumer")
            .field("name", &self.settings.name)
            .field("concurrency", &self.settings.concurrency)
            .field("max_attempts", &self.settings.max_attempts)
            .finish_non_exhaustive()
    }
}
