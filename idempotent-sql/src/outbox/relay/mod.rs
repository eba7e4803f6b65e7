//! The relay: reads the outbox, publishes, deletes.
//!
//! A relay takes keys, not messages: it claims a key for the time of a lease, sends the first
//! messages of that key one after the other, deletes those that were confirmed and gives the key
//! back. No transaction is open while it publishes, and it holds no connection.
//!
//! The order of a key does not rest on the claim, which only keeps relays from doing the same work
//! twice. A message is first sent by a relay that has read it together with all earlier messages of
//! its key that were left, and that has had a confirmation for each of those; the ones that were not
//! left had been confirmed before they were deleted. So even a relay that was paused for longer than
//! its lease, and goes on while another one is at work, repeats messages or is the first with the
//! next one, and never leaves one out. This is why confirmations are awaited one by one within a key.
//!
//! [`sweep`] finds keys that have something to send, [`delivery`] is what is done for one of them,
//! [`decide`] has the rules, [`database`] the statements.

mod database;
mod decide;
mod delivery;
mod status;
mod sweep;

pub(super) use database::read_message;
pub use status::RelayStatus;

use super::{Outbox, Publisher};
use crate::TransactionPool;
use database::Tables;
use status::Counters;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The time for giving keys back, after the time for messages is over.
const LAST_STATEMENTS: Duration = Duration::from_secs(1);

/// The fate of the messages behind a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterPolicy {
    /// They wait until an operator retries or discards the dead letter: the order is kept.
    #[default]
    HoldKey,
    /// They are sent: a dead letter that is retried comes after them.
    Skip,
}

/// Sends the messages of an [`Outbox`] through a [`Publisher`].
///
/// ```no_run
/// # use idempotent_sql::outbox::{Outbox, Publisher, Relay};
/// # use std::time::Duration;
/// # async fn example(pool: impl idempotent_sql::TransactionPool, publisher: impl Publisher) {
/// let relay = Relay::new(Outbox::new("idempotent_outbox"), pool, publisher)
///     .concurrency(32)
///     .max_attempts(20)
///     .start();
/// // .. until the service ends ..
/// relay.shutdown(Duration::from_secs(10)).await;
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a relay does nothing until it is started"]
pub struct Relay<P, B> {
    outbox: Outbox,
    pool: P,
    publisher: B,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    concurrency: usize,
    batch: u32,
    publish_timeout: Duration,
    lease: Duration,
    poll: Duration,
    first_backoff: Duration,
    longest_backoff: Duration,
    max_attempts: u32,
    dead_letters: DeadLetterPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            batch: 20,
            publish_timeout: Duration::from_secs(5),
            lease: Duration::from_secs(15),
            poll: Duration::from_millis(500),
            first_backoff: Duration::from_millis(200),
            longest_backoff: Duration::from_secs(60),
            max_attempts: 20,
            dead_letters: DeadLetterPolicy::HoldKey,
        }
    }
}

impl<P: TransactionPool, B: Publisher> Relay<P, B> {
    /// A relay for an outbox in the database of this pool. Of the pool it uses a connection for a
    /// few statements at a time, up to [`concurrency`](Self::concurrency) and one more at once.
    pub fn new(outbox: Outbox, pool: P, publisher: B) -> Self {
        Self { outbox, pool, publisher, settings: Settings::default() }
    }

