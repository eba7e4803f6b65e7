//! The source of deliveries: topics of Kafka, read as a member of a consumer group.

use super::assignment::{Assignment, Limits};
use super::config;
use super::delivery::{Desk, KafkaDelivery};
use super::poller::{Context, Poller};
use super::prepare;
use super::publisher::Sender;
use super::shared::{Next, Shared};
use super::topics::{Retries, Topics};
use crate::{Deliveries, PrepareError, Prepared, QueueError, Terms};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender as Signal, channel};
use std::thread;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The number of deliveries that are not settled, before a consumer says how many it takes.
const PREFETCH: usize = 16;

/// The number of messages of a partition from the oldest that is not settled.
const WINDOW: usize = 1_000;

/// The time for which a source that is dropped waits for its last commit, and for the group to know that it is gone.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// The messages of some topics, for a consumer. [`deliveries`](super::deliveries) returns one.
///
/// A member of the group `group.id`. A thread polls librdkafka whatever the handlers do, so that a message that takes
/// long does not cost the membership. Dropped, it commits what is settled and leaves the group; that takes some
/// milliseconds, and no longer than two seconds.
pub struct KafkaDeliveries {
    config: ClientConfig,
    topics: Topics,
    limits: Limits,
    source: Source,
}

/// The life of a source.
enum Source {
    Idle,
    /// Connected to brokers, and not yet a member of the group.
    Connected(Connected),
    Running(Running),
}

struct Connected {
    consumer: Arc<BaseConsumer<Context>>,
    desk: Arc<Desk>,
}

struct Running {
    desk: Arc<Desk>,
    /// Disconnected when the thread has left the group.
    left: Receiver<()>,
}

impl KafkaDeliveries {
    pub(super) fn new(config: &ClientConfig, topics: Vec<String>) -> Self {
        Self {
            config: config.clone(),
            topics: Topics { main: topics, ..Topics::default() },
            limits: Limits { prefetch: PREFETCH, window: WINDOW, is_ordered: false },
            source: Source::Idle,
        }
    }

    /// Sets the topic of messages that come again. Default: that of the message, with `.retry` behind it.
    #[must_use]
    pub fn retry_topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.retries = Retries::Topic(Some(topic.into()));
        self
    }

    /// Delivers messages again from memory, and needs no retry topic.
    ///
    /// Such a message keeps its place: no offset behind it is committed before it is settled. Messages behind it are
    /// delivered meanwhile, as many as the [window](Self::window) allows.
    #[must_use]
    pub fn retry_in_place(mut self) -> Self {
        self.topics.retries = Retries::InPlace;
        self
    }

    /// Delivers the messages of a partition one after the other: each when the one before it is settled. One that
    /// comes again does so [in place](Self::retry_in_place), and holds up its partition until then.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.limits.is_ordered = true;
        self.retry_in_place()
    }

    /// Sets the topic of dead letters. Default: that of the message, with `.dead` behind it.
    #[must_use]
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.dead_letters = Some(topic.into());
        self
    }

    /// Sets the topic of messages that wait for a person. Default: that of the message, with `.parked` behind it.
    #[must_use]
    pub fn parked_topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.parked = Some(topic.into());
        self
    }

    /// Limits the number of messages of a partition that are read from the oldest that is not settled, at least one.
    /// Default: 1,000.
    ///
    /// So many are delivered again if the process dies, and so many may wait in memory for the time at which they come
    /// again.
    #[must_use]
    pub fn window(mut self, messages: usize) -> Self {
        self.limits.window = messages.max(1);
        self
    }

    /// Creates the clients, which connect by themselves.
    fn connect(&self) -> Result<Connected, QueueError> {
        self.topics.check().map_err(QueueError::new)?;
        let config = config::of_consumer(&self.config).map_err(QueueError::new)?;
        let group = config.get("group.id").unwrap_or_default().into();
        let sender = Sender::new(&self.config)?;
        let shared = Arc::new(Shared::new(Assignment::new(self.limits)));
        let context = Context::new(Arc::clone(&shared));
        let mut consumer: BaseConsumer<Context> =
            config.create_with_context(context).map_err(QueueError::new)?;
        let wakes = Arc::clone(&shared);
        consumer.set_nonempty_callback(move || wakes.poller.wake());
        let topics = Arc::new(self.topics.clone());
        let desk = Arc::new(Desk { shared, sender, topics, group });
        Ok(Connected { consumer: Arc::new(consumer), desk })
    }

    /// Joins the group, if that is not done.
    fn run(&mut self) -> Result<Arc<Desk>, QueueError> {
        let Connected { consumer, desk } = match std::mem::replace(&mut self.source, Source::Idle) {
            Source::Running(running) => {
                let desk = Arc::clone(&running.desk);
                self.source = Source::Running(running);
                return Ok(desk);
            }
            Source::Connected(connected) => connected,
            Source::Idle => self.connect()?,
        };
        let topics = desk.topics.consumed();
        let names: Vec<_> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(QueueError::new)?;
        let (leaving, left) = channel();
        let poller = Poller {
            consumer,
            shared: Arc::clone(&desk.shared),
            topics: Arc::clone(&desk.topics),
            group: Arc::clone(&desk.group),
        };
        let held = Arc::clone(&desk);
        let thread = thread::Builder::new().name("idempotent-kafka".to_owned());
        let started = thread.spawn(move || {
            poll(poller, leaving);
            // Mostly the last one: the end of its producer takes a moment, and is waited for by nobody.
            drop(held);
        });
        started.map_err(QueueError::new)?;
        self.source = Source::Running(Running { desk: Arc::clone(&desk), left });
        Ok(desk)
    }
}

fn poll(poller: Poller, leaving: Signal<()>) {
    poller.run();
    drop(leaving);
}

impl Deliveries for KafkaDeliveries {
    type Delivery = KafkaDelivery;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        self.limits.prefetch = terms.prefetch.max(1);
        let connected = match std::mem::replace(&mut self.source, Source::Idle) {
            Source::Connected(connected) => connected,
            // Prepared once more, it joins the group as another member.
            Source::Idle | Source::Running(_) => self.connect().map_err(PrepareError::Refused)?,
        };
        connected.desk.shared.assignment().limits = self.limits;
        let consumer = Arc::clone(&connected.consumer);
        self.source = Source::Connected(connected);
        prepare::find_topics(consumer, self.topics.all()).await?;
        let mut prepared = Prepared::default();
        if let Ok(config) = config::of_producer(&self.config) {
            prepared.redelivered_for = prepare::retention(&config, &self.topics.consumed()).await;
        }
        Ok(prepared)
    }

    async fn next(&mut self) -> Result<Option<KafkaDelivery>, QueueError> {
        let desk = self.run()?;
        loop {
            match desk.shared.next() {
                Next::Record(record) => return Ok(Some(KafkaDelivery::new(desk, *record))),
                Next::Failed(error) => return Err(error),
                Next::Ended => {
                    self.source = Source::Idle;
                    return Err(QueueError::new(
                        "the Kafka client has ended, another one is started",
                    ));
                }
                Next::Wait(None) => desk.shared.arrival().await,
                Next::Wait(Some(due)) => {
                    // Whichever comes first: the next look tells.
                    let _ = timeout_at(Instant::from_std(due), desk.shared.arrival()).await;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.desk.shared.poller.stop();
        // Disconnected when the thread has left, which is the answer. Otherwise it goes on by itself.
        let _ = self.left.recv_timeout(LEAVES_WITHIN);
    }
}

impl fmt::Debug for KafkaDeliveries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KafkaDeliveries")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}
