//! Groups: partitions that change their owner.

use super::cluster::{Cluster, Kafka};
use super::offsets::{next, number, take};
use crate::bench::in_time;
use idempotent_queue::{Consumer, Deliveries as _, Delivery as _};
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::FaultStore;
use idempotent_runtime::{Error, Idempotency, Mode};
use rdkafka::ClientConfig;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{until, until_async};
use tokio::task::JoinHandle;

/// The bodies that ran, by number.
type Bodies = Arc<Mutex<BTreeMap<u64, usize>>>;

/// A process of its own, with the records of all.
fn process(store: &FaultStore) -> Idempotency {
    Idempotency::builder().store(store.clone()).build().unwrap()
}

fn consume(kafka: &Kafka, idem: Idempotency, bodies: &Bodies) -> JoinHandle<()> {
    let consumer = Consumer::new(&idem, "orders").concurrency(4);
    let bodies = Arc::clone(bodies);
    let handler = move |number: u64| {
        let (idem, bodies) = (idem.clone(), Arc::clone(&bodies));
        async move {
            let op = idem.operation("count").key(number).mode(Mode::Strong);
            op.run(async {
                *bodies.lock().unwrap().entry(number).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok::<_, Error>(())
            })
            .await
        }
    };
    let source = kafka.source();
    tokio::spawn(async move { consumer.run(source, handler).await.unwrap() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_in_the_middle_loses_nothing_and_runs_nothing_twice() {
    for strategy in ["range", "cooperative-sticky"] {
        let mut kafka = Kafka::with_partitions(Cluster::shared(), 3);
        kafka.config.set("partition.assignment.strategy", strategy);
        for partition in 0..3 {
            let first = u64::try_from(partition).unwrap() * 100;
            kafka.send_numbers(partition, first..first + 100).await;
        }
        let store = FaultStore::new(MemoryStore::new());
        let bodies = Bodies::default();
        let first = consume(&kafka, process(&store), &bodies);
        until(|| bodies.lock().unwrap().len() > 20).await;
        let second = consume(&kafka, process(&store), &bodies);
        until_async(async || kafka.unsettled().is_empty()).await;
        // The one that is left gets the partitions of the other, and goes on behind what is committed.
        first.abort();
        kafka.send_numbers(0, 1_000..1_010).await;
        until_async(async || kafka.unsettled().is_empty()).await;
        second.abort();
        let bodies = bodies.lock().unwrap();
        assert_eq!(bodies.len(), 310, "{strategy}: none is lost");
        assert!(bodies.values().all(|ran| *ran == 1), "{strategy}: {bodies:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_after_a_revocation_fails_and_commits_nothing() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 2);
    for partition in [0, 1] {
        let first = u64::try_from(partition).unwrap() * 10;
        kafka.send_numbers(partition, first..first + 2).await;
    }
    let mut first = kafka.source();
    let mut taken = take(&mut first, 4).await;
    taken.remove(2).ack().await.unwrap();
    taken.remove(0).ack().await.unwrap();
    // The mock cluster refuses commits while members join, which brokers take.
    until_async(async || kafka.committed(&kafka.topic).values().all(|offset| *offset == 1)).await;
    let mut second = kafka.source();
    let moved = next(&mut second).await;
    assert_eq!(number(&moved) % 10, 1, "it goes on behind what is settled");

    let at = taken.iter().position(|it| number(it) == number(&moved)).unwrap();
    let lost = taken.remove(at);
    let copies = || kafka.messages(".dead").len() + kafka.messages(".retry").len();
    let error = lost.again(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("no longer this consumer's"), "{error}");
    assert_eq!(copies(), 0, "the owner makes the copy");

    // The other partition was revoked too, and came back: the message is delivered again.
    let stale = taken.pop().unwrap();
    assert!(stale.ack().await.is_err());
    drop(first);
    assert!(kafka.committed(&kafka.topic).values().all(|offset| *offset == 1));
    // The end of the first revokes the partition of the second too, which then gets both messages.
    drop(moved);
    let settles = async {
        while !kafka.unsettled().is_empty() {
            let delivery = tokio::time::timeout(Duration::from_millis(200), second.next()).await;
            if let Ok(delivery) = delivery {
                let delivery = delivery.unwrap().unwrap();
                assert_eq!(number(&delivery) % 10, 1);
                // Fails if the partition was revoked in between.
                let _ = delivery.ack().await;
            }
        }
    };
    in_time(settles).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_is_committed_when_a_partition_is_revoked() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 2);
    kafka.config.set("heartbeat.interval.ms", "170");
    kafka.send_numbers(0, 0..8_000).await;
    kafka.send_numbers(1, 10_000..10_001).await;
    // All are in memory: deliveries go on while librdkafka fetches no more.
    let mut source = kafka.prepared(kafka.source().window(10_000), 10_000).await;
    let (mut settled, mut held) = (BTreeSet::new(), vec![]);
    let revocations = async {
        // More than one, since a revocation may come just after a commit.
        while held.len() < 3 {
            let delivery = next(&mut source).await;
            match number(&delivery) {
                // It is never settled, so the broker delivers it again after each revocation.
                10_000 => {
                    held.push(delivery);
                    cluster.order(|it| {
                        let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
                        it.request_errors(RDKafkaApiKey::Heartbeat, &[error]);
                    });
                }
                number => {
                    assert!(!settled.contains(&number), "{number} is delivered again");
                    if delivery.ack().await.is_ok() {
                        settled.insert(number);
                    }
                    if number % 4 == 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        }
    };
    in_time(revocations).await;
}

const ORDERS: &str = "KAFKA_CONSUMER_THAT_DIES";

/// Runs itself as another process, which takes a message and is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_dies_leaves_its_message_to_the_next_one() {
    if let Ok(orders) = std::env::var(ORDERS) {
        return take_and_wait(&orders).await;
    }
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..2).await;
    let servers = &Cluster::shared().servers;
    let group = kafka.config.get("group.id").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kafka::groups::a_consumer_that_dies_leaves_its_message_to_the_next_one"])
        .env(ORDERS, format!("{servers} {group} {}", kafka.topic))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // It has settled the first message, and has the second in hand.
    until_async(async || kafka.committed(&kafka.topic)[&0] == 1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let mut source = kafka.source();
    let delivery = next(&mut source).await;
    assert_eq!(number(&delivery), 1);
}

/// Settles a message, takes another one, and waits for its end: that of the test process closes the pipe.
async fn take_and_wait(orders: &str) {
    let [servers, group, topic] = orders.split(' ').collect::<Vec<_>>()[..] else {
        panic!("servers, group and topic: {orders}");
    };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", group);
    config.set("session.timeout.ms", "3000").set("heartbeat.interval.ms", "200");
    let mut source = idempotent_queue::kafka::deliveries(&config, [topic]);
    let first = next(&mut source).await;
    let _second = next(&mut source).await;
    first.ack().await.unwrap();
    let wait = || std::io::stdin().read_to_end(&mut vec![]);
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_were_away_are_reached_again() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 1);
    kafka.config.set("reconnect.backoff.max.ms", "200");
    // Longer than the brokers are away on any machine: after it the client gives the partition up.
    kafka.config.set("session.timeout.ms", "60000");
    kafka.send_numbers(0, 0..1).await;
    let mut source = kafka.source();
    let first = next(&mut source).await;
    let brokers = [1, 2, 3];
    cluster.order(move |it| brokers.map(|id| it.broker_down(id).unwrap()));
    // Reported, so that the consumer can tell; then it waits.
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("AllBrokersDown"), "{error}");
    // A group that has rebalanced meanwhile, as after it learned of another topic, delivers the message again.
    let is_taken = first.ack().await.is_ok();
    cluster.order(move |it| brokers.map(|id| it.broker_up(id).unwrap()));
    if is_taken {
        until_async(async || kafka.committed(&kafka.topic)[&0] == 1).await;
    }
    kafka.send_numbers(0, 1..2).await;
    loop {
        // More than one report may wait.
        let Ok(delivery) = in_time(source.next()).await else { continue };
        let delivery = delivery.unwrap();
        let number = number(&delivery);
        assert!(number == 1 || !is_taken, "{number} was delivered again");
        if delivery.ack().await.is_ok() && number == 1 {
            break;
        }
    }
    until_async(async || kafka.committed(&kafka.topic)[&0] == 2).await;
}

/// As one that another process with the same `group.instance.id` has put out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_fatal_error_another_client_is_started() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 1);
    kafka.config.set("group.instance.id", "one");
    kafka.send_numbers(0, 0..1).await;
    let mut source = kafka.source();
    let first = next(&mut source).await;
    cluster.order(|it| {
        let fenced = RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
        it.request_errors(RDKafkaApiKey::Heartbeat, &[fenced]);
    });
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("Fatal"), "{error}");
    let ended = in_time(source.next()).await.unwrap_err();
    assert!(ended.to_string().contains("another one is started"), "{ended}");
    assert!(first.ack().await.is_err(), "it was that of the client before");
    let again = next(&mut source).await;
    assert_eq!(number(&again), 0);
    again.ack().await.unwrap();
    until_async(async || kafka.unsettled().is_empty()).await;
}
