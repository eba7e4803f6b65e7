//! Kafka, by the mock cluster of librdkafka, and topics of their own for each test.

use futures_util::future::join_all;
use idempotent_queue::kafka::{KafkaDeliveries, ORIGIN_HEADER, deliveries};
use idempotent_queue::{Deliveries as _, Message, Terms};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, Headers as _, Message as _, OwnedHeaders, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;
use tokio::task::block_in_place;

type Mock<'c> = MockCluster<'c, DefaultProducerContext>;
type Order = Box<dyn FnOnce(&Mock<'_>) + Send>;

const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// A cluster of three brokers, in a thread of its own: it cannot be shared between threads. It ends with the process.
pub(super) struct Cluster {
    pub(super) servers: String,
    orders: mpsc::Sender<Order>,
}

impl Cluster {
    /// The cluster of most tests.
    pub(super) fn shared() -> &'static Self {
        static CLUSTER: OnceLock<Cluster> = OnceLock::new();
        CLUSTER.get_or_init(Self::start)
    }

    /// Another one, for tests whose brokers fail.
    pub(super) fn start() -> Self {
        let (orders, taken) = mpsc::channel::<Order>();
        let (started, servers) = mpsc::channel();
        std::thread::spawn(move || {
            let cluster = MockCluster::new(3).unwrap();
            started.send(cluster.bootstrap_servers()).unwrap();
            taken.into_iter().for_each(|order| order(&cluster));
        });
        Self { servers: servers.recv().unwrap(), orders }
    }

    pub(super) fn order<T: Send + 'static>(
        &self,
        order: impl FnOnce(&Mock<'_>) -> T + Send + 'static,
    ) -> T {
        let (answers, answer) = mpsc::channel();
        self.orders.send(Box::new(move |cluster| answers.send(order(cluster)).unwrap())).unwrap();
        answer.recv().unwrap()
    }
}

/// A topic with the topics of its copies, and a group.
pub(crate) struct Kafka {
    pub(super) config: ClientConfig,
    pub(super) topic: String,
    /// Looks at offsets and messages, and is no member of the group.
    watcher: Mutex<BaseConsumer>,
    producer: FutureProducer,
}

