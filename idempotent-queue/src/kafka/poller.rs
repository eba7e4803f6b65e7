//! The thread that polls librdkafka, whatever the handlers do.
//!
//! A consumer that does not poll for `max.poll.interval.ms` is put out of its group. So polling is not left to
//! the handlers, nor to a runtime that a handler may block.
//!
//! Each partition has a queue of its own in librdkafka. A message is taken from it when there is room for one
//! ([`Assignment::has_room`](super::assignment::Assignment::has_room)); until then it waits there, and librdkafka
//! stops fetching at `queued.min.messages` and `queued.max.messages.kbytes`. Rebalances and errors come by the queue
//! of the consumer, which is always polled.

use super::assignment::{Claim, Place};
use super::committer::{Committer, commit_at_last};
use super::record::Record;
use super::shared::Shared;
use super::topics::Topics;
use crate::QueueError;
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message as _};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// The longest time between two polls.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// The callbacks of librdkafka, which run in calls of `poll`, in the thread.
pub(super) struct Context {
    shared: Arc<Shared>,
    /// A callback has run. `poll` does not tell that from an empty queue.
    has_served: AtomicBool,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, has_served: AtomicBool::new(false) }
    }
}

impl ClientContext for Context {
    /// `poll` returns it too.
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "idempotent", %error, reason, "Kafka client");
    }
}

impl ConsumerContext for Context {
    /// Commits what is settled, before the partitions are the next owner's.
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.has_served.store(true, Relaxed);
        let Rebalance::Revoke(partitions) = rebalance else { return };
        let commits = self.shared.commits();
        let settled: Vec<_> = {
            let mut assignment = self.shared.assignment();
            let places = places(partitions);
            places.filter_map(|place| assignment.revoke(&place).map(|at| (place, at))).collect()
        };
        commit_at_last(consumer, &settled);
        drop(commits);
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.has_served.store(true, Relaxed);
        match rebalance {
            Rebalance::Assign(partitions) => {
                let mut assignment = self.shared.assignment();
                places(partitions).for_each(|place| assignment.assign(place));
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => self.shared.fail(QueueError::new(error.clone())),
        }
    }
}

fn place(topic: &str, partition: i32) -> Place {
    Place { topic: topic.into(), partition }
}

fn places(partitions: &TopicPartitionList) -> impl Iterator<Item = Place> {
    partitions.elements().into_iter().map(|it| place(it.topic(), it.partition()))
}

/// A partition, and its messages that are not taken in.
struct Reader {
    place: Place,
    assigned: u64,
    /// `None` if librdkafka has no queue for it: then all its messages are early.
    queue: Option<PartitionQueue<Context>>,
    /// Messages that came by the queue of the consumer, before the partition had its own.
    early: VecDeque<Incoming>,
}

struct Incoming {
    record: Record,
    due: Option<Instant>,
    /// A copy that another group made for itself.
    is_for_others: bool,
}

/// The thread's own state.
pub(super) struct Poller {
    pub(super) consumer: Arc<BaseConsumer<Context>>,
    pub(super) shared: Arc<Shared>,
    pub(super) topics: Arc<Topics>,
    pub(super) group: Arc<str>,
}