    /// Sets the number of keys that are worked on at the same time; 16 by default.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.settings.concurrency = keys.max(1);
        self
    }

    /// Sets the number of messages of a key that are read, sent and then deleted together; 20 by
    /// default. A relay that is killed has sent at most so many of a key that are sent again.
    pub fn batch(mut self, messages: u32) -> Self {
        self.settings.batch = messages.max(1);
        self
    }

    /// Sets the time after which a message that is not confirmed is given up and sent again later; 5
    /// seconds by default.
    pub fn publish_timeout(mut self, timeout: Duration) -> Self {
        self.settings.publish_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the time for which a key is claimed; 15 seconds by default, and at least twice the
    /// [`publish_timeout`](Self::publish_timeout).
    ///
    /// The keys of a relay that was killed are taken over after this time. A relay that runs gives
    /// them back earlier.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets the interval at which an empty outbox is polled; 500 milliseconds
    /// by default. [`RelayHandle::wake`] ends it.
    pub fn poll(mut self, pause: Duration) -> Self {
        self.settings.poll = pause.max(Duration::from_millis(1));
        self
    }

    /// Sets the pause of a key after its first failed delivery, which doubles with each further one,
    /// and its limit; 200 milliseconds and 1 minute by default. Other keys are not held up.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.first_backoff = first;
        self.settings.longest_backoff = longest.max(first);
        self
    }

    /// Sets the number of refusals after which a message becomes a dead letter; 20 by default.
    ///
    /// A broker that [cannot be reached](super::PublishErrorKind::Unavailable) or does not answer in
    /// time has not refused.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts.max(1);
        self
    }

    /// Sets the fate of the messages behind a dead letter. All relays of an outbox should have the
    /// same.
    pub fn dead_letters(mut self, policy: DeadLetterPolicy) -> Self {
        self.settings.dead_letters = policy;
        self
    }

    /// Starts the relay, as a task of its own.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn start(self) -> RelayHandle {
        let Self { outbox, pool, publisher, mut settings } = self;
        settings.lease = settings.lease.max(settings.publish_timeout.saturating_mul(2));
        let control = Arc::new(Control::default());
        let shared = Arc::new(Shared {
            tables: Tables::new(outbox.table, pool, settings.dead_letters),
            publisher,
            settings,
            control: Arc::clone(&control),
        });
        let task = Some(tokio::spawn(sweep::run(shared)));
        RelayHandle { control, task }
    }
}

impl<P, B> fmt::Debug for Relay<P, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Relay")
            .field("outbox", &self.outbox)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The parts of a relay that its tasks share.
struct Shared<P, B> {
    tables: Tables<P>,
    publisher: B,
    settings: Settings,
    control: Arc<Control>,
}

/// The parts of a relay that its handle has too.
#[derive(Debug, Default)]
struct Control {
    stopping: AtomicBool,
    /// There is no more time for messages that are being sent.
    abandoning: AtomicBool,
    abandoned: Notify,
    /// A reason to look: something was sent, a key was given back, or the relay is to stop.
    wake: Notify,
    counters: Counters,
}

impl Control {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Resolves when messages that are being sent are to be given up.
    async fn abandoned(&self) {
        // Registered before the look, so that a call of `abandon` in between is noticed.
        let mut abandoned = std::pin::pin!(self.abandoned.notified());
        abandoned.as_mut().enable();
        if !self.abandoning.load(Ordering::Acquire) {
            abandoned.await;
        }
    }

    fn abandon(&self) {
        self.abandoning.store(true, Ordering::Release);
        self.abandoned.notify_waiters();
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Kept for the task, if it does not wait at the moment.
        self.wake.notify_one();
    }
}

/// A relay that runs. Dropped, the relay stops after the messages that are being sent.
#[derive(Debug)]
pub struct RelayHandle {
    control: Arc<Control>,
    task: Option<JoinHandle<()>>,
}

/// The end of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// Every message that was being sent is settled, and no key is claimed.
    Drained,
    /// The time was over first. Messages that were being sent are sent again, by another relay.
    Aborted,
}

impl RelayHandle {
    /// Looks for messages at once instead of after the [pause](Relay::poll): for a process that has
    /// just committed some.
    pub fn wake(&self) {
        self.control.wake.notify_one();
    }

    /// A handle that can only [wake](Self::wake).
    pub fn waker(&self) -> RelayWaker {
        RelayWaker(Arc::clone(&self.control))
    }

    /// The counts since the relay was started.
    pub fn status(&self) -> RelayStatus {
        self.control.counters.status()
    }

    /// Takes no further message, and waits until those that are being sent are confirmed and
    /// deleted.
    ///
    /// After `within`, messages that are being sent are given up, and their keys are given back:
    /// statements for that take at most a second more.
    pub async fn shutdown(mut self, within: Duration) -> Stopped {
        self.control.stop();
        let Some(mut task) = self.task.take() else { return Stopped::Drained };
        if tokio::time::timeout(within, &mut task).await.is_ok() {
            return Stopped::Drained;
        }
        self.control.abandon();
        // Not aborted: a transaction that is dropped while it begins can stay open in a pool.
        let _ = tokio::time::timeout(LAST_STATEMENTS, task).await;
        Stopped::Aborted
    }
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// Wakes a [`Relay`].
#[derive(Clone, Debug)]
pub struct RelayWaker(Arc<Control>);

impl RelayWaker {
    /// Looks for messages at once. See [`RelayHandle::wake`].
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }
}