impl Kafka {
    pub(super) fn with_partitions(cluster: &Cluster, partitions: i32) -> Self {
        static TOPICS: AtomicUsize = AtomicUsize::new(0);
        let topic = format!("orders-{}", TOPICS.fetch_add(1, SeqCst));
        for name in ["", ".retry", ".dead", ".parked"].map(|suffix| format!("{topic}{suffix}")) {
            cluster.order(move |it| it.create_topic(&name, partitions, 3)).unwrap();
        }
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &cluster.servers)
            .set("group.id", format!("{topic}-group"))
            .set("session.timeout.ms", "3000")
            .set("heartbeat.interval.ms", "200")
            // The mock cluster answers a fetch without data when its time is over, whatever comes meanwhile.
            .set("fetch.wait.max.ms", "10")
            .set("linger.ms", "0");
        Self::of(config, topic)
    }

    /// The topic of another test process.
    pub(super) fn of(config: ClientConfig, topic: String) -> Self {
        let mut watching = config.clone();
        watching.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let mut producing = ClientConfig::new();
        let servers = config.get("bootstrap.servers").unwrap();
        producing.set("bootstrap.servers", servers).set("linger.ms", "0");
        let watcher = Mutex::new(watching.create().unwrap());
        Self { config, topic, watcher, producer: producing.create().unwrap() }
    }

    pub(super) fn source(&self) -> KafkaDeliveries {
        deliveries(&self.config, [&*self.topic])
    }

    /// The source of a consumer with this concurrency.
    pub(super) async fn prepared(
        &self,
        source: KafkaDeliveries,
        prefetch: usize,
    ) -> KafkaDeliveries {
        let mut source = source;
        source.prepare(&terms(prefetch)).await.unwrap();
        source
    }

    /// Sends to a partition, or to any one.
    pub(super) async fn send_to(&self, partition: Option<i32>, message: Message) {
        let headers = message.headers().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        });
        let (topic, payload) = (&*self.topic, Some(message.payload()));
        let (key, timestamp, headers) = (None::<&[u8]>, None, Some(headers));
        let record = FutureRecord { topic, partition, payload, key, timestamp, headers };
        self.producer.send(record, ANSWERED_WITHIN).await.unwrap();
    }

    /// Sends the numbers to a partition, each as its own payload.
    pub(super) async fn send_numbers(&self, partition: i32, numbers: std::ops::Range<u64>) {
        let send = |number: u64| self.send_to(Some(partition), Message::new(number.to_string()));
        // Each is queued when it is polled first, so they keep their order.
        join_all(numbers.map(send)).await;
    }

    /// The offset that the group has committed for each partition. Zero if it has none.
    pub(super) fn committed(&self, topic: &str) -> BTreeMap<i32, i64> {
        block_in_place(|| {
            let watcher = self.watcher.lock().unwrap();
            let mut partitions = TopicPartitionList::new();
            for partition in partitions_of(&watcher, topic) {
                partitions.add_partition(topic, partition);
            }
            let committed = watcher.committed_offsets(partitions, ANSWERED_WITHIN).unwrap();
            let offset = |offset| if let Offset::Offset(at) = offset { at } else { 0 };
            committed.elements().iter().map(|it| (it.partition(), offset(it.offset()))).collect()
        })
    }

    /// The messages of a topic from these offsets to its end.
    pub(super) fn messages_from(
        &self,
        topic: &str,
        from: &BTreeMap<i32, i64>,
    ) -> Vec<OwnedMessage> {
        block_in_place(|| {
            let watcher = self.watcher.lock().unwrap();
            let (mut left, mut read) = (TopicPartitionList::new(), vec![]);
            let mut expected = 0;
            for (partition, from) in from {
                let ends = watcher.fetch_watermarks(topic, *partition, ANSWERED_WITHIN).unwrap();
                if ends.1 > *from {
                    left.add_partition_offset(topic, *partition, Offset::Offset(*from)).unwrap();
                    expected += usize::try_from(ends.1 - from).unwrap();
                }
            }
            if expected == 0 {
                return read;
            }
            watcher.assign(&left).unwrap();
            while read.len() < expected {
                let message = watcher.poll(ANSWERED_WITHIN).expect("the topic has more messages");
                read.push(message.unwrap().detach());
            }
            watcher.unassign().unwrap();
            read
        })
    }

    /// All messages of the topic with this suffix.
    pub(super) fn messages(&self, suffix: &str) -> Vec<OwnedMessage> {
        let topic = format!("{}{suffix}", self.topic);
        let from = self.committed(&topic).into_keys().map(|partition| (partition, 0)).collect();
        self.messages_from(&topic, &from)
    }

    /// The messages that are not settled, each by its first place: a message and its copies are one.
    pub(super) fn unsettled(&self) -> BTreeSet<String> {
        // Before the ends are looked at: a copy that is made meanwhile is there when its message is committed.
        let topics = ["", ".retry"].map(|suffix| format!("{}{suffix}", self.topic));
        let committed = topics.map(|topic| (self.committed(&topic), topic));
        let left = committed.iter().flat_map(|(from, topic)| self.messages_from(topic, from));
        let origin = |message: OwnedMessage| match header(&message, ORIGIN_HEADER) {
            Some(origin) => origin,
            None => format!("{}:{}:{}", message.topic(), message.partition(), message.offset()),
        };
        left.map(origin).collect()
    }
}

fn partitions_of(watcher: &BaseConsumer, topic: &str) -> std::ops::Range<i32> {
    let metadata = watcher.fetch_metadata(Some(topic), ANSWERED_WITHIN).unwrap();
    0..i32::try_from(metadata.topics()[0].partitions().len()).unwrap()
}

/// The header of this name.
pub(super) fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let mut headers = message.headers()?.iter();
    let value = headers.find(|header| header.key == name)?.value?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

pub(super) fn terms(prefetch: usize) -> Terms {
    let mut terms = Terms::new("orders");
    terms.prefetch = prefetch;
    terms
}