/// Tells the source that the thread is gone, also if it has panicked.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Poller {
    /// Polls until the source is dropped, or librdkafka gives up. Then commits, and leaves the group.
    pub(super) fn run(self) {
        let ended = Ended(&self.shared);
        let committer = Committer::start(&self.consumer, &self.shared);
        let mut readers = vec![];
        while !self.shared.poller.is_stopped() {
            if let Err(fatal) = self.serve(&mut readers) {
                self.shared.fail(QueueError::new(fatal));
                break;
            }
            self.read(&mut readers);
            self.shared.poller.wait(POLL_EVERY);
        }
        // librdkafka does not close a consumer whose queues are in use.
        drop(readers);
        drop(committer);
        let settled = self.shared.assignment().revoke_all();
        commit_at_last(&self.consumer, &settled);
        drop(ended);
        // The last reference leaves the group.
        drop(self.consumer);
    }

    /// Serves the queue of the consumer: rebalances and errors.
    ///
    /// # Errors
    /// librdkafka has given up.
    fn serve(&self, readers: &mut Vec<Reader>) -> Result<(), KafkaError> {
        loop {
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    let is_its = |reader: &&mut Reader| {
                        &*reader.place.topic == message.topic()
                            && reader.place.partition == message.partition()
                    };
                    if let Some(reader) = readers.iter_mut().find(is_its) {
                        let incoming = self.incoming(&message, &reader.place);
                        reader.early.push_back(incoming);
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(error),
                Some(Err(error)) => self.report(error),
                // Before the next poll, which may return messages of a partition that was assigned.
                None if self.consumer.context().has_served.swap(false, Relaxed) => {
                    self.follow(readers);
                }
                None => return Ok(()),
            }
        }
    }

    fn report(&self, error: KafkaError) {
        match error.rdkafka_error_code() {
            // librdkafka connects again, to this broker or another one.
            Some(Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut) => {}
            _ => self.shared.fail(QueueError::new(error)),
        }
    }

    /// Follows a rebalance: a reader for each partition that this consumer owns, and for no other.
    fn follow(&self, readers: &mut Vec<Reader>) {
        let assigned: HashMap<Place, u64> = {
            let assignment = self.shared.assignment();
            assignment.assigned().map(|(place, assigned)| (place.clone(), assigned)).collect()
        };
        readers.retain(|reader| assigned.get(&reader.place) == Some(&reader.assigned));
        for (place, assigned) in assigned {
            if readers.iter().all(|reader| reader.place != place) {
                let mut queue = self.consumer.split_partition_queue(&place.topic, place.partition);
                if let Some(queue) = &mut queue {
                    let shared = Arc::clone(&self.shared);
                    queue.set_nonempty_callback(move || shared.poller.wake());
                }
                readers.push(Reader { place, assigned, queue, early: VecDeque::new() });
            }
        }
    }

    /// Reads messages while there is room, one of each partition in turn.
    fn read(&self, readers: &mut [Reader]) {
        let mut has_read = true;
        while has_read {
            has_read = false;
            // So that a limit that is reached in the middle does not favour the first ones.
            if !readers.is_empty() {
                readers.rotate_left(1);
            }
            for reader in &mut *readers {
                if self.shared.assignment().has_room(&reader.place)
                    && let Some(incoming) = self.next(reader)
                {
                    self.take_in(incoming);
                    has_read = true;
                }
            }
        }
    }

    fn next(&self, reader: &mut Reader) -> Option<Incoming> {
        if let Some(early) = reader.early.pop_front() {
            return Some(early);
        }
        match reader.queue.as_ref()?.poll(Duration::ZERO)? {
            Ok(message) => Some(self.incoming(&message, &reader.place)),
            Err(error) => {
                self.report(error);
                None
            }
        }
    }

    fn take_in(&self, Incoming { record, due, is_for_others }: Incoming) {
        let mut assignment = self.shared.assignment();
        if is_for_others {
            assignment.pass_over(&record.claim.place, record.claim.offset);
            drop(assignment);
            self.shared.committer.wake();
        } else {
            assignment.read(record, due);
            drop(assignment);
            self.shared.arrive();
        }
    }

    fn incoming(&self, message: &BorrowedMessage<'_>, place: &Place) -> Incoming {
        let claim = Claim { place: place.clone(), generation: 0, offset: message.offset() };
        let is_copy = self.topics.is_retry(message.topic());
        let (mut record, added) = Record::read(message, claim, is_copy);
        record.home = self.topics.home(message.topic(), added.topic()).to_owned();
        let wait = added.wait(SystemTime::now());
        let due = (!wait.is_zero()).then(|| Instant::now() + wait);
        let is_for_others = added.group.is_some_and(|group| *group != *self.group);
        Incoming { record, due, is_for_others }
    }
}
