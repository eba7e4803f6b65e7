//! Consumers: tasks that take deliveries, call a handler and settle.
//!
//! `run` starts the tasks. One of them at a time waits for the source (`intake`). With a delivery in hand (`in_hand`), a
//! task waits for its turn (`order`) and for a handler that may start (`work`), has the message handled (`handle`), and
//! settles it. Another task signals meanwhile to the broker for all of them (`heartbeat`). `tally` counts the tries of a
//! message that was delivered too often. `status` is what the tasks have learnt of store and broker (`conditions`).

pub(crate) mod conditions;
mod handle;
mod heartbeat;
mod in_hand;
mod intake;
mod order;
mod prepare;
mod run;
mod settings;
pub(crate) mod status;
mod tally;
mod work;

use crate::format::Json;
use crate::settlement::Pauses;
use crate::{ConsumerError, ConsumerHealth, Decode, Deliveries, Message};
use idempotent_runtime::Idempotency;
use settings::{LONGEST, Settings};
use status::{Life, Status};
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::Span;

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
/// A body in a database transaction whose process dies leaves no trace of its attempt. So the tries of a
/// message that the broker has delivered more than ten times as often are counted too, by a record of the
/// consumer's own, and after as many tries as attempts are allowed it becomes a dead letter.
///
/// # Order
/// Messages are handled at the same time, in no order, unless [`ordered_by`](Self::ordered_by) names a key.
///
/// # Retention
/// A message may be delivered again for as long as the broker keeps it. `expire` of the function must be
/// longer than that, or a late delivery runs the body again. A warning says so, if the broker tells how
/// long that is.
///
/// # Outages
/// While the store does not answer, messages stay in hand, the broker is told so by heartbeats, and nothing
/// else is fetched. They are tried again after pauses that grow. While the broker does not answer, nothing
/// is fetched either.
pub struct Consumer<C = Json> {
    settings: Settings,
    decoder: C,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    life: Life,
}

impl Consumer {
    /// A consumer of this name, whose handler uses this instance.
    pub fn new(idem: &Idempotency, name: impl Into<String>) -> Self {
        let name: Arc<str> = name.into().into();
        Self {
            settings: Settings::new(idem, Arc::clone(&name)),
            decoder: Json,
            shutdown: Box::pin(pending()),
            life: Life(Arc::new(Status::new(name))),
        }
    }
}

impl<C> Consumer<C> {
    /// Sets the number of messages that are handled at the same time, at least one. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = messages.max(1);
        self
    }

    /// Sets the largest number of messages that are in hand: those that are handled, wait for that, or are
    /// being settled. Default: the concurrency, and never below it.
    #[must_use]
    pub fn prefetch(mut self, messages: usize) -> Self {
        self.settings.prefetch = Some(messages);
        self
    }

    /// Keeps the order of messages that have one key: each is handled once the one before it is settled.
    /// Messages for which the function returns `None` have no order.
    ///
    /// ```
    /// use idempotent_queue::Consumer;
    /// # use idempotent_runtime::Idempotency;
    /// # let idem = Idempotency::in_memory().unwrap();
    ///
    /// let consumer = Consumer::new(&idem, "orders")
    ///     .ordered_by(|message| message.header("customer").map(str::to_owned))
    ///     .prefetch(200);
    /// ```
    ///
    /// A message that has to come again stays in hand, and is tried again here after its pause, so that
    /// none of its key overtakes it. Other keys go on, while there is room for them in
    /// [`prefetch`](Self::prefetch); limit the attempts, or a message that never succeeds holds up its key
    /// for ever. A dead letter, or one that is parked, holds up none.
    ///
    /// The order is that in which the broker delivers. It holds across processes only if the broker gives
    /// all messages of a key to one consumer, as a partition of Kafka does. Messages that go back at a
    /// shutdown go back in their order, and the broker decides on the order in which they come again.
    #[must_use]
    pub fn ordered_by(
        mut self,
        key: impl Fn(&Message) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.ordered_by = Some(Box::new(key));
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
        self.settings.pauses = Pauses::at_most(LONGEST, first, longest);
        self
    }

    /// Sets the time between two signals to the broker that a message is still in hand, at least a
    /// millisecond. Default: a third of the instance's `lease`, also if that is changed later.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = Some(every);
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

    /// Sets the decoder of messages. Default: [`Json`].
    #[must_use]
    pub fn decoder<D>(self, decoder: D) -> Consumer<D> {
        let Self { settings, shutdown, life, .. } = self;
        Consumer { settings, decoder, shutdown, life }
    }

    /// Sets the span in which a message is handled. Default: a span `consume` with the names of consumer
    /// and message, and its header `traceparent`.
    ///
    /// Tracing systems set the parent of a span from outside:
    ///
    /// ```
    /// use idempotent_queue::{Consumer, Message};
    /// # use idempotent_runtime::Idempotency;
    /// # let idem = Idempotency::in_memory().unwrap();
    ///
    /// let consumer = Consumer::new(&idem, "orders").span(|message: &Message| {
    ///     let span = tracing::info_span!("order", id = message.id());
    ///     // With `tracing-opentelemetry`: `span.set_parent(context_of(message.header("traceparent")))`.
    ///     span
    /// });
    /// ```
    #[must_use]
    pub fn span(mut self, span: impl Fn(&Message) -> Span + Send + Sync + 'static) -> Self {
        self.settings.span = Some(Box::new(span));
        self
    }

    /// Ends the consumer when `signal` resolves: nothing more is fetched, handlers that run are finished
    /// and their messages settled within [`drain`](Self::drain), and the rest goes back to the broker.
    #[must_use]
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Sets the time for which handlers are waited for at a shutdown. Default: 30 seconds.
    #[must_use]
    pub fn drain(mut self, within: Duration) -> Self {
        self.settings.drain = within;
        self
    }

    /// The health of the consumer, to be asked while it runs.
    pub fn health(&self) -> ConsumerHealth {
        ConsumerHealth::new(&self.life.0)
    }

    /// Handles messages, until the source ends and all are settled, the consumer is told to end, or its
    /// instance is shut down.
    ///
    /// Handlers run in tasks of the consumer, one message at a time in each, and the source is asked there too. If the
    /// returned future is dropped, so are the handlers, and their messages go back to the broker.
    ///
    /// # Errors
    /// [`ConsumerError`], if the function is set up so that no message can be settled, or the queue does not
    /// suit the consumer.
    pub fn run<S, M, H, F, T, E>(self, deliveries: S, handler: H) -> Run
    where
        S: Deliveries,
        C: Decode<M>,
        M: Send + 'static,
        H: Fn(M) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        Run(Box::pin(run::run(self, deliveries, handler)))
    }
}

/// A consumer that runs, as a future. Returned by [`Consumer::run`].
// Not an `async fn`: its bounds would be reported three times, for the call, its future and the `await`.
#[must_use = "a consumer does nothing unless it is awaited or spawned"]
pub struct Run(Pin<Box<dyn Future<Output = Result<(), ConsumerError>> + Send>>);

impl Future for Run {
    type Output = Result<(), ConsumerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Run").finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for Consumer<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Consumer")
            .field("name", &self.settings.name)
            .field("concurrency", &self.settings.concurrency)
            .field("max_attempts", &self.settings.max_attempts)
            .finish_non_exhaustive()
    }
}
